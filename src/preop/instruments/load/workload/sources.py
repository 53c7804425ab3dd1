"""Where chats come from: a file's prompts, or synthetic ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Protocol

from preop.instruments.load.workload.encoded import Chat, chat_of, user
from preop.instruments.load.workload.lengths import Scale, spread
from preop.instruments.load.workload.options import RECORDED, WorkloadOptions
from preop.instruments.prompts import Messages, Prompt
from preop.instruments.wire.errors import clean

__all__ = ["Recorded", "Source", "Synthetic", "turns_of"]

_SEED = 20_26
_MARK = "0"


class Source(Protocol):
    """Chats by their number."""

    told: str
    """What they are, in a few words."""
    converses: bool
    """There are chats of several turns."""

    def chat(self, number: int, prompt_tokens: int | None) -> Chat:
        """The chat of that number, from 0 and without end; of that length where its length can be chosen."""


class Recorded:
    """Prompts that are there. They come in a mixed order, so that the first ones are a sample of all; with
    `cache_hits` as they are in the file."""

    def __init__(self, prompts: Sequence[Prompt], options: WorkloadOptions, told: str) -> None:
        prefix, salt = options.shared_prefix_tokens is not None, not options.cache_hits
        self._chats: list[Chat] = []
        most = None if options.turns == RECORDED else options.turns
        histories = 0
        for prompt in prompts:
            turns = turns_of(prompt, options.turns is not None)[:most]
            self._chats.append(chat_of(prompt, turns, prefix=prefix, salt=salt))
            histories += len(turns) == 1 and any(each.get("role") == "assistant" for each in turns[0])
        if salt:
            random.Random(_SEED).shuffle(self._chats)
        self.converses = any(chat.turns > 1 for chat in self._chats)
        self.told = told + "".join(f", {fact}" for fact in self._facts(prompts, histories, salt))

    def _facts(self, prompts: Sequence[Prompt], histories: int, salt: bool) -> Iterator[str]:
        if self.converses:
            turns = [chat.turns for chat in self._chats if chat.turns > 1]
            held = f"{len(turns):,} of them conversations held with live answers"
            yield f"{held} ({mean(turns):.1f} turns on average)"
        if histories:
            yield f"{histories:,} of them chats sent as one request, with the recorded answers"
        systems = sum(prompt.messages[0].get("role") in ("system", "developer") for prompt in prompts)
        if systems and salt:
            yield f"{systems:,} of them with a system prompt, which stays without a salt"
        lengths = [chat.output_tokens for chat in self._chats if chat.output_tokens is not None]
        if lengths:
            yield f"{len(lengths):,} of them with an answer's length ({mean(lengths):,.0f} tokens on average)"
        models = sorted({chat.model for chat in self._chats if chat.model is not None})
        if models:
            more = f" and {len(models) - 3:,} more" if len(models) > 3 else ""
            yield f"models that they name: {clean(', '.join(models[:3]))}{more}"
        images = sum(_has_image(prompt.messages) for prompt in prompts)
        if images:
            yield f"{images:,} of them with images, which the engine may keep from request to request"

    def chat(self, number: int, prompt_tokens: int | None) -> Chat:
        return self._chats[number % len(self._chats)]


class Synthetic:
    """Prompts of given lengths, cut from the built-in texts."""

    def __init__(self, tokens: int, options: WorkloadOptions, scale: Scale) -> None:
        self._scale, self._turns = scale, options.turns if isinstance(options.turns, int) else 1
        self._lengths = spread(tokens, options.prompt_tokens_stdev)
        prefix, salt = options.shared_prefix_tokens is not None, not options.cache_hits
        message: Messages = [{"role": "user", "content": _MARK}]
        before, middle, after = chat_of(Prompt(message), [message], prefix=prefix, salt=salt).opening
        self._salt = salt
        # The mark is the last thing in the message: what is after it only closes it.
        holder = after if salt else middle
        self._start, self._close = holder[: holder.rindex(_MARK.encode())], b'"}'
        self._before, self._middle = before, middle
        varied = f" (standard deviation {options.prompt_tokens_stdev})" if options.prompt_tokens_stdev else ""
        kind = f"conversations of {self._turns} turns, each" if self._turns > 1 else "prompts"
        self.converses = self._turns > 1
        self.told = f"synthetic {kind} of about {tokens} tokens{varied}"

    def chat(self, number: int, prompt_tokens: int | None) -> Chat:
        lengths = self._lengths
        tokens = prompt_tokens or lengths[number % len(lengths)]
        first = self._start + self._scale.prompt(tokens, number) + self._close
        opening = (self._before, self._middle, first) if self._salt else (self._before, first, b"")

        def later(turn: int) -> bytes:
            start = number + turn
            return user(self._scale.part(lengths[start % len(lengths)], start))

        return Chat(opening, self._turns, later)


def _has_image(messages: Messages) -> bool:
    return any(
        part.get("type") == "image_url"
        for message in messages
        if isinstance(content := message.get("content"), list)
        for part in content
    )


def turns_of(prompt: Prompt, replay: bool) -> list[Messages]:
    """The messages that each request adds besides the answer to the one before; recorded answers are left
    out, but for the history of a chat that is not held again."""
    messages = list(prompt.messages)
    if not prompt.whole:
        while len(messages) > 1 and messages[-1].get("role") == "assistant":
            messages.pop()  # what the model is asked for
    called = any(item.get("role") in ("tool", "function") or item.get("tool_calls") for item in messages)
    if prompt.whole or not replay or called:  # recorded results fit no live call
        return [messages]
    turns: list[Messages] = [[]]
    asked = False
    for message in messages:
        if message.get("role") != "assistant":
            asked = asked or message.get("role") == "user"
            turns[-1].append(message)
        elif not asked:
            turns[-1].append(message)  # a greeting: nobody's answer
        elif turns[-1]:
            turns.append([])
    return [turn for turn in turns if turn]
