"""What a piece of evidence belongs to, and whether a deployment is still that.

Evidence speaks for the model, the engine's version, the hardware and the flags that it was measured with, and
for nothing else: a change of a README or of another service's flags leaves it valid. What a flag is worth
without being set follows from engine, version and hardware, so the flags that were set are compared, and
what the running engine said of the others where both sides know it.

Where something of this cannot be seen in the files (no version, no GPU, hidden flags), two engines could not
be told apart: the evidence then belongs to the endpoint that was measured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from preop.deployment.types import Deployment
from preop.inputs import Inputs
from preop.instruments.types import Access, Instrument
from preop.secrets import mask_text

__all__ = ["IDENTITY", "fingerprint", "mismatch"]

IDENTITY = ("engine_version", "model", "gpu", "gpu_count", "accelerator")
"""Facts that count whoever states them. All others count where the user set them."""
_MOST_BYTES = 1 << 28


def fingerprint(
    instrument: Instrument, deployment: Deployment, access: Access | None, inputs: Inputs
) -> dict[str, Any]:
    """What evidence of this instrument, taken now, would belong to: only JSON values."""
    facts = {name: deployment.fact(name) for name in instrument.depends_on if name != "engine"}
    flags = {name: fact for name, fact in facts.items() if name not in IDENTITY and fact.is_known}
    identity = {name: fact.value for name, fact in facts.items() if name in IDENTITY and fact.is_known}
    unseen = [name for name in facts if name in IDENTITY and name not in identity]
    if identity.get("accelerator") == "none":
        identity.pop("gpu_count", None)
        unseen.append("the CPU")
    elif "gpu" in identity:
        unseen = [name for name in unseen if name != "accelerator"]
    if any(note.kind == "hidden" for note in deployment.notes):
        unseen.append("hidden flags")
    belongs: dict[str, Any] = {
        "engine": deployment.engine,
        **identity,
        "set": {name: fact.value for name, fact in flags.items() if fact.set_by == "user"},
        "running": {name: fact.value for name, fact in flags.items() if fact.set_by == "engine"},
        "unseen": unseen,
        "endpoint": mask_text(access.url) if access else None,
        "inputs": {
            name: digest
            for name in instrument.reads
            if (digest := _digest(getattr(inputs, name))) is not None
        },
    }
    kept: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(belongs))
    return kept  # as it comes back from the run's folder


def mismatch(instrument: Instrument, taken: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Why evidence with the fingerprint `taken` does not speak for a deployment with `now`, in words; None
    where it does."""
    for name in ("engine", *(name for name in IDENTITY if name in instrument.depends_on)):
        if name in taken and name not in now:
            return f"{name} was {taken[name]}, and nothing states it now"
        if taken.get(name) != now.get(name):
            return f"{name} was {_said(taken.get(name))}, is {_said(now.get(name))}"
    was_set, is_set = _part(taken, "set"), _part(now, "set")
    for name in sorted(was_set.keys() | is_set.keys()):
        if was_set.get(name) != is_set.get(name):
            return f"{name} was {_said(was_set.get(name))}, is {_said(is_set.get(name))}"
    for part in ("running", "inputs"):
        then, here = _part(taken, part), _part(now, part)
        for name in sorted(then.keys() & here.keys()):
            if then[name] != here[name]:
                return f"{name} has changed" if part == "inputs" else f"{name} ran at {then[name]}"
    there, here_ = taken.get("endpoint"), now.get("endpoint")
    if instrument.at_endpoint and here_ is not None and there != here_:
        return f"it was measured at {there}"
    unseen = [*(taken.get("unseen") or ()), *(now.get("unseen") or ())]
    if unseen and there != here_:
        names = ", ".join(dict.fromkeys(map(str, unseen)))
        return f"nothing states {names}, and it was measured at {there or 'no endpoint'}"
    return None


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _said(value: Any) -> str:
    return "not set" if value is None else str(value)[:80]


def _digest(path: str | None) -> str | None:
    """Of what an input holds: a file's bytes, or the small files of a folder; None where it is none here."""
    if path is None:
        return None
    at = Path(path)
    try:
        files = sorted(at.glob("*.json")) + sorted(at.glob("*.model")) if at.is_dir() else [at]
        digest = hashlib.sha256()
        for file in files:
            if not file.is_file() or file.stat().st_size > _MOST_BYTES:
                return None
            digest.update(file.name.encode() + b"\0" if at.is_dir() else b"")
            digest.update(file.read_bytes())
    except (OSError, ValueError):
        return None
    return f"sha256:{digest.hexdigest()}" if files else None
