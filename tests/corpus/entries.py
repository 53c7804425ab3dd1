"""Real command lines as data: `tests/data/corpus/*.jsonl`, one entry a line.

An entry has an `id`, its `source` (repository and path, or address), its `form`, and `argv` (the words after
`preop check --`) or `text` (of a shell script or of a compose file, written anew: services, commands and what
bears on them). `deployments` says what must be read from it: worked out apart from preop, from the text and
from the engines' own sources. `facts` must be known and equal (an object: at least these keys), `unknown`
must not be known, `gone` are the flags that the newest version does not have.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment

__all__ = ["Entry", "Expected", "entries", "explained", "failures", "passes", "read"]

DATA = Path(__file__).parent.parent / "data" / "corpus"


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """One deployment as it must be read."""

    engine: str
    facts: dict[str, Any]
    name: str | None = None
    unknown: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One real command line, script or compose file."""

    id: str
    source: str
    form: str
    deployments: tuple[Expected, ...]
    argv: tuple[str, ...] | None = None
    text: str | None = None


@cache
def entries() -> tuple[Entry, ...]:
    """All entries, by file and id."""
    return tuple(_entries())


def _entries() -> Iterator[Entry]:
    for path in sorted(DATA.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield msgspec.convert(json.loads(line), Entry)


@cache
def explained() -> dict[str, str]:
    """Why an entry cannot be read, by its id."""
    return _table("explained.toml")


@cache
def failures() -> dict[str, dict[str, str]]:
    """The pitfalls that fail by the text alone, and why that is certain, by entry id."""
    return _table("failures.toml")


@cache
def passes() -> dict[str, dict[str, str]]:
    """The pitfalls that pass by the text alone, and what proves it, by entry id."""
    return _table("passes.toml")


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / name).read_text(encoding="utf-8"))


def read(entry: Entry, folder: Path) -> list[Deployment]:
    """The entry's deployments, read as a user would have them read."""
    if entry.argv is not None:
        return read_targets([], entry.argv, ReadOptions())
    assert entry.text is not None, entry.id
    path = folder / ("compose.yml" if entry.form == "compose" else "serve.sh")
    path.write_text(entry.text, encoding="utf-8")
    return read_targets([str(path)], None, ReadOptions())
