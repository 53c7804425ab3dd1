"""An HTTP/1.1 client for measuring: a monotonic time for each read from the socket, bytes kept as they came.

While a response arrives only its framing is followed (httptools, in C; that of a chunked body not before its
end may be there), so that the next read is not kept waiting; what the bytes say is read afterwards (`chat`,
`sse`). One `Connection` carries one request at a time and is kept alive between them. Redirects are not
followed, proxies of the environment not used: what is measured is the URL that was given.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
import zlib
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast
from urllib.parse import quote, urlsplit

from preop.errors import InputError, InstrumentError
from preop.instruments.types import Access
from preop.instruments.wire.chunked import Dechunker
from preop.instruments.wire.errors import WireError, clean

try:
    import httptools
except ImportError:
    raise InstrumentError("measuring needs more packages: pip install 'preop[measure]'") from None

__all__ = ["MAX_BODY", "Connection", "Response", "Target", "run_loop"]

MAX_BODY = 64 << 20
"""Bytes of one response body that are kept; a larger one is an error."""
_MAX_HEADERS = 1 << 18
_HEAD_END = b"\r\n\r\n"
_MOST_PENDING = 64
"""Reads of a chunked body that wait for their framing to be followed."""

T = TypeVar("T")


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own, uvloop's where it is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


@dataclass(frozen=True)
class Target:
    """Where requests go and how they are let in."""

    host: str
    port: int
    path: str
    """What stands before `/v1/...`, without a slash at its end."""
    tls: ssl.SSLContext | None
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, access: Access) -> Target:
        """The target of an `Access`. Raises `InputError` for what is no http(s) URL or no CA bundle."""
        try:
            parts = urlsplit(access.url)
            port = parts.port
        except ValueError as error:
            raise InputError(f"the endpoint is not a URL: {error}; expected http://HOST:PORT") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("the endpoint is not an http:// or https:// URL with a host")
        if parts.username is not None or parts.password is not None:
            raise InputError(
                "the endpoint's URL holds a user or password; give a key by its own option instead"
            )
        if parts.query or parts.fragment:
            raise InputError("the endpoint's URL holds a query; expected its base alone, as http://HOST:PORT")
        context = None
        if parts.scheme == "https":
            bundle = access.verify_tls if isinstance(access.verify_tls, str) else None
            try:
                context = ssl.create_default_context(cafile=bundle)
            except (OSError, ssl.SSLError):
                raise InputError(f"{bundle}: not a readable CA bundle in PEM form") from None
            if access.verify_tls is False:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(["http/1.1"])
        host = parts.hostname
        try:
            host = host if ":" in host else host.encode("idna").decode("ascii")
        except UnicodeError:
            raise InputError(f"{clean(host)} in the endpoint's URL is not a host name") from None
        path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")
        return cls(
            host=host,
            port=port or (443 if context else 80),
            path=path.removesuffix("/v1"),
            tls=context,
            api_key=access.api_key,
        )

    @property
    def address(self) -> str:
        """host:port, as shown."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def head(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        """The request up to the blank line. Raises `InputError` for a key that no header can carry."""
        default = 443 if self.tls else 80
        host = self.address if self.port != default else self.address.rpartition(":")[0]
        lines = [f"{method} {self.path}{path} HTTP/1.1", f"Host: {host}", "User-Agent: preop"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self.api_key:
            if not self.api_key.isascii() or not self.api_key.isprintable():
                raise InputError("the API key holds characters that an HTTP header cannot carry")
            lines.append(f"Authorization: Bearer {self.api_key}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


@dataclass
class Response:
    """One exchange, finished or not: `error` says why it is not whole. Times are `time.monotonic_ns()`."""

    sent_ns: int = 0
    """Just before the request was handed to the kernel, on an open connection."""
    head_ns: int | None = None
    """The read that completed the response's headers."""
    end_ns: int | None = None
    """The read that completed the response, or the moment it failed."""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    """Lower-case names; of a repeated header the last."""
    framing: Literal["length", "chunked", "close", "none"] = "none"
    """How the body's end is told. After "close" a cut-off body looks like a whole one."""
    raw: list[tuple[int, bytes]] = field(default_factory=list, repr=False)
    """Body bytes of each read that carried any, still encoded as `content-encoding` says."""
    error: WireError | None = None

    @property
    def content_type(self) -> str | None:
        """Media type without parameters, lower case."""
        value = self.headers.get("content-type")
        return value.partition(";")[0].strip().lower() if value is not None else None

    def reads(self) -> list[tuple[int, bytes]]:
        """Body bytes of each read, decoded. Raises `WireError` when they are not what they claim to be."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            return self.raw
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise WireError(
                "protocol", f"the answer is encoded as {clean(encoding)}, which was not asked for"
            )
        inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, told by its header
        out: list[tuple[int, bytes]] = []
        room = MAX_BODY
        try:
            for ns, piece in self.raw:
                data = inflate.decompress(piece, room + 1)
                room -= len(data)
                if room < 0:
                    raise WireError("protocol", f"the answer unpacks to more than {MAX_BODY >> 20} MiB")
                out.append((ns, data))
        except zlib.error as error:
            raise WireError("protocol", f"the answer claims to be {encoding} and is not: {error}") from None
        return [(ns, data) for ns, data in out if data]

    def body(self) -> bytes:
        """The whole body, decoded."""
        return b"".join(piece for _, piece in self.reads())


class Connection(asyncio.Protocol):
    """One connection: open it, send one request after another, close it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._now = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._header_size = 0
        self._head_tail = b""
        self._fed_head = False
        """The bytes now fed to the parser end where a header may."""
        self._whole = False
        self._chunks: Dechunker | None = None
        self._pending: list[tuple[int, bytes]] = []
        self._response: Response | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._keep_alive = True
        self.torn_down: Response | None = None
        """What had come of a request when it was cancelled."""

    @classmethod
    async def open(cls, target: Target, timeout_s: float) -> Connection:
        """A new connection. Raises `WireError`."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(target),
                    target.host,
                    target.port,
                    ssl=target.tls,
                    server_hostname=target.host if target.tls else None,
                )
        except (OSError, UnicodeError) as error:  # TimeoutError and SSLError are OSErrors
            raise _connect_error(error, target, timeout_s) from None
        return connection

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._response is None
            and self._keep_alive
        )

    @property
    def reads_so_far(self) -> int:
        """Reads of the body of the response that is under way."""
        response = self._response
        return 0 if response is None else len(response.raw) + len(self._pending)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> Response:
        """Send one request and wait for the end of its response, or of the time.

        Never raises for what the other side does: see `Response.error`. When cancelled, the connection
        is torn down, which tells the server to stop.
        """
        if self._response is not None:
            raise RuntimeError("a connection carries one request at a time")
        head = self._target.head(method, path, body, headers or {})
        if not self.usable or self._transport is None:
            now = time.monotonic_ns()
            gone = WireError("closed", f"{self._target.address} closed the connection while it was idle")
            return Response(sent_ns=now, end_ns=now, error=gone)
        response = self._response = Response()
        self._parser = httptools.HttpResponseParser(self)
        self._pieces, self._size, self._header_size, self._whole = [], 0, 0, False
        self._head_tail, self._chunks, self._pending = b"", None, []
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout_s, self._time_out, timeout_s)
        response.sent_ns = time.monotonic_ns()
        self._transport.write(head + (body or b""))
        try:
            await self._waiter
        except asyncio.CancelledError:
            if self._pending:
                self._follow()
            self.torn_down = response
            self.close()
            raise
        finally:
            timer.cancel()
            self._response = self._waiter = None
        if not self._keep_alive or response.error is not None:
            self.close()
        return response

    def close(self) -> None:
        """Tear the connection down at once."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is no subclass of it

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if self._chunks is not None:
            self._pending.append((now, data))
            # Only such a read can hold the end: what follows the last chunk is an empty line.
            if len(data) < 4 or data.endswith(_HEAD_END) or len(self._pending) >= _MOST_PENDING:
                self._follow()
            return
        self._now = now
        response = self._response
        if response is None or self._waiter is None or self._waiter.done():  # bytes that nobody asked for
            self._keep_alive = False
            return
        if response.head_ns is None:
            self._header_size += len(data)
        try:
            while data and self._chunks is None:
                # The header ends where a feed ends, so that a chunked body is not the parser's any more.
                end = 0 if response.head_ns is not None else self._head_end(data)
                part, data = (data[:end], data[end:]) if end else (data, b"")
                self._fed_head = end > 0
                self._parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            self._fail("protocol", "the server switched to another protocol")
        except httptools.HttpParserError as error:
            self._fail("protocol", f"the answer is not HTTP/1.1: {clean(str(error))}")
        self._keep_pieces(response)
        if response.head_ns is None and self._header_size > _MAX_HEADERS:
            self._fail("protocol", f"the answer has more than {_MAX_HEADERS >> 10} KiB of headers")
        if self._size > MAX_BODY:
            self._fail("protocol", f"the answer is larger than {MAX_BODY >> 20} MiB")
        if self._whole:
            self._finish()
        elif data:
            self._pending.append((now, data))
            self._follow()

    def _head_end(self, data: bytes) -> int:
        """Just after the blank line that ends a header in `data`; 0 where there is none."""
        known = len(self._head_tail)
        at = (self._head_tail + data).find(_HEAD_END)
        self._head_tail = b"" if at >= 0 else (self._head_tail + data)[-3:]
        return at + len(_HEAD_END) - known if at >= 0 else 0

    def _follow(self) -> None:
        """Take the framing off what has been read of a chunked body."""
        response, chunks = self._response, self._chunks
        pending, self._pending = self._pending, []
        if response is None or chunks is None:
            self._keep_alive = False
            return
        try:
            for ns, data in pending:
                self._now = ns
                self._size += len(data)
                piece = chunks.feed(data)
                if piece:
                    response.raw.append((ns, piece))
        except ValueError as error:
            self._fail("protocol", f"the answer is not HTTP/1.1: {error}")
            return
        if self._size > MAX_BODY:
            self._fail("protocol", f"the answer is larger than {MAX_BODY >> 20} MiB")
        elif chunks.done:
            self._keep_alive = self._keep_alive and not chunks.rest
            self._finish()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._pending:
            self._follow()
        self._now = time.monotonic_ns()
        response = self._response
        self._keep_alive = False
        if response is None:
            return
        if exc is None and response.head_ns is not None and response.framing == "close":
            self._finish()
        elif isinstance(exc, ssl.SSLError):
            self._fail(
                "tls", f"{self._target.address}: the TLS connection broke: {clean(str(exc.reason or exc))}"
            )
        elif exc is not None:
            self._fail("reset", f"{self._target.address} reset the connection {self._how_far(response)}")
        else:
            self._fail("closed", f"{self._target.address} closed the connection {self._how_far(response)}")

    # httptools callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is not None and self._response.head_ns is None:
            self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        response = self._response
        status = self._parser.get_status_code()
        if response is None or self._whole or 100 <= status < 200:
            return
        response.head_ns, response.status = self._now, status
        coding = response.headers.get("transfer-encoding", "").rpartition(",")[2].strip().lower()
        if status in (204, 304):
            response.framing = "none"
        elif coding == "chunked":
            response.framing = "chunked"
            if self._fed_head:
                self._chunks = Dechunker()
                self._keep_alive = self._keep_alive and bool(self._parser.should_keep_alive())
        elif "content-length" in response.headers and not coding:
            response.framing = "length"
        else:
            response.framing = "close"

    def on_body(self, body: bytes) -> None:
        if not self._whole:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        response = self._response
        if response is None:
            return
        if self._whole:  # a second answer to one question
            self._keep_alive = False
            return
        if response.head_ns is None:  # 100 Continue, 103 Early Hints: the answer follows
            response.headers.clear()
            return
        self._whole = True
        self._keep_alive = self._keep_alive and bool(self._parser.should_keep_alive())

    # ends

    def _keep_pieces(self, response: Response) -> None:
        if self._pieces:
            piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces = []
            if piece:
                response.raw.append((self._now, piece))
                self._size += len(piece)

    def _finish(self) -> None:
        self._chunks = None
        if self._response is not None and self._waiter is not None and not self._waiter.done():
            self._response.end_ns = self._now
            self._waiter.set_result(None)

    def _fail(self, kind: Any, message: str) -> None:
        self._chunks = None
        if self._response is not None and self._waiter is not None and not self._waiter.done():
            self._response.end_ns = time.monotonic_ns()
            self._response.error = WireError(kind, message)
            self._waiter.set_result(None)
            self.close()

    def _time_out(self, timeout_s: float) -> None:
        if self._pending:
            self._follow()
        if self._response is not None:
            how_far = self._how_far(self._response)
            self._fail(
                "timeout",
                f"{self._target.address} gave no whole answer in {timeout_s:g} s: it ended {how_far}",
            )

    @staticmethod
    def _how_far(response: Response) -> str:
        if response.head_ns is None:
            return "before it answered"
        got = sum(len(piece) for _, piece in response.raw)
        return f"inside an answer (HTTP {response.status}, {got} body bytes)"


