"""Real deployment files as data: `tests/data/deployments/*.jsonl`, one file a form, one entry a line.

An entry has an `id`, its `source` (repository and path), its `form`, its `files` (path to text, written anew:
structure, names, commands and what bears on serving; `-` is the text of standard input) and the `targets`
that are handed to `preop check` beside them. `deployments` says what must be read, in reading order: worked
out apart from preop, from the text and from the sources of the engines, charts and operators. `facts` must
be known and equal (an object: at least these keys), `unknown` must not be known. `refused` says why preop
must decline with a sentence; then there are no deployments.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preop.deployment.read import STANDARD_INPUT, ReadOptions, read_targets
from preop.deployment.types import Deployment

__all__ = ["Entry", "Expected", "entries", "problems", "read"]

DATA = Path(__file__).parent.parent / "data" / "deployments"


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """One deployment as it must be read."""

    engine: str
    facts: dict[str, Any]
    name: str | None = None
    unknown: tuple[str, ...] = ()


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One real deployment: a file, or a folder of them."""

    id: str
    source: str
    form: str
    files: dict[str, str]
    targets: tuple[str, ...]
    deployments: tuple[Expected, ...]
    refused: str | None = None


@cache
def entries() -> tuple[Entry, ...]:
    """All entries, by file and id."""
    return tuple(_entries())


def _entries() -> Iterator[Entry]:
    for path in sorted(DATA.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield msgspec.convert(json.loads(line), Entry)


def read(entry: Entry, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Deployment]:
    """The entry's deployments, read in a folder that holds nothing else."""
    own = folder / "deployment"
    own.mkdir()
    for name, text in entry.files.items():
        if name == STANDARD_INPUT:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
            continue
        path = own / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(own)
    return read_targets(entry.targets, None, ReadOptions(), unread=[])


def problems(expected: Expected, deployment: Deployment) -> list[str]:
    """Where a deployment is not what it must be, a sentence each."""
    told = []
    if deployment.engine != expected.engine:
        told.append(f"engine is {deployment.engine}, not {expected.engine}")
    if expected.name is not None and deployment.name != expected.name:
        told.append(f"name is {deployment.name}, not {expected.name}")
    for name, value in expected.facts.items():
        fact = deployment.fact(name)
        if not fact.is_known:
            told.append(f"{name} is unknown ({fact.note}), not {value!r}")
        elif not _is_same(fact.value, value):
            told.append(f"{name} is {fact.value!r} ({fact.source}), not {value!r}")
    for name in expected.unknown:
        fact = deployment.fact(name)
        if fact.is_known:
            told.append(f"{name} is {fact.value!r} ({fact.source}), but nothing states it")
    return told


def _is_same(value: Any, expected: Any) -> bool:
    """Equal; an object has at least the expected keys, and one name is the list of it alone."""
    if isinstance(expected, dict):
        return isinstance(value, dict) and all(
            key in value and _is_same(value[key], told) for key, told in expected.items()
        )
    if isinstance(value, list) and isinstance(expected, str):
        return value == [expected]
    if isinstance(expected, list):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(_is_same(one, told) for one, told in zip(value, expected, strict=True))
        )
    return bool(value == expected) and isinstance(value, bool) == isinstance(expected, bool)
