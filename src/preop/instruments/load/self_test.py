"""What this machine can measure: its own ceiling as a load generator.

A stub in another process streams to the client on loopback as an engine with continuous batching does: one
event to every stream, all in one burst, every 20 ms. The text of each event is the instant at which it was
handed to the kernel, so that how late the client's stamp is can be seen for every single event. The client is
the one that measures engines (`closed.run_level`), reading included.
"""

from __future__ import annotations

import gc
import os
import re
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from typing import Annotated

import msgspec

from preop.errors import InstrumentError
from preop.instruments.load.closed import Limits, run_level
from preop.instruments.load.processes import spawned
from preop.instruments.load.statistics import quantile
from preop.instruments.types import Access, Progress
from preop.instruments.wire.chat import chat_body, parse_chat
from preop.instruments.wire.client import Target, run_loop
from preop.text import Language, Text

__all__ = ["LEVELS", "LIMIT_MS", "SCHEMA", "SelfTest", "Streams", "self_test", "self_test_lines"]

SCHEMA = "preop.self-test/1"
LEVELS = (16, 64, 256, 1024)
LIMIT_MS = 5.0
"""Lateness of the stamps at the 99th percentile up to which a level counts as carried."""
_STEP_S = 0.02
_EVENTS = 40
"""Events with text in an answer."""
_WINDOW_S = 1.0
_LIMIT_S = 20.0
_LEAST_REACHED = 0.9
"""Share of the events that were due: with less, it was not that load that was carried."""
_START_S = 20.0

Amount = Annotated[float, msgspec.Meta(ge=0)]


class Streams(msgspec.Struct, frozen=True):
    """One level: so many streams at once."""

    streams: int
    due_per_s: Amount
    """Events a second that the schedule asks for."""
    events_per_s: Amount | None = None
    """Events a second that came, while all streams were there."""
    cpu_us_per_event: Amount | None = None
    """CPU time of the client's thread for each event."""
    late_p50_ms: Amount | None = None
    """From the stub's hand-over to its kernel to the client's stamp."""
    late_p99_ms: Amount | None = None
    carried: bool = False
    """p99 under the limit, and at least 90 % of the events that were due."""
    failed: str | None = None
    """Why there are no numbers."""


class SelfTest(msgspec.Struct, frozen=True):
    """This machine's own ceiling."""

    schema: str
    cores: int
    """Cores that this process may use; the stub runs on them too."""
    events_per_s_each: Amount
    """Events a second on each stream."""
    limit_ms: Amount
    levels: list[Streams]
    ceiling: int | None
    """The highest level that was carried, with all those below it; null: none."""
    means: Text
    """What that means for a measurement on this machine."""


def self_test(levels: Sequence[int] | None = None, progress: Progress = lambda line: None) -> SelfTest:
    """Measure the client of this machine against a stub; about 3 s a level.

    Raises `InstrumentError` when the stub does not start.
    """
    _more_files()
    try:
        stub, ours = spawned(serve_stub, (), "preop-stub")
    except OSError as error:
        raise InstrumentError(f"the self-test's server cannot be started: {error.strerror}") from None
    try:
        try:
            port = ours.recv() if ours.poll(_START_S) else None
        except EOFError:
            port = None
        if port is None:
            raise InstrumentError("the self-test's server did not start: no other process, or no loopback")
        found = []
        for streams in sorted(set(levels or LEVELS)):
            progress(f"self-test, {streams:,} streams")
            found.append(_level(port, streams))
    finally:
        ours.close()  # which ends the stub
        stub.join(2)
        if stub.is_alive():
            stub.kill()
            stub.join()
    carried: list[Streams] = []
    for level in found:
        if not level.carried:
            break
        carried.append(level)
    return SelfTest(
        schema=SCHEMA,
        cores=_cores(),
        events_per_s_each=1 / _STEP_S,
        limit_ms=LIMIT_MS,
        levels=found,
        ceiling=carried[-1].streams if carried else None,
        means=_means(found, carried),
    )


