"""The HTTP client against servers that behave, and against servers that do not."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import InputError
from preop.instruments.types import Access
from preop.instruments.wire.client import Connection, Response, Target, run_loop
from preop.instruments.wire.errors import WireError
from wire.servers import HANG, HEAD, RESET, Step, chunked, playing

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def get(url: str, timeout_s: float = 5, **access: object) -> Response:
    connection = await Connection.open(Target.of(Access(url, **access)), timeout_s)  # type: ignore[arg-type]
    try:
        return await connection.request("GET", "/x", timeout_s=timeout_s)
    finally:
        connection.close()


def fetch(script: Sequence[Step], timeout_s: float = 5) -> Response:
    with playing(script) as server:
        return run_loop(get(server.url, timeout_s))


def kind(response: Response) -> str | None:
    return response.error.kind if response.error else None


def test_several_requests_on_one_connection() -> None:
    async def main(url: str) -> list[bytes]:
        connection = await Connection.open(Target.of(Access(url)), 5)
        bodies = []
        for _ in range(3):
            response = await connection.request("GET", "/x", timeout_s=5)
            bodies.append(response.body())
            assert connection.usable
        connection.close()
        return bodies

    with playing([OK], keep=True) as server:
        assert run_loop(main(server.url)) == [b"ok"] * 3
        assert server.connections == 1


def test_each_read_keeps_its_own_time() -> None:
    began = time.monotonic_ns()
    response = fetch(
        [
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
            0.1,
            chunked(b"a"),
            0.1,
            chunked(b"b", b"c"),
            b"0\r\n\r\n",
        ]
    )
    assert b"".join(piece for _, piece in response.raw) == b"abc"
    first, last = response.raw[0][0], response.raw[-1][0]
    assert 80e6 < last - first < 2e9
    assert response.head_ns is not None and first - response.head_ns > 80e6
    assert began < response.sent_ns < response.head_ns


def test_connection_close_is_respected() -> None:
    async def main(url: str) -> None:
        connection = await Connection.open(Target.of(Access(url)), 5)
        await connection.request("GET", "/x", timeout_s=5)
        assert not connection.usable

    with playing([OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")], keep=True) as server:
        run_loop(main(server.url))


def test_interim_responses_are_skipped() -> None:
    response = fetch(
        [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n", 0.05, OK]
    )
    assert (response.status, response.body(), "x-early" in response.headers) == (200, b"ok", False)


def test_body_without_length_ends_with_the_connection() -> None:
    response = fetch([b"HTTP/1.1 200 OK\r\n\r\n", b"ok", 0.05, b"ay"])
    assert (response.error, response.framing, response.body()) == (None, "close", b"okay")


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(WireError, match="refused the connection") as caught:
            run_loop(get(url))
    assert caught.value.kind == "refused"


def test_host_without_an_address() -> None:
    with pytest.raises(WireError) as caught:
        run_loop(get("http://no-such-host.invalid:1"))
    assert caught.value.kind in ("name", "unreachable")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([], "closed"),
        ([RESET], "reset"),
        ([HANG], "timeout"),
        ([b"HTTP/1.1 200 OK\r\n", HANG], "timeout"),
        ([b"HTTP/1.1 200 OK\r\nContent-Le"], "closed"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"], "closed"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", 0.05, RESET], "reset"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"data: x\n\n")], "closed"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"data: x\n\n"), HANG], "timeout"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nx"], "protocol"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n", HANG], "protocol"),
        ([b"\x15\x03\x01\x00\x02\x02\x46"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 300_000 + b"\r\n", HANG], "protocol"),
    ],
)
def test_answers_that_are_none(script: Sequence[Step], expected: str) -> None:
    response = fetch(script, timeout_s=0.5)
    assert kind(response) == expected
    assert response.end_ns is not None


def test_what_came_before_the_end_is_kept() -> None:
    response = fetch([HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunked(b"data: x\n\n"), 0.05])
    assert (kind(response), response.body()) == ("closed", b"data: x\n\n")


def test_body_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preop.instruments.wire.client.MAX_BODY", 1 << 16)
    response = fetch([HEAD + b"\r\n", *[b"x" * 8192] * 40, HANG])
    assert kind(response) == "protocol"


def test_cancelling_tears_the_connection_down() -> None:
    async def main(url: str) -> bool:
        connection = await Connection.open(Target.of(Access(url)), 5)
        task = asyncio.create_task(connection.request("GET", "/x", timeout_s=30))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return connection.usable

    with playing([HANG]) as server:
        assert run_loop(main(server.url)) is False


def test_server_that_closed_while_idle() -> None:
    async def main(url: str) -> Response:
        connection = await Connection.open(Target.of(Access(url)), 5)
        await connection.request("GET", "/x", timeout_s=5)
        await asyncio.sleep(0.1)
        return await connection.request("GET", "/x", timeout_s=5)

    with playing([OK]) as server:
        assert kind(run_loop(main(server.url))) == "closed"


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def test_tls_with_a_private_authority(authority: trustme.CA, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with playing([OK], tls=server_tls(authority)) as server:
        assert run_loop(get(server.url, verify_tls=str(bundle))).body() == b"ok"
        assert run_loop(get(server.url, verify_tls=False)).body() == b"ok"
        with pytest.raises(WireError, match="certificate is not trusted") as caught:
            run_loop(get(server.url))
    assert caught.value.kind == "tls"


def test_tls_for_another_name(authority: trustme.CA, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with (
        playing([OK], tls=server_tls(authority, "other.example")) as server,
        pytest.raises(WireError) as caught,
    ):
        run_loop(get(server.url, verify_tls=str(bundle)))
    assert caught.value.kind == "tls"


def test_https_to_a_plain_server() -> None:
    with playing([OK]) as server, pytest.raises(WireError) as caught:
        run_loop(get(server.url.replace("http:", "https:"), timeout_s=2))
    assert caught.value.kind in ("tls", "reset", "timeout")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://h",
        "http://",
        "http://h:99999",
        "http://user:pw@h",
        "http://[::1",
        "http://h:x",
        "http://h/?key=pw",
    ],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(InputError) as caught:
        Target.of(Access(url))
    assert "pw" not in str(caught.value)


def test_urls_that_are_some() -> None:
    target = Target.of(Access("https://Example.com/api/v1/"))
    assert (target.host, target.port, target.path) == ("example.com", 443, "/api")
    assert b"POST /api/v1/x HTTP/1.1\r\nHost: example.com\r\n" in target.head("POST", "/v1/x", b"{}", {})
    assert Target.of(Access("http://[::1]:8000")).address == "[::1]:8000"


def test_ca_bundle_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(InputError, match="CA bundle"):
        Target.of(Access("https://h", verify_tls=str(tmp_path / "ca.pem")))


def test_key_that_no_header_can_carry() -> None:
    with pytest.raises(InputError) as caught:
        Target.of(Access("http://h", api_key="secret\r\nX: y")).head("GET", "/", None, {})
    assert "secret" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=60), max_size=6),
    st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", HEAD + b"\r\n"]),
)
def test_no_bytes_make_the_client_raise(pieces: list[bytes], start: bytes) -> None:
    """Fed straight into the protocol: a socket for each example would take minutes."""

    class Wire(asyncio.Transport):
        closing = False

        def write(self, data: object) -> None: ...

        def abort(self) -> None:
            self.closing = True

        def is_closing(self) -> bool:
            return self.closing

    async def main() -> Response:
        connection = Connection(Target.of(Access("http://h")))
        connection.connection_made(Wire())
        task = asyncio.create_task(connection.request("GET", "/", timeout_s=5))
        await asyncio.sleep(0)
        for piece in [start, *pieces]:
            connection.data_received(piece)
        connection.connection_lost(None)
        return await task

    response = asyncio.run(main())
    assert response.error is not None or response.status is not None
