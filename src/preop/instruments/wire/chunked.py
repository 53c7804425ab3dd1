"""Chunked framing (RFC 9112, section 7.1), taken off after the reads."""

from __future__ import annotations

import re

__all__ = ["Dechunker"]

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_LONGEST_LINE = 1 << 14


class Dechunker:
    """Takes the wire bytes in pieces of any size and gives the body bytes that they hold."""

    def __init__(self) -> None:
        self.done = False
        """The last chunk and the blank line after it were seen."""
        self.rest = b""
        """What came after that."""
        self._left = 0
        """Bytes of the current chunk still to come."""
        self._line = b""
        """The beginning of a size line, a chunk's closing CRLF or a trailer that was cut by a read."""
        self._closing = False
        """A chunk's CRLF is due."""
        self._trailer = False

    def feed(self, data: bytes) -> bytes:
        """The body bytes in `data`. Raises `ValueError` for what is no chunked framing."""
        if self.done:
            self.rest += data
            return b""
        if not (self._left or self._line or self._closing or self._trailer):
            head = _SIZE.match(data)
            size = int(head[1], 16) if head is not None else 0
            if head is not None and size and head.end() + size + 2 == len(data) and data[-2:] == b"\r\n":
                return data[head.end() : -2]  # one whole chunk, as nearly always
        position = min(self._left, len(data))
        out = [data[:position]] if position else []
        self._left -= position
        if self._left:
            return data
        if position:
            self._closing = True
        elif self._line:
            data, self._line = self._line + data, b""
        while position < len(data):
            if self._trailer:
                position = self._end(data, position)
                break
            if self._closing:
                closing = data[position : position + 2]
                if closing != b"\r\n":
                    if closing == b"\r":
                        self._line = closing
                        break
                    raise ValueError("a chunk is longer than it says")
                position, self._closing = position + 2, False
                continue
            head = _SIZE.match(data, position)
            if head is None:
                self._line = data[position:]
                if b"\n" in self._line or len(self._line) > _LONGEST_LINE or not _begins(self._line):
                    raise ValueError("a chunk begins without its size")
                break
            position, size = head.end(), int(head[1], 16)
            if size == 0:
                self._trailer = True
                continue
            end = position + size
            out.append(data[position:end])
            self._left = max(0, end - len(data))
            self._closing = not self._left
            position = end
        return out[0] if len(out) == 1 else b"".join(out)

    def _end(self, data: bytes, position: int) -> int:
        """Past the trailer fields, whose content is of no use here."""
        while (end := data.find(b"\r\n", position)) >= 0:
            if end == position:
                self.done, self.rest = True, data[end + 2 :]
                return len(data)
            position = end + 2
        self._line = data[position:]
        if len(self._line) > _LONGEST_LINE:
            raise ValueError("a trailer without an end")
        return len(data)


def _begins(line: bytes) -> bool:
    """Whether a cut line may still become a size line."""
    return re.fullmatch(rb"[0-9A-Fa-f]{0,15}[ \t]*(?:;[^\r\n]*)?\r?", line) is not None
