"""What preop reads out of the recorded answers of real engines.

Expected values come from how the engines were started and from their own logs (`tests/data/recordings`).
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import pytest

from preop.evidence import Live
from preop.instruments.endpoint import models_of, read_endpoint
from preop.instruments.types import Access

from .servers import Page, answering, recorded, serving

KEY = "sekret-key-1"

# SmolLM2-135M: K and V, 30 layers, 3 KV heads of 64, 2 bytes (bfloat16).
TOKEN_BYTES = 2 * 30 * 3 * 64 * 2


def read(pages: dict[str, Page], **access: Any) -> Live:
    with serving(answering(pages)) as server:
        return read_endpoint(Access(server.url, timeout_s=5, **access))


def values(live: Live) -> dict[str, Any]:
    return {name: fact.value for name, fact in live.facts.items() if fact.is_known}


@pytest.fixture(scope="module")
def vllm() -> Live:
    return read(recorded("vllm-0.32.0"))


@pytest.fixture(scope="module")
def vllm_dev() -> Live:
    return read(recorded("vllm-0.32.0-dev"), api_key=KEY)


@pytest.fixture(scope="module")
def llama() -> Live:
    return read(recorded("llama.cpp-b11549"))


def test_vllm_facts(vllm: Live) -> None:
    assert vllm.engine == "vllm"
    found = values(vllm)
    assert found["engine_version"] == "0.32.0"
    assert found["model"] == ".cache/models/SmolLM2-135M-Instruct-hf"
    assert found["served_model_name"] == "smollm2"
    assert models_of(vllm) == ["smollm2"]
    assert found["max_model_len"] == 2048
    assert found["enable_prefix_caching"] is True
    assert found["gpu_memory_fraction"] == 0.92  # the default of this release
    assert found["kv_cache_memory_bytes"] == 2**30
    assert "max_num_seqs" not in found  # vLLM tells it on no route without development mode


def test_vllm_kv_cache_is_the_closed_form(vllm: Live) -> None:
    found = values(vllm)
    blocks = 2**30 // (found["block_size"] * TOKEN_BYTES)
    assert (found["block_size"], found["kv_blocks"]) == (128, blocks) == (128, 364)
    assert found["kv_cache_tokens"] == blocks * found["block_size"] == 46_592  # as its log says


def test_vllm_metrics_are_those_of_the_requests_that_ran(vllm: Live) -> None:
    assert vllm.metrics == {
        "running": 0,
        "waiting": 0,
        "kv_usage": 0,
        "preemptions_total": 0,
        "prefix_queries_total": 108,
        "prefix_hits_total": 0,
        "prompt_tokens_total": 108,
        "generation_tokens_total": 24,
    }
    assert [route.note for route in vllm.routes if route.note] == []


def test_vllm_without_speculation_is_known_to_be_without(vllm: Live) -> None:
    fact = vllm.facts["speculative"]
    assert fact.is_known and fact.value is None


@pytest.mark.parametrize("version", ["0.33.0", "0.10.2", "0.1.dev1+g0123abc", "0.32.1.dev5"])
def test_absent_counters_prove_nothing_in_a_version_not_read(version: str) -> None:
    pages = recorded("vllm-0.32.0") | {"/version": Page(b'{"version":"%s"}' % version.encode())}
    fact = read(pages).facts["speculative"]
    assert not fact.is_known
    assert fact.note is not None and version in fact.note


def test_vllm_speculation_shows_in_the_metrics_alone() -> None:
    pages = recorded("vllm-0.32.0-dev")
    del pages["/server_info"]
    fact = read(pages).facts["speculative"]
    assert fact.value == {"num_speculative_tokens": 3}


def test_vllm_server_info_is_the_whole_configuration(vllm_dev: Live) -> None:
    found = values(vllm_dev)
    assert found["max_num_seqs"] == 4
    assert found["max_model_len"] == 1024
    assert found["enforce_eager"] is True
    assert found["enable_prefix_caching"] is False
    assert found["allow_long_max_model_len"] is False
    assert found["dtype"] == "bfloat16"
    assert found["quantization"] is None
    assert found["accelerator"] == "none"
    assert {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}.items() <= found[
        "speculative"
    ].items()


def test_a_hybrids_capacity_is_not_computed_from_blocks() -> None:
    pages = recorded("vllm-0.32.0")
    older = pages["/metrics"].body.replace(b'kv_cache_size_tokens="46592",', b"")
    live = read(pages | {"/metrics": Page(older, content_type="text/plain")})
    fact = live.facts["kv_cache_tokens"]
    assert not fact.is_known and fact.note is not None and "same cache" in fact.note
    assert live.facts["kv_blocks"].value == 364


def test_data_parallel_engines_are_added_and_the_smallest_cache_counts() -> None:
    pages = recorded("vllm-0.32.0")
    lines = pages["/metrics"].body.split(b"\n")
    second = [line.replace(b'engine="0"', b'engine="1"').replace(b'="364"', b'="300"') for line in lines]
    both = b"\n".join([*lines, *(line for line in second if line.startswith(b"vllm:"))])
    live = read(pages | {"/metrics": Page(both, content_type="text/plain")})
    assert live.metrics["generation_tokens_total"] == 48
    assert live.facts["kv_blocks"].value == 300
    assert "2 data-parallel engines" in (live.facts["kv_blocks"].note or "")


def test_names_of_vllm_before_the_renaming() -> None:
    old = (
        b'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_waiting{engine="0"} 2\n'
        b'vllm:gpu_cache_usage_perc{engine="0"} 0.5\nvllm:gpu_prefix_cache_queries_total{engine="0"} 10\n'
        b'vllm:gpu_prefix_cache_hits_total{engine="0"} 4\nvllm:num_preemptions_total{engine="0"} 1\n'
        b'vllm:prompt_tokens_total{engine="0"} 7\nvllm:generation_tokens_total{engine="0"} 9\n'
    )
    live = read({"/metrics": Page(old, content_type="text/plain"), "/version": Page(b'{"version":"0.9.1"}')})
    assert live.metrics["kv_usage"] == 0.5
    assert (live.metrics["prefix_queries_total"], live.metrics["prefix_hits_total"]) == (10, 4)
    assert [route.note for route in live.routes if route.path == "/metrics"] == [None]


def test_a_name_that_the_release_should_print_is_missed() -> None:
    pages = recorded("vllm-0.32.0")
    renamed = pages["/metrics"].body.replace(b"vllm:kv_cache_usage_perc", b"vllm:something_else")
    live = read(pages | {"/metrics": Page(renamed, content_type="text/plain")})
    assert "kv_usage" not in live.metrics
    (note,) = [route.note for route in live.routes if route.path == "/metrics"]
    assert note is not None and "vllm:kv_cache_usage_perc" in note and "0.32.0" in note


def test_llama_cpp(llama: Live) -> None:
    assert llama.engine == "llama.cpp"
    found = values(llama)
    assert found["max_num_seqs"] == 4
    assert found["max_model_len"] == 1024  # 4096 for 4 slots
    assert found["native_context"] == 8192
    assert "YaRN" in (llama.facts["native_context"].note or "")
    assert found["served_model_name"] == "SmolLM2-135M-Instruct"
    assert found["model"].endswith("SmolLM2-135M-Instruct.Q4_1.gguf")
    assert "<|im_start|>" in found["chat_template"]
    assert found["speculative"] is None
    # This build has no number; and a slot's context does not tell the whole.
    for name in ("engine_version", "context_size", "kv_cache_tokens"):
        assert not llama.facts[name].is_known
    # 36 prompt tokens computed once, then 35 of them twice from the cache.
    assert llama.metrics["prompt_tokens_total"] + llama.metrics["prefix_hits_total"] == 108
    assert llama.metrics["generation_tokens_total"] == 24


def test_llama_cpp_speculation_is_read_from_the_slots() -> None:
    pages = recorded("llama.cpp-b11549")
    on = pages["/slots"].body.replace(b'"speculative":false', b'"speculative":true')
    assert b'"speculative.types":"none"' in pages["/props"].body
    assert read(pages | {"/slots": Page(on)}).facts["speculative"].value is True


def test_llama_cpp_without_slots_and_metrics() -> None:
    """Both are off unless asked for in many releases: the facts that they carry are absent, not guessed."""
    refused = Page(b'{"error":{"message":"This server does not support metrics endpoint."}}', 501)
    live = read(recorded("llama.cpp-b11549") | {"/slots": refused, "/metrics": refused})
    assert live.engine == "llama.cpp" and "speculative" not in live.facts and live.metrics == {}
    notes = {route.path: route.note for route in live.routes}
    assert notes["/metrics"] == "answers 501: This server does not support metrics endpoint."


@pytest.mark.parametrize("build, version", [("b10605-0123abc", "b10605"), ("b0-unknown", None), ("?", None)])
def test_llama_cpp_build(build: str, version: str | None) -> None:
    pages = recorded("llama.cpp-b11549")
    props = pages["/props"].body.replace(b"b0-unknown", build.encode())
    assert read(pages | {"/props": Page(props)}).facts["engine_version"].value == version


@pytest.mark.parametrize("name", ["vllm-0.32.0", "vllm-0.32.0-dev", "llama.cpp-b11549"])
def test_facts_keep_to_the_vocabulary(name: str) -> None:
    vocabulary = tomllib.loads((files("preop.engines") / "data" / "vocabulary.toml").read_text())
    for fact_name, fact in read(recorded(name)).facts.items():
        assert fact_name in vocabulary
        assert fact.unit == vocabulary[fact_name].get("unit"), fact_name
        assert fact.set_by in ("engine", "unknown")
        assert fact.origin is not None and fact.origin.kind == "route"


def test_a_key_of_the_server_that_echoes_it_is_masked() -> None:
    pages = recorded("vllm-0.32.0")
    echo = pages["/v1/models"].body.replace(b"smollm2", b"model-" + KEY.encode())
    live = read(pages | {"/v1/models": Page(echo)}, api_key=KEY)
    assert live.facts["served_model_name"].value == "model-***"
    assert KEY not in str(live)


def test_a_gateway_to_several_engines_is_no_engine() -> None:
    listing = b'{"data":[{"id":"a","owned_by":"vllm"},{"id":"b","owned_by":"sglang"}]}'
    live = read({"/v1/models": Page(listing)})
    assert live.engine == "unknown"
    assert models_of(live) == ["a", "b"]
    assert "model" not in live.facts


def test_a_version_or_a_model_list_alone_names_no_engine() -> None:
    live = read({"/version": Page(b'{"version":"0.32.0"}'), "/v1/models": Page(b'{"data":[{"id":"m"}]}')})
    assert live.engine == "unknown"
    assert values(live) == {"served_model_name": "m"}


def test_a_routers_metrics_are_not_an_engines() -> None:
    """vLLM production-stack's router prints vLLM's names with a label `server` for each engine behind it."""
    metrics = b'vllm:num_requests_running{server="http://10.0.0.1:8000"} 5\n'
    live = read({"/metrics": Page(metrics), "/v1/models": Page(b'{"data":[{"id":"m"}]}')})
    assert live.engine == "unknown" and live.metrics == {}


def test_an_adapter_is_not_a_model() -> None:
    listing = (
        b'{"data":[{"id":"base","owned_by":"vllm","root":"org/base","parent":null,"max_model_len":4096},'
        b'{"id":"lora","owned_by":"vllm","root":"/adapters/lora","parent":"base"}]}'
    )
    live = read({"/v1/models": Page(listing)})
    assert models_of(live) == ["base"]
    assert live.facts["model"].value == "org/base"
    assert live.facts["max_model_len"].value == 4096
