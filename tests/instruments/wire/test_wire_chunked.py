"""Chunked framing, held against httptools (llhttp), which reads the same bytes."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.instruments.wire.chunked import Dechunker


class _Reference:
    """httptools' reading of a chunked body."""

    def __init__(self) -> None:
        self.body, self.done = b"", False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.done = True


def reference(wire: bytes) -> tuple[bytes, bool]:
    seen = _Reference()
    parser = httptools.HttpResponseParser(seen)
    parser.feed_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    parser.feed_data(wire)
    return seen.body, seen.done


def fed(wire: bytes, cuts: list[int]) -> tuple[bytes, bool]:
    chunks, body, begin = Dechunker(), b"", 0
    for cut in [*sorted(min(cut, len(wire)) for cut in cuts), len(wire)]:
        body += chunks.feed(wire[begin:cut])
        begin = cut
    return body, chunks.done


def framed(parts: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    out = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts if part)
    return out + b"0\r\n" + trailer + b"\r\n"


@given(
    st.lists(st.sampled_from([b"x", b"\r\n0\r\n\r\n", b"a" * 300, b"0\r\n\r\n"]), max_size=6),
    st.sampled_from([b"", b";a=b", b" ;q"]),
    st.sampled_from([b"", b"X-Checksum: 1\r\n", b"A: b\r\nC: d\r\n"]),
    st.lists(st.integers(0, 900), max_size=12),
)
@settings(max_examples=200, deadline=None)
def test_any_cut_gives_the_same_body(
    parts: list[bytes], extension: bytes, trailer: bytes, cuts: list[int]
) -> None:
    wire = framed(parts, extension if extension != b" ;q" else b"", trailer)
    assert fed(wire, cuts) == (b"".join(parts), True)
    assert reference(wire) == (b"".join(parts), True)


@given(st.lists(st.integers(0, 60), max_size=4), st.integers(0, 60))
def test_a_body_cut_short_is_not_done(cuts: list[int], end: int) -> None:
    wire = framed([b"hello", b"wonderful world"])
    cut_short = wire[: min(end, len(wire) - 1)]
    body, done = fed(cut_short, cuts)
    assert (body, done) == reference(cut_short)
    assert not done


@given(st.binary(max_size=80), st.lists(st.integers(0, 80), max_size=5))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_taken_or_refused(wire: bytes, cuts: list[int]) -> None:
    try:
        fed(wire, cuts)
    except ValueError:
        return


@pytest.mark.parametrize(
    "wire", [b"5\nhello\r\n", b"+5\r\nhello\r\n", b"0x5\r\nhello\r\n", b"5\r\nhelloX\r\n", b"\r\n\r\n", b"{}"]
)
def test_what_is_no_chunk_is_refused(wire: bytes) -> None:
    with pytest.raises(ValueError, match="chunk"):
        fed(wire, [])


def test_what_follows_the_end_is_kept_apart() -> None:
    chunks = Dechunker()
    assert chunks.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1") == b"a"
    assert (chunks.done, chunks.rest) == (True, b"HTTP/1.1")
