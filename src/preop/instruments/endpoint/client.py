"""GET requests to a server that nobody vouches for: each bounded in time and bytes, each answer one sentence.

Redirects are followed on the same scheme, host and port alone, so that a key goes nowhere else.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from preop.errors import UsageError
from preop.instruments.endpoint.address import origin, shown

if TYPE_CHECKING:
    import httpx

    from preop.instruments.types import Access

__all__ = ["MAX_BYTES", "Answer", "get_all"]

MAX_BYTES = 16 * 1024 * 1024
"""Of one answer's body. Large real expositions are about 1 MB."""

_REDIRECTS = 3
_CONNECTIONS = 4
_MESSAGE = 200
"""Characters of a server's own error message that are shown."""


@dataclass(frozen=True)
class Answer:
    """What one route answered."""

    path: str
    status: int | None = None
    """None: there was no whole answer."""
    body: bytes | None = None
    """The whole body of a 200, decoded from gzip; None where there is nothing to use."""
    content_type: str = ""
    server: str = ""
    """The header `Server`."""
    note: str | None = None
    """Why there is nothing to use, in one sentence."""
    failure: str | None = None
    """A short word for what went wrong: refused, timeout, tls, auth, redirect, html, status, ..."""


def get_all(access: Access, base: str, paths: Sequence[str]) -> list[Answer]:
    """One answer for each path, in order. Takes about `access.timeout_s` at most. Never raises for what a
    server does; raises `UsageError` for a key or certificates that cannot be used.

    Starts an event loop of its own: not to be called from within one.
    """
    headers = {"Accept-Encoding": "identity", "User-Agent": "preop"}
    if access.api_key:
        if not (access.api_key.isascii() and access.api_key.isprintable()):
            raise UsageError("the API key holds characters that an HTTP header cannot carry")
        headers["Authorization"] = f"Bearer {access.api_key}"
    return asyncio.run(_get_all(access, base, list(paths), headers, _trust(access.verify_tls, base)))


def _trust(verify: bool | str, base: str) -> ssl.SSLContext:
    """The system's certificates, a bundle of the user's own, or none at all."""
    if base.startswith("http://"):  # no redirect leads to https://: nothing to load
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if isinstance(verify, str):
        try:
            return ssl.create_default_context(cafile=verify)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"--ca-bundle {verify}: {_strerror(error)}; expected a PEM file of certificates"
            ) from None
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _get_all(
    access: Access, base: str, paths: list[str], headers: dict[str, str], trust: ssl.SSLContext
) -> list[Answer]:
    import httpx

    async with httpx.AsyncClient(
        headers=headers,
        verify=trust,
        # Proxy settings and ~/.netrc are for the internet; an engine is reached directly.
        trust_env=False,
        timeout=httpx.Timeout(None, connect=access.timeout_s),
        limits=httpx.Limits(max_connections=_CONNECTIONS),
    ) as client:
        return list(await asyncio.gather(*(_get(client, access, base, path) for path in paths)))


async def _get(client: httpx.AsyncClient, access: Access, base: str, path: str) -> Answer:
    import httpx

    try:
        async with asyncio.timeout(access.timeout_s):
            return await _follow(client, access, base, path)
    except (TimeoutError, httpx.TimeoutException):
        return Answer(path, note=f"no whole answer within {access.timeout_s:g} s", failure="timeout")
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, UnicodeError) as error:
        failure, note = _explain(error, base)
        return Answer(path, note=note, failure=failure)


async def _follow(client: httpx.AsyncClient, access: Access, base: str, path: str) -> Answer:
    url = base + path
    for _ in range(_REDIRECTS + 1):
        async with client.stream("GET", url) as response:
            if not response.is_redirect:
                return await _read(response, access, path)
            target, status = response.headers["location"], response.status_code
        try:
            target = urljoin(url, target)
            stays = origin(target) == origin(url)
        except ValueError:
            stays = False
        if not stays:
            to = _printable(shown(target))
            note = f"redirects to {to}, which was not followed: give --endpoint that address"
            return Answer(path, status, note=note, failure="redirect")
        url = target
    return Answer(path, status, note=f"redirects more than {_REDIRECTS} times", failure="redirect")


