"""Text whose characters know their place, and the words cut out of it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from preop.facts import Origin, Word
from preop.secrets import is_secret_name

__all__ = ["HOLE", "Hole", "Lines", "Source", "Token", "environment_word", "unseen_token", "variable"]

HOLE = "\x00"
"""Stands in a text where something cannot be seen; only the places named in `holes` count."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+)?=")
_LIST = re.compile(
    r"(?i)(^|_)(args?|arguments?|opts?|options?|flags?|params?|parameters?|extra|extras|cmd|command|cli)(_|$)"
)
_FLAG_WITH_VALUE = re.compile(r"(--?[A-Za-z][\w.+-]*)=")


@dataclass(frozen=True)
class Hole:
    """Something that cannot be seen, and why."""

    note: str
    many: bool = False
    """It may stand for any number of words, where no quotes make it one."""


def variable(name: str, why: str = "is not set here") -> Hole:
    """A variable that cannot be seen. It stands for one word unless its name says that it holds several:
    `--max-model-len $LEN` is one value, `$EXTRA_ARGS` is not."""
    return Hole(f"${name} {why}", many=bool(_LIST.search(name)))


@dataclass(frozen=True)
class Source:
    """Text to be cut into words. `place` gives the origin of an offset in `text`."""

    text: str
    place: Callable[[int], Origin]
    holes: Mapping[int, Hole] = field(default_factory=dict)
    """Offsets of what cannot be seen, and why."""


class Lines:
    """The origin of an offset in a file's text."""

    def __init__(self, text: str, file: str, line: int = 1, column: int = 1) -> None:
        """`line` and `column` are where `text` begins in the file."""
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._file, self._line, self._column = file, line, column

    def __call__(self, offset: int) -> Origin:
        """`file:line:column`."""
        row = bisect_right(self._starts, offset) - 1
        column = offset - self._starts[row] + (self._column if row == 0 else 1)
        return Origin("file", f"{self._file}:{self._line + row}:{column}")


@dataclass(frozen=True)
class Token:
    """One word with the place of each of its characters."""

    text: str
    origin: Origin
    holes: Mapping[int, Hole] = field(default_factory=dict)
    at: tuple[int, ...] | None = None
    """The offset of each character in the source it was cut from; None: all in one place."""
    place: Callable[[int], Origin] | None = None
    """The origin of such an offset."""
    many: bool = False
    """What cannot be seen in it may be any number of words."""

    @property
    def visible(self) -> str | None:
        """The text, or None where some of it cannot be seen."""
        return None if self.holes else self.text

    @property
    def head(self) -> str:
        """What stands before the first thing that cannot be seen."""
        return self.text[: min(self.holes)] if self.holes else self.text

    @property
    def note(self) -> str | None:
        """Why it cannot be seen."""
        return "; ".join(dict.fromkeys(hole.note for hole in self.holes.values())) or None

    def words(self) -> list[Word]:
        """As words of a command. `--flag=$X` is the flag and a value that cannot be seen."""
        if not self.holes:
            return [Word(self.text, self.origin)]
        unseen = Word(None, self.origin, self.note, single=not self.many)
        flag = _FLAG_WITH_VALUE.match(self.head)
        return [Word(flag[1], self.origin), unseen] if flag else [unseen]

    def after(self, offset: int) -> Token:
        """The rest of the word from `offset` on."""
        at = self.at[offset:] if self.at else None
        return Token(
            self.text[offset:],
            self.place(at[0]) if at and self.place else self.origin,
            {index - offset: hole for index, hole in self.holes.items() if index >= offset},
            at,
            self.place,
            self.many,
        )

    def assignment(self) -> tuple[str, Token] | None:
        """Name and value where the word is `NAME=value`."""
        match = _ASSIGNMENT.match(self.head)
        if not match:
            return None
        return match[1], self.after(match.end())

    @property
    def appends(self) -> bool:
        """Whether the word is `NAME+=value`."""
        match = _ASSIGNMENT.match(self.head)
        return bool(match and match[2])

    def source(self) -> Source:
        """The word as a text of its own: what `sh -c` is given."""
        at, place, origin = self.at, self.place, self.origin
        if not at or place is None:
            return Source(self.text, lambda i: origin, self.holes)
        return Source(self.text, lambda i: place(at[min(i, len(at) - 1)]), self.holes)


def unseen_token(why: str | Hole, origin: Origin) -> Token:
    """A word or a value of which nothing can be seen."""
    hole = why if isinstance(why, Hole) else Hole(why)
    return Token(HOLE, origin, {0: hole}, many=hole.many)


def environment_word(name: str, value: Token) -> Word:
    """The value of an environment variable; a secret is not kept."""
    origin = Origin("environment", name) if value.origin.kind == "argument" else value.origin
    if is_secret_name(name):
        return Word(None, origin, f"{name} is a secret: its value is not kept")
    return Word(value.visible, origin, value.note)
