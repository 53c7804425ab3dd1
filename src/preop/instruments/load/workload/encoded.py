"""Requests encoded before they are needed: at send time only a salt, an answer and a length are put in."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence

from preop.instruments.prompts import Messages, Prompt, salted
from preop.instruments.wire.chat import chat_body

__all__ = ["Chat", "Frame", "answer", "chat_of", "encoded", "user"]

_PREFIX, _SALT = secrets.token_hex(16), secrets.token_hex(16)
"""Where these stand in an encoded chat it is cut. No text of anybody else's holds them."""


class Chat:
    """The user's side of a chat, encoded."""

    __slots__ = ("later", "model", "opening", "output_tokens", "settings", "turns")

    def __init__(
        self,
        opening: tuple[bytes, bytes, bytes],
        turns: int,
        later: Callable[[int], bytes],
        prompt: Prompt | None = None,
    ) -> None:
        self.opening = opening
        """The messages of the first request, cut where the shared prefix and where the salt goes."""
        self.turns = turns
        self.later = later
        """What the user says in a turn after the first one, which is 0."""
        self.model = prompt.model if prompt else None
        self.output_tokens = prompt.output_tokens if prompt else None
        self.settings = b", " + encoded(prompt.settings)[1:] if prompt and prompt.settings else b"}"
        """The end of the body."""


class Frame:
    """What stands around the messages in a request's body."""

    before = b'{"messages": ['

    def __init__(self, ignore_eos: bool) -> None:
        self._ignore_eos = ignore_eos
        self._after: dict[tuple[str | None, int | None], bytes] = {}

    def after(self, model: str | None, output_tokens: int | None) -> bytes:
        """From the bracket after the messages up to the body's last brace."""
        after = self._after.get((model, output_tokens))
        if after is None:
            ignore_eos = self._ignore_eos and output_tokens is not None
            body = chat_body(model, [], output_tokens, ignore_eos=ignore_eos)
            after = self._after[model, output_tokens] = body.removeprefix(self.before)[:-1]
        return after


def encoded(value: object) -> bytes:
    """As `chat_body` encodes it."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def chat_of(prompt: Prompt, turns: Sequence[Messages], *, prefix: bool, salt: bool) -> Chat:
    """The prompt's chat, of these turns. `prefix`: its system prompt begins with one that is put in later."""
    first = turns[0]
    if prefix:
        first = _prefixed(first)
    if salt:
        first = salted(first, _SALT)
    text = _inner(first)
    before, _, text = text.partition(_PREFIX.encode()) if prefix else (b"", b"", text)
    middle, _, after = text.partition(_SALT.encode()) if salt else (text, b"", b"")
    later = [b", " + _inner(turn) for turn in turns[1:]]
    return Chat((before, middle, after), len(turns), lambda turn: later[turn - 1], prompt)


def user(text: bytes) -> bytes:
    """A user's message after another one, of a text that is encoded already."""
    return b', {"role": "user", "content": "' + text + b'"}'


def answer(text: str) -> bytes:
    """The engine's answer after a message."""
    return b', {"role": "assistant", "content": ' + encoded(text) + b"}"


def _inner(messages: Messages) -> bytes:
    return encoded(messages)[1:-1]


def _prefixed(messages: Messages) -> Messages:
    first = messages[0] if messages else {}
    content = first.get("content")
    if first.get("role") in ("system", "developer"):
        # Chat templates take one system message, at the start.
        if isinstance(content, str):
            return [{**first, "content": f"{_PREFIX}\n\n{content}"}, *messages[1:]]
        if isinstance(content, list):
            return [{**first, "content": [{"type": "text", "text": _PREFIX}, *content]}, *messages[1:]]
    return [{"role": "system", "content": _PREFIX}, *messages]
