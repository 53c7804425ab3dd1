"""What can go wrong on the wire, told apart by kind. No message ever holds the API key."""

from __future__ import annotations

from typing import Literal

from preop.errors import InstrumentError
from preop.secrets import mask_text

__all__ = ["ErrorKind", "WireError", "clean"]

ErrorKind = Literal[
    "refused",
    "reset",
    "closed",
    "timeout",
    "tls",
    "name",
    "unreachable",
    "protocol",
    "http",
    "engine",
    "content",
]
"""refused: nobody listens; reset: the connection was torn down; closed: it ended before the answer did;
timeout: no whole answer in time; tls: no trusted connection; name: the host name has no address;
unreachable: no route; protocol: not HTTP/1.1, or too large; http: a status that is no success;
engine: the engine said it failed, inside an answer that began as a success; content: the answer is not what
the API promises."""

_LONGEST = 300


class WireError(InstrumentError):
    """One failed exchange."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind


def clean(text: str, api_key: str | None = None) -> str:
    """Text from a server, fit to be shown: one line, printable, short, without the key."""
    if api_key:
        text = text.replace(api_key, "***")
    text = mask_text(text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
