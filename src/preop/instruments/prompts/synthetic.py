"""Built-in prompts, prompts of a given length, and salts."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from preop.instruments.prompts.records import Messages

__all__ = ["BUILT_IN", "ROUND", "Text", "built_in", "of_length", "salted", "texts"]

_LETTERS = 10
"""Letters that one token holds at the most, in a common word."""

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


ROUND = sum(len(text.split()) for text in BUILT_IN)
"""Words after which a long prompt begins anew."""


def built_in() -> list[Messages]:
    """The built-in prompts: varied tasks, about 20 to 80 tokens each."""
    return [[{"role": "user", "content": text}] for text in BUILT_IN]


def of_length(words: int, start: int = 0) -> Messages:
    """A prompt of that many words, from the built-in texts; another `start` begins with another of them."""
    return [{"role": "user", "content": json.loads(b'"' + Text().take(words, start) + b'"')}]


class Text:
    """The built-in texts in a row, again and again: cut to any length without going through them."""

    def __init__(self) -> None:
        words = [word for text in BUILT_IN for word in text.split()]
        inside = [json.dumps(word)[1:-1] for word in words]
        self._row = (" ".join(inside) + " ").encode()
        self._ends = [0, *accumulate(len(word) + 1 for word in inside)]
        self._pieces = [0, *accumulate(map(_pieces, words))]
        self._starts = [0, *accumulate(len(text.split()) for text in BUILT_IN)][:-1]

    def take(self, words: int, start: int = 0) -> bytes:
        """That many words, from the beginning of text `start`, as they stand inside a JSON string."""
        first = self._starts[start % len(self._starts)]
        rounds, last = divmod(first + max(1, words), len(self._ends) - 1)
        row = self._row * (rounds + 1)
        return row[self._ends[first] : rounds * len(self._row) + self._ends[last] - 1]

    def pieces(self, words: int, start: int = 0) -> int:
        """How many pieces `take` gives: tokens are about as many, in every tokenizer, and in every part of
        the text alike, which words are not (SmolLM2: within 1 % from 300 words on, 3 % from 80)."""
        first = self._starts[start % len(self._starts)]
        rounds, last = divmod(first + words, len(self._ends) - 1)
        return rounds * self._pieces[-1] + self._pieces[last] - self._pieces[first]

    def words(self, pieces: float, start: int = 0) -> int:
        """The words that come nearest to so many pieces, 1 at least."""
        first = self._starts[start % len(self._starts)]
        rounds, rest = divmod(self._pieces[first] + max(0.0, pieces), self._pieces[-1])
        last = bisect_left(self._pieces, rest)
        if last and rest - self._pieces[last - 1] < self._pieces[last] - rest:
            last -= 1
        return max(1, int(rounds) * (len(self._ends) - 1) + last - first)


def _pieces(word: str) -> int:
    """What a byte-pair tokenizer makes of it, roughly: runs of letters, digits one by one, signs."""
    runs = re.findall(r"[^\W\d_]+|\d|[^\w\s]+|_", word)
    return sum(1 + (len(run) - 1) // _LETTERS for run in runs)


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
