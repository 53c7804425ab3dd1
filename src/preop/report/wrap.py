"""Lines that fit a terminal, counted in cells: a Chinese character takes two."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["cells", "end_that_fits", "wrap"]

_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
_OPENING = "（《「『【〈“‘"
_CLOSING = "，。、；：！？）》」』】〉”’…"
_JOINERS = "\u200c\u200d"
_AS_EMOJI = "\ufe0f"
"""Asks for the emoji form of the character before it, which is one cell wider."""
_UNIT = re.compile(
    rf"\s+|[{_OPENING}]*[{_WIDE}][{_CLOSING}]*|[{_OPENING}]*[^\s{_WIDE}{_OPENING}]+[{_CLOSING}]*|\S"
)
"""What stays together: a word, or one wide character, with the punctuation that belongs to it."""


def cells(text: str) -> int:
    """How many terminal cells `text` takes at most, by Unicode's East Asian Width.

    Terminals differ on emoji sequences; the widest counts, so that a line never runs over.
    """
    return len(text) if text.isascii() else sum(map(_cell, text))


def _cell(character: str) -> int:
    if character in _JOINERS or (unicodedata.category(character) in {"Mn", "Me"} and character != _AS_EMOJI):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """Where to cut `text` into lines of at most `width` cells: (start, end) of each, no spaces at the ends.

    Breaks between words and between wide characters; a word longer than a line is cut.
    """
    width = max(width, 2)
    lines: list[tuple[int, int]] = []
    start, end, used = 0, 0, 0
    for begin, stop in _units(text, width):
        size = cells(text[begin:stop])
        if used + size > width and end > start:
            lines.append((start, end))
            start, end, used = begin, begin, 0
        if text[begin:stop].isspace():
            if end == start:
                start = end = stop
            else:
                used += size
            continue
        end, used = stop, used + size
    if end > start:
        lines.append((start, end))
    return lines


def _units(text: str, width: int) -> Iterator[tuple[int, int]]:
    for match in _UNIT.finditer(text):
        begin, stop = match.span()
        while not match.group().isspace() and cells(text[begin:stop]) > width:
            cut = begin
            while cells(text[begin : cut + 1]) <= width:
                cut += 1
            cut = max(cut, begin + 1)
            yield begin, cut
            begin = cut
        if stop > begin:
            yield begin, stop


def end_that_fits(text: str, width: int) -> str:
    """The end of `text` in at most `width` cells: of a path with a line number, the end says most."""
    if cells(text) <= width:
        return text
    tail = text
    while tail and cells(tail) > width - 1:
        tail = tail[1:]
    return f"…{tail}"
