"""The flag tables that ship with preop, and the vocabulary of facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from preop.engines.types import Flag, Table

__all__ = ["ENGINES", "Spelling", "find", "label", "spellings", "table", "versions", "vocabulary"]

ENGINES = ("vllm", "sglang", "llama.cpp", "tgi", "tensorrt-llm", "llama-cpp-python", "ollama", "lmdeploy")
"""Engines that `identify` can name. Those without a table are named and no more."""

_LABELS = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "tgi": "TGI",
    "tensorrt-llm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
}
_DATA = Path(__file__).parent / "data"


def label(engine: str, version: str | None = None) -> str:
    """The engine as it is written for people: `vLLM 0.32.0`."""
    name = _LABELS.get(engine, engine)
    return f"{name} {version}" if version else name


@cache
def versions(engine: str) -> tuple[str, ...]:
    """The versions of an engine that have a table, oldest first."""
    start, end = f"{engine}-", ".json"
    names = (entry.name for entry in _DATA.iterdir())
    found = [n[len(start) : -len(end)] for n in names if n.startswith(start) and n.endswith(end)]
    return tuple(sorted(found, key=_order))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def table(engine: str, version: str | None = None) -> Table | None:
    """The flags of that version; the newest table where `version` is None; None where there is none.

    `v0.32.0` and `0.32.0+cu130` are 0.32.0; a pre-release is not.
    """
    known = versions(engine)
    if version is None:
        return _load(engine, known[-1]) if known else None
    plain = version.removeprefix("v").split("+")[0]
    return _load(engine, plain) if plain in known else None


@cache
def _load(engine: str, version: str) -> Table:
    return msgspec.json.decode((_DATA / f"{engine}-{version}.json").read_bytes(), type=Table)


class Spelling(msgspec.Struct, frozen=True):
    """What one way to write a flag stands for."""

    name: str
    """Long name of the flag."""
    positive: bool = True
    """False for `--no-...`."""


@cache
def spellings(engine: str, version: str) -> Mapping[str, Spelling]:
    """Every way to write a flag of that table, dashes included."""
    found: dict[str, Spelling] = {}
    for name, flag in _load(engine, version).flags.items():
        for text in (f"--{name}" if len(name) > 1 else f"-{name}", *flag.aliases):
            found[text] = Spelling(name)
        for text in flag.negations:
            found[text] = Spelling(name, positive=False)
    return found


def find(table_: Table, name: str) -> tuple[str, Flag] | None:
    """A flag by any of its long names, without dashes."""
    spelling = spellings(table_.engine, table_.version).get(f"--{name}")
    return (spelling.name, table_.flags[spelling.name]) if spelling else None


@cache
def vocabulary() -> dict[str, dict[str, Any]]:
    """Canonical fact names; for each its unit, its meaning, and the flag that sets it in each engine."""
    import tomllib

    return tomllib.loads((_DATA / "vocabulary.toml").read_text(encoding="utf-8"))
