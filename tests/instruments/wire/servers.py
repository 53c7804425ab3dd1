"""Servers that send exactly the bytes they are told to, and other things to measure against."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
RESET = "reset"
HANG = "hang"

Step = bytes | float | str
"""Bytes are one write (and, with a pause around it, one read); a number is a pause in seconds; RESET tears
the connection down; HANG waits until the client goes away. After the last step the connection is closed,
unless `keep` is set."""

Handler = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Seen:
    """What a server got."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    return head + (await reader.readexactly(int(length[1])) if length else b"")


@contextmanager
def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> Iterator[Seen]:
    """A server on loopback in a thread; `handler` is called for each request."""
    seen = Seen()
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while not writer.is_closing():
                request = await read_request(reader)
                seen.requests.append(request)
                await handler(request, reader, writer)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(connection, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        seen.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        ready.set()
        await stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield seen
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


@contextmanager
def playing(
    *scripts: Sequence[Step], keep: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[Seen]:
    """A server that plays one script a request, the last one for all that follow."""
    played = iter(range(1 << 30))

    async def handler(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for step in scripts[min(next(played), len(scripts) - 1)]:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif isinstance(step, float | int):
                await asyncio.sleep(step)
            elif step == HANG:
                await reader.read()
            else:
                socket = writer.get_extra_info("socket")
                socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER: close sends RST
                writer.transport.abort()
                return
        if not keep:
            writer.close()

    with serving(handler, tls) as seen:
        yield seen


def chunked(*pieces: bytes) -> bytes:
    """Pieces in chunked framing, without the end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


END = b"0\r\n\r\n"


def sse(*pieces: bytes, pause: float = 0.02, head: bytes = HEAD) -> list[Step]:
    """A stream, chunked, each piece a write of its own with a pause after it."""
    steps: list[Step] = [head + b"Transfer-Encoding: chunked\r\n\r\n"]
    for piece in pieces:
        steps += [chunked(piece), pause]
    return [*steps, END]


@contextmanager
def buffering(upstream: str, size: int) -> Iterator[Seen]:
    """A proxy that holds the answer back until `size` bytes are there or it has ended, as nginx's
    `proxy_buffering on` does with its buffers."""
    host, _, port = upstream.removeprefix("http://").partition(":")

    async def handler(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source, sink = await asyncio.open_connection(host, int(port))
        sink.write(request.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n", 1))
        head = await source.readuntil(b"\r\n\r\n")
        writer.write(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        held = b""
        while not held.endswith(END):
            piece = await source.read(65536)
            if not piece:
                break
            held += piece
            if b"content-length" in head.lower():
                break
            if len(held) >= size and not held.endswith(END):
                writer.write(held)
                await writer.drain()
                held = b""
        writer.write(held)
        await writer.drain()
        sink.close()
        writer.close()

    with serving(handler) as seen:
        yield seen
