"""Hostile text made safe to show: model output, file contents, server answers."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

import msgspec

__all__ = ["amount", "plain", "shown"]

_JOINERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner: they belong to scripts and emoji, and move nothing."""

_FILLERS = "\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"
"""Letters and marks that Unicode says are not drawn at all."""

LIMIT = 400
"""Characters of one piece of text that a reader is shown; all of it stands in the JSON document."""

_COUNTED = 100
"""Characters cut off from which on they are counted."""


def plain(text: str, limit: int = LIMIT) -> str:
    """`text` on one line, nothing in it left that steers a terminal or a reader's eye, `limit` long at most.

    White space of any kind becomes one space. Controls, escape codes, direction marks, line and paragraph
    separators and lone surrogates are written out (`\\x1b`, `\\u202e`), so that a reader sees that they
    were there. What is cut off shows as an ellipsis, with its length where that is more than a few words.
    """
    # Nothing beyond a few times the limit can be shown: 10 MB of hostile text costs no more than 10 kB.
    whole = len(text)
    head = " ".join(text[: limit * 4].split())
    cut = whole - limit * 4 if whole > limit * 4 else 0
    safe = "".join(_written_out(character) for character in head)
    if len(safe) > limit:
        cut += len(safe) - limit
        safe = safe[:limit]
    if not cut:
        return safe
    return f"{safe.rstrip()}… (+{cut:,})" if cut >= _COUNTED else f"{safe.rstrip()}…"


def _written_out(character: str) -> str:
    hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    if character in _JOINERS or not (hidden or character in _FILLERS):
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(value: Any, unit: str | None = None, limit: int = LIMIT) -> str:
    """A JSON value as a reader reads it: digits grouped, bytes scaled, its unit behind it."""
    return plain(" ".join(filter(None, amount(value, unit))), limit)


def amount(value: Any, unit: str | None = None) -> tuple[str, str | None]:
    """A JSON value in digits or words, and the unit to put behind it; neither is made plain yet."""
    if isinstance(value, bool):
        return "true" if value else "false", unit
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return "—", None
        if unit == "bytes" and abs(value) >= 1 << 20:
            return (
                (f"{value / 2**30:,.2f}", "GiB")
                if abs(value) >= 1 << 30
                else (f"{value / 2**20:,.2f}", "MiB")
            )
        return _digits(value), unit
    if value is None:
        return "—", None
    return (value if isinstance(value, str) else _json(value)), unit


def _digits(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**18 else f"{value:.3e}"
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.3g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value)))) if abs(value) < 100 else 1
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _json(value: Any) -> str:
    import json

    return json.dumps(msgspec.to_builtins(value, enc_hook=str), ensure_ascii=False, separators=(", ", ": "))
