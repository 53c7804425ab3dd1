"""What an engine says of itself, taken only in the shape that was expected."""

from __future__ import annotations

import math
import re
from typing import Any

from preop.facts import Fact, Origin, known, unknown
from preop.instruments.endpoint.address import shown

__all__ = ["Told", "count", "fraction", "mapping", "number_label", "rows", "switch", "text"]

_MOST = 10**12
_LONGEST = 4096


def count(value: object) -> int | None:
    """A whole number above zero, as JSON has it; None for all else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST else None


def number_label(value: object) -> int | None:
    """A whole number above zero that is written as text (a metric's label); None for all else."""
    return count(int(value)) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value) else None


def fraction(value: object) -> float | None:
    """A number from above 0 to 1, as JSON or as text."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]*\.?[0-9]{1,20}", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 < value <= 1 else None


def switch(value: object) -> bool | None:
    """True or false, as JSON or as Python prints it."""
    if isinstance(value, str):
        return {"True": True, "False": False}.get(value)
    return value if isinstance(value, bool) else None


def text(value: object, longest: int = _LONGEST) -> str | None:
    """Text of reasonable length. In a URL, user, password and query (signatures) are taken out."""
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        return None
    return shown(value) if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value) else value


def mapping(value: object) -> dict[str, Any]:
    """A JSON object; an empty one for all else."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[dict[str, Any]]:
    """The objects of a JSON list; none for all else."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


class Told:
    """Facts told on one route. What is None was not told and becomes no fact."""

    def __init__(self, route: str) -> None:
        self.origin = Origin("route", f"GET {route}")
        self.facts: dict[str, Fact] = {}

    def put(self, name: str, value: Any, unit: str | None = None, note: str | None = None) -> None:
        if value is not None:
            self.facts[name] = known(value, "engine", self.origin, unit=unit, note=note)

    def put_none(self, name: str, note: str | None = None) -> None:
        """The engine says that there is none."""
        self.facts[name] = known(None, "engine", self.origin, note=note)

    def put_unknown(self, name: str, why: str, unit: str | None = None) -> None:
        self.facts[name] = unknown(why, origin=self.origin, unit=unit)
