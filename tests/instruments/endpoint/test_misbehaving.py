"""Endpoints that are not what they should be: each gives one sentence that says what and what to do."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from preop.errors import InstrumentError, UsageError
from preop.evidence import Live
from preop.instruments.endpoint import ENDPOINT, read_endpoint
from preop.instruments.endpoint.client import MAX_BYTES
from preop.instruments.types import Access

from .servers import Handler, Page, Request, answering, recorded, response, serving

TIMEOUT_S = 0.5


def refusal(handler: Handler, **access: object) -> str:
    """The sentence about a server that gives nothing to read."""
    with serving(handler) as server:
        return refusal_of(Access(server.url, timeout_s=TIMEOUT_S, **access))  # type: ignore[arg-type]  # kwargs


def refusal_of(access: Access) -> str:
    began = time.monotonic()
    with pytest.raises(InstrumentError) as caught:
        read_endpoint(access)
    assert time.monotonic() - began < access.timeout_s + 2
    sentence = str(caught.value)
    assert sentence.startswith(access.url) and "\n" not in sentence and len(sentence) < 400
    return sentence


def raw(answer: bytes) -> Handler:
    """A server that writes these bytes, whatever it is asked."""

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return handle


def page(**fields: object) -> Handler:
    return raw(response(Page(**fields)))  # type: ignore[arg-type]  # kwargs


async def hang(request: Request, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drip_head(request: Request, writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 1000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def drip_body(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def endless(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000000\r\n\r\n")
    for _ in range(1000):
        writer.write(b"#" * 1_000_000)
        await writer.drain()


def chunked(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


BOMB = gzip.compress(b"0" * 200_000_000, 9)

CASES: dict[str, tuple[Handler, str]] = {
    "hangs": (hang, r"no whole answer within 0\.5 s"),
    "drips its head": (drip_head, r"no whole answer within 0\.5 s"),
    "drips its body": (drip_body, r"no whole answer within 0\.5 s"),
    "says nothing": (raw(b""), "closes the connection"),
    "half a body": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"), "before the answer is whole"),
    "chunked, cut": (raw(chunked(b"ff\r\n{")), "before the answer is whole"),
    "chunked, broken": (raw(chunked(b"zz\r\n{")), "no valid HTTP|does not answer in HTTP"),
    "not HTTP": (raw(b"220 mail.example.com ESMTP\r\n\r\n"), "does not answer in HTTP"),
    "not HTTP, one line": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "no valid HTTP"),
    "TLS on a plain port": (raw(bytes.fromhex("1503010002020a")), "https://"),
    "no status": (raw(b"\x00\xff\xfe" * 100), "HTTP"),
    "HTML": (page(body=b"<!DOCTYPE html><title>Log in</title>", content_type="text/html"), "HTML page"),
    "HTML without saying so": (page(body=b"  <html><body>hi", content_type=""), "HTML page"),
    "needs a key": (
        page(status=401, body=b'{"error":"Unauthorized"}'),
        r"needs an API key \(401\).*--api-key-env",
    ),
    "forbidden": (page(status=403), r"needs an API key \(403\)"),
    "another host": (
        page(status=307, headers={"Location": "https://sso.example.com/login?next=secret"}),
        r"redirects to https://sso\.example\.com/login, which was not followed",
    ),
    "another scheme": (
        page(status=301, headers={"Location": "https://127.0.0.1/"}),
        "redirects to https://127",
    ),
    "no such target": (page(status=302, headers={"Location": "http://[bad"}), "redirects to"),
    "redirect loop": (page(status=302, headers={"Location": "/again"}), "redirects more than 3 times"),
    "an error page": (page(status=502, body=b"upstream\x1b[31m down"), "answers 502$"),
    "a loading model": (
        page(status=503, body=b'{"error":{"message":"Loading model","type":"unavailable_error"}}'),
        "answers 503: Loading model",
    ),
    "404 everywhere": (page(status=404), "404 on every route"),
    "empty": (page(body=b""), "nothing there is an inference engine's"),
    "invalid JSON": (page(body=b'{"data": ['), "nothing there is an inference engine's"),
    "JSON of something else": (page(body=b'{"status":"ok"}'), "nothing there is an inference engine's"),
    "an error with status 200": (
        page(body=b'{"error":{"message":"no"}}'),
        "nothing there is an inference engine's",
    ),
    "nested to the moon": (page(body=b"[" * 100_000), "nothing there is an inference engine's"),
    "garbage": (page(body=b"\xff\xfe\x00\xd8" * 1000), "nothing there is an inference engine's"),
    "no gzip": (page(body=b"{}", headers={"Content-Encoding": "gzip"}), "says it is gzip, and is not"),
    "gzip, cut": (
        page(body=BOMB[:100], headers={"Content-Encoding": "gzip"}),
        "before its gzip body is whole",
    ),
    "gzip and more": (
        page(body=gzip.compress(b"{}") * 2, headers={"Content-Encoding": "gzip"}),
        "sends more after the end",
    ),
    "another encoding": (
        page(body=b"{}", headers={"Content-Encoding": "br"}),
        "'br', which was not asked for",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence(case: str) -> None:
    handler, expected = CASES[case]
    assert re.search(expected, refusal(handler))


def test_a_body_without_end_is_cut_off() -> None:
    with serving(endless) as server:
        sentence = refusal_of(Access(server.url, timeout_s=20))
    assert "more than 16 MiB" in sentence and MAX_BYTES == 16 * 2**20


def test_a_gzip_bomb() -> None:
    with serving(page(body=BOMB, headers={"Content-Encoding": "gzip"})) as server:
        assert "more than 16 MiB" in refusal_of(Access(server.url, timeout_s=20))


def test_nothing_listens() -> None:
    with socket.socket() as bound:  # bound, not listening: the port stays taken and refuses
        bound.bind(("127.0.0.1", 0))
        assert "refused" in refusal_of(
            Access(f"http://127.0.0.1:{bound.getsockname()[1]}", timeout_s=TIMEOUT_S)
        )


def test_unknown_host() -> None:
    assert "host name is not known" in refusal_of(Access("http://no-such-host.invalid:8000", timeout_s=10))


def test_a_key_that_is_refused_is_never_shown() -> None:
    sentence = refusal(page(status=401, body=b'{"message":"bad key sekret"}'), api_key="sekret")
    assert "refuses this API key (401)" in sentence and "sekret" not in sentence


def test_an_error_that_quotes_the_key_is_masked() -> None:
    sentence = refusal(page(status=500, body=b'{"message":"bad key sekret"}'), api_key="sekret")
    assert "bad key ***" in sentence


@pytest.mark.parametrize("key", ["with\nnewline", "ключ"])
def test_a_key_that_no_header_carries(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_endpoint(Access("http://127.0.0.1:9", api_key=key))
    assert key not in str(caught.value)


def test_the_key_goes_to_the_endpoint_alone() -> None:
    with serving(answering(recorded("vllm-0.32.0"))) as other:
        away = page(status=307, headers={"Location": f"{other.url}/v1/models"})
        with serving(away) as server:
            refusal_of(Access(server.url, api_key="sekret", timeout_s=TIMEOUT_S))
            assert {request.headers["authorization"] for request in server.requests} == {"Bearer sekret"}
        assert other.requests == []


def test_a_redirect_on_the_same_server_is_followed() -> None:
    pages = recorded("vllm-0.32.0")
    pages["/metrics/"] = pages["/metrics"]
    pages["/metrics"] = Page(status=307, headers={"Location": "/metrics/"})
    assert read(answering(pages)).facts["kv_blocks"].value == 364


def test_one_bad_route_costs_itself_alone() -> None:
    good = answering(recorded("vllm-0.32.0"))

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        await (hang if request.target == "/metrics" else good)(request, writer)

    live = read(handle)
    assert live.engine == "vllm" and live.facts["max_model_len"].value == 2048
    notes = {route.path: route.note for route in live.routes}
    assert notes["/metrics"] == "no whole answer within 0.5 s"
    assert notes["/version"] is None


def test_a_gzip_body_that_nobody_asked_for_is_read() -> None:
    pages = recorded("vllm-0.32.0")
    zipped = Page(gzip.compress(pages["/metrics"].body), headers={"Content-Encoding": "gzip"})
    assert read(answering(pages | {"/metrics": zipped})).metrics["generation_tokens_total"] == 24


def test_content_types_are_not_believed() -> None:
    pages = recorded("vllm-0.32.0")
    wrong = {path: Page(answer.body, answer.status, "image/png") for path, answer in pages.items()}
    assert read(answering(wrong)).facts["kv_blocks"].value == 364


@pytest.mark.parametrize("given", ["{}/", "{}/v1", "{}/v1/", "{}/v1/chat/completions", "{}/metrics"])
def test_what_people_paste(given: str) -> None:
    with serving(answering(recorded("vllm-0.32.0"))) as server:
        live = read_endpoint(Access(given.format(server.url), timeout_s=5))
        assert live.url == server.url and live.engine == "vllm"


def test_behind_a_path_prefix() -> None:
    with serving(answering(recorded("vllm-0.32.0"), prefix="/team/llm")) as server:
        assert read_endpoint(Access(f"{server.url}/team/llm/v1", timeout_s=5)).engine == "vllm"


def test_ipv6() -> None:
    with serving(answering(recorded("vllm-0.32.0")), host="::1") as server:
        assert read_endpoint(Access(server.url, timeout_s=5)).engine == "vllm"


def test_a_password_in_the_url_is_used_and_not_kept() -> None:
    with serving(answering(recorded("vllm-0.32.0"))) as server:
        live = read_endpoint(Access(server.url.replace("://", "://user:pass@"), timeout_s=5))
        assert all(request.headers["authorization"].startswith("Basic ") for request in server.requests)
    assert "pass" not in str(live) and "***@" in live.url


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    ca = trustme.CA()
    bundle = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(bundle))
    return ca, bundle


def tls(ca: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context


def test_an_untrusted_certificate(authority: tuple[trustme.CA, Path]) -> None:
    ca, bundle = authority
    with serving(answering(recorded("vllm-0.32.0")), tls=tls(ca)) as server:
        sentence = refusal_of(Access(server.url, timeout_s=5))
        assert "certificate is not trusted" in sentence
        assert "--ca-bundle FILE" in sentence and "--insecure" in sentence
        assert read_endpoint(Access(server.url, timeout_s=5, verify_tls=str(bundle))).engine == "vllm"
        assert read_endpoint(Access(server.url, timeout_s=5, verify_tls=False)).engine == "vllm"


def test_a_certificate_for_another_name(authority: tuple[trustme.CA, Path]) -> None:
    ca, bundle = authority
    with serving(answering({}), tls=tls(ca, "example.org")) as server:
        assert "certificate is not trusted" in refusal_of(Access(server.url, verify_tls=str(bundle)))


def test_https_where_http_is_spoken() -> None:
    with serving(answering(recorded("vllm-0.32.0"))) as server:
        assert "is it http://?" in refusal_of(Access(server.url.replace("http:", "https:"), timeout_s=2))


@pytest.mark.parametrize("make", [lambda folder: folder / "gone.pem", lambda folder: _text(folder)])
def test_a_bundle_that_is_none(make: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--ca-bundle"):
        read_endpoint(Access("https://127.0.0.1:9", verify_tls=str(make(tmp_path))))


def _text(folder: Path) -> Path:
    path = folder / "not.pem"
    path.write_text("hello")
    return path


def test_naming_the_instrument_imports_no_client() -> None:
    heavy = "{'httpx', 'ssl', 'prometheus_client'}"
    code = f"import sys, preop.instruments.endpoint; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_instrument_needs_an_endpoint() -> None:
    from preop.deployment.types import Deployment
    from preop.instruments.types import Job

    job = Job(Deployment("d", "vllm", "x", {}), None)
    missing = ENDPOINT.missing(job)
    assert missing is not None and "--endpoint" in missing.en and "--endpoint" in missing.zh
    with pytest.raises(InstrumentError, match="--endpoint"):
        ENDPOINT.run(job)


def read(handler: Handler) -> Live:
    with serving(handler) as server:
        return read_endpoint(Access(server.url, timeout_s=TIMEOUT_S))
