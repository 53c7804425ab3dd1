"""What the user may set about what is sent."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Literal

from preop.errors import UsageError

__all__ = ["RECORDED", "WorkloadOptions"]

RECORDED: Literal["recorded"] = "recorded"

_MOST_TOKENS = 1_000_000
_MOST_TURNS = 1_000
_MOST_GROUPS = 10_000
_MOST_CLIENTS = 10_000


@dataclass(frozen=True)
class WorkloadOptions:
    """What each level sends. Raises `UsageError` for what cannot be."""

    output_tokens: int | None
    """Length of a whole answer, where the prompt's line names none. None: the answer ends by itself, and no
    request says how long it may be, unless its line does."""
    prompt_tokens: int | None = None
    """Mean length of synthetic prompts, chat template included. None: the built-in prompts as they are.
    Prompts of a file stay as they are too."""
    prompt_tokens_stdev: int = 0
    """Standard deviation of that length, which is log-normal: never below 1, with a longer tail above."""
    turns: Literal["recorded"] | int | None = None
    """A number: requests of a synthetic conversation, each with another `prompt_tokens` of the user's; the
    most of a recorded one. "recorded": a file's chats in which the user speaks several times are held turn
    by turn, with the live answers. None: each chat is one request, with the recorded answers."""
    shared_prefix_tokens: int | None = None
    """Length of a system prompt that all requests of a group share, besides the prompt's own tokens."""
    prefix_groups: int = 1
    """How many such system prompts there are."""
    cache_hits: bool = False
    """No salt: prompts repeat as they do in the file, over all levels."""
    adapters: tuple[str, ...] = ()
    """Names to ask for in turn, where a line names no model of its own."""
    seed: int = field(default_factory=lambda: secrets.randbits(48))
    """Where salts come from: another one for each endpoint, the same for all clients of one."""
    client: int = 0
    clients: int = 1
    """This is one of so many that share the prompts among them, from 0."""

    def __post_init__(self) -> None:
        for name, most in (
            ("output_tokens", _MOST_TOKENS),
            ("prompt_tokens", _MOST_TOKENS),
            ("shared_prefix_tokens", _MOST_TOKENS),
            ("turns", _MOST_TURNS),
            ("prefix_groups", _MOST_GROUPS),
            ("clients", _MOST_CLIENTS),
        ):
            value = getattr(self, name)
            if value is not None and value != RECORDED and not 1 <= value <= most:
                raise UsageError(f"{_flag(name)}: {value} is not a number from 1 to {most}")
        if self.prompt_tokens_stdev < 0:
            raise UsageError(f"{_flag('prompt_tokens_stdev')}: {self.prompt_tokens_stdev} is below 0")
        if self.prompt_tokens_stdev and self.prompt_tokens is None:
            raise UsageError(f"{_flag('prompt_tokens_stdev')} goes with {_flag('prompt_tokens')}")
        if self.prompt_tokens is not None and self.prompt_tokens_stdev > 4 * self.prompt_tokens:
            raise UsageError(
                f"{_flag('prompt_tokens_stdev')}: {self.prompt_tokens_stdev} is more than 4 times "
                f"the mean of {self.prompt_tokens}"
            )
        if self.prefix_groups > 1 and self.shared_prefix_tokens is None:
            raise UsageError(f"{_flag('prefix_groups')} goes with {_flag('shared_prefix_tokens')}")
        if any(not name.strip() for name in self.adapters):
            raise UsageError("--adapters: a name is empty; expected names as a,b,c")


def _flag(name: str) -> str:
    return "--" + ("shared-prefix" if name == "shared_prefix_tokens" else name.replace("_", "-"))
