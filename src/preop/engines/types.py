"""What is known of an engine's command line, and what was read from one."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preop.facts import Note, Origin

__all__ = ["Flag", "Given", "Identified", "ParsedFlags", "Table"]

Kind = Literal[
    "bool", "truthy", "int", "human-int", "human-int-or-auto", "float", "str", "json", "json-or-str"
]
"""How one value is read. truthy: Python's `bool` of the word, so that False is true; human-int: with
suffixes (1k, 25.6k) by the rule of its engine, or-auto: the word auto is -1; json-or-str: JSON where it is in
braces."""


class Flag(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One flag of one engine version."""

    kind: Kind
    aliases: tuple[str, ...] = ()
    """All other spellings, with their dashes (`-tp`, `--no-mmap`); `--long-name` itself is not among them."""
    negations: tuple[str, ...] = ()
    """Spellings that switch a bool off (`--no-enable-prefix-caching`)."""
    nargs: str | int | None = None
    """As argparse has it: None (one value; none for a bool), "?", "*", "+", or a number."""
    const: Any = None
    """The value where `nargs` is "?" and none is given."""
    repeats: bool = False
    """Whether the flag may be given more than once and its values add up."""
    choices: tuple[str | int, ...] | None = None
    null: tuple[str, ...] = ()
    """Words that mean "none"."""
    default: Any = None
    how: Literal["literal", "computed", "unknown"] = "literal"
    """literal: `default` is the value (`why` may say what it stands for);
    computed: the engine decides when it starts (`why` says how);
    unknown: the extractor could not tell (`why` says for what reason, where the source shows it)."""
    why: str | None = None
    environment: str | None = None
    """The environment variable that sets it too."""
    removed: str | None = None
    """Not None: the engine no longer knows it; what to do instead."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The flags of one engine version, by long name without dashes."""

    schema: str
    engine: str
    version: str
    source: dict[str, Any]
    """package, version, files: where the flags were read."""
    flags: dict[str, Flag]
    removed: dict[str, str] = {}
    """Flags of earlier versions that are gone: what to do instead."""
    positional: str | None = None
    """The flag that a word without dashes sets."""


class Given(msgspec.Struct, frozen=True):
    """One flag as it was given: what won."""

    name: str
    """Long name without dashes."""
    value: Any
    """Typed as the engine reads it; None where `is_known` is false, or where the flag says none."""
    is_known: bool
    origin: Origin
    note: str | None = None
    """Why the value is unknown."""


class ParsedFlags(msgspec.Struct, frozen=True):
    """A command line as its engine reads it."""

    engine: str
    version: str | None
    """As asked for; None: not stated. The newest table was then used for reading."""
    given: dict[str, Given]
    """By long name."""
    notes: tuple[Note, ...] = ()
    hidden: tuple[str, ...] = ()
    """Why flags may exist that cannot be seen: what is not in `given` is then unknown, not at its default."""


class Identified(msgspec.Struct, frozen=True):
    """The engine that a command starts."""

    engine: str
    arguments_at: int
    """Index of the first word that is the engine's own argument (may be the number of words)."""
    how: str
    """What it was recognised by: `vllm serve`, `python -m sglang.launch_server`."""
    through: str | None = None
    """The program that hands its arguments on to the engine and has flags of its own (`fronts.py`)."""
