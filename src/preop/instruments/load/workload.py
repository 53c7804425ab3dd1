"""What is sent: the user's prompts or synthetic ones, each with a salt that no prefix cache has seen."""

from __future__ import annotations

import secrets
from typing import Protocol

from preop.errors import InstrumentError
from preop.instruments.load.closed import Session
from preop.instruments.load.options import Options
from preop.instruments.prompts import Messages, built_in, of_length, salted
from preop.instruments.wire.chat import chat_body

__all__ = ["Workload", "words_for", "workload_of"]


class Workload(Protocol):
    """Where sessions come from."""

    def session(self) -> Session:
        """Another user's session. Quick: it is called while others are measured."""

    def new_level(self) -> None:
        """The next level begins: nothing that was sent before is sent again."""

    def describe(self) -> str:
        """One line for the reader of the numbers."""


def workload_of(
    options: Options,
    own: list[Messages] | None,
    model: str | None,
    ignore_eos: bool,
    points: list[tuple[int, int]],
) -> Workload:
    """The workload of a run; `own`: the user's prompts; `points`: words and prompt tokens of two requests.

    Raises `InstrumentError` where a length cannot be met.
    """
    if options.prompt_tokens is not None and own is None:
        words = words_for(options.prompt_tokens, points)
        chats = [of_length(words, start) for start in range(12)]
        told = f"synthetic prompts of about {options.prompt_tokens} tokens"
    elif own is not None:
        chats = own
        told = f"{len(chats)} prompts of the user's"
    else:
        chats = built_in()
        told = f"{len(chats)} built-in prompts"
    return _Single(chats, model, ignore_eos, f"{told}, a salt before each")


class _Single:
    """Single requests, in turn."""

    def __init__(self, chats: list[Messages], model: str | None, ignore_eos: bool, told: str) -> None:
        self._chats, self._model, self._ignore_eos, self._told = chats, model, ignore_eos, told
        self._sent = 0

    def session(self) -> Session:
        chat = self._chats[self._sent % len(self._chats)]
        self._sent += 1
        return _One(chat, self._model, self._ignore_eos)

    def new_level(self) -> None:
        """Every request has a salt of its own."""

    def describe(self) -> str:
        return self._told


class _One:
    """A session of one request."""

    needs_answer = False

    def __init__(self, chat: Messages, model: str | None, ignore_eos: bool) -> None:
        self._chat: Messages | None = chat
        self._model, self._ignore_eos = model, ignore_eos

    def next(self, output_tokens: int) -> bytes | None:
        if self._chat is None:
            return None
        chat, self._chat = self._chat, None
        salt = secrets.token_hex(6)
        return chat_body(self._model, salted(chat, salt), output_tokens, ignore_eos=self._ignore_eos)

    def answered(self, text: str) -> None:
        raise AssertionError("one request needs no answer")


def words_for(tokens: int, points: list[tuple[int, int]]) -> int:
    """Words of a prompt of that many tokens, chat template and salt included, on the line through two."""
    if len(points) < 2:
        raise InstrumentError(
            "the engine sends no usage, so a prompt of a given number of tokens cannot be made"
        )
    (words_a, tokens_a), (words_b, tokens_b) = points[0], points[-1]
    per_word = (tokens_b - tokens_a) / (words_b - words_a)
    if per_word <= 0:
        raise InstrumentError("the engine counts no more prompt tokens for a longer prompt")
    return max(1, round(words_a + (tokens - tokens_a) / per_word))
