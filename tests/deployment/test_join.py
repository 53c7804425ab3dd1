"""Declared facts joined with what a running engine says."""

from __future__ import annotations

from typing import Any

import pytest

from preop.deployment.join import from_live, join
from preop.deployment.types import Deployment
from preop.evidence import Live
from preop.facts import Fact, Origin, known, unknown

from .reading import read_command

ROUTE = Origin("route", "GET /server_info")


def live(engine: str = "vllm", **values: Any) -> Live:
    facts = {name: known(value, "engine", ROUTE) for name, value in values.items()}
    return Live("http://127.0.0.1:8000", engine, facts, {}, [])


def declared(engine: str = "vllm", **values: Any) -> Deployment:
    origin = Origin("argument", "argument 3")
    facts = {
        name: value if isinstance(value, Fact) else known(value, "user", origin)
        for name, value in values.items()
    }
    return Deployment("d", engine, "command line", facts)


def denied(deployment: Deployment) -> list[str]:
    return [each.name for each in deployment.contradictions]


def test_what_the_engine_denies_is_a_contradiction_and_its_value_counts() -> None:
    joined = join(
        read_command("vllm", "serve", "org/m", "--max-model-len", "32768"), live(max_model_len=8192)
    )
    (contradiction,) = joined.contradictions
    assert (contradiction.name, contradiction.declared.value, contradiction.running.value) == (
        "max_model_len",
        32768,
        8192,
    )
    assert contradiction.declared.source == "argument 4, --max-model-len"
    assert joined.fact("max_model_len").value == 8192
    assert joined.endpoint == "http://127.0.0.1:8000"


def test_what_was_unknown_or_a_default_is_filled_in() -> None:
    default = known("auto", "default", Origin("default", "vLLM 0.32.0 default"))
    joined = join(
        declared(max_num_seqs=unknown("not set"), kv_cache_dtype=default, dtype="auto"),
        live(max_num_seqs=256, kv_cache_dtype="fp8", dtype="bfloat16", kv_cache_tokens=46592),
    )
    assert not joined.contradictions
    assert {
        joined.fact(name).set_by for name in ("max_num_seqs", "kv_cache_dtype", "dtype", "kv_cache_tokens")
    } == {"engine"}


def test_what_agrees_keeps_the_place_in_the_users_file() -> None:
    joined = join(declared(max_num_seqs=8), live(max_num_seqs=8))
    assert joined.fact("max_num_seqs").set_by == "user"


def test_an_unknown_running_value_denies_nothing() -> None:
    running = Live("http://h", "vllm", {"max_num_seqs": unknown("not reported")}, {}, [])
    joined = join(declared(max_num_seqs=8), running)
    assert not joined.contradictions
    assert joined.fact("max_num_seqs").value == 8


