"""Command lines as words: `$X` is a word that cannot be seen, `"$X"` one that is surely a single word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preop.engines import ParsedFlags, parse
from preop.engines.parsing import ReadConfig
from preop.facts import Origin, Word

__all__ = ["flags_of", "read", "words"]


def words(*texts: str) -> list[Word]:
    """Words in order, each at its own place."""
    return [_word(text, index) for index, text in enumerate(texts, 1)]


def _word(text: str, index: int) -> Word:
    origin = Origin("argument", f"argument {index}")
    if text.strip('"').startswith("$"):
        return Word(None, origin, f"{text} is not set", single=text.startswith('"'))
    return Word(text, origin)


def read(
    engine: str, *texts: str, version: str | None = None, config: ReadConfig | None = None
) -> ParsedFlags:
    """The engine's own arguments, read."""
    return parse(engine, version, words(*texts), config)


def flags_of(parsed: ParsedFlags) -> Mapping[str, Any]:
    """Values by flag; those that are unknown are left out."""
    return {name: given.value for name, given in parsed.given.items() if given.is_known}
