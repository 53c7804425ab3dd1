"""What a user says of a deployment besides its file or command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ImageRule", "ReadOptions"]


@dataclass(frozen=True)
class ImageRule:
    """What a team says of an image of its own, under `[images]` of preop.toml."""

    pattern: str
    """Repository, without tag and digest; `*` stands for anything: `registry.corp/llm/*`."""
    engine: str
    version: str | None = None
    """Version of the engine inside; `tag`: the tag is that version; None: not stated."""
    command: tuple[str, ...] | None = None
    """What the image puts before its arguments; None: as the engine's makers do."""


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
