"""A real llama.cpp server, read while it runs. What it should say follows from how it was started."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from preop.demo.engine import Engine, running_engine
from preop.errors import InstrumentError
from preop.evidence import Live
from preop.instruments.endpoint import models_of, read_endpoint
from preop.instruments.types import Access

pytestmark = pytest.mark.engine

CONTEXT, PARALLEL = 4096, 4


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with running_engine(context=CONTEXT, parallel=PARALLEL, alias="small") as engine:
        yield engine


def read(engine: Engine) -> Live:
    return read_endpoint(Access(engine.url))


def test_facts(engine: Engine) -> None:
    live = read(engine)
    assert live.engine == "llama.cpp" and live.url == engine.url
    found = {name: fact.value for name, fact in live.facts.items() if fact.is_known}
    assert found["max_num_seqs"] == PARALLEL
    assert found["max_model_len"] == CONTEXT // PARALLEL
    assert found["native_context"] == 8192  # SmolLM2's max_position_embeddings
    assert found["speculative"] is None
    assert found["enable_metrics"] is True
    assert "<|im_start|>" in found["chat_template"]
    assert models_of(live) == ["small"]
    assert {route.path: route.status for route in live.routes}["/health"] == 200


def test_a_unified_cache_gives_each_slot_all_of_it() -> None:
    with running_engine(context=CONTEXT, parallel=PARALLEL, kv_unified=True) as engine:
        live = read(engine)
    assert live.facts["max_model_len"].value == CONTEXT
    # The same answers come from slots of 4,096 tokens each: what the cache holds is not told.
    assert not live.facts["kv_cache_tokens"].is_known


def test_counters_follow_the_requests(engine: Engine) -> None:
    before = read(engine).metrics
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "temperature": 0}
    request = urllib.request.Request(
        f"{engine.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        usage = json.load(answer)["usage"]
    after = read(engine).metrics
    assert after["generation_tokens_total"] - before["generation_tokens_total"] == usage["completion_tokens"]
    prompt = ("prompt_tokens_total", "prefix_hits_total")
    assert sum(after[name] - before[name] for name in prompt) == usage["prompt_tokens"]
    assert after["running"] == 0


def test_an_engine_that_has_gone() -> None:
    with running_engine(context=512, parallel=1) as engine:
        url = engine.url
    with pytest.raises(InstrumentError, match="nothing listens there"):
        read_endpoint(Access(url))
