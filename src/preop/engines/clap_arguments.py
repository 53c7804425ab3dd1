"""How TGI and TEI read their arguments: Rust's clap.

`--flag value`, `--flag=value`, `-p value`, `-p3000`. No abbreviations, and `_` is no `-`. A value does not
begin with a dash, unless after `=`. A flag that is given twice stops the launcher, but for those that take
several values.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preop.engines.reading import Reading
from preop.engines.tables import label
from preop.engines.types import Flag
from preop.facts import Word

__all__ = ["read_arguments"]


def read_arguments(state: Reading, words: Sequence[Word]) -> None:
    """Read all words into `state`."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.text is None:
            state.hide(word)
        elif word.text.startswith("-") and word.text not in ("-", "--"):
            at = _option(state, word, words, at)
        elif word.text != "--":
            _stray(state, word)


def _stray(state: Reading, word: Word) -> None:
    shown = state.shown("", word.text or "")
    state.note("other", f"{shown} belongs to no flag: {label(state.engine)} does not start", word.origin)


def _option(state: Reading, word: Word, words: Sequence[Word], at: int) -> int:
    """Read one flag and its value; where to read on."""
    assert word.text is not None
    text, explicit = word.text, None
    if text not in state.spellings:
        head, equals, tail = text.partition("=")
        if equals:
            text, explicit = head, tail
        elif not text.startswith("--") and text[:2] in state.spellings:
            text, explicit = text[:2], text[2:]
    spelling = state.spellings.get(text)
    if spelling is None:
        state.unknown_flag(text, word.origin)
        if explicit is None and at < len(words) and _is_value(words[at]):
            return at + 1
        return at
    name, flag = spelling.name, state.table.flags[spelling.name]
    value: Word | None = None
    if explicit is not None:
        value = msgspec.structs.replace(word, text=explicit)
    elif (flag.kind != "bool" or flag.nargs == "?") and at < len(words) and _is_value(words[at]):
        value = words[at]
        at += 1
    _set(state, name, flag, word, value)
    if value is not None and value.text is None and not value.single:
        state.hide(value)
    return at


def _is_value(word: Word) -> bool:
    """Whether clap takes the word as the value of the flag before it."""
    return word.text is None or not word.text.startswith("-") or word.text == "-"


def _set(state: Reading, name: str, flag: Flag, word: Word, value: Word | None) -> None:
    if name in state.on_command and not flag.repeats:
        why = f"it is given more than once: {label(state.engine)} does not start"
        state.note("bad-value", f"--{name}: {why}", word.origin)
        state.given[name] = msgspec.structs.replace(
            state.given[name], value=None, is_known=False, note=why, origin=word.origin
        )
    elif flag.kind == "bool":
        _switch(state, name, flag, word, value)
    elif value is None:
        state.unreadable(name, word.origin, "its value is missing")
    else:
        state.value(
            name, flag, [value if value.origin.where else msgspec.structs.replace(value, origin=word.origin)]
        )


def _switch(state: Reading, name: str, flag: Flag, word: Word, value: Word | None) -> None:
    if value is None:
        state.set(name, True, word.origin)
    elif flag.nargs != "?":
        state.unreadable(name, word.origin, "it takes no value")
    elif value.text is None:
        state.set(name, None, word.origin, known=False, note=value.note or "its value cannot be seen")
    elif value.text in ("true", "false"):
        state.set(name, value.text == "true", word.origin)
    else:
        state.unreadable(name, word.origin, "it must be true or false")