def _level(port: int, streams: int) -> Streams:
    due = streams / _STEP_S
    target = Target.of(Access(f"http://127.0.0.1:{port}"))
    body = {
        tokens: chat_body("stub", [{"role": "user", "content": "x"}], tokens)
        for tokens in range(1, _EVENTS + 1)
    }
    limits = Limits(requests=None, limit_s=_LIMIT_S, window_s=_WINDOW_S, timeout_s=_LIMIT_S)

    class Session:
        needs_answer = False

        def next(self, output_tokens: int) -> bytes:
            return body[output_tokens]

        def answered(self, text: str) -> None: ...

    collecting = gc.isenabled()
    gc.disable()
    try:
        level = run_level(target, streams, limits=limits, output_tokens=_EVENTS, session=Session)
        run = run_loop(level)
    finally:
        if collecting:
            gc.enable()
    seen, failed = [], None
    for response in (*run.counted, *run.uncounted):
        stream = parse_chat(response)
        if stream.error is not None and response.end_ns is not None:
            failed = failed or str(stream.error)
        seen += [(piece.ns, int(piece.text)) for piece in stream.pieces if piece.text.isdigit()]
    counted = [response for response in run.counted if response.error is None]
    if failed is not None or run.out_of_time or not counted:
        return Streams(streams, due, failed=failed or f"the level did not end within {_LIMIT_S:g} s")
    begin = min(response.sent_ns for response in counted)
    end = begin + int(_WINDOW_S * 1e9)
    inside = [(stamp, sent) for stamp, sent in seen if begin <= sent < end]
    late = [max(0.0, (stamp - sent) / 1e6) for stamp, sent in inside]
    p50, p99 = quantile(late, 0.50), quantile(late, 0.99)
    reached = len(inside) / _WINDOW_S
    return Streams(
        streams,
        due,
        events_per_s=round(reached, 1),
        cpu_us_per_event=round(run.cpu_s / max(1, len(seen)) * 1e6, 2),
        late_p50_ms=None if p50 is None else round(p50, 3),
        late_p99_ms=None if p99 is None else round(p99, 3),
        carried=p99 is not None and p99 < LIMIT_MS and reached >= _LEAST_REACHED * due,
    )


def _means(levels: Sequence[Streams], carried: Sequence[Streams]) -> Text:
    rate = f"{1 / _STEP_S:g}"
    if not carried:
        return Text(
            f"This machine does not time even {levels[0].streams} streams to {LIMIT_MS:g} ms at the 99th "
            "percentile: it is too slow or too busy; measure from another one.",
            f"本机连 {levels[0].streams} 路流的 p99 计时误差都不能保持在 {LIMIT_MS:g} ms 以内："
            "太慢或太忙，请换一台机器测量。",
        )
    top = carried[-1]
    if len(carried) == len(levels):
        return Text(
            f"This machine times {top.streams:,} streams of {rate} events a second each (the most that was "
            f"tried) to {LIMIT_MS:g} ms at the 99th percentile: up to there its client is not what limits a "
            "measurement.",
            f"本机对 {top.streams:,} 路流（每路每秒 {rate} 个事件，所试最高一级）的 p99 计时误差在 "
            f"{LIMIT_MS:g} ms 以内：到此为止，测量不受客户端限制。",
        )
    return Text(
        f"This machine times {top.streams:,} streams of {rate} events a second each to {LIMIT_MS:g} ms at "
        f"the 99th percentile, and {levels[len(carried)].streams:,} no more: beyond, spread the clients "
        "(--workers) over more cores or machines (here the stub needs a core too, which an engine elsewhere "
        "does not).",
        f"本机对 {top.streams:,} 路流（每路每秒 {rate} 个事件）的 p99 计时误差在 {LIMIT_MS:g} ms 以内，"
        f"{levels[len(carried)].streams:,} 路则不能：再高请用 --workers 把客户端分散到更多核或机器上"
        "（此处测试服务器也占一个核，位于别处的引擎则不占）。",
    )


def self_test_lines(result: SelfTest, language: Language) -> list[str]:
    """The table, and what it means."""
    head = ["streams", "events/s due", "reached", "CPU us/event", "late p50 ms", "p99 ms", ""]
    rows = [
        [
            f"{level.streams:,}",
            f"{level.due_per_s:,.0f}",
            _shown(level.events_per_s, 0),
            _shown(level.cpu_us_per_event, 1),
            _shown(level.late_p50_ms, 2),
            _shown(level.late_p99_ms, 2),
            _CARRIED.in_(language) if level.carried else level.failed or _NOT.in_(language),
        ]
        for level in result.levels
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head) - 1)]
    lines = [
        "  ".join(
            [*(cell.rjust(size) for cell, size in zip(row[:-1], widths, strict=True)), row[-1]]
        ).rstrip()
        for row in (head, *rows)
    ]
    return [*lines, "", result.means.in_(language)]


