"""How llama-server reads its arguments (`common_params_parse_ex` in llama.cpp's `common/arg.cpp`).

`_` equals `-` after `--`. A flag and its value are two words: there is no `--flag=value`, and no
abbreviation. The word after a flag that takes a value is its value, whatever it looks like. Last wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from preop.engines.reading import Reading
from preop.facts import Word

__all__ = ["read_arguments"]

_PRESET = re.compile(r"^(?!spec-default$).*-(default|spec)$")
"""`--gpt-oss-20b-default`, `--fim-qwen-7b-spec`: one flag for a model, its port, context and batch."""

_ONCE_BARE = {"flash-attn"}
"""Flags that took no value in earlier versions: `-fa -ngl 99` is read so where the version is not stated."""


def read_arguments(state: Reading, words: Sequence[Word]) -> None:
    """Read all words into `state`."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.text is None:
            state.hide(word)
            continue
        text = word.text.replace("_", "-") if word.text.startswith("--") else word.text
        spelling = state.spellings.get(text)
        if spelling is None:
            at = _unknown(state, word, text, words, at)
            continue
        flag = state.table.flags[spelling.name]
        if flag.kind == "bool":
            if _PRESET.search(spelling.name):
                why = f"--{spelling.name} is a preset that sets the model and more"
                state.hide(Word(None, word.origin, why))
            state.set(spelling.name, spelling.positive, word.origin)
            continue
        if spelling.name in _ONCE_BARE and not state.is_exact and _is_flag(state, words, at):
            state.set(spelling.name, "on", word.origin)
            continue
        count = flag.nargs if isinstance(flag.nargs, int) else 1
        values = list(words[at : at + count])
        at += len(values)
        if len(values) < count:
            state.unreadable(spelling.name, word.origin, "its value is missing")
            continue
        state.value(spelling.name, flag, values)
        for value in values:
            if value.text is None and not value.single:
                state.hide(value)


def _is_flag(state: Reading, words: Sequence[Word], at: int) -> bool:
    return at == len(words) or (words[at].text or "").replace("_", "-") in state.spellings


def _unknown(state: Reading, word: Word, text: str, words: Sequence[Word], at: int) -> int:
    """A word that llama-server stops at. Where to read on: past what looks like its value."""
    name, equals, _ = text.partition("=")
    spelling = state.spellings.get(name.replace("_", "-"))
    if equals and spelling is not None:
        why = f"llama-server takes no {name}=value: write the flag and its value as two words"
        state.unreadable(spelling.name, word.origin, why)
        return at
    if not text.startswith("-"):
        shown = state.shown("", text)
        state.note("other", f"{shown} belongs to no flag: llama-server does not start", word.origin)
        return at
    state.unknown_flag(text, word.origin)
    if at < len(words) and not equals:
        value = words[at].text
        if value is not None and (not value.startswith("-") or value[1:2].isdigit()):
            return at + 1
    return at
