"""The workload of a run: sessions with their salts, prefixes and models."""

from __future__ import annotations

import hashlib
import math
from typing import Protocol

from preop.errors import InputError
from preop.instruments.load.closed import Session
from preop.instruments.load.workload.encoded import Chat, Frame, answer
from preop.instruments.load.workload.lengths import Scale
from preop.instruments.load.workload.options import RECORDED, WorkloadOptions
from preop.instruments.load.workload.sources import Recorded, Source, Synthetic
from preop.instruments.prompts import Messages, Prompt, Text, built_in, read_prompt_file
from preop.instruments.wire.errors import clean

__all__ = ["Workload", "workload_of"]

_GOLDEN = 0x9E37_79B9_7F4B
"""2^48 / golden ratio, odd: its multiples modulo 2^48 are all different, and their first digits far apart."""
_SALT_MASK = (1 << 48) - 1


class Workload(Protocol):
    """Where sessions come from."""

    def session(self, prompt_tokens: int | None = None) -> Session:
        """Another user's session; synthetic prompts can be of a length of their own, as in a trace.
        Quick: it is called while others are measured."""

    def new_level(self) -> None:
        """The next level begins: the first prompts again, under other salts. With `cache_hits` the prompts go
        on where they are."""

    def describe(self) -> str:
        """One line for the reader of the numbers."""


def workload_of(
    options: WorkloadOptions,
    prompts_path: str | None,
    model: str | None,
    ignore_eos: bool,
    points: list[tuple[int, int]],
) -> Workload:
    """The workload of a run; `points`: words and prompt tokens of two requests of `of_length`.

    Raises `InputError` for a file that holds no prompts, or no conversations where they are asked for;
    `InstrumentError` where a length cannot be met
    because the engine does not say how long a prompt is.
    """
    counts = options.shared_prefix_tokens is not None or (
        options.prompt_tokens is not None and prompts_path is None
    )
    scale = Scale(Text(), points) if counts else None
    return _Workload(options, _source(options, prompts_path, scale), model, ignore_eos, scale)


def _source(options: WorkloadOptions, path: str | None, scale: Scale | None) -> Source:
    if path is not None:
        file = read_prompt_file(path)
        left = f", {file.left_out:,} without a user's turn left out" if file.left_out else ""
        count = "1 prompt" if len(file.prompts) == 1 else f"{len(file.prompts):,} prompts"
        told = f"{count} of the user's ({file.form}{left})"
        source = Recorded(file.prompts, options, told)
        if options.turns == RECORDED and not source.converses:
            raise InputError(
                f"{path}: --turns recorded, but no chat in it can be held turn by turn: "
                "expected chats in which the user speaks several times, without tool results"
            )
        return source
    if options.prompt_tokens is not None and scale is not None:
        return Synthetic(options.prompt_tokens, options, scale)
    chats = built_in()
    turns = options.turns if isinstance(options.turns, int) else 1
    prompts = [Prompt(_conversation(chats, first, turns)) for first in range(len(chats))]
    return Recorded(prompts, options, f"{len(prompts)} built-in prompts")


def _conversation(chats: list[Messages], first: int, turns: int) -> Messages:
    """So many of the chats one after another, each to be answered."""
    messages: Messages = []
    for turn in range(turns):
        messages += [*chats[(first + turn) % len(chats)], {"role": "assistant", "content": None}]
    return messages


class _Workload:
    def __init__(
        self,
        options: WorkloadOptions,
        source: Source,
        model: str | None,
        ignore_eos: bool,
        scale: Scale | None,
    ) -> None:
        self._options, self._source, self._model = options, source, model
        self._frame = Frame(ignore_eos)
        self._number = self._salts = self._level = 0
        tokens = options.shared_prefix_tokens
        self._prefix = scale.part(tokens) if tokens is not None and scale is not None else None
        self.new_level()

    def session(self, prompt_tokens: int | None = None) -> Session:
        options = self._options
        number = self._number * options.clients + options.client
        self._number += 1
        chat = self._source.chat(number, prompt_tokens)
        adapters = options.adapters
        model = chat.model or (adapters[number % len(adapters)] if adapters else self._model)
        before, middle, after = chat.opening
        prefix = (b"[%s%d] " % (self._level_salt, number % options.prefix_groups), self._prefix or b"")
        opening = [
            self._frame.before,
            before,
            *(prefix if self._prefix is not None else ()),
            middle,
            b"" if options.cache_hits else self._next_salt(),
            after,
        ]
        return _Session(self._frame, chat, model, opening, options.output_tokens)

    def new_level(self) -> None:
        if self._options.cache_hits:
            self._level_salt = b""
            return
        self._number = 0
        self._level += 1
        digest = hashlib.sha256(b"%d/%d" % (self._options.seed, self._level)).hexdigest()
        self._level_salt = digest[:12].encode() + b" "

    def describe(self) -> str:
        options, source = self._options, self._source
        parts = [source.told]
        if options.shared_prefix_tokens is not None:
            groups = f"{options.prefix_groups} of them" if options.prefix_groups > 1 else "one"
            new = "" if options.cache_hits else ", new at each level"
            parts.append(
                f"a shared system prompt of about {options.shared_prefix_tokens} tokens ({groups}{new})"
            )
        if options.adapters:
            parts.append(f"models in turn: {clean(', '.join(options.adapters))}")
        if options.output_tokens is None:
            parts.append("answers end by themselves")
        if options.cache_hits:
            parts.append("no salt: prefix-cache hits are meant")
        elif source.converses:
            parts.append("a salt before each conversation: only its own history can be cached")
        else:
            parts.append("a salt before each")
        return ", ".join(parts)

    def _next_salt(self) -> bytes:
        options = self._options
        turn = self._salts * options.clients + options.client
        self._salts += 1
        return b"%012x" % ((options.seed + turn * _GOLDEN) & _SALT_MASK)


class _Session:
    """The requests of one chat, one after another."""

    __slots__ = ("_chat", "_frame", "_history", "_model", "_turn", "_whole", "asked", "needs_answer")

    def __init__(
        self, frame: Frame, chat: Chat, model: str | None, opening: list[bytes], whole: int | None
    ) -> None:
        self._frame, self._chat, self._model, self._whole = frame, chat, model, whole
        self._history = opening
        self._turn = 0
        self.needs_answer = chat.turns > 1
        self.asked: int | None = None
        """The answer's length that the last body asks for; None: it ends by itself."""

    def next(self, output_tokens: int) -> bytes | None:
        """The body of the next request.

        The length that the prompt's line names goes before `output_tokens`; where that is but a part of a
        whole answer, so is the line's.
        """
        chat, turn, whole = self._chat, self._turn, self._whole
        if turn >= chat.turns:
            return None
        self._turn = turn + 1
        if turn:
            self._history.append(chat.later(turn))
        tokens = chat.output_tokens
        if tokens is None:
            tokens = None if whole is None else output_tokens
        elif whole is not None and output_tokens < whole:
            tokens = math.ceil(tokens * output_tokens / whole)
        self.asked = tokens
        return b"".join((*self._history, self._frame.after(self._model, tokens), chat.settings))

    def answered(self, text: str) -> None:
        if self._turn < self._chat.turns:
            self._history.append(answer(text))
