"""What a user says of a deployment besides its file or command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ReadOptions"]


@dataclass(frozen=True)
class ReadOptions:
    """Options of preop that become facts. None: not given."""

    engine_version: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    accelerator: str | None = None
    model_path: str | None = None
    fetch: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """The caller's environment, for `${NAME}` in compose files only."""
