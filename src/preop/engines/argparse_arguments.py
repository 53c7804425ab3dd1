"""How vLLM and SGLang read their arguments: Python's argparse, with vLLM's additions.

vLLM (`vllm/utils/argparse_utils.py`): `_` equals `-` between `--` and the first `.`; `--a.b v` and
`--a.b+ v1,v2` are merged into the JSON of `--a`, after everything else; `-O3`; the flags of `--config` go
before the command line's. SGLang takes `_` as it is written. Both accept unambiguous beginnings of flags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from preop.engines.reading import Reading
from preop.engines.tables import Spelling, order
from preop.engines.types import Flag
from preop.engines.values import human_int, loads
from preop.facts import Origin, Word

__all__ = ["read_arguments"]

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_SWITCH = re.compile(r"--(enable|disable|no|use|worker-use|engine-use|trust|skip|return)-")
_FLEXIBLE_SINCE = (0, 5, 1)
"""The first release whose server is parsed by `FlexibleArgumentParser`; before, `_` was no `-`."""
_LEVELS = {"0", "1", "2", "3"}
_LONGEST_PATH = 32
"""Keys in one `--a.b.c`; json.dumps gives up at about a thousand."""


def read_arguments(
    state: Reading,
    words: Sequence[Word],
    read_config: Callable[[str], Any] | None,
) -> None:
    """Read all words, and the config file that they name, into `state`."""
    words = list(words)
    if state.engine == "vllm" and any(word.text == "--omni" for word in words):
        words = [word for word in words if word.text != "--omni"]  # the plugin takes the whole command
        state.extended_by = "vLLM-Omni"
    words = _take_config(state, words, read_config)
    if state.engine == "vllm":
        if order(state.table.version) >= _FLEXIBLE_SINCE:
            words = _vllm_spelling(words)
        words, dotted = _take_dotted(state, words)
    else:
        dotted = {}
    _read(state, words, is_first=True)
    for name, (value, origin) in dotted.items():
        _set_dotted(state, name, value, origin)


# --- the config file


def _take_config(state: Reading, words: list[Word], read_config: Callable[[str], Any] | None) -> list[Word]:
    """Read the file of `--config FILE` first, so that the command line wins, and take both words out.

    Both engines look for the word `--config` alone: `--config=FILE` is accepted and never read.
    """
    for word in words:
        if word.text is not None and word.text.startswith("--config="):
            state.note("other", "--config=FILE is not read: write --config FILE as two words", word.origin)
    at = next((i for i, word in enumerate(words) if word.text == "--config"), None)
    if at is None:
        return words
    if at + 1 == len(words):
        state.note("bad-value", "--config: the file is missing", words[at].origin)
        return words[:at]
    path = words[at + 1]
    rest = words[:at] + words[at + 2 :]
    if path.text is None:
        state.hide(Word(None, path.origin, f"the config file cannot be seen ({path.note or 'hidden'})"))
        return rest if path.single else [*words[:at], path, *words[at + 2 :]]
    shown = state.shown("", path.text)
    found = read_config(path.text) if read_config else None
    if not isinstance(found, Mapping):
        why = getattr(found, "why", None) or "it is not here"
        state.hide(Word(None, path.origin, f"the config file {shown} cannot be read ({why})"))
        return rest
    state.in_config = True
    _read(state, _config_words(state, found, path.text), is_first=False)
    state.in_config = False
    return rest


def _config_words(state: Reading, config: Mapping[str, Any], path: str) -> list[Word]:
    """The file's keys as words, as both engines turn them into a command line.

    vLLM turns underscores into dashes afterwards; a false switch is `--no-KEY` only where KEY is written so.
    """
    is_vllm = state.engine == "vllm"
    words: list[Word] = []
    for key, value in config.items():
        origin = Origin("file", f"{path}: {key}")
        name = f"--{key}".replace("_", "-") if is_vllm else f"--{key}"
        spelling = state.spellings.get(name)
        flag = Word(name, origin)
        is_switch = spelling is not None and state.table.flags[spelling.name].kind == "bool"
        if isinstance(value, bool) and (is_switch or is_vllm):
            if value:
                words.append(flag)
            elif is_vllm and f"--no-{key}" in state.spellings:
                words.append(Word(f"--no-{key}", origin))
        elif isinstance(value, bool):
            words += [flag, Word(str(value).lower(), origin)]
        elif isinstance(value, list):
            if value:
                words += [flag, *(Word(str(item), origin) for item in value)]
        elif isinstance(value, dict):
            words += [flag, Word(json.dumps(value, default=str), origin)]
        else:
            words += [flag, Word(str(value), origin)]
    return words


# --- vLLM's additions


def _vllm_spelling(words: list[Word]) -> list[Word]:
    """Underscores to dashes, and `-O` in its forms."""
    found: list[Word] = []
    for i, word in enumerate(words):
        text = word.text
        if text is None:
            found.append(word)
        elif text.startswith("--"):
            key, equals, value = text.partition("=")
            before, dot, after = key.partition(".")
            text = before.replace("_", "-") + dot + after + equals + value
            found.append(msgspec.structs.replace(word, text=text))
        elif text.startswith("-O") and text != "-O":
            level = text[3:] if text[2] == "=" else text[2:]
            found += [Word("--optimization-level", word.origin), Word(level, word.origin)]
        elif text == "-O" and i + 1 < len(words) and words[i + 1].text in _LEVELS:
            found.append(Word("--optimization-level", word.origin))
        else:
            found.append(word)
    return found


def _take_dotted(
    state: Reading, words: list[Word]
) -> tuple[list[Word], dict[str, tuple[dict[str, Any] | Word, Origin]]]:
    """Take `--a.b value` out of the words and merge it: for each `--a` an object, or the word hiding it.

    vLLM takes every word with a dash before and a dot inside so, `-0.5` too.
    """
    rest: list[Word] = []
    merged: dict[str, tuple[dict[str, Any] | Word, Origin]] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        key, equals, value = (word.text or "").partition("=")
        if word.text is None or not key.startswith("-") or "." not in key:
            rest.append(word)
            continue
        from_word = word
        if not equals:
            if at == len(words):
                state.note("bad-value", f"{key}: its value is missing", word.origin)
                continue
            from_word = words[at]
            at += 1
            if from_word.text is None:
                merged[key.split(".")[0]] = (from_word, word.origin)
                if not from_word.single:
                    rest.append(from_word)
                continue
            value = from_word.text
        name, *path = key.removesuffix("+").split(".")
        item: Any = value.split(",") if key.endswith("+") else _dotted_value(value)
        earlier = merged.get(name, ({}, word.origin))[0]
        if len(path) > _LONGEST_PATH:
            merged[name] = (Word(None, word.origin, "its keys are nested too deep"), word.origin)
        elif isinstance(earlier, dict):
            _merge(earlier, path, item)
            merged[name] = (earlier, word.origin)
    return rest, merged


def _dotted_value(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        pass
    try:
        return human_int(text, "vllm")
    except ValueError:
        return text


def _merge(into: dict[str, Any], path: list[str], item: Any) -> None:
    for key in path[:-1]:
        inner = into.get(key)
        if not isinstance(inner, dict):
            inner = into[key] = {}
        into = inner
    last = path[-1]
    if isinstance(item, list) and isinstance(into.get(last), list):
        into[last] = [*into[last], *item]
    elif isinstance(item, dict) and isinstance(into.get(last), dict):
        into[last] = into[last] | item
    else:
        into[last] = item


def _set_dotted(state: Reading, key: str, value: dict[str, Any] | Word, origin: Origin) -> None:
    spelling = _find(state, key, origin)
    if spelling is None:
        return
    name = spelling.name
    if isinstance(value, Word):
        state.set(name, None, origin, known=False, note=value.note or "its value cannot be seen")
    elif state.table.flags[name].kind == "bool":
        state.unreadable(name, origin, "it takes no keys of its own")
    else:  # as if the object had been given as text
        state.value(name, state.table.flags[name], [Word(json.dumps(value), origin)])


# --- argparse


def _read(state: Reading, words: list[Word], is_first: bool) -> None:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.text is None:
            if is_first and at == 1 and word.single and state.table.positional:
                state.set(state.table.positional, None, word.origin, known=False, note=word.note)
            else:
                state.hide(word)
        elif word.text == "--":
            for other in words[at:]:
                _positional(state, other, is_first=False)
            return
        elif _is_value(word.text):
            _positional(state, word, is_first and at == 1)
        else:
            at = _option(state, word, words, at)


def _is_value(text: str) -> bool:
    """Whether argparse takes a word as a value or a positional, not as an option."""
    if not text.startswith("-") or text == "-" or _NEGATIVE_NUMBER.fullmatch(text):
        return True
    return " " in text and "=" not in text.split(" ")[0]


def _positional(state: Reading, word: Word, is_first: bool) -> None:
    """A word without a flag: the model. SGLang takes only the very first word so."""
    name = state.table.positional if is_first or state.engine == "vllm" else None
    if word.text is None:
        state.hide(word)
    elif name is None or name in state.on_command:
        shown = state.shown("", word.text)
        state.note("other", f"{shown} belongs to no flag: the engine does not start", word.origin)
    else:
        state.value(name, state.table.flags[name], [word])
        if state.engine == "vllm" and not state.in_config:
            state.settled.add(name)  # a later --model makes vLLM stop, it does not win


def _find(state: Reading, text: str, origin: Origin) -> Spelling | None:
    """A flag as argparse finds it: exactly, else by an unambiguous beginning. Notes what it is not."""
    exact = state.spellings.get(text)
    if exact is not None:
        return exact
    if text.startswith("--") and len(text) > 2:
        found = sorted(known for known in state.spellings if known.startswith(text))
        if len(found) == 1:
            return state.spellings[found[0]]
        state.unknown_flag(text, origin, may_be=found)
        return None
    state.unknown_flag(text, origin)
    return None


def _option(state: Reading, word: Word, words: list[Word], at: int) -> int:
    """Read one option and the values it takes; where to read on."""
    assert word.text is not None
    text, explicit = word.text, None
    if text not in state.spellings:
        head, equals, tail = text.partition("=")
        if equals:
            text, explicit = head, tail
        elif not text.startswith("--") and text[:2] in state.spellings:
            text, explicit = text[:2], text[2:]  # -n4
    spelling = _find(state, text, word.origin)
    if spelling is None:
        if explicit is not None:
            state.keep(text, msgspec.structs.replace(word, text=explicit))
            return at
        after = _past_value(state, text, words, at)
        if after > at:
            state.keep(text, words[at])
        return after
    name, flag = spelling.name, state.table.flags[spelling.name]
    if name in state.settled:
        state.note(
            "bad-value", f"--{name}: it is given without its flag too: vLLM does not start", word.origin
        )
        return at if explicit is not None else min(at + 1, len(words))
    if flag.kind == "bool" and flag.nargs is None:
        if explicit is not None:
            state.unreadable(name, word.origin, "it takes no value")
        else:
            state.set(name, spelling.positive, word.origin)
        return at
    if explicit is not None:
        state.value(name, flag, [msgspec.structs.replace(word, text=explicit)])
        return at
    return _values(state, word, name, flag, words, at)


def _values(state: Reading, word: Word, name: str, flag: Flag, words: list[Word], at: int) -> int:
    most = 1 if flag.nargs in (None, "?") else flag.nargs if isinstance(flag.nargs, int) else len(words)
    taken: list[Word] = []
    while at < len(words) and len(taken) < most:
        text = words[at].text
        if text is not None and (text == "--" or not _is_value(text)):
            break
        taken.append(words[at])
        at += 1
    least = 0 if flag.nargs in ("?", "*") else flag.nargs if isinstance(flag.nargs, int) else 1
    if len(taken) < least:
        state.unreadable(name, word.origin, "its value is missing")
    elif taken:
        state.value(name, flag, [_at_flag(taken[0], word), *taken[1:]])
    else:
        state.set(name, flag.const if flag.nargs == "?" else [], word.origin)
    for value in taken:
        if value.text is None and not value.single:
            state.hide(value)
    return at


def _at_flag(value: Word, flag: Word) -> Word:
    """The value, at its own place; where it has none of its own, at its flag's."""
    return value if value.origin.where else msgspec.structs.replace(value, origin=flag.origin)


def _past_value(state: Reading, name: str, words: list[Word], at: int) -> int:
    """After an unknown flag: past one word that looks like its value.

    Not after a name like a switch's, and not past the last word where that may be vLLM's model.
    """
    if at == len(words) or _SWITCH.match(name):
        return at
    text = words[at].text
    may_be_model = state.engine == "vllm" and not state.in_config
    model = state.table.positional
    if may_be_model and model is not None and model not in state.given and at + 1 == len(words):
        return at
    return at + 1 if text is not None and _is_value(text) else at
