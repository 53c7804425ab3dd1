"""A real vLLM, read while it runs: held against its settings, its log and the closed form of its KV cache."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest

from preop.evidence import Live
from preop.instruments.endpoint import models_of, read_endpoint
from preop.instruments.types import Access

pytestmark = pytest.mark.vllm

# SmolLM2-135M: K and V, 30 layers, 3 KV heads of 64, 2 bytes (bfloat16).
TOKEN_BYTES = 2 * 30 * 3 * 64 * 2


@pytest.fixture(scope="module")
def live(vllm_url: str) -> Live:
    return read_endpoint(Access(vllm_url))


def test_settings(live: Live) -> None:
    found = {name: fact.value for name, fact in live.facts.items() if fact.is_known}
    assert live.engine == "vllm"
    assert found["engine_version"] == "0.32.0"
    assert models_of(live) == ["small"]
    assert found["max_model_len"] == 2048
    assert found["max_num_seqs"] == 16
    assert found["accelerator"] == "none"
    assert found["speculative"] is None
    assert all(route.note is None for route in live.routes)


def test_kv_cache(live: Live, vllm_log: Path) -> None:
    found = {name: fact.value for name, fact in live.facts.items()}
    logged = re.search(r"KV cache size: ([\d,]+) tokens", vllm_log.read_text())
    assert logged is not None
    blocks = 2**30 // (found["block_size"] * TOKEN_BYTES)
    assert found["kv_blocks"] == blocks
    assert found["kv_cache_tokens"] == blocks * found["block_size"] == int(logged[1].replace(",", ""))


def test_counters_follow_the_requests(vllm_url: str) -> None:
    before = read_endpoint(Access(vllm_url)).metrics
    body = {"model": "small", "prompt": "Hello there", "max_tokens": 6, "temperature": 0}
    request = urllib.request.Request(
        f"{vllm_url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        usage = json.load(answer)["usage"]
    after = read_endpoint(Access(vllm_url)).metrics
    assert after["generation_tokens_total"] - before["generation_tokens_total"] == usage["completion_tokens"]
    assert after["prompt_tokens_total"] - before["prompt_tokens_total"] == usage["prompt_tokens"]
