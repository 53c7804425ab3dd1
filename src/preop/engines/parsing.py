"""Read an engine's arguments as that engine reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from preop.engines.reading import reading
from preop.engines.tables import label
from preop.engines.types import ParsedFlags
from preop.facts import Note, Word

__all__ = ["ReadConfig", "Unreadable", "parse"]


@dataclass(frozen=True)
class Unreadable:
    """A config file that could not be read, and why."""

    why: str


ReadConfig = Callable[[str], "Mapping[str, Any] | Unreadable"]
"""Given the path after `--config`: the file's mapping, or why there is none."""


def parse(
    engine: str,
    version: str | None,
    words: Sequence[Word],
    read_config: ReadConfig | None = None,
    through: str | None = None,
) -> ParsedFlags:
    """The engine's own arguments (from `Identified.arguments_at` on), read as that engine reads them.

    `version` None, or one without a table, reads with the newest table. An engine without any table gives
    no flags, and the reason is in `hidden`. `through` is `Identified.through`.
    """
    state = reading(engine, version)
    if state is None:
        why = f"preop has no table of the flags of {label(engine)}"
        return ParsedFlags(engine, version, {}, (Note("other", f"{why}: they are not judged"),), (why,))
    if through is not None:
        from preop.engines.fronts import take_own

        words = take_own(state, through, words)
    if engine == "llama.cpp":
        from preop.engines.llama_arguments import read_arguments

        read_arguments(state, words)
    elif engine in ("tgi", "tei"):
        from preop.engines.clap_arguments import read_arguments as read_clap

        read_clap(state, words)
    elif engine == "tensorrt-llm":
        from preop.engines.click_arguments import read_arguments as read_click

        read_click(state, words, read_config)
    else:
        from preop.engines.argparse_arguments import read_arguments as read_argparse

        read_argparse(state, words, read_config)
    return state.done()