async def _read(response: httpx.Response, access: Access, path: str) -> Answer:
    status, headers = response.status_code, response.headers
    body = await _body(response)
    if isinstance(body, str):
        return Answer(path, status, note=body, failure="body")
    if access.api_key:
        # A server that echoes the request must not bring the key into a fact.
        body = body.replace(access.api_key.encode(), b"***")
    content_type, server = headers.get("content-type", ""), headers.get("server", "")
    whole = Answer(path, status, None, content_type, server)
    if status in (401, 403):
        why = "refuses this API key" if access.api_key else "needs an API key"
        note = f"{why} ({status}): give the variable that holds it with --api-key-env NAME"
        return _with(whole, note, "auth")
    if status != 200:
        said = _said(body)
        return _with(whole, f"answers {status}" + (f": {said}" if said else ""), "status")
    if "html" in content_type.lower() or body[:64].lstrip().lower().startswith((b"<!doctype", b"<html")):
        return _with(whole, "answers with an HTML page: a proxy, a login or another service", "html")
    return Answer(path, status, body, content_type, server)


def _with(answer: Answer, note: str, failure: str) -> Answer:
    return Answer(answer.path, answer.status, None, answer.content_type, answer.server, note, failure)


async def _body(response: httpx.Response) -> bytes | str:
    """The body, or a sentence that says why it is not used."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        return f"answers in the encoding {_printable(encoding)!r}, which was not asked for"
    # Decoded here, not by the client: a small gzip body can grow a thousandfold in one step.
    unzip = zlib.decompressobj(wbits=31) if "gzip" in encoding else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        if unzip is not None:
            try:
                chunk = unzip.decompress(chunk, MAX_BYTES + 1 - len(body))
            except zlib.error:
                return "says it is gzip, and is not"
        body += chunk
        if len(body) > MAX_BYTES:
            return f"answers with more than {MAX_BYTES // 1024**2} MiB: not read further"
    if unzip is not None and not unzip.eof:
        return "closes the connection before its gzip body is whole"
    if unzip is not None and unzip.unused_data:
        return "sends more after the end of its gzip body"
    return bytes(body)


def _said(body: bytes) -> str:
    """The message of an error body, printable and short; empty where there is none."""
    import msgspec

    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    told = told.get("error", told) if isinstance(told, dict) else told
    if isinstance(told, dict):
        told = next(
            (told[key] for key in ("message", "detail", "error") if isinstance(told.get(key), str)), ""
        )
    return _printable(told) if isinstance(told, str) else ""


def _printable(text: str) -> str:
    clean = "".join(character if character.isprintable() else " " for character in text[: _MESSAGE + 1])
    return clean if len(clean) <= _MESSAGE else clean[: _MESSAGE - 1] + "…"


def _explain(error: BaseException, base: str) -> tuple[str, str]:
    """A short word and a sentence for why there was no answer."""
    import httpx

    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = _printable(cause.verify_message or "it cannot be verified")
            return "certificate", (
                f"its certificate is not trusted ({why}): give --ca-bundle FILE, or --insecure to go without"
            )
        if isinstance(cause, ssl.SSLError):
            return (
                "tls",
                f"does not speak TLS as expected ({cause.reason or 'handshake failed'}): is it http://?",
            )
        if isinstance(cause, socket.gaierror):
            return "name", "this host name is not known here"
        if isinstance(cause, ConnectionRefusedError):
            return "refused", "nothing listens there: the connection is refused"
        if isinstance(cause, OSError) and cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
            return "unreachable", f"cannot be reached: {_strerror(cause)}"
    if isinstance(error, httpx.InvalidURL | UnicodeError):
        return "url", "this URL or the one it redirects to cannot be used"
    if isinstance(error, httpx.RemoteProtocolError):
        if "illegal" in str(error).lower() and base.startswith("http://"):
            return "not-http", "does not answer in HTTP: is it another service, or https://?"
        return "half", "closes the connection before the answer is whole, or answers in no valid HTTP"
    if isinstance(error, httpx.ReadError | httpx.WriteError | ConnectionError):
        return "half", "breaks the connection before the answer is whole"
    return "failed", f"cannot be read ({type(error).__name__})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what led to it, groups unpacked."""
    waiting, seen = [error], set[int]()
    while waiting:
        at = waiting.pop(0)
        if id(at) in seen:
            continue
        seen.add(id(at))
        yield at
        if isinstance(at, BaseExceptionGroup):
            waiting.extend(at.exceptions)
        waiting.extend(cause for cause in (at.__cause__, at.__context__) if cause is not None)


def _strerror(error: OSError) -> str:
    return error.strerror or type(error).__name__
