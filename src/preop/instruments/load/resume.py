"""Levels that have finished, kept in a file until the run is through: they need not be measured again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from preop.evidence import Level
from preop.instruments.types import Job

__all__ = ["FOLDER", "Unfinished"]

FOLDER = Path(".preop") / "load"
_NO_SHAPE = ("budget", "budget_s", "per_million_output_tokens", "limits", "resume", "yes_load")


class _File(msgspec.Struct, frozen=True):
    levels: dict[str, Level]


class Unfinished:
    """The file of one run, told by its endpoint and by every option that shapes what is sent."""

    def __init__(self, job: Job) -> None:
        shape = {
            "url": job.access.url if job.access else "",
            "prompts": _digest(job.inputs.prompts),
            **{name: str(value) for name, value in sorted(job.options.items()) if name not in _NO_SHAPE},
        }
        self._is_kept = job.options.get("resume") is not None
        key = hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]
        self._path = FOLDER / f"{key}.json"

    def read(self) -> dict[float, Level]:
        """The valid levels of an earlier run of the same shape; none where there is no readable file."""
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_File)
            return {float(key): level for key, level in kept.levels.items() if level.valid}
        except (OSError, ValueError):
            return {}

    def keep(self, levels: Mapping[float, Level]) -> None:
        """Write them, whole or not at all, where the run may be resumed. A full disk loses no measurement."""
        if not self._is_kept:
            return
        document = msgspec.json.encode(_File({repr(key): level for key, level in levels.items()}))
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            FOLDER.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(document)
            temporary.replace(self._path)

    def done(self) -> None:
        """The run is through: nothing is left to resume."""
        with contextlib.suppress(OSError):
            self._path.unlink()


def _digest(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return path
