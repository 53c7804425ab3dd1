"""What the readers of all engines share: words in, winning values and notes out."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from preop.engines.tables import label, later, newest_with, spellings, table
from preop.engines.types import Flag, Given, ParsedFlags, Table
from preop.engines.values import read
from preop.facts import Note, Origin, Word
from preop.secrets import MASK, is_secret_name, mask_text, mask_value

__all__ = ["Reading", "reading"]

_SHOWN = 80
_MOST_LOOKED_UP = 100
"""Notes up to which an unknown flag's nearest relative is looked up."""


class Reading:
    """The state of reading one command line. Later settings win."""

    def __init__(self, engine: str, version: str | None, flags: Table) -> None:
        self.engine = engine
        self.version = version
        self.table = flags
        self.is_exact = version is not None and table(engine, version) is not None
        """Whether the table is that of the stated version, not just the newest."""
        self.spellings = spellings(engine, flags.version)
        self.given: dict[str, Given] = {}
        self.notes: list[Note] = []
        self.hidden: list[str] = []
        self.on_command: set[str] = set()
        """Flags that the command line itself has set."""
        self.settled: set[str] = set()
        """Flags that no later word can set again."""
        self.extended_by: str | None = None
        """A plugin that adds flags of its own: what the table does not know is then no mistake."""
        self.in_config = False
        """Values come from a config file: the command line may set them again without a note."""
        self.beside_secret = False
        """The newest flag is unknown and named like a secret: what follows it is not shown."""

    # --- setting

    def set(
        self, name: str, value: Any, origin: Origin, *, known: bool = True, note: str | None = None
    ) -> None:
        """Set a flag; a second time on the command line is noted."""
        flag = self.table.flags.get(name)
        self.beside_secret = False
        if origin.kind == "argument" and "," not in origin.where:
            origin = Origin("argument", f"{origin.where}, --{name}")
        if name in self.on_command and not (flag and flag.repeats):
            self.note("repeated-flag", f"--{name} is given more than once: the last one counts", origin)
        if not self.in_config:
            self.on_command.add(name)
        if flag and flag.repeats and known:
            value, known = self._added(name, value)
        self.given[name] = Given(name, mask_value(value, name) if known else None, known, origin, note)

    def _added(self, name: str, value: Any) -> tuple[Any, bool]:
        """The values of a flag that may be repeated, this one added; known only where all are."""
        joined = self.engine == "llama.cpp"  # its lists are written with commas
        earlier = self.given.get(name)
        if earlier is None:
            return value if joined else [value], True
        if not earlier.is_known:
            return None, False
        return f"{earlier.value},{value}" if joined else [*earlier.value, value], True

    def unreadable(self, name: str, origin: Origin, why: str) -> None:
        """A flag whose value cannot be used: the engine would refuse it."""
        self.note("bad-value", f"--{name}: {why}", origin)
        self.set(name, None, origin, known=False, note=why)

    def keep(self, text: str, word: Word) -> None:
        """Keep the value of a flag that the newest version has no more, where the version may be older."""
        name = text.lstrip("-")
        if self.is_exact or word.text is None or name not in self.table.removed:
            return
        try:
            value = read(Flag(kind="json"), word.text, self.engine)
        except ValueError:
            value = word.text
        self.set(name, value, word.origin)

    def hide(self, word: Word) -> None:
        """A word that may be any flags: it may set again what was set before it."""
        reason = word.note or "part of the command cannot be seen"
        if reason not in self.hidden:
            self.hidden.append(reason)
            self.note("hidden", f"{reason}: it may set any flag", word.origin)
        for name, given in self.given.items():
            if given.is_known and name not in self.settled:
                self.given[name] = msgspec.structs.replace(
                    given, value=None, is_known=False, note=f"{reason}, and it may set this again"
                )

    # --- values

    def value(self, name: str, flag: Flag, words: list[Word]) -> None:
        """Set a flag from its value words (one, or as many as `nargs` took). Hidden ones make it unknown."""
        origin = words[0].origin
        unseen = next((word for word in words if word.text is None), None)
        if unseen is not None:
            self.set(name, None, origin, known=False, note=unseen.note or "its value cannot be seen")
            return
        try:
            values = [read(flag, word.text, self.engine) for word in words if word.text is not None]
        except ValueError as error:
            texts = " ".join(word.text or "" for word in words)
            self.unreadable(name, origin, f"{self.shown(name, texts)} cannot be its value, {error}")
            return
        many = flag.nargs in ("+", "*") or isinstance(flag.nargs, int)
        self.set(name, values if many else values[0], origin)

    def shown(self, name: str, text: str) -> str:
        """A value as a note may quote it: short, and never a secret."""
        if is_secret_name(name) or (not name and self.beside_secret):
            return MASK
        text = mask_text(text)
        return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")

    # --- notes

    def note(
        self, kind: Any, message: str, origin: Origin | None = None, suggestion: str | None = None
    ) -> None:
        """Add a note."""
        where = str(origin) if origin else None
        self.notes.append(Note(kind, message, where, suggestion, self.table.version))

    def unknown_flag(self, text: str, origin: Origin, may_be: Sequence[str] = ()) -> None:
        """Note a flag that this version does not have: removed, of another version, or misspelled.

        `may_be` are the flags that it is the beginning of, where they are several.
        """
        name = mask_text(text.split("=", 1)[0][:_SHOWN])
        self.beside_secret = is_secret_name(name)
        if self.extended_by is not None:
            self.note("other", f"{name} is taken as a flag of {self.extended_by}", origin)
            return
        bare = name.lstrip("-").replace("_", "-").removeprefix("no-")
        engine = label(self.engine, self.table.version)
        advice = self.table.removed.get(bare) or self.table.removed.get(name.lstrip("-").replace("_", "-"))
        if advice is not None:
            self.note("removed-flag", f"{name} is no flag of {engine} any more", origin, advice)
            return
        dashed = name.replace("_", "-")
        if dashed != name and dashed in self.spellings:
            message = f"{name} is no flag of {engine}: it is written with dashes"
            self.note("unknown-flag", message, origin, dashed)
            return
        other = None if self.version else self._in_other_version(name)
        if other is not None:
            self.note("other", f"{name} is a flag of {label(self.engine, other)}, not of {engine}", origin)
            return
        comes = later(self.table, bare, dashed)
        if comes is not None:
            message = f"{name} is no flag of {engine}: it comes with {label(self.engine, comes)}"
            self.note("unknown-flag", message, origin)
            return
        if may_be:
            shown = ", ".join(may_be[:4]) + (", ..." if len(may_be) > 4 else "")
            message = f"{name} is no flag of {engine}, and the beginning of several"
            self.note("unknown-flag", message, origin, f"one of {shown}")
            return
        # looked up one by one, and nobody reads a hundred of them
        look = len(self.notes) < _MOST_LOOKED_UP
        near = get_close_matches(name.replace("_", "-"), self.spellings, n=1, cutoff=0.6) if look else []
        self.note("unknown-flag", f"{name} is no flag of {engine}", origin, near[0] if near else None)

    def _in_other_version(self, name: str) -> str | None:
        return newest_with(self.engine, name)

    def done(self) -> ParsedFlags:
        """What was read."""
        return ParsedFlags(self.engine, self.version, self.given, tuple(self.notes), tuple(self.hidden))


def reading(engine: str, version: str | None) -> Reading | None:
    """A fresh reading with the table of that version, else the newest one; None where there is no table."""
    flags = table(engine, version) or table(engine)
    return Reading(engine, version, flags) if flags else None
