"""Does it stream: a server with a known schedule, straight and behind proxies that hold text back."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wire.pacers import free_port, pacing
from wire.servers import HEAD, Step, buffering, playing, serving

from preop.deployment.types import Deployment
from preop.errors import InstrumentError
from preop.evidence import Streaming
from preop.instruments.streaming import STREAMING
from preop.instruments.types import Access, Job

NO_MODELS = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def measured(url: str) -> Streaming:
    job = Job(Deployment("d", "unknown", "test", {}), Access(url))
    payload = STREAMING.run(job)
    assert isinstance(payload, Streaming)
    return payload


def test_missing_without_an_endpoint() -> None:
    job = Job(Deployment("d", "unknown", "test", {}), None)
    missing = STREAMING.missing(job)
    assert missing is not None and "--endpoint" in missing.en and "--endpoint" in missing.zh
    with pytest.raises(InstrumentError, match="--endpoint"):
        STREAMING.run(job)


def test_steady_stream() -> None:
    with pacing(open=True, ttft_us=50_000, itl_us=4_000) as url:
        payload = measured(url)
    assert payload.verdict == "streams"
    assert payload.model == "pacer"
    assert [request.output_tokens for request in payload.requests] == [16, 64, 64]
    first = payload.requests[1]
    assert first.content_events == 64 and first.finished
    assert first.first_content_ms is not None and first.last_content_ms is not None
    assert 50 <= first.first_content_ms < 150
    assert first.last_content_ms - first.first_content_ms > 63 * 4 * 0.9


def test_long_wait_then_fast_generation_still_streams() -> None:
    with pacing(open=True, ttft_us=600_000, itl_us=1_500) as url:
        assert measured(url).verdict == "streams"


def test_several_tokens_in_a_chunk_still_stream() -> None:
    with pacing(open=True, ttft_us=20_000, itl_us=80_000, chunk_tokens=4) as url:
        assert measured(url).verdict == "streams"


def test_proxy_that_holds_everything_back() -> None:
    with pacing(open=True, ttft_us=30_000, itl_us=3_000) as url, buffering(url, 1 << 30) as proxy:
        payload = measured(proxy.url)
    assert payload.verdict == "buffered"
    assert "held back" in payload.why


def test_proxy_that_lets_lumps_through() -> None:
    with pacing(open=True, ttft_us=30_000, itl_us=10_000) as url, buffering(url, 4096) as proxy:
        assert measured(proxy.url).verdict == "buffered"


def test_model_too_fast_to_tell_is_not_called_buffered() -> None:
    with pacing(open=True, ttft_us=30_000, itl_us=5) as url, pytest.raises(InstrumentError, match="too fast"):
        measured(url)


def test_whole_answer_as_json() -> None:
    document = {"choices": [{"message": {"content": "all at once"}, "finish_reason": "stop"}]}
    body = json.dumps(document).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with playing([head + body]) as server:
        payload = measured(server.url)
        assert b"Accept-Encoding: gzip, deflate\r\n" in server.requests[-1]
    assert payload.verdict == "not-sse"
    assert "application/json" in payload.why


def test_gateway_that_packs_the_stream_and_holds_it_back() -> None:
    """A compressor without a flush after each event: all text leaves it at the end."""

    async def handler(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.startswith(b"GET"):
            writer.write(NO_MODELS)
            return
        tokens = json.loads(request.partition(b"\r\n\r\n")[2])["max_tokens"]
        event = b'data: {"choices":[{"index":0,"delta":{"content":" t"},"finish_reason":null}]}\n\n'
        end = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
        packer = zlib.compressobj(wbits=31)
        writer.write(
            HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + packer.compress(b": hello\n\n")
        )
        for _ in range(tokens):
            await asyncio.sleep(0.004)
            writer.write(packer.compress(event))
        writer.write(packer.compress(end) + packer.flush())
        writer.close()

    with serving(handler) as server:
        assert measured(server.url).verdict == "buffered"


def test_importing_the_instruments_imports_no_http_parser() -> None:
    code = (
        "import sys, preop.instruments.streaming, preop.instruments.load, preop.instruments.tokens\n"
        "assert not {'httptools', 'uvloop', 'tokenizers', 'asyncio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_request_finishes() -> None:
    with pacing(fail_every=1) as url:
        payload = measured(url)
    assert payload.verdict == "failed"
    assert payload.requests[0].status == 503 and "overloaded" in payload.why


def test_nobody_there() -> None:
    with pytest.raises(InstrumentError, match="refused"):
        measured(f"http://127.0.0.1:{free_port()}")


@contextmanager
def nginx(upstream: str, folder: Path, buffering: str) -> Iterator[str]:
    port = free_port()
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; error_log {folder}/error.log; daemon off; worker_processes 1;\n"
        "events {}\n"
        f"http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};\n"
        f"fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{\n"
        f"proxy_pass {upstream}; proxy_http_version 1.1; proxy_buffering {buffering}; }} }} }}\n"
    )
    child = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(10)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.parametrize(("setting", "verdict"), [("on", "buffered"), ("off", "streams")])
def test_real_nginx(tmp_path: Path, setting: str, verdict: str) -> None:
    """nginx speaks HTTP/1.0 to its upstream unless told otherwise, so the upstream's answer has no chunks
    and ends with the connection: then `proxy_buffering on` holds text back until a buffer is full."""
    chunk = {"id": "x" * 60, "choices": [{"index": 0, "delta": {"content": " token"}, "finish_reason": None}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    script: list[Step] = [HEAD + b"Connection: close\r\n\r\n"]
    for _ in range(64):
        script += [0.015, b"data: " + json.dumps(chunk).encode() + b"\n\n"]
    script.append(b"data: " + json.dumps(end).encode() + b"\n\ndata: [DONE]\n\n")
    with playing([NO_MODELS], script) as upstream, nginx(upstream.url, tmp_path, setting) as proxy:
        assert measured(proxy).verdict == verdict


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_real_nginx_passes_chunked_upstreams_on_even_when_it_buffers(tmp_path: Path) -> None:
    with pacing(open=True, ttft_us=30_000, itl_us=5_000) as url, nginx(url, tmp_path, "on") as proxy:
        assert measured(proxy).verdict == "streams"


@pytest.mark.engine
def test_real_engine_streams() -> None:
    from preop.demo.engine import running_engine

    with running_engine(context=2048, parallel=2) as engine:
        payload = measured(engine.url)
    assert payload.verdict == "streams"
    assert all(request.finished for request in payload.requests)
