"""How trtllm-serve reads its command line and the YAML file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.engines import Unreadable, facts, parse, table
from preop.errors import PreopError
from preop.facts import Fact, Origin, Word

from .commandline import flags_of, read


def facts_of(*texts: str, file: Mapping[str, Any] | Unreadable | None = None) -> dict[str, Fact]:
    parsed = read("tensorrt-llm", *texts, config=(lambda path: file) if file is not None else None)
    return facts("tensorrt-llm", None, parsed, {})


def test_options_and_their_other_names() -> None:
    parsed = read("tensorrt-llm", "M", "--tp_size", "2", "--ep_size=4", "--trust_remote_code")
    assert flags_of(parsed) == {
        "model": "M",
        "tensor_parallel_size": 2,
        "moe_expert_parallel_size": 4,
        "trust_remote_code": True,
    }
    assert parsed.notes == ()


@pytest.mark.parametrize(
    ("texts", "kind", "says"),
    [
        (["M", "--tp-size", "2"], "unknown-flag", "--tp-size"),
        (["M", "--tensor_parallel", "2"], "unknown-flag", "--tensor_parallel"),
        (["M", "--port", "--host"], "bad-value", "whole number"),
        (["M", "--trust_remote_code=1"], "bad-value", "takes no value"),
        (["M", "N"], "other", "belongs to no flag"),
        (["M", "--port"], "bad-value", "missing"),
    ],
)
def test_what_click_stops_at(texts: list[str], kind: str, says: str) -> None:
    parsed = read("tensorrt-llm", *texts)
    assert (parsed.notes[0].kind, says in parsed.notes[0].message) == (kind, True)


def test_the_last_one_counts_and_a_switch_has_two_names() -> None:
    parsed = read("tensorrt-llm", "M", "--port", "1", "--port", "2", "--no-telemetry")
    assert flags_of(parsed) == {"model": "M", "port": 2, "telemetry": False}
    assert [note.kind for note in parsed.notes] == ["repeated-flag"]


def test_no_release_has_a_table_and_so_no_default_counts() -> None:
    """The packages of its releases are not on PyPI: the table is of a commit."""
    for version in ("1.0.0", "1.2.1", "1.3.0rc3", "main"):
        assert table("tensorrt-llm", version) is None
    parsed = read("tensorrt-llm", "M", version="1.2.1")
    found = facts("tensorrt-llm", "1.2.1", parsed, {})
    assert not any(fact.set_by == "default" for fact in found.values())
    assert "8192" in (found["max_num_batched_tokens"].note or "")


def test_the_file_adds_what_the_command_does_not_say() -> None:
    file = {
        "tensor_parallel_size": 2,
        "kv_cache_config": {"free_gpu_memory_fraction": 0.8, "dtype": "fp8", "enable_block_reuse": False},
        "speculative_config": {"decoding_type": "Eagle", "max_draft_len": 3, "speculative_model_dir": "D"},
        "quant_config": {"quant_algo": "FP8"},
        "enable_chunked_prefill": True,
        "cuda_graph_config": {"enable_padding": True},
    }
    found = facts_of("M", "--max_batch_size", "64", "--config", "c.yaml", file=file)
    assert found["max_num_seqs"].value == 64
    assert found["tensor_parallel_size"].value == 2
    assert found["tensor_parallel_size"].source == "c.yaml: tensor_parallel_size"
    assert found["kv_cache_free_memory_fraction"].value == 0.8
    assert found["kv_cache_dtype"].value == "fp8"
    assert found["speculative"].value == {"method": "Eagle", "num_speculative_tokens": 3, "model": "D"}
    assert found["quantization"].value == "fp8"
    assert found["enable_chunked_prefill"].value is True


def test_a_flag_and_the_file_that_disagree_leave_the_value_unknown() -> None:
    """The file won until NVIDIA/TensorRT-LLM pull request 14812 (June 2026), and the flag does since."""
    file = {"max_seq_len": 8192, "tensor_parallel_size": 4}
    found = facts_of("M", "--max_seq_len", "4096", "--tp_size", "4", "--config", "c.yaml", file=file)
    assert not found["max_model_len"].is_known and "disagree" in (found["max_model_len"].note or "")
    assert found["tensor_parallel_size"].value == 4


def test_an_object_of_the_file_may_reset_a_flag_that_it_does_not_name() -> None:
    """Before that change the file's kv_cache_config replaced the one made of flags."""
    texts = ["M", "--free_gpu_memory_fraction", "0.5", "--extra_llm_api_options", "c.yaml"]
    found = facts_of(*texts, file={"kv_cache_config": {"enable_block_reuse": True}})
    assert not found["kv_cache_free_memory_fraction"].is_known


@pytest.mark.parametrize("file", [None, Unreadable("it is inside the container")])
def test_a_file_that_is_not_here_may_set_anything_but_the_model(file: Unreadable | None) -> None:
    found = facts_of(
        "M", "--max_batch_size", "64", "--config", "c.yaml", "--served_model_name", "N", file=file
    )
    assert (found["model"].value, found["served_model_name"].value) == ("M", "N")
    assert not found["max_num_seqs"].is_known and not found["speculative"].is_known


@pytest.mark.parametrize(
    ("role", "expected"), [("CONTEXT", "prefill"), ("generation", "decode"), ("mm_encoder", None)]
)
def test_the_role_of_a_disaggregated_server(role: str, expected: str | None) -> None:
    fact = facts_of("M", "--server_role", role)["kv_role"]
    assert fact.value == expected and fact.is_known == (expected is not None)


_FLAG = st.sampled_from(
    [
        "--tp_size",
        "--config",
        "--config=c",
        "--trust_remote_code",
        "--telemetry",
        "--port",
        "--",
        "-",
        "M",
        "--x",
        "8",
    ]
)
_YAML = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers()), inner, max_size=3),
    ),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    [
        "max_seq_len",
        "kv_cache_config",
        "speculative_config",
        "quant_config",
        "tensor_parallel_size",
        "backend",
        "x",
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.none(), _FLAG, st.text(max_size=5)), max_size=8),
    st.one_of(st.none(), st.dictionaries(_KEYS, _YAML, max_size=4)),
    st.sampled_from([None, "dynamo", "embeddings", "rerank"]),
)
def test_any_words_and_file_give_facts_or_a_preop_error(
    texts: list[str | None], file: dict[str, Any] | None, through: str | None
) -> None:
    words = [Word(text, Origin("argument", "argument")) for text in texts]
    try:
        parsed = parse("tensorrt-llm", None, words, lambda path: file or Unreadable("gone"), through)
        found = facts("tensorrt-llm", None, parsed, {})
    except PreopError:
        return
    for fact in found.values():
        assert (fact.origin is not None) if fact.is_known else (fact.value is None and fact.note)
