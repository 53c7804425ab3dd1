"""Whatever is unknown: no judge says PASS or FAIL, and nothing crashes one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from cases import HIDDEN, case, is_whole, nobody, unseen
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.deployment.types import Deployment
from preop.facts import Origin, known
from preop.findings import Outcome
from preop.pitfalls.types import Case, Pitfall

FOLDERS = (
    "p01_quantization_quality",
    "p02_tokenizer_parity",
    "p03_weight_only_quantization",
    "p05_kv_cache_capacity",
    "p07_batch_cap",
    "p08_speculative_decoding",
    "p15_long_context",
)
ENGINES = ("vllm", "sglang", "llama.cpp", "tgi", "unknown")
NAMES = (
    "quantization",
    "kv_cache_dtype",
    "kv_cache_dtype_v",
    "tokenizer",
    "max_model_len",
    "context_size",
    "max_num_seqs",
    "gpu_memory_fraction",
    "kv_cache_memory_bytes",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "speculative",
    "hf_overrides",
    "rope_scaling",
    "context_shift",
    "auto_truncate",
    "kv_unified",
    "override_kv",
    "allow_long_max_model_len",
    "gpu",
    "accelerator",
    "kv_cache_tokens",
    "native_context",
    "engine_version",
    "devices",
    "gpu_layers",
    "weight_offload",
)


def pitfalls() -> list[Pitfall]:
    return [import_module(f"preop.pitfalls.{folder}").PITFALL for folder in FOLDERS]


@pytest.mark.parametrize("pitfall", pitfalls(), ids=lambda pitfall: pitfall.id)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_deployment_decides_nothing(pitfall: Pitfall, engine: str) -> None:
    deployment = Deployment(name="d", engine=engine, source="http://127.0.0.1:8000", facts={})
    finding = pitfall.judge(Case(deployment, (deployment,)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("pitfall", pitfalls(), ids=lambda pitfall: pitfall.id)
@pytest.mark.parametrize("engine", ENGINES)
def test_hidden_words_decide_nothing(pitfall: Pitfall, engine: str) -> None:
    unset: dict[str, Any] = {name: nobody() for name in NAMES}
    covered: dict[str, Any] = {name: unseen() for name in NAMES}
    hidden = case(engine, notes=[HIDDEN], **unset)
    unseen_values = case(engine, **covered)
    for subject in (hidden, unseen_values):
        finding = pitfall.judge(subject)
        is_whole(finding)
        assert finding.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("pitfall", pitfalls(), ids=lambda pitfall: pitfall.id)
def test_what_a_judge_says_of_itself_is_in_order(pitfall: Pitfall) -> None:
    assert pitfall.title.en and pitfall.title.zh
    assert pitfall.slug == pitfall.slug.lower()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-2, max_value=1 << 40),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=12),
    st.sampled_from(["auto", "awq", "fp8", "h100", "a100-80gb", "none", "yarn", "0.32.0", "nightly"]),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(
        st.sampled_from(
            ["rope_scaling", "rope_parameters", "max_position_embeddings", "factor", "text_config"]
        ),
        st.one_of(
            st.none(), st.integers(), st.text(max_size=3), st.dictionaries(st.text(max_size=3), st.none())
        ),
        max_size=2,
    ),
)
FACTS = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(lambda value: known(value, "user", Origin("argument", "argument 4")), VALUES),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(facts=FACTS, engine=st.sampled_from(ENGINES))
def test_no_value_crashes_a_judge(facts: dict[str, Any], engine: str) -> None:
    from cases import model

    for subject in (case(engine, **facts), case(engine, model=model(), **facts)):
        for pitfall in pitfalls():
            finding = pitfall.judge(subject)
            is_whole(finding)
            if finding.outcome is Outcome.PASS:
                assert finding.strength is not None
                assert finding.strength.rank >= pitfall.least.rank
