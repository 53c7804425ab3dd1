"""P15: a context beyond what the model reads."""

from __future__ import annotations

from typing import Any

import pytest
from cases import HIDDEN, case, default, in_file, is_whole, model, nobody, running, unseen, user

from preop.facts import Fact, Note, unknown
from preop.findings import Finding, Outcome
from preop.models.types import LayerGroup, Rope
from preop.pitfalls.p15_long_context import PITFALL

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
FULL = LayerGroup("full", 4, kv_heads=8, key_dim=128, value_dim=128)
SLIDING = LayerGroup("sliding", 28, kv_heads=8, key_dim=128, value_dim=128, window=4096)


def vllm(length: Fact, **more: Any) -> Finding:
    """Judge a vLLM command of which every word was seen, on a model of 32,768 native tokens."""
    facts: dict[str, Any] = {
        "max_model_len": length,
        "hf_overrides": nobody(),
        "allow_long_max_model_len": nobody(),
        "model": user("a-model"),
    }
    chosen = more.pop("model", None) or model()
    facts.pop("model")
    finding = PITFALL.judge(case("vllm", model=chosen, **{**facts, **more}))
    is_whole(finding)
    return finding


def test_beyond_the_native_window_without_scaling_fails() -> None:
    finding = vllm(in_file(131_072))
    assert finding.outcome is Outcome.FAIL
    assert finding.summary.en == "131,072 asked, 32,768 native, no RoPE scaling"
    assert finding.remedy is not None and finding.remedy.en.startswith("--max-model-len 32768")
    assert finding.where == "compose.yml:14:9"


def test_published_facts_of_a_catalog_model_are_enough() -> None:
    assert vllm(user(131_072), model=model(kind="catalog")).outcome is Outcome.FAIL


def test_the_switched_off_check_is_named() -> None:
    finding = vllm(user(131_072), allow_long_max_model_len=user("1"))
    assert finding.outcome is Outcome.FAIL
    assert "check is off" in finding.summary.en
    assert finding.remedy is not None and "unset VLLM_ALLOW_LONG_MAX_MODEL_LEN" in finding.remedy.en


def test_the_switch_alone_is_no_failure() -> None:
    assert vllm(user(32_768), allow_long_max_model_len=user(True)).outcome is Outcome.UNPROVEN


def test_within_native_still_needs_a_needle_test() -> None:
    finding = vllm(user(32_768))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "needle" in finding.needs.en


@pytest.mark.parametrize("unset", [nobody(), default(None)])
def test_a_length_that_nobody_set_is_the_models_own(unset: Fact) -> None:
    finding = vllm(unset)
    assert finding.outcome is Outcome.UNPROVEN
    assert "own 32,768" in finding.summary.en


def test_a_length_that_the_engine_fits_to_memory_is_not_known() -> None:
    fitted = unknown("auto: the longest context that fits the memory", origin=user(-1).origin)
    assert "not known" in vllm(fitted).summary.en


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("version", [None, "0.12.0"])
def test_yarn_that_covers_the_length_never_fails_by_guess(key: str, version: str | None) -> None:
    stated: dict[str, Any] = {"engine_version": user(version)} if version else {}
    finding = vllm(user(131_072), hf_overrides=user({key: YARN}), **stated)
    assert finding.outcome is Outcome.UNPROVEN
    assert "yarn" in finding.summary.en


def test_yarn_without_a_raised_limit_is_refused_by_the_newest_vllm() -> None:
    finding = vllm(
        in_file(131_072), hf_overrides=user({"rope_parameters": YARN}), engine_version=user("0.32.0")
    )
    assert finding.outcome is Outcome.FAIL
    assert finding.remedy is not None and '"max_position_embeddings": 131072' in finding.remedy.en
    raised = user({"rope_parameters": YARN, "max_position_embeddings": 131_072})
    assert vllm(user(131_072), hf_overrides=raised, engine_version=user("0.32.0")).outcome is Outcome.UNPROVEN
    allowed: dict[str, Any] = {"allow_long_max_model_len": user("1"), "engine_version": user("0.32.0")}
    assert (
        vllm(user(131_072), hf_overrides=user({"rope_parameters": YARN}), **allowed).outcome
        is Outcome.UNPROVEN
    )


def test_scaling_nested_by_layer_type_or_text_config_is_read() -> None:
    for overrides in (
        {"rope_parameters": {"full_attention": YARN}},
        {"text_config": {"rope_parameters": YARN}},
    ):
        assert vllm(user(131_072), hf_overrides=user(overrides)).outcome is Outcome.UNPROVEN


def test_scaling_that_reaches_less_fails() -> None:
    finding = vllm(user(262_144), hf_overrides=user({"rope_parameters": YARN}))
    assert finding.outcome is Outcome.FAIL
    assert "scaled to 131,072 only" in finding.summary.en


