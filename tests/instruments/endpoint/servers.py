"""Small servers with control over every byte: recorded answers of real engines, or wrong as a test wants."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Page", "Request", "Server", "answering", "recorded", "response", "serving"]

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"


@dataclass
class Request:
    target: str
    headers: dict[str, str]


Handler = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """A running server and what it was asked."""

    url: str
    requests: list[Request] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """One answer."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def response(page: Page) -> bytes:
    """The page as HTTP/1.1."""
    head = [f"HTTP/1.1 {page.status} Any", f"Content-Length: {len(page.body)}", "Connection: close"]
    head += [f"Content-Type: {page.content_type}"] if page.content_type else []
    head += [f"{name}: {value}" for name, value in page.headers.items()]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + page.body


def answering(pages: Mapping[str, Page], *, prefix: str = "") -> Handler:
    """A server with these pages by path; 404 for all else."""

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        path = request.target.split("?")[0]
        page = pages.get(path.removeprefix(prefix)) if path.startswith(prefix) else None
        writer.write(response(page or Page(b'{"detail":"Not Found"}', 404)))

    return handle


def recorded(name: str) -> dict[str, Page]:
    """The recorded answers of a real engine (`tests/data/recordings`)."""
    folder = RECORDINGS / name
    index = json.loads((folder / "index.json").read_text())
    return {
        path: Page(
            (folder / entry["file"]).read_bytes(),
            entry["status"],
            entry["content_type"],
            {"Server": entry["server"]} if entry["server"] else {},
        )
        for path, entry in index.items()
    }


@contextmanager
def serving(
    handler: Handler, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[Server]:
    """The handler on a free port of loopback, for as long as the block runs."""
    loop = asyncio.new_event_loop()
    server = Server("")
    started, stop = threading.Event(), asyncio.Event()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(1)
            if first == b"\x16":  # a TLS greeting where HTTP is spoken: real servers say 400 in plain text
                writer.write(response(Page(b"Invalid HTTP request received.", 400, "text/plain")))
                return
            head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = (line.split(":", 1) for line in head[1:] if ":" in line)
            request = Request(head[0].split(" ")[1], {name.lower(): value.strip() for name, value in pairs})
            server.requests.append(request)
            await handler(request, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has left, as some of these tests want
        finally:
            writer.close()

    async def run() -> None:
        listening = await asyncio.start_server(connection, host, 0, ssl=tls)
        port = listening.sockets[0].getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        server.url = f"{'https' if tls else 'http'}://{name}:{port}"
        started.set()
        await stop.wait()
        listening.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert started.wait(5)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