@pytest.mark.parametrize(
    ("name", "value", "running"),
    [
        ("model", "Qwen/Qwen2.5-7B", "qwen/qwen2.5-7b"),
        ("model", "/models/Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("model", "Qwen/Qwen2.5-7B", "/data/qwen"),
        ("model", "Qwen/Qwen2.5-7B", "/root/.cache/hub/models--Qwen--Qwen2.5-7B/snapshots/abc"),
        ("model", "/a/x.gguf", "/b/x.gguf"),
        ("model", "ggml-org/x-GGUF", "/cache/x.gguf"),
        ("served_model_name", ["a", "b"], "b"),
        ("dtype", "half", "torch.float16"),
        ("dtype", "bf16", "bfloat16"),
        ("dtype", "auto", "bfloat16"),
        ("kv_cache_dtype", "fp8", "fp8_e4m3"),
        ("kv_cache_dtype", "fp8_e4m3", "fp8_e4m3fn"),
        ("kv_cache_dtype", "auto", "bfloat16"),
        ("kv_cache_dtype", "bfloat16", "auto"),
        ("speculative", {"method": "ngram"}, True),
        ("quantization", "awq", "awq_marlin"),
        ("quantization", "compressed-tensors", "compressed_tensors"),
        ("gpu_memory_fraction", 0.9, 0.9000001),
        ("max_model_len", 32768, 32768.0),
        ("engine_version", "0.32.0", "0.32.0+cpu"),
        ("engine_version", "v0.32", "0.32.1"),
        ("engine_version", "0.32.0", "0.1.dev1+gabcdef"),
        ("block_size", 16, 528),
        ("chat_template", "./t.jinja", "{{ messages }}"),
        ("speculative", {"method": "ngram", "num_speculative_tokens": 5}, "ngram"),
        ("speculative", {"model": "org/draft"}, "draft_model"),
        ("enable_prefix_caching", True, True),
    ],
)
def test_the_same_in_other_words_is_no_contradiction(name: str, value: Any, running: Any) -> None:
    assert denied(join(declared(**{name: value}), live(**{name: running}))) == []


@pytest.mark.parametrize(
    ("name", "value", "running"),
    [
        ("model", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-14B"),
        ("model", "Qwen/Qwen2.5-7B", "other/Qwen2.5-7B"),
        ("model", "/a/x-Q4_0.gguf", "/a/x-Q8_0.gguf"),
        ("served_model_name", ["a"], "b"),
        ("dtype", "float16", "bfloat16"),
        ("kv_cache_dtype", "fp8_e5m2", "fp8_e4m3"),
        ("kv_cache_dtype", "fp8", "bfloat16"),
        ("kv_cache_dtype", "fp8", "auto"),
        ("quantization", "awq", "gptq"),
        ("gpu_memory_fraction", 0.9, 0.5),
        ("max_num_seqs", 256, 255),
        ("tensor_parallel_size", 2, 1),
        ("engine_version", "0.32.0", "0.31.0"),
        ("speculative", {"method": "ngram"}, None),
        ("speculative", {"method": "ngram"}, "eagle3"),
        ("enable_prefix_caching", True, False),
    ],
)
def test_another_meaning_is_a_contradiction(name: str, value: Any, running: Any) -> None:
    assert denied(join(declared(**{name: value}), live(**{name: running}))) == [name]


def test_a_served_name_is_the_model_it_names() -> None:
    joined = join(
        declared(model="org/m", served_model_name="chat"), live(model="chat", served_model_name="chat")
    )
    assert denied(joined) == []


def test_llama_cpp_rounds_a_context_up() -> None:
    assert denied(join(declared("llama.cpp", context_size=1000), live("llama.cpp", context_size=1024))) == []
    slots = join(
        declared("llama.cpp", context_size=1000, max_num_seqs=4), live("llama.cpp", context_size=2000)
    )
    assert denied(slots) == ["context_size"] or slots.fact("context_size").value == 1000
    assert denied(join(declared("llama.cpp", max_model_len=8192), live("llama.cpp", max_model_len=2048))) == [
        "max_model_len"
    ]


def test_another_engine_is_a_contradiction_and_none_of_its_values_are_taken() -> None:
    joined = join(declared("vllm", max_num_seqs=8), live("sglang", max_num_seqs=4))
    assert denied(joined) == ["engine"]
    assert joined.fact("max_num_seqs").value == 8


def test_another_model_is_judged_by_its_own_files() -> None:
    command = ("vllm", "serve", "Qwen/Qwen2.5-7B-Instruct")
    joined = join(read_command(*command), live(model="Qwen/Qwen2.5-0.5B-Instruct"))
    assert denied(joined) == ["model"]
    assert joined.model is None or "0.5B" in joined.model.name


def test_a_path_that_holds_no_model_breaks_nothing() -> None:
    assert from_live(live(model="/etc/hostname")).model is None


def test_a_deployment_from_the_endpoint_alone() -> None:
    deployment = from_live(live(model="Qwen/Qwen2.5-7B-Instruct", max_model_len=4096))
    assert (deployment.engine, deployment.endpoint) == ("vllm", "http://127.0.0.1:8000")
    assert deployment.fact("max_model_len").set_by == "engine"
    assert deployment.model is not None and deployment.model.native_context == 32768
