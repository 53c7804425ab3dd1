"""Streams as engines and gateways really send them, byte for byte, over a real socket.

The cases of the table "SSE conformance" and the failures that load generators have counted as successes.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.instruments.types import Access
from preop.instruments.wire.chat import ChatStream, chat, chat_body, parse_chat
from preop.instruments.wire.client import Connection, Response, Target, run_loop
from wire.servers import HEAD, Step, chunked, playing, sse

KEY = "sk-preop-test-0123456789abcdef"


def ask(script: Sequence[Step], key: str | None = None) -> ChatStream:
    async def main(url: str) -> ChatStream:
        target = Target.of(Access(url, api_key=key))
        connection = await Connection.open(target, 5)
        body = chat_body("m", [{"role": "user", "content": "hi"}], 8)
        response = await chat(connection, body, 5)
        connection.close()
        return parse_chat(response, key)

    with playing(script) as server:
        return run_loop(main(server.url))


def chunk(delta: dict[str, object] | None, finish: str | None = None, **more: object) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return json.dumps(
        {"object": "chat.completion.chunk", "choices": choices, **more}, ensure_ascii=False
    ).encode()


def event(data: bytes, end: bytes = b"\n\n") -> bytes:
    return b"data: " + data + end


ROLE = event(chunk({"role": "assistant", "content": ""}))
HELLO = event(chunk({"content": "Hello"}))
WORLD = event(chunk({"content": " world"}))
STOP = event(chunk({}, "stop"))
USAGE = event(chunk(None, usage={"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}))
DONE = b"data: [DONE]\n\n"
WHOLE = [ROLE, HELLO, WORLD, STOP, USAGE, DONE]


def assert_whole(stream: ChatStream) -> None:
    assert stream.error is None
    assert stream.text == "Hello world"
    assert stream.finish_reason == "stop"
    assert (stream.prompt_tokens, stream.output_tokens) == (9, 2)


def test_plain_stream() -> None:
    stream = ask(sse(*WHOLE))
    assert_whole(stream)
    assert (stream.reads, stream.events, len(stream.pieces), stream.done) == (6, 6, 2, True)
    assert [piece.read for piece in stream.pieces] == [1, 2]


def crlf(pieces: list[bytes]) -> list[bytes]:
    return [piece.replace(b"\n", b"\r\n") for piece in pieces]


def test_crlf_one_event_per_read() -> None:
    assert_whole(ask(sse(*crlf(WHOLE))))


def test_crlf_two_events_in_one_read() -> None:
    pieces = crlf(WHOLE)
    assert_whole(ask(sse(b"".join(pieces[:2]), b"".join(pieces[2:4]), b"".join(pieces[4:]))))


def test_cr_alone() -> None:
    assert_whole(ask(sse(*(piece.replace(b"\n", b"\r") for piece in WHOLE))))


def test_data_without_a_space() -> None:
    assert_whole(ask(sse(*(piece.replace(b"data: ", b"data:") for piece in WHOLE))))


def test_keep_alive_comment_in_its_own_read() -> None:
    assert_whole(ask(sse(b": keep-alive\n\n", ROLE, HELLO, b":\n\n", WORLD, STOP, b": x\n\n", USAGE, DONE)))


def test_event_and_id_lines_before_data() -> None:
    assert_whole(ask(sse(*(b"event: message\nid: 3\nretry: 100\n" + piece for piece in WHOLE))))


def test_event_name_and_data_in_different_reads() -> None:
    assert_whole(ask(sse(ROLE, b"event: message\n", HELLO, WORLD, STOP, USAGE, DONE)))


def test_utf8_character_cut_by_a_read() -> None:
    whole = event(chunk({"content": "Grüße 🙂"}))
    for cut in (whole.index(b"\xbc"), whole.index(b"\x9f")):
        stream = ask(sse(ROLE, whole[:cut], whole[cut:], STOP, USAGE, DONE))
        assert (stream.error, stream.text) == (None, "Grüße 🙂")


def test_read_that_ends_before_a_space_inside_json() -> None:
    cut = WORLD.index(b" world")
    assert_whole(ask(sse(ROLE, HELLO, WORLD[:cut], WORLD[cut:], STOP, USAGE, DONE)))


def test_unicode_line_separators_inside_content() -> None:
    text = "a\u2028b\u0085c\u2029d"
    stream = ask(sse(ROLE, event(chunk({"content": text})), STOP, DONE))
    assert (stream.error, stream.text) == (None, text)


def test_error_after_a_token_is_no_success() -> None:
    failed = event(b'{"error":{"message":"KV cache is full","type":"server_error"}}')
    stream = ask(sse(ROLE, HELLO, failed, DONE))
    assert stream.error is not None and stream.error.kind == "engine"
    assert "KV cache is full" in str(stream.error)
    assert stream.text == "Hello"


def test_error_as_the_first_event_is_no_success() -> None:
    stream = ask(sse(event(b'{"error":"out of memory"}'), DONE))
    assert stream.error is not None and "out of memory" in str(stream.error)


def test_error_even_after_a_finish_reason_is_no_success() -> None:
    assert ask(sse(HELLO, STOP, event(b'{"object":"error","message":"late"}'), DONE)).error is not None


def test_error_by_event_name_with_text_that_is_not_json() -> None:
    stream = ask(sse(HELLO, b"event: error\ndata: upstream gone\n\n"))
    assert stream.error is not None and (stream.error.kind, "upstream gone" in str(stream.error)) == (
        "engine",
        True,
    )


def test_error_null_is_no_error() -> None:
    assert ask(sse(event(chunk({"content": "x"}, error=None)), STOP, DONE)).error is None


def test_status_200_with_an_error_body() -> None:
    body = b'{"error":{"message":"model is loading","code":503}}'
    stream = ask(
        [
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        ]
    )
    assert stream.error is not None and "model is loading" in str(stream.error)
    assert not stream.is_sse


def test_status_200_with_html() -> None:
    body = b"<html>Sign in</html>"
    stream = ask(
        [b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body]
    )
    assert stream.error is not None


def test_whole_answer_as_json_is_not_a_stream() -> None:
    body = json.dumps(
        {"choices": [{"message": {"content": "Hello world"}, "finish_reason": "stop"}],
         "usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    ).encode()  # fmt: skip
    stream = ask(
        [
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        ]
    )
    assert_whole(stream)
    assert not stream.is_sse


def test_last_event_without_its_blank_line() -> None:
    assert_whole(ask(sse(ROLE, HELLO, WORLD, STOP, USAGE.rstrip(b"\n"))))


def test_missing_done_after_a_finish_is_whole() -> None:
    stream = ask(sse(ROLE, HELLO, WORLD, STOP, USAGE))
    assert_whole(stream)
    assert not stream.done


def test_bom_at_the_start() -> None:
    assert_whole(ask(sse(b"\xef\xbb\xbf" + ROLE, *WHOLE[1:])))


def test_role_only_chunk_is_no_token() -> None:
    stream = ask(sse(ROLE, HELLO, STOP, DONE, pause=0.1))
    assert stream.first_ns is not None and stream.response.head_ns is not None
    assert stream.first_ns - stream.response.head_ns > 60e6
    assert len(stream.pieces) == 1


def test_role_with_null_content_is_no_token() -> None:
    assert len(ask(sse(event(chunk({"role": "assistant", "content": None})), HELLO, STOP)).pieces) == 1


def test_usage_chunk_and_empty_choices_are_no_tokens() -> None:
    stream = ask(sse(event(chunk(None)), HELLO, USAGE, STOP, USAGE, DONE))
    assert (stream.error, len(stream.pieces), stream.output_tokens) == (None, 1, 2)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_generated_text(name: str) -> None:
    stream = ask(sse(ROLE, event(chunk({name: "think"})), HELLO, STOP, DONE))
    assert [piece.text for piece in stream.pieces] == ["think", "Hello"]


def test_reasoning_under_both_names_counts_once() -> None:
    stream = ask(sse(event(chunk({"reasoning_content": "t", "reasoning": "t"})), STOP, DONE))
    assert stream.text == "t"


def test_tool_call_deltas_are_generated_text() -> None:
    first = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]})
    second = chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]})
    stream = ask(sse(ROLE, event(first), event(second), event(chunk({}, "tool_calls")), DONE))
    assert stream.error is None
    assert [piece.text for piece in stream.pieces] == ["", '{"a":1}']


def test_several_tokens_in_one_chunk_are_counted_from_usage() -> None:
    usage = event(chunk(None, usage={"prompt_tokens": 1, "completion_tokens": 12}))
    stream = ask(sse(ROLE, event(chunk({"content": "four tokens in one"})), STOP, usage, DONE))
    assert (len(stream.pieces), stream.output_tokens) == (1, 12)


def test_usage_on_the_last_content_chunk() -> None:
    last = event(chunk({"content": " world"}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 2}))
    assert_whole(ask(sse(ROLE, HELLO, last, DONE)))


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_finish_reasons_that_mean_failure(reason: str) -> None:
    stream = ask(sse(HELLO, event(chunk({}, reason)), DONE))
    assert stream.error is not None and stream.error.kind == "engine"


def test_stream_cut_off_inside_chunked_framing() -> None:
    stream = ask([HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(ROLE, HELLO)])
    assert stream.error is not None and stream.error.kind == "closed"
    assert stream.text == "Hello"


def test_stream_cut_off_where_the_framing_cannot_tell() -> None:
    stream = ask([HEAD + b"Connection: close\r\n\r\n" + ROLE + HELLO])
    assert stream.error is not None and "cut off" in str(stream.error)


def test_done_without_a_finish_reason_is_no_success() -> None:
    assert ask(sse(ROLE, HELLO, DONE)).error is not None


def test_close_delimited_stream() -> None:
    assert_whole(ask([HEAD + b"\r\n", *WHOLE]))


def test_content_length_stream() -> None:
    body = b"".join(WHOLE)
    assert_whole(ask([HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body]))


def test_gzip_stream() -> None:
    assert_whole(ask(sse(gzip.compress(b"".join(WHOLE)), head=HEAD + b"Content-Encoding: gzip\r\n")))


def test_gzip_that_is_none() -> None:
    stream = ask(sse(*WHOLE, head=HEAD + b"Content-Encoding: gzip\r\n"))
    assert stream.error is not None and stream.error.kind == "protocol"


def test_data_that_is_not_json() -> None:
    stream = ask(sse(HELLO, b"data: {oops\n\n", STOP, DONE))
    assert stream.error is not None and "event 2" in str(stream.error)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_http_errors_say_what_the_body_says(status: int) -> None:
    body = b'{"error":{"message":"no such thing","type":"x"}}'
    stream = ask([b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body])
    assert stream.error is not None
    assert (stream.error.kind, str(stream.error)) == ("http", f"HTTP {status}: no such thing")


def test_redirect_is_not_followed_and_named() -> None:
    stream = ask(
        [b"HTTP/1.1 307 Moved\r\nLocation: http://other.example/v1?token=s3cret\r\nContent-Length: 0\r\n\r\n"]
    )
    assert stream.error is not None
    assert "http://other.example/v1;" in str(stream.error) and "s3cret" not in str(stream.error)


def test_api_key_is_sent_and_never_shown() -> None:
    async def main(url: str) -> ChatStream:
        target = Target.of(Access(url, api_key=KEY))
        assert KEY not in repr(target)
        connection = await Connection.open(target, 5)
        return parse_chat(await chat(connection, chat_body("m", [], 1), 5), KEY)

    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}}).encode()
    with playing([b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body]) as server:
        stream = run_loop(main(server.url))
        assert f"Authorization: Bearer {KEY}".encode() in server.requests[0]
    assert stream.error is not None and "Incorrect API key" in str(stream.error)
    assert KEY not in str(stream.error) and KEY not in repr(stream)


def response_of(reads: list[bytes], content_type: str = "text/event-stream") -> Response:
    return Response(
        sent_ns=1, head_ns=2, end_ns=9, status=200, headers={"content-type": content_type}, framing="chunked",
        raw=[(index, piece) for index, piece in enumerate(reads)],
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(cuts=st.lists(st.integers(1, 900), max_size=12))
def test_any_cut_into_reads_gives_the_same_answer(cuts: list[int]) -> None:
    text = event(chunk({"content": "Grüße 🙂 \u2028"}))
    body = b"".join([ROLE, b": hi\r\n\r\n", HELLO, text, WORLD, STOP, USAGE, DONE])
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    stream = parse_chat(response_of([body[a:b] for a, b in itertools.pairwise(edges)]))
    assert stream.error is None
    assert [piece.text for piece in stream.pieces] == ["Hello", "Grüße 🙂 \u2028", " world"]
    assert stream.events == 7 and stream.output_tokens == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "content", "error", "usage", "finish_reason", "tool_calls", "function"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        JSON.map(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n") | st.binary(), max_size=5
    )
)
def test_no_bytes_make_the_reader_raise(reads: list[bytes]) -> None:
    for content_type in ("text/event-stream", "application/json"):
        stream = parse_chat(response_of(reads, content_type))
        assert stream.error is not None or stream.finish_reason is not None


_texts = st.none() | st.text(max_size=4)
_deltas = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": _texts,
        "reasoning_content": _texts,
        "reasoning": _texts,
        "refusal": _texts,
        "tool_calls": st.none() | st.just([{"function": {"arguments": "{"}}]),
    },
)
_chunks = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"delta": _deltas},
                optional={"finish_reason": st.none() | st.just("stop"), "index": st.just(0)},
            ),
            max_size=2,
        )
    },
    optional={
        "object": st.sampled_from(["chat.completion.chunk", "error", "other"]),
        "error": st.none() | st.just({"message": "no"}) | st.just({}),
        "usage": st.none() | st.just({"completion_tokens": 3, "prompt_tokens": 2}),
        "model": st.just("m"),
    },
)


@given(
    st.lists(_chunks, min_size=1, max_size=5), st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n\r\n", b" \n\n"])
)
@settings(max_examples=150, deadline=None)
def test_the_short_way_reads_what_the_long_way_reads(chunks: list[dict[str, Any]], end: bytes) -> None:
    events = [b"data: " + json.dumps(chunk).encode() + end for chunk in chunks]
    head = {"content-type": "text/event-stream"}
    whole = parse_chat(Response(status=200, headers=head, raw=[(1, event) for event in events]))
    bytewise = [(1, bytes([byte])) for event in events for byte in event]
    cut = parse_chat(Response(status=200, headers=head, raw=bytewise))
    assert whole.text == cut.text
    assert [piece.text for piece in whole.pieces] == [piece.text for piece in cut.pieces]
    for name in ("events", "finish_reason", "prompt_tokens", "output_tokens", "model"):
        assert getattr(whole, name) == getattr(cut, name)
    assert str(whole.error) == str(cut.error)
