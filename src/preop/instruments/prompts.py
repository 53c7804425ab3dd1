"""Prompts: the user's own, one JSON object a line, or a small built-in set."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from preop.errors import InputError

__all__ = ["BUILT_IN", "Messages", "built_in", "of_length", "read_prompts", "salted", "texts"]

Messages = list[dict[str, Any]]
"""One chat: role and content of each message, as the OpenAI API takes them."""

_LONGEST_LINE = 16 << 20
_EXPECTED = 'expected {"prompt": "..."}, {"text": "..."} or {"messages": [{"role": "user", ...}]}'

BUILT_IN = (
    "Explain to a new colleague why a database index makes reads faster and writes slower.",
    "Write a short story about a lighthouse keeper who finds a letter addressed to somebody not yet born.",
    "List the steps to change a bicycle tyre on the road, with what to carry for it.",
    "A train leaves at 09:40 and travels 210 km at 84 km/h. When does it arrive? Show the calculation.",
    "Summarize in three sentences: The town council met on Monday to discuss the bridge. Repairs would close "
    "it for two months, and shop owners fear for the summer. An engineer said that waiting a year could cost "
    "twice as much. The vote was put off until a traffic study is done.",
    "Translate into French: The meeting has been moved to Thursday because two of us are travelling.",
    "Write a Python function that merges overlapping intervals, and explain its running time.",
    "Draft a polite reply to a customer whose parcel arrived a week late and damaged.",
    "What is the difference between weather and climate? Give one example of each.",
    "Suggest a menu for six guests, one vegetarian and one allergic to nuts, with a shopping list.",
    "Rewrite in plain words: Notwithstanding the foregoing, the lessee shall remain liable for any arrears "
    "accrued prior to the effective date of termination.",
    "Describe how a refrigerator moves heat from a cold place to a warm one.",
)


def built_in() -> list[Messages]:
    """The built-in prompts: varied tasks, about 20 to 80 tokens each."""
    return [[{"role": "user", "content": text}] for text in BUILT_IN]


def of_length(words: int, start: int = 0) -> Messages:
    """A prompt of that many words, from the built-in texts; another `start` gives another one."""
    pool = " ".join((*BUILT_IN[start % len(BUILT_IN) :], *BUILT_IN[: start % len(BUILT_IN)])).split()
    return [{"role": "user", "content": " ".join(islice(cycle(pool), max(1, words)))}]


def salted(messages: Messages, salt: str) -> Messages:
    """The same chat with `salt` before its first message that is not the system's, so that no prefix cache
    holds it; a system prompt stays shared, as it is in production."""
    out = [dict(message) for message in messages]
    for message in out:
        if message.get("role") in ("system", "developer"):
            continue
        content = message.get("content")
        if isinstance(content, str):
            message["content"] = f"[{salt}] {content}"
            return out
        if isinstance(content, list):
            message["content"] = [{"type": "text", "text": f"[{salt}]"}, *content]
            return out
    return [*out, {"role": "user", "content": f"[{salt}]"}]


def texts(prompts: Iterable[Messages]) -> list[str]:
    """The text of each message of each chat."""
    found = []
    for messages in prompts:
        for message in messages:
            content = message.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            found += [
                part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
            ]
    return [text for text in found if text]


def read_prompts(path: str | Path) -> list[Messages]:
    """The prompts of a JSONL file, in its order; blank lines are skipped.

    Raises `InputError` with the line for what is not a prompt, and when there is none.
    """
    prompts = []
    try:
        with Path(path).open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise InputError(f"{path}:{number}: this line is longer than {_LONGEST_LINE >> 20} MiB")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    prompts.append(_prompt(line, f"{path}:{number}"))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror or error}; expected a JSONL file"
        ) from None
    if not prompts:
        raise InputError(f"{path}: there is no prompt in it; {_EXPECTED} on each line")
    return prompts


def _prompt(line: bytes, where: str) -> Messages:
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{where}: not UTF-8 text; {_EXPECTED}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{where}: not JSON; {_EXPECTED}") from None
    if not isinstance(record, dict):
        raise InputError(f"{where}: not a JSON object; {_EXPECTED}")
    messages = record.get("messages")
    if messages is not None:
        if not isinstance(messages, list) or not messages or not all(_is_message(item) for item in messages):
            raise InputError(f"{where}: `messages` is not a list of messages; {_EXPECTED}")
        return messages
    for key in ("prompt", "text"):
        value = record.get(key)
        if isinstance(value, str) and value:
            return [{"role": "user", "content": value}]
        if value is not None:
            raise InputError(f"{where}: `{key}` is not a text; {_EXPECTED}")
    raise InputError(f"{where}: neither `prompt`, `text` nor `messages` is there; {_EXPECTED}")


def _is_message(item: object) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("role"), str)
        and isinstance(item.get("content"), str | list | None)
    )