def test_raised_positions_without_scaling_are_extrapolation() -> None:
    assert (
        vllm(user(131_072), hf_overrides=user({"max_position_embeddings": 131_072})).outcome is Outcome.FAIL
    )
    assert vllm(nobody(), hf_overrides=user({"max_position_embeddings": 131_072})).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("rope", "context", "length", "outcome"),
    [
        # DeepSeek-V3, Llama 3.1, Phi-3: the release is already scaled.
        (Rope("yarn", 40, 4096), 163_840, 163_840, Outcome.UNPROVEN),
        (Rope("llama3", 8, 8192), 131_072, 131_072, Outcome.UNPROVEN),
        (Rope("longrope", None, 4096), 131_072, 131_072, Outcome.UNPROVEN),
        (Rope("llama3", 8, 8192), 131_072, 262_144, Outcome.FAIL),
        (Rope("longrope", None, 4096), 131_072, 262_144, Outcome.FAIL),
        # A YaRN block added by hand to Qwen3's config.json.
        (Rope("yarn", 4, 32_768), 40_960, 131_072, Outcome.UNPROVEN),
        (Rope("linear", 4), 4096, 16_384, Outcome.UNPROVEN),
        (Rope("linear", 4), 4096, 32_768, Outcome.FAIL),
        (Rope("dynamic", 2), 4096, 8192, Outcome.UNPROVEN),
        (None, 4096, 8192, Outcome.UNPROVEN),
    ],
)
def test_the_models_own_scaling(rope: Rope | None, context: int, length: int, outcome: Outcome) -> None:
    assert vllm(user(length), model=model(rope=rope, context=context)).outcome is outcome


def test_scaling_by_a_flag_of_an_earlier_version_is_not_overlooked() -> None:
    note = Note("removed-flag", "--rope-scaling is no flag of vLLM 0.32.0 any more")
    assert vllm(user(131_072), rope_scaling=nobody(), notes=[note]).outcome is Outcome.UNPROVEN
    assert vllm(user(131_072), rope_scaling=nobody()).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    "hidden",
    [{"hf_overrides": unseen()}, {"notes": [HIDDEN]}, {"hf_overrides": user("{not json")}],
    ids=["value", "words", "unreadable"],
)
def test_scaling_may_be_hidden(hidden: dict[str, Any]) -> None:
    assert vllm(user(131_072), **hidden).outcome is Outcome.UNPROVEN


def test_an_endpoint_alone_does_not_tell_its_overrides() -> None:
    running_alone = case("vllm", model=model(), max_model_len=running(131_072))
    facts: dict[str, Any] = {"max_model_len": running(131_072)}
    deployment = type(running_alone.deployment)("d", "vllm", "http://127.0.0.1:8000", facts, model())
    finding = PITFALL.judge(type(running_alone)(deployment))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN


def test_an_unknown_native_window_is_asked_for() -> None:
    finding = vllm(user(131_072), model=model(context=None))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "--model-path" in finding.needs.en


def test_every_layer_sliding_fails_in_vllm() -> None:
    mistral = model(context=32_768, layers=(SLIDING,))
    finding = vllm(in_file(32_768), model=mistral)
    assert finding.outcome is Outcome.FAIL
    assert "last 4,096 of 32,768" in finding.summary.en
    assert finding.remedy is not None and finding.remedy.en.startswith("--max-model-len 4096")
    assert vllm(user(4096), model=mistral).outcome is Outcome.UNPROVEN
    assert (
        vllm(user(32_768), model=mistral, hf_overrides=user({"sliding_window": None})).outcome
        is Outcome.UNPROVEN
    )


@pytest.mark.parametrize("engine", ["sglang", "llama.cpp", "tgi"])
def test_engines_that_may_ignore_the_window_are_not_failed(engine: str) -> None:
    facts: dict[str, Any] = {
        "max_model_len": user(32_768),
        "hf_overrides": nobody(),
        "rope_scaling": nobody(),
    }
    finding = PITFALL.judge(case(engine, model=model(layers=(SLIDING,)), **facts))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize(
    "layers",
    [
        (FULL, SLIDING),
        (LayerGroup("recurrent", 18), SLIDING),
        (LayerGroup("mla", 1, kv_heads=1, key_dim=576), SLIDING),
        None,
    ],
    ids=["hybrid", "recurrent", "mla", "unknown"],
)
def test_native_hybrids_are_healthy(layers: tuple[LayerGroup, ...] | None) -> None:
    assert vllm(user(32_768), model=model(layers=layers)).outcome is Outcome.UNPROVEN


def llama(**facts: Any) -> Finding:
    """Judge a llama-server command on a GGUF trained for 8,192 tokens."""
    defaults: dict[str, Any] = {"rope_scaling": nobody(), "context_shift": nobody(), "override_kv": nobody()}
    finding = PITFALL.judge(case("llama.cpp", model=model(context=8192), **{**defaults, **facts}))
    is_whole(finding)
    return finding


def test_a_slot_of_its_own_beyond_the_trained_length_fails() -> None:
    finding = llama(max_model_len=user(32_768), max_num_seqs=user(4), kv_unified=user(False))
    assert finding.outcome is Outcome.FAIL
    assert finding.remedy is not None and finding.remedy.en.startswith("--ctx-size 32768 (4 x 8192)")
    assert llama(max_model_len=user(32_768), max_num_seqs=user(1)).outcome is Outcome.FAIL


