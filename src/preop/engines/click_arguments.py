"""How trtllm-serve reads its arguments: Python's click, and the YAML file of `--config`.

`--flag value` and `--flag=value`; no abbreviations, and `_` is no `-`. The word after a flag that takes a
value is its value, whatever it looks like. The last one counts. One word without a flag is the model.

The file's keys are those of TensorRT-LLM's `LlmArgs`. Where a flag and the file set the same, the file won
until June 2026, and since then the flag does (NVIDIA/TensorRT-LLM pull request 14812): where they differ, the
value is not known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from preop.engines.fronts import KV_ROLE, TASK
from preop.engines.reading import Reading
from preop.engines.types import Flag
from preop.engines.values import loads
from preop.facts import Origin, Word

__all__ = ["read_arguments"]

CONFIG = "extra_llm_api_options"
_NOT_IN_FILE = frozenset(
    {"model", "host", "port", "log_level", "served_model_name", "server_role", "tool_parser", "chat_template",
     "metadata_server_config_file", "disagg_cluster_uri", "media_io_kwargs", "grpc", "report_addr", CONFIG}
)  # fmt: skip
"""Flags of the server, which `LlmArgs` does not have."""
_INSIDE = {
    "kv_cache_config": {
        "free_gpu_memory_fraction": "kv_cache_free_gpu_memory_fraction",
        "dtype": "kv_cache_dtype",
    },
}
"""Objects of the file whose keys are flags too."""
_NAMES = {"revision": "hf_revision"}
"""Keys of the file, and the flags that are named otherwise."""


def read_arguments(state: Reading, words: Sequence[Word], read_config: Callable[[str], Any] | None) -> None:
    """Read all words, then the file that they name, into `state`."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.text is None:
            if word.single and state.table.positional not in state.given:
                _model(state, word)
            else:
                state.hide(word)
        elif word.text == "--":
            for other in words[at:]:
                _model(state, other)
            break
        elif word.text.startswith("-") and word.text != "-":
            at = _option(state, word, words, at)
        else:
            _model(state, word)
    state.settled |= {*_NOT_IN_FILE, KV_ROLE, TASK}
    _read_file(state, read_config)


def _model(state: Reading, word: Word) -> None:
    name = state.table.positional
    assert name is not None
    if name in state.on_command:
        shown = state.shown("", word.text or "")
        state.note("other", f"{shown} belongs to no flag: trtllm-serve does not start", word.origin)
    else:
        state.value(name, state.table.flags[name], [word])


def _option(state: Reading, word: Word, words: Sequence[Word], at: int) -> int:
    """Read one flag and its value; where to read on."""
    assert word.text is not None
    text, equals, tail = word.text.partition("=")
    spelling = state.spellings.get(text)
    if spelling is None:
        state.unknown_flag(text, word.origin)
        follows = words[at].text if at < len(words) else None
        is_last_and_model = at + 1 == len(words) and state.table.positional not in state.given
        return at + 1 if not equals and follows and follows[0] != "-" and not is_last_and_model else at
    name, flag = spelling.name, state.table.flags[spelling.name]
    if flag.kind == "bool":
        if equals:
            state.unreadable(name, word.origin, "it takes no value")
        else:
            state.set(name, spelling.positive, word.origin)
        return at
    if equals:
        state.value(name, flag, [msgspec.structs.replace(word, text=tail)])
        return at
    if at == len(words):
        state.unreadable(name, word.origin, "its value is missing")
        return at
    value = words[at]
    if not value.origin.where:
        value = msgspec.structs.replace(value, origin=word.origin)
    state.value(name, flag, [value])
    if value.text is None and not value.single:
        state.hide(value)
    return at + 1


# --- the file


def _read_file(state: Reading, read_config: Callable[[str], Any] | None) -> None:
    path = state.given.get(CONFIG)
    if path is None:
        return
    if not path.is_known:
        state.hide(Word(None, path.origin, f"the config file cannot be seen ({path.note or 'hidden'})"))
        return
    found = read_config(path.value) if read_config else None
    if not isinstance(found, Mapping):
        why = getattr(found, "why", None) or "it is not here"
        shown = state.shown(CONFIG, path.value)
        state.hide(Word(None, path.origin, f"the config file {shown} cannot be read ({why})"))
        return
    for key, value in found.items():
        key, origin = str(key), Origin("file", f"{path.value}: {key}")
        inner = _INSIDE.get(key, {})
        for part, name in inner.items():
            if isinstance(value, Mapping):
                _from_file(state, name, value.get(part), origin, is_given=part in value)
            else:
                _from_file(state, name, None, origin, is_given=False)
        _from_file(state, _NAMES.get(key, key), value, origin, is_given=True)


def _from_file(state: Reading, name: str, value: Any, origin: Origin, *, is_given: bool) -> None:
    """What the file says of a flag. `is_given` false: its object is there without it, and may reset it."""
    earlier = state.given.get(name)
    if earlier is None:
        if is_given:
            _set(state, name, value, origin)
        return
    if is_given and earlier.is_known and earlier.value == value:
        return
    why = f"--{name} and {origin.where} disagree, and which of them counts depends on the version"
    state.note("other", why, origin)
    state.given[name] = msgspec.structs.replace(earlier, value=None, is_known=False, note=why)


def _set(state: Reading, name: str, value: Any, origin: Origin) -> None:
    """Set from a YAML value: as its flag would read it, where there is one, else as it is."""
    spelling = state.spellings.get(f"--{name}")
    flag = state.table.flags[spelling.name] if spelling else Flag(kind="json-or-str")
    name = spelling.name if spelling else name
    state.in_config = True
    try:
        if value is None or isinstance(value, bool) or flag.kind == "bool":
            state.set(name, value if isinstance(value, bool) else None, origin)
        elif isinstance(value, str | int | float):
            state.value(name, flag, [Word(str(value), origin)])
        else:  # the object as YAML has it, dates as text
            state.set(name, loads(json.dumps(value, default=str, skipkeys=True)), origin)
    except (ValueError, RecursionError) as error:
        state.unreadable(name, origin, f"its value cannot be used, {error}")
    finally:
        state.in_config = False
