"""The instruments, by name. Importing this imports none of them."""

from __future__ import annotations

from importlib import import_module

from preop.errors import UsageError
from preop.instruments.types import Instrument

__all__ = ["INSTRUMENTS", "find_instrument", "parse_names"]

INSTRUMENTS = {
    "endpoint": "preop.instruments.endpoint:ENDPOINT",
    "streaming": "preop.instruments.streaming:STREAMING",
    "load": "preop.instruments.load:LOAD",
    "load-comparison": "preop.instruments.load:COMPARE",
    "tokens": "preop.instruments.tokens:TOKENS",
}
"""Where each instrument is defined. `endpoint` only reads and runs whenever an endpoint is given."""


_NOT_ASKED_FOR = {"endpoint", "load-comparison"}
"""Not named by --measure: one runs anyway, the other needs a second endpoint."""


def find_instrument(name: str) -> Instrument:
    """The instrument of that name. Raises `UsageError` for any other name."""
    if name not in INSTRUMENTS:
        raise UsageError(f"{name!r} is no instrument: expected one of {', '.join(INSTRUMENTS)}")
    module, attribute = INSTRUMENTS[name].split(":")
    found: Instrument = getattr(import_module(module), attribute)
    return found


def parse_names(text: str) -> tuple[str, ...]:
    """The names in `LIST|all`, each once, in the order of `INSTRUMENTS`. Raises `UsageError`."""
    asked = {name.strip() for name in text.split(",") if name.strip()}
    measurable = [name for name in INSTRUMENTS if name not in _NOT_ASKED_FOR]
    if asked == {"all"}:
        return tuple(measurable)
    unknown = sorted(asked - set(measurable))
    if unknown or not asked:
        raise UsageError(f"--measure {text!r}: expected `all` or some of {', '.join(measurable)}")
    return tuple(name for name in measurable if name in asked)
