"""Facts of any shape: no judge of these eight crashes, and nothing passes out of an empty deployment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import NOTHING, case, check, deployment, fact

from preop.findings import Outcome
from preop.pitfalls import find_pitfall

IDS = ("P04", "P06", "P09", "P10", "P11", "P12", "P13", "P14")
NAMES = (
    "accelerator",
    "devices",
    "data_parallel_size",
    "engine_version",
    "gpu",
    "gpu_count",
    "gpu_ids",
    "gpu_memory_fraction",
    "image",
    "image_digest",
    "kv_cache_memory_bytes",
    "max_num_seqs",
    "stream_interval",
    "tensor_parallel_size",
    "weights_path",
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.parametrize("pitfall", IDS)
def test_an_empty_deployment_decides_nothing(pitfall: str) -> None:
    finding = check(find_pitfall(pitfall), case(NOTHING))
    assert finding.outcome is Outcome.UNPROVEN


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(IDS),
    st.sampled_from(["vllm", "sglang", "llama.cpp", "unknown"]),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
)
def test_no_value_crashes_a_judge(
    pitfall: str, engine: str, own: dict[str, Any], other: dict[str, Any]
) -> None:
    wrapped: list[dict[str, Any]] = [{n: fact(v) for n, v in facts.items()} for facts in (own, other)]
    subject, beside = (
        deployment(name, engine, source=f"compose.yml: service {name}", **facts)
        for name, facts in zip("ab", wrapped, strict=True)
    )
    check(find_pitfall(pitfall), case(subject, siblings=(beside,)))
