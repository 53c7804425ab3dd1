"""What a user hands over besides the deployment: the same names as flags and under `[inputs]`."""

from __future__ import annotations

import msgspec

__all__ = ["Inputs"]


class Inputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Paths or URLs, as given. None: not given."""

    reference: str | None = None
    """The model or endpoint before the change: what the candidate is held against."""
    prompts: str | None = None
    """Real prompts, one JSON object a line."""
    tokenizer: str | None = None
    """The training side's tokenizer: a folder, a tokenizer.json, or a GGUF file."""
    onnx: str | None = None
    lock: str | None = None
    access_log: str | None = None
    evidence: str | None = None
    """A folder of earlier runs to read besides `.preop/runs`."""
