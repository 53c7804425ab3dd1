"""What a user says of a deployment besides its file or command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preop.engines.images import ImageRule

__all__ = ["STANDARD_INPUT", "ReadOptions"]

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class ReadOptions:
    """Options of preop that become facts. None: not given."""

    engine_version: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    accelerator: str | None = None
    model_path: str | None = None
    models: str | None = None
    """Folder that holds models by their hub id: `MODELS/Qwen/Qwen2.5-7B-Instruct/config.json`."""
    fetch: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """The caller's environment, for `${NAME}` in compose files only."""
    images: tuple[ImageRule, ...] = ()
    """The first that matches counts."""
    exclude: tuple[str, ...] = ()
    """Patterns of paths that a search of a folder passes over."""
    root: Path | None = None
    """Folder in which relative targets begin, while they are shown as they were given; None: this one."""