def _connect_error(error: OSError | UnicodeError, target: Target, timeout_s: float) -> WireError:
    where = target.address
    if isinstance(error, TimeoutError):
        return WireError("timeout", f"{where} took no connection within {timeout_s:g} s")
    if isinstance(error, ssl.SSLCertVerificationError):
        why = clean(error.verify_message or str(error))
        return WireError("tls", f"{where}: its certificate is not trusted: {why}")
    if isinstance(error, ssl.SSLError):
        why = clean(error.reason or str(error))
        return WireError("tls", f"{where}: no TLS connection: {why}; is it plain http?")
    if isinstance(error, socket.gaierror):
        return WireError("name", f"{target.host}: this host name has no address")
    if isinstance(error, ConnectionRefusedError):
        return WireError("refused", f"{where} refused the connection: nothing listens there")
    if isinstance(error, ConnectionError):
        return WireError("reset", f"{where} broke off while the connection was opened")
    if isinstance(error, UnicodeError):
        return WireError("name", f"{clean(target.host)} is not a host name")
    if "refused" in str(error).lower():  # several addresses tried: asyncio joins their errors in one
        return WireError("refused", f"{where} refused the connection: nothing listens there")
    return WireError("unreachable", f"{where} cannot be reached: {clean(error.strerror or str(error))}")
