"""P05: the KV cache against what the promised requests need."""

from __future__ import annotations

from typing import Any

import pytest
from cases import HIDDEN, case, default, in_file, is_whole, model, nobody, running, user

from preop.findings import Finding, Outcome
from preop.models.types import LayerGroup, Model, Quantization
from preop.pitfalls.p05_kv_cache_capacity import PITFALL

# Llama-3.1-70B: 80 layers, 8 KV heads of 128: 327,680 bytes a token in 16 bits.
LLAMA_70B: dict[str, Any] = {
    "parameters": 70_553_706_496,
    "weight_bytes": 141_107_412_992,
    "context": 131_072,
    "layers": (LayerGroup("full", 80, kv_heads=8, key_dim=128, value_dim=128),),
}
# Qwen2.5-7B: 28 layers, 4 KV heads of 128: 57,344 bytes a token.
QWEN_7B: dict[str, Any] = {"weight_bytes": 15_231_233_024}


def judge(chosen: Model | None, engine: str = "vllm", **facts: Any) -> Finding:
    """A vLLM command on one H100 with every default of 0.32.0 stated, unless told otherwise."""
    given: dict[str, Any] = {
        "gpu": user("h100-sxm", "--gpu", "option"),
        "tensor_parallel_size": default(1),
        "pipeline_parallel_size": default(1),
        "gpu_memory_fraction": default(0.92),
        "kv_cache_dtype": default("auto"),
        "kv_cache_memory_bytes": default(None),
        "quantization": default(None),
        "speculative": default(None),
        "weight_offload": default(0),
        "hf_overrides": default({}),
        **facts,
    }
    finding = PITFALL.judge(case(engine, model=chosen, **given))
    is_whole(finding)
    return finding


def test_weights_alone_do_not_fit() -> None:
    finding = judge(model(**LLAMA_70B), max_model_len=in_file(8192), max_num_seqs=user(8))
    assert finding.outcome is Outcome.FAIL
    assert "weights of 131.4 GiB" in finding.summary.en
    shown = {one.name: one.value for one in finding.evidence}
    assert shown["KV cache of one full request"] == 2.5  # 8,192 x 327,680 bytes
    assert finding.remedy is not None and "--tensor-parallel-size" in finding.remedy.en
    assert finding.where == "compose.yml:14:9"


def test_not_one_request_fits_beside_the_weights() -> None:
    # 2 x 80 GiB x 0.92 - 131.4 GiB of weights leave at most 15.8 GiB; 131,072 tokens need 40 GiB.
    facts: dict[str, Any] = {"max_model_len": user(131_072), "tensor_parallel_size": user(2)}
    finding = judge(model(**LLAMA_70B), **facts, max_num_seqs=user(8))
    assert finding.outcome is Outcome.FAIL
    assert "40.0 GiB" in finding.summary.en
    assert finding.remedy is not None and finding.remedy.en.startswith("--max-model-len 5")


@pytest.mark.parametrize(
    "lifts",
    [
        {"weight_offload": user(120.0)},
        {"weight_offload": nobody(), "notes": [HIDDEN]},
        {"tensor_parallel_size": nobody(), "notes": [HIDDEN]},
        {"quantization": user("fp8")},
        {"quantization": nobody(), "notes": [HIDDEN]},
        {"gpu": nobody()},
        {"gpu": user("a100")},
    ],
)
def test_what_may_make_room_prevents_the_failure(lifts: dict[str, Any]) -> None:
    facts: dict[str, Any] = {"max_model_len": user(8192), "max_num_seqs": user(8), **lifts}
    assert judge(model(**LLAMA_70B), **facts).outcome is Outcome.UNPROVEN


def test_more_gpus_are_enough() -> None:
    facts: dict[str, Any] = {
        "max_model_len": user(8192),
        "max_num_seqs": user(8),
        "tensor_parallel_size": user(8),
    }
    assert judge(model(**LLAMA_70B), **facts).outcome is Outcome.PASS


