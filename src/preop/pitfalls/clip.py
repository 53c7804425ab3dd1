"""Names and values in a line of the terminal: one line, not too long."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["clip"]


def clip(value: Any, limit: int = 24) -> str:
    """`value` as one short piece of text: white space folded, cut at `limit` characters with an ellipsis.

    The whole value stands in the evidence.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