def test_a_pool_shared_by_slots_is_no_slots_length() -> None:
    finding = llama(max_model_len=user(32_768), max_num_seqs=default(-1), kv_unified=nobody())
    assert finding.outcome is Outcome.UNPROVEN
    assert "shared" in finding.summary.en


def test_an_overridden_context_length_lifts_the_engines_cap() -> None:
    lifted = user("llama.context_length=int:32768")
    assert llama(max_model_len=user(32_768), max_num_seqs=user(4), override_kv=lifted).outcome is Outcome.FAIL


def test_a_slot_within_the_trained_length_is_fine() -> None:
    assert llama(max_model_len=user(8192), max_num_seqs=user(4)).outcome is Outcome.UNPROVEN
    for zero in (unknown("0: the context that the model was trained with", origin=user(0).origin), nobody()):
        unset: dict[str, Any] = {"max_model_len": nobody(), "context_size": zero}
        own = llama(**unset, max_num_seqs=user(1))
        assert own.outcome is Outcome.UNPROVEN
        assert "own 8,192" in own.summary.en
        shared = llama(**unset, max_num_seqs=default(4), kv_unified=default(True))
        assert "own 8,192" in shared.summary.en
        parted = llama(**unset, max_num_seqs=user(4), kv_unified=user(False))
        assert "own 2,048" in parted.summary.en
        assert "not known" in llama(**unset, max_num_seqs=nobody(), kv_unified=nobody()).summary.en


@pytest.mark.parametrize("kind", ["yarn", "linear"])
def test_scaling_by_flag_is_not_guessed(kind: str) -> None:
    scaled = llama(max_model_len=user(32_768), max_num_seqs=user(1), rope_scaling=user(kind))
    assert scaled.outcome is Outcome.UNPROVEN


def test_scaling_switched_off_undoes_the_models_own() -> None:
    yarn = model(context=8192, rope=Rope("yarn", 4, 8192))
    facts: dict[str, Any] = {
        "max_model_len": user(32_768),
        "max_num_seqs": user(1),
        "context_shift": nobody(),
    }
    on = PITFALL.judge(case("llama.cpp", model=yarn, rope_scaling=nobody(), **facts))
    off = PITFALL.judge(case("llama.cpp", model=yarn, rope_scaling=user("none"), **facts))
    assert (on.outcome, off.outcome) == (Outcome.UNPROVEN, Outcome.FAIL)


def test_context_shift_drops_text_in_silence() -> None:
    finding = llama(max_model_len=user(8192), context_shift=in_file(True))
    assert finding.outcome is Outcome.FAIL
    assert finding.remedy is not None and "--no-context-shift" in finding.remedy.en
    assert finding.where == "compose.yml:14:9"
    for off in (user(False), default(False), nobody(), unseen()):
        assert llama(max_model_len=user(8192), context_shift=off).outcome is Outcome.UNPROVEN


def sglang(**facts: Any) -> Finding:
    """Judge an SGLang command on a model of 32,768 native tokens."""
    defaults: dict[str, Any] = {
        "hf_overrides": nobody(),
        "auto_truncate": nobody(),
        "allow_long_max_model_len": nobody(),
    }
    finding = PITFALL.judge(case("sglang", model=model(), **{**defaults, **facts}))
    is_whole(finding)
    return finding


def test_sglang_speaks_its_own_words() -> None:
    finding = sglang(max_model_len=user(131_072), allow_long_max_model_len=user("true"))
    assert finding.outcome is Outcome.FAIL
    assert finding.remedy is not None
    assert "--context-length 32768" in finding.remedy.en
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN" in finding.remedy.en
    scaled = user(
        '{"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32768}}'
    )
    assert sglang(max_model_len=user(131_072), hf_overrides=scaled).outcome is Outcome.UNPROVEN


def test_sglang_cuts_requests_only_when_told_to() -> None:
    finding = sglang(max_model_len=user(32_768), auto_truncate=user(True))
    assert finding.outcome is Outcome.FAIL
    assert finding.remedy is not None and "--allow-auto-truncate" in finding.remedy.en
    assert sglang(max_model_len=user(32_768), auto_truncate=default(False)).outcome is Outcome.UNPROVEN


def test_a_tokenizers_limit_binds_vllm_only() -> None:
    lowered = model(
        context=2048, notes=("tokenizer_config.json: model_max_length 2048 is below config.json's 8192",)
    )
    assert vllm(user(8192), model=lowered).outcome is Outcome.FAIL
    facts: dict[str, Any] = {"hf_overrides": nobody(), "max_model_len": user(8192)}
    assert PITFALL.judge(case("sglang", model=lowered, **facts)).outcome is Outcome.UNPROVEN


def test_slots_that_were_counted_do_not_share() -> None:
    counted = llama(max_model_len=user(32_768), max_num_seqs=user(4), kv_unified=nobody())
    assert counted.outcome is Outcome.FAIL
    hidden = llama(max_model_len=user(32_768), max_num_seqs=user(4), kv_unified=nobody(), notes=[HIDDEN])
    assert hidden.outcome is Outcome.UNPROVEN