def test_a_quantized_checkpoint_may_carry_a_narrow_cache() -> None:
    # 131,072 tokens in 16 bits are 40 GiB, in fp8 20 GiB; at most 38.2 GiB are left.
    fp8 = {**LLAMA_70B, "weight_bytes": 118_000_000_000, "quantization": Quantization("fp8", 8, False)}
    facts: dict[str, Any] = {
        "max_model_len": user(131_072),
        "tensor_parallel_size": user(2),
        "max_num_seqs": user(1),
    }
    assert judge(model(**fp8), **facts).outcome is Outcome.UNPROVEN
    wide = {**facts, "kv_cache_dtype": user("bfloat16")}
    assert judge(model(**fp8), **wide).outcome is Outcome.FAIL


def test_a_fixed_cache_is_taken_at_its_word() -> None:
    facts: dict[str, Any] = {"max_model_len": user(32_768), "max_num_seqs": user(8)}
    # 32,768 x 57,344 = 1.75 GiB for one request, 14 GiB for eight, 21 GiB with the headroom.
    small = judge(model(**QWEN_7B), **facts, kv_cache_memory_bytes=user(1 << 30))
    assert small.outcome is Outcome.FAIL
    enough = judge(model(**QWEN_7B), **facts, kv_cache_memory_bytes=user(22 << 30))
    assert enough.outcome is Outcome.PASS
    tight = judge(model(**QWEN_7B), **facts, kv_cache_memory_bytes=user(18 << 30))
    assert tight.outcome is Outcome.UNPROVEN


def test_all_full_requests_fit_with_headroom() -> None:
    finding = judge(model(**QWEN_7B), max_model_len=user(8192), max_num_seqs=user(64))
    # 64 x 8,192 x 57,344 = 28 GiB; x 1.5 = 42 GiB of about 53.6 GiB.
    assert finding.outcome is Outcome.PASS
    assert "28.0 GiB" in finding.summary.en


def test_what_only_fits_on_average_is_not_proven() -> None:
    finding = judge(model(**QWEN_7B), max_model_len=user(32_768), max_num_seqs=user(256))
    assert finding.outcome is Outcome.UNPROVEN
    assert "448.0 GiB" in finding.summary.en
    assert finding.needs is not None and "--prompts FILE" in finding.needs.en


@pytest.mark.parametrize(
    "unsure",
    [
        {"gpu_memory_fraction": nobody()},
        {"speculative": user({"method": "eagle3"})},
        {"engine": "sglang"},
        {"max_num_seqs": nobody()},
        {"pipeline_parallel_size": user(2)},
    ],
)
def test_without_a_lower_bound_nothing_passes(unsure: dict[str, Any]) -> None:
    facts: dict[str, Any] = {"max_model_len": user(8192), "max_num_seqs": user(64), **unsure}
    assert judge(model(**QWEN_7B), **facts).outcome is Outcome.UNPROVEN


def test_sliding_layers_pass_only_as_if_they_kept_everything() -> None:
    layers = (
        LayerGroup("full", 4, kv_heads=4, key_dim=128, value_dim=128),
        LayerGroup("sliding", 24, kv_heads=4, key_dim=128, value_dim=128, window=1024),
    )
    hybrid = model(**QWEN_7B, layers=layers)
    fits = judge(hybrid, max_model_len=user(8192), max_num_seqs=user(64))
    assert fits.outcome is Outcome.PASS
    assert judge(hybrid, max_model_len=user(32_768), max_num_seqs=user(64)).outcome is Outcome.UNPROVEN


def test_recurrent_state_is_not_counted_so_nothing_passes() -> None:
    layers = (LayerGroup("full", 4, kv_heads=4, key_dim=128, value_dim=128), LayerGroup("recurrent", 24))
    facts: dict[str, Any] = {"max_model_len": user(8192), "max_num_seqs": user(64)}
    assert judge(model(**QWEN_7B, layers=layers), **facts).outcome is Outcome.UNPROVEN


def test_the_engines_own_count_needs_no_formula() -> None:
    facts: dict[str, Any] = {"max_model_len": running(2048, "GET /v1/models"), "max_num_seqs": user(16)}
    # What vLLM printed for SmolLM2 with 1 GiB: 46,592 tokens, 22.75 requests of 2,048.
    fits = judge(model(), **facts, kv_cache_tokens=running(46_592, "GET /metrics"))
    assert fits.outcome is Outcome.PASS
    tight = judge(model(), **{**facts, "max_num_seqs": user(32)}, kv_cache_tokens=running(46_592))
    assert tight.outcome is Outcome.UNPROVEN
    assert "22.8 of 32" in tight.summary.en
    assert tight.remedy is not None and "--max-num-seqs 22" in tight.remedy.en


