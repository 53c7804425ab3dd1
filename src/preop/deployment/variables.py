"""The variables of a shell text while it is read: what they hold, as far as that can be told.

One rule for a variable that nothing here sets, in shell texts and compose files alike: it is not known to be
unset, since whoever runs the text may set it. What the text states for that case is what it declares:
`${LEN:-8192}` is 8192. Where it states nothing, nothing can be seen, and nothing is absent: `$ARGS`,
`${ARGS:-}` and `${FP8:+--quantization fp8}` may each hold flags. One that is set here, if to nothing, is
known: each operator does what it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from preop.deployment.tokens import HOLE, Hole, Token, unseen_token, variable
from preop.facts import Word

__all__ = ["Variables", "one_of_two", "unstated"]

_DECLARERS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_SET_OPTIONS = frozenset({"pipefail", "allexport", "errexit", "nounset", "xtrace", "posix", "noglob"})
_CONDITION = "is set under a condition in the script"


def unstated(name: str, operator: str, rest: str, *, elsewhere: bool = False) -> Hole | None:
    """What cannot be seen of `${NAME<operator>rest}` where nothing sets the name; None where the text itself
    states a value. `elsewhere`: something that is not read may set it, so that the text states nothing."""
    states = operator.endswith(("-", "=")) and rest.strip() not in ("", "''", '""')
    if states and not elsewhere:
        return None
    hole = variable(name)
    return one_of_two(hole.note, hole.many, operator, rest)


def one_of_two(note: str, many: bool, operator: str, rest: str) -> Hole:
    """What cannot be seen is a value, or the words of `rest`: these are one word, or flags, or none."""
    return Hole(note, many or operator.endswith("+") or rest.lstrip("\"'").startswith("-") or " " in rest)


class Variables:
    """Values and arrays by name. What is set under a condition cannot be seen afterwards."""

    def __init__(self, start: Mapping[str, Word]) -> None:
        """`start`: what the shell begins with."""
        self._values = {name: _value(name, word) for name, word in start.items()}
        self._arrays: dict[str, list[Token]] = {}
        self._exported: set[str] = set()
        self._export_all = False
        self.length = 0
        """Characters put into words so far."""
        self.unseen: str | None = None
        """Why there may be variables that are set nowhere here."""

    def get(self, name: str) -> Token | None:
        """The value; None where nothing here sets it."""
        if name in self._arrays:
            return next(iter(self._arrays[name]), None)
        return self._values.get(name)

    def array(self, name: str) -> list[Token] | None:
        """The words of an array; None where it is none that is set here. "@": what the script is given."""
        return self._arrays.get(name)

    def exports(self) -> dict[str, Token]:
        """What the next command finds in its environment."""
        return {name: value for name, value in self._values.items() if name in self._exported}

    def set(self, name: str, value: Token, *, sure: bool = True, append: bool = False) -> None:
        """`NAME=value`, or with `append` `NAME+=value`. `sure` is false under a condition."""
        self._arrays.pop(name, None) if not append else None
        old = self._values.get(name)
        if append and old is not None:
            self._values[name] = _joined(old, value if sure else _perhaps(name, value))
        elif append:
            self.hide(name, "is added to, and what it was cannot be seen", value)
        elif sure:
            self._values[name] = value
        else:
            self.hide(name, _CONDITION, value)
        if self._export_all:
            self._exported.add(name)

    def set_array(self, name: str, words: Sequence[Token], at: Token, *, sure: bool, append: bool) -> None:
        """`NAME=(words)`, or with `append` `NAME+=(words)`. `at` is the name as it stands."""
        self._values.pop(name, None)
        unseen = Token(HOLE, at.origin, {0: Hole(f"the array {name} {_CONDITION}", many=True)}, many=True)
        added = list(words) if sure else [unseen]
        if append and name not in self._arrays:
            added = [unseen, *added]
        self._arrays[name] = [*self._arrays.get(name, []), *added] if append else added

    def hide(self, name: str, why: str, at: Token) -> None:
        """The variable cannot be seen from here on."""
        self._arrays.pop(name, None)
        self._values[name] = unseen_token(variable(name, why), at.origin)

    def take(self, found: Sequence[Token], sure: bool) -> bool:
        """Take in a command that only sets variables; False where it is another command."""
        first, rest = found[0].visible, found[1:]
        if first == "unset":
            for word in rest:
                self.hide(word.text, "is unset in the script", word)
                self._exported.discard(word.text)
            return True
        if first in ("for", "select", "read") and rest:
            for word in rest:
                self.hide(word.text, "is set while the script runs", word)
            return True
        if first == "set" and any(word.visible in ("-a", "allexport") for word in rest):
            self._export_all = True
        if first == "shift" or (first == "set" and any(not _is_option(word) for word in rest)):
            self._arrays.pop("@", None)
        if first in (".", "source"):
            self.unseen = f"{first} {rest[0].text if rest else ''} is not read"
        declares = first in _DECLARERS
        words = rest if declares else found
        pairs = [word.assignment() for word in words]
        if not declares and not all(pairs):
            return False
        for word, pair in zip(words, pairs, strict=True):
            if pair is not None:
                self.set(*pair, sure=sure, append=word.appends)
            if first == "export":
                self._exported.add(pair[0] if pair else word.text)
        return True


def _value(name: str, word: Word) -> Token:
    if word.text is not None:
        return Token(word.text, word.origin)
    return unseen_token(
        variable(name, f"cannot be seen: {word.note}" if word.note else "cannot be seen"), word.origin
    )


def _is_option(word: Token) -> bool:
    """Whether a word of `set` is none of the new arguments: `-eu`, `-o pipefail`."""
    return (word.head.startswith(("-", "+")) and word.visible != "--") or word.visible in _SET_OPTIONS


def _perhaps(name: str, value: Token) -> Token:
    """What may or may not have been added; a blank before it stays, so that it hides no word before it."""
    blank = value.text[:1] if value.text[:1].isspace() else ""
    return Token(blank + HOLE, value.origin, {len(blank): Hole(f"${name} {_CONDITION}", many=True)})


def _joined(first: Token, second: Token) -> Token:
    size = len(first.text)
    holes = {**first.holes, **{size + index: hole for index, hole in second.holes.items()}}
    return Token(first.text + second.text, first.origin, holes)
