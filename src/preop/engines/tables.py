"""The flag tables that ship with preop, and the vocabulary of facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from preop.engines.types import Flag, Table

__all__ = [
    "ENGINES",
    "History",
    "Spelling",
    "find",
    "label",
    "later",
    "newest_with",
    "order",
    "spellings",
    "table",
    "versions",
    "vocabulary",
]

ENGINES = (
    "vllm",
    "sglang",
    "llama.cpp",
    "tgi",
    "tei",
    "tensorrt-llm",
    "llama-cpp-python",
    "ollama",
    "lmdeploy",
    "infinity",
    "kserve-transformers",
)
"""Engines that `identify` can name. Those without a table are named and no more."""

_LABELS = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "tgi": "TGI",
    "tei": "TEI",
    "tensorrt-llm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
    "infinity": "Infinity",
    "kserve-transformers": "KServe's Transformers server",
}
_DATA = Path(__file__).parent / "data"


def label(engine: str, version: str | None = None) -> str:
    """The engine as it is written for people: `vLLM 0.32.0`."""
    name = _LABELS.get(engine, engine)
    return f"{name} {version}" if version else name


class History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The flags of all releases of an engine that were read, each by the releases in which it changed."""

    schema: str
    engine: str
    releases: tuple[str, ...]
    """Oldest first."""
    source: dict[str, Any]
    """Where the newest was read."""
    flags: dict[str, tuple[tuple[int, Flag | None], ...]]
    """By long name: from which release on (its index) the flag is so; None: it is not there."""
    hints: dict[str, str] = {}
    """By name: what to do once it is gone."""
    gone: dict[str, str] = {}
    """Flags of releases before the oldest that was read: what to do instead."""
    positional: tuple[tuple[int, str | None], ...] = ()
    """From which release on (its index) a word without dashes sets that flag; None: it sets none."""

    def flag(self, name: str, at: int) -> Flag | None:
        """The flag as it is in the release of that index."""
        found: Flag | None = None
        for since, flag in self.flags.get(name, ()):
            if since > at:
                break
            found = flag
        return found

    def table(self, at: int) -> Table:
        """All flags of the release of that index, and what became of earlier ones."""
        flags = {name: flag for name in self.flags if (flag := self.flag(name, at)) is not None}
        known = {
            *flags,
            *(a.lstrip("-") for flag in flags.values() for a in (*flag.aliases, *flag.negations)),
        }
        removed = {name: hint for name, hint in self.gone.items() if name not in known}
        for name, spans in self.flags.items():
            ends = [since for since, flag in spans if flag is None and since <= at]
            if name not in known and ends:
                since = f"gone since {self.releases[ends[-1]]}"
                removed[name] = f"{self.hints[name]} ({since})" if name in self.hints else since
        version = self.releases[at]
        return Table(
            schema="preop.flags/1",
            engine=self.engine,
            version=version,
            source=self.source,
            flags=flags,
            removed=removed,
            positional=next((name for since, name in reversed(self.positional) if since <= at), None),
        )

    def between(self, at: int, version: str) -> Table:
        """What is sure of a build after the release of that index and before the next: what they agree on.

        A flag that they know differently, or one of them only, is there with its default unknown.
        """
        before, after = self.table(at), self.table(at + 1)
        why = f"{before.version} and {after.version}, between which it lies, differ"
        flags = {name: flag for name, flag in before.flags.items() if after.flags.get(name) == flag}
        for name, flag in after.flags.items():
            if name not in flags:
                texts = {f"--{name}", *flag.aliases, *flag.negations}
                flags[name] = msgspec.structs.replace(flag, default=None, how="unknown", why=why)
                same = before.flags.get(name)
                more = same.aliases if same else ()
                flags[name] = msgspec.structs.replace(
                    flags[name], aliases=(*flag.aliases, *(text for text in more if text not in texts))
                )
        known = {
            text for name, flag in flags.items() for text in (f"--{name}", *flag.aliases, *flag.negations)
        }
        for name, flag in before.flags.items():
            if not known & {f"--{name}", *flag.aliases, *flag.negations}:  # not renamed: gone
                flags[name] = msgspec.structs.replace(flag, default=None, how="unknown", why=why)
        return msgspec.structs.replace(
            before,
            version=version,
            source=self.source | {"between": [before.version, after.version]},
            flags=flags,
            removed={name: hint for name, hint in before.removed.items() if f"--{name}" not in known},
        )


@cache
def _history(engine: str) -> History | None:
    path = _DATA / f"{engine}.json"
    if engine not in ENGINES or not path.is_file():
        return None
    return msgspec.json.decode(path.read_bytes(), type=History)


@cache
def versions(engine: str) -> tuple[str, ...]:
    """The versions of an engine that have a table, oldest first."""
    history = _history(engine)
    return history.releases if history is not None else ()


def order(version: str) -> tuple[int, ...]:
    """A key that sorts versions: 0.9.0 before 0.10.0, 0.8.5 before 0.8.5.post1."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def table(engine: str, version: str | None = None) -> Table | None:
    """The flags of that version; the newest table where `version` is None; None where there is none.

    `v0.32.0` and `0.32.0+cu130` are 0.32.0; a pre-release is not. llama.cpp has builds by the hour: of one
    between two that were read, what both say (`source` names them under "between").
    """
    known = versions(engine)
    if version is None:
        return _load(engine, known[-1]) if known else None
    plain = version.removeprefix("v").split("+")[0]
    if plain in known or (engine == "llama.cpp" and _BUILD.fullmatch(plain) and _is_between(known, plain)):
        return _load(engine, plain)
    return None


_BUILD = re.compile(r"b[1-9]\d{0,6}")


def _is_between(known: tuple[str, ...], version: str) -> bool:
    return bool(known) and order(known[0]) < order(version) < order(known[-1])


@cache
def _load(engine: str, version: str) -> Table:
    history = _history(engine)
    assert history is not None
    at = _at(history, version)
    return history.table(at) if history.releases[at] == version else history.between(at, version)


def _at(history: History, version: str) -> int:
    """The index of that release, or of the last one before it."""
    if version in history.releases:
        return history.releases.index(version)
    return sum(order(release) < order(version) for release in history.releases) - 1


def later(table_: Table, name: str, spelling: str | None = None) -> str | None:
    """The first release after the table's own that has a flag of that long name; None where none has it.

    With `spelling` (dashes included): the first in which it may be written so.
    """
    history = _history(table_.engine)
    if history is None:
        return None
    own = _at(history, table_.version)
    for since, flag in history.flags.get(name, ()):
        if since <= own or flag is None:
            continue
        if spelling is None or spelling in (f"--{name}", *flag.aliases, *flag.negations):
            return history.releases[since]
    return None


@cache
def _spelled(engine: str) -> Mapping[str, str]:
    """The newest release that has a spelling, by each spelling that there ever was."""
    history = _history(engine)
    found: dict[str, int] = {}
    for name, spans in history.flags.items() if history is not None else ():
        ends = [*(since - 1 for since, _ in spans[1:]), len(history.releases) - 1 if history else 0]
        for (_, flag), end in zip(spans, ends, strict=True):
            for text in (f"--{name}", *flag.aliases, *flag.negations) if flag is not None else ():
                found[text] = max(found.get(text, 0), end)
    return {text: history.releases[at] for text, at in found.items()} if history is not None else {}


def newest_with(engine: str, spelling: str) -> str | None:
    """The newest release of an engine that has a flag of that spelling, dashes included; None: none had."""
    return _spelled(engine).get(spelling)


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