_CARRIED = Text("carried", "可承受")
_NOT = Text("not carried", "不可承受")


def _shown(value: float | None, digits: int) -> str:
    return "\u2014" if value is None else f"{value:,.{digits}f}"


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def _more_files() -> None:
    """As many open files as the system lets this process have."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # macOS: the true limit is lower than the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_MAX_TOKENS = re.compile(rb'"max_tokens": ?(\d+)')
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_EVENT = _chunk(
    b'data: {"id":"chatcmpl-stub","object":"chat.completion.chunk","created":1700000000,"model":"stub",'
    b'"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n' % (b"0" * 20)
).replace(b"0" * 20, b"%020d")
_END = (
    b"".join(
        _chunk(b"data: " + data + b"\n\n")
        for data in (
            b'{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}',
            b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%b}}' % (b"#" * 6),
            b"[DONE]",
        )
    ).replace(b"#" * 6, b"%6d")
    + b"0\r\n\r\n"
)


class _Stream:
    __slots__ = ("asked", "left", "socket", "waiting")

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.waiting = connection, b""
        self.asked = self.left = 0


def serve_stub(until: Pipe) -> None:
    """The stub: tells its port, and serves until the other end of the pipe is closed."""
    _more_files()
    gc.disable()
    step_ns = int(_STEP_S * 1e9)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.setblocking(False)
    streams: set[_Stream] = set()
    due = 0
    with selectors.DefaultSelector() as selector, listener:
        selector.register(until, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        until.send(listener.getsockname()[1])
        while True:
            wait = None if not streams else max(0.0, (due - time.monotonic_ns()) / 1e9)
            for key, _ in selector.select(wait):
                if key.fileobj is until:
                    return
                if key.fileobj is listener:
                    _accept(listener, selector)
                else:
                    idle = not streams
                    _read(key.data, streams, selector)
                    if idle and streams:
                        due = time.monotonic_ns() + step_ns
            now = time.monotonic_ns()
            if streams and now >= due:
                due = max(due + step_ns, now)
                for stream in [*streams]:
                    _give(stream, streams, selector)


def _accept(listener: socket.socket, selector: selectors.BaseSelector) -> None:
    with suppress(BlockingIOError):
        while True:
            connection, _ = listener.accept()
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, _Stream(connection))


def _read(stream: _Stream, streams: set[_Stream], selector: selectors.BaseSelector) -> None:
    try:
        data = stream.socket.recv(65536)
    except OSError:
        data = b""
    if not data:
        _gone(stream, streams, selector)
        return
    stream.waiting += data
    head, blank, body = stream.waiting.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if not blank or length is None or len(body) < int(length[1]):
        return
    asked = _MAX_TOKENS.search(body)
    stream.waiting, stream.asked = b"", int(asked[1]) if asked else 1
    stream.left = stream.asked
    if _sent(stream, _HEAD, streams, selector):
        streams.add(stream)


def _give(stream: _Stream, streams: set[_Stream], selector: selectors.BaseSelector) -> None:
    stream.left -= 1
    whole = _sent(stream, _EVENT % time.monotonic_ns(), streams, selector)
    if whole and stream.left <= 0:
        streams.discard(stream)
        _sent(stream, _END % stream.asked, streams, selector)


def _sent(stream: _Stream, data: bytes, streams: set[_Stream], selector: selectors.BaseSelector) -> bool:
    try:
        whole = stream.socket.send(data) == len(data)
    except OSError:  # gone, or it reads nothing: its buffers hold more than an answer
        whole = False
    if not whole:
        _gone(stream, streams, selector)
    return whole


def _gone(stream: _Stream, streams: set[_Stream], selector: selectors.BaseSelector) -> None:
    streams.discard(stream)
    selector.unregister(stream.socket)
    stream.socket.close()
