"""Server-sent events from bytes, however the network cut them (WHATWG HTML, section 9.2.6).

Lines end with CRLF, LF or CR and nothing else: U+2028, U+2029 and U+0085 are text. One departure from the
standard: an event that the stream ended before its blank line is given by `close`, since servers in the
field leave that line out and its content was received.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Event", "Parser"]

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event. `name` is "message" unless an `event:` field said otherwise."""

    data: str
    name: str = "message"
    id: str | None = None
    """The last event id that the stream has set."""


class Parser:
    """Takes the body in pieces of any size and gives events as they become whole. Never raises."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._at_start = True
        self._skip_lf = False
        self._data: list[bytes] = []
        self._name = b""
        self._id: str | None = None

    @property
    def idle(self) -> bool:
        """Whether the next byte begins a new event that nothing before it has a say in."""
        return not (self._at_start or self._rest or self._data or self._name or self._skip_lf)

    def feed(self, piece: bytes) -> list[Event]:
        """The events that `piece` completes."""
        if not piece:
            return []
        rest = self._rest
        rest += piece
        if self._at_start:
            if len(rest) < len(_BOM) and _BOM.startswith(rest):
                return []
            self._at_start = False
            if rest.startswith(_BOM):
                del rest[: len(_BOM)]
        events: list[Event] = []
        begin = 0
        if self._skip_lf and rest:  # the LF of a CRLF that was cut in two
            self._skip_lf = False
            if rest[0] == 0x0A:
                begin = 1
        for end in _LINE_END.finditer(rest, max(begin, self._searched)):
            event = self._line(bytes(rest[begin : end.start()]))
            if event is not None:
                events.append(event)
            begin = end.end()
            if begin == len(rest) and rest[begin - 1] == 0x0D:
                self._skip_lf = True
        del rest[:begin]
        self._searched = len(rest)
        return events

    def close(self) -> list[Event]:
        """The event that the end of the stream left without its blank line, if there is one."""
        events = []
        if self._rest:
            line, self._rest = bytes(self._rest), bytearray()
            events = [event for event in (self._line(line),) if event is not None]
        last = self._dispatch()
        return [*events, last] if last is not None else events

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> Event | None:
        data, name = self._data, self._name
        self._data, self._name = [], b""
        if not data:
            return None
        text = b"\n".join(data).decode("utf-8", "replace")
        return Event(text, name.decode("utf-8", "replace") or "message", self._id)
