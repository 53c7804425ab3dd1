"""The SSE parser: the standard's own examples, and any cut of any bytes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.instruments.wire.sse import Event, Parser


def parse(*pieces: bytes) -> list[Event]:
    parser = Parser()
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


def data(*pieces: bytes) -> list[str]:
    return [event.data for event in parse(*pieces)]


# Examples of the WHATWG HTML standard, section 9.2.6 "Interpreting an event stream".


def test_standard_example_of_a_multi_line_event() -> None:
    assert data(b"data: YHOO\ndata: +2\ndata: 10\n\n") == ["YHOO\n+2\n10"]


def test_standard_example_of_comment_ids_and_a_space_that_stays() -> None:
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    assert parse(stream) == [
        Event("first event", "message", "1"),
        Event("second event", "message", ""),
        Event(" third event", "message", ""),
    ]


def test_standard_example_of_data_without_a_colon() -> None:
    assert data(b"data\n\ndata\ndata\n\n") == ["", "\n"]


def test_standard_example_of_the_optional_space() -> None:
    assert data(b"data:test\n\ndata: test\n\n") == ["test", "test"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_line_end(end: bytes) -> None:
    stream = end.join([b"event: token", b"data: a", b"", b": keep-alive", b"", b"data: b", b"", b""])
    assert parse(stream) == [Event("a", "token"), Event("b")]


def test_crlf_cut_in_two_is_one_line_end() -> None:
    assert data(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == ["a\nb"]


def test_an_event_ended_by_a_bare_cr_is_given_at_once() -> None:
    parser = Parser()
    assert parser.feed(b"data: a\r\r") == [Event("a")]


def test_unicode_line_separators_are_text() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf"
    assert data(f"data: {text}\n\n".encode()) == [text]


def test_bom_only_at_the_start_even_when_cut() -> None:
    assert data(b"\xef", b"\xbb", b"\xbfdata: a\n\n\xef\xbb\xbfdata: lost\n\n") == ["a"]


def test_last_event_without_its_blank_line_is_not_lost() -> None:
    assert data(b"data: a\n\ndata: b") == ["a", "b"]
    assert data(b"data: a\n\ndata: b\n") == ["a", "b"]


def test_retry_id_and_unknown_fields() -> None:
    parser = Parser()
    assert parser.feed(b"retry: 1500\nid: 7\nfoo: bar\ndata: x\n\nretry: soon\nid: a\0b\ndata: y\n\n") == [
        Event("x", "message", "7"),
        Event("y", "message", "7"),
    ]


STREAMS = st.lists(
    st.sampled_from(
        [b"data: ", b"data:", b"data", b"event: e", b"id: 1", b": c", b"retry: 3", b"\n", b"\r", b"\r\n",
         b"\n\n", "Grüße 🙂\u2028".encode(), b"\xef\xbb\xbf", b"\x85", b"\xff", b"{", b" "]
    ),
    max_size=40,
).map(b"".join)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(stream=STREAMS, cuts=st.lists(st.integers(0, 200), max_size=8))
def test_any_cut_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(*pieces) == parse(stream) == parse(*(stream[i : i + 1] for i in range(len(stream))))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_taken(pieces: list[bytes]) -> None:
    assert parse(*pieces) == parse(b"".join(pieces))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1, max_size=6
    )
)
def test_what_was_written_is_read_back(texts: list[str]) -> None:
    assert data("".join(f"data: {text}\r\n\r\n" for text in texts).encode()) == texts