def test_a_running_engine_that_holds_less_than_one_request() -> None:
    facts: dict[str, Any] = {
        "max_model_len": running(32_768),
        "max_num_seqs": user(8),
        "kv_cache_tokens": running(20_961),
    }
    assert judge(model(), "sglang", **facts).outcome is Outcome.FAIL
    # vLLM checks this itself when it starts; before 0.21 its figure for hybrids was too low.
    assert judge(model(), "vllm", **facts).outcome is Outcome.UNPROVEN


def test_embedders_keep_no_cache() -> None:
    finding = judge(model(is_generative=False, architecture="BertModel"), max_model_len=user(512))
    assert finding.outcome is Outcome.NOT_APPLICABLE


def llama(**facts: Any) -> Finding:
    """Judge a llama-server."""
    finding = PITFALL.judge(case("llama.cpp", model=model(), **facts))
    is_whole(finding)
    return finding


def test_a_running_llama_server_has_its_cache_already() -> None:
    own = {"max_model_len": running(1024), "max_num_seqs": user(4), "context_size": user(4096)}
    assert llama(**own).outcome is Outcome.PASS
    one = {"max_model_len": running(4096), "max_num_seqs": running(1)}
    assert llama(**one).outcome is Outcome.PASS
    pool = {"max_model_len": running(4096), "max_num_seqs": running(4), "context_size": user(4096)}
    assert llama(**pool).outcome is Outcome.UNPROVEN
    unknown_pool = {"max_model_len": running(4096), "max_num_seqs": running(4)}
    assert llama(**unknown_pool).outcome is Outcome.UNPROVEN


def test_a_llama_server_that_does_not_run_may_still_be_refused() -> None:
    finding = llama(max_model_len=user(1024), max_num_seqs=user(4), context_size=in_file(4096))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "--endpoint URL" in finding.needs.en


def test_other_accelerators_are_named_and_never_given_cuda_advice() -> None:
    for accelerator, name in (("google", "TPU"), ("habana", "Gaudi"), ("apple", "Apple")):
        facts: dict[str, Any] = {
            "accelerator": user(accelerator),
            "gpu": nobody(),
            "max_model_len": user(8192),
        }
        finding = judge(model(**QWEN_7B), **facts, max_num_seqs=user(8))
        assert finding.outcome is Outcome.UNPROVEN
        assert (
            finding.needs is not None
            and "h100" not in finding.needs.en
            and "--endpoint URL" in finding.needs.en
        )
        assert f"unsupported: {name}" in finding.summary.en
        assert any(one.value == accelerator for one in finding.evidence)


def test_an_mi300x_is_judged_by_its_own_memory() -> None:
    facts: dict[str, Any] = {
        "gpu": user("mi300x"),
        "accelerator": user("amd"),
        "max_model_len": user(8192),
        "max_num_seqs": user(8),
    }
    finding = judge(model(**LLAMA_70B), **facts)
    assert finding.outcome is not Outcome.FAIL  # 192 GB hold 131 GiB of weights


def test_sglang_starts_where_only_the_models_own_length_does_not_fit() -> None:
    # 2 x 80 GiB - 131.4 GiB leave 27.9 GiB at most; the model's own 131,072 tokens need 40 GiB.
    facts: dict[str, Any] = {"tensor_parallel_size": user(2), "max_num_seqs": user(8)}
    llama = model(**LLAMA_70B)
    assert judge(llama, "sglang", max_model_len=default(None), **facts).outcome is Outcome.UNPROVEN
    assert judge(llama, "sglang", max_model_len=user(131_072), **facts).outcome is Outcome.FAIL


def test_a_model_cut_down_by_the_command_is_not_judged_by_its_files() -> None:
    facts: dict[str, Any] = {"max_model_len": user(8192), "max_num_seqs": user(8)}
    cut = judge(model(**LLAMA_70B), hf_overrides=user({"num_hidden_layers": 2}), **facts)
    assert cut.outcome is Outcome.UNPROVEN
    scaled = judge(model(**LLAMA_70B), hf_overrides=user({"max_position_embeddings": 8192}), **facts)
    assert scaled.outcome is Outcome.FAIL
