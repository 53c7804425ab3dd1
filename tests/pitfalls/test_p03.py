"""P03: weight-only quantization against the checklist's table and the roofline."""

from __future__ import annotations

from typing import Any

import pytest
from cases import HIDDEN, case, default, is_whole, model, nobody, user

from preop.findings import Finding, Outcome
from preop.models.types import LayerGroup, Model, Quantization
from preop.pitfalls.p03_weight_only_quantization import PITFALL

AWQ = Quantization("awq", 4, True)
SMALL = 1_543_714_304
"""Qwen2.5-1.5B."""
SMALL_LAYERS = (LayerGroup("full", 28, kv_heads=2, key_dim=128, value_dim=128),)


def awq(parameters: int | None = None, **more: Any) -> Model:
    """Qwen2.5-1.5B or -7B in AWQ."""
    if parameters == SMALL:
        more.setdefault("layers", SMALL_LAYERS)
    more.setdefault("is_mixture", False)
    more.setdefault("quantization", AWQ)
    return model(parameters=parameters or 7_615_616_512, **more)


def judge(chosen: Model | None, **facts: Any) -> Finding:
    """A vLLM command on an A100 with short contexts and a cap that the user set, unless told otherwise."""
    given: dict[str, Any] = {
        "quantization": nobody(),
        "max_num_seqs": user(512),
        "max_model_len": user(1024),
        "hf_overrides": nobody(),
        "gpu": user("a100-80gb-sxm", "--gpu", "option"),
        **facts,
    }
    engine = given.pop("engine", "vllm")
    finding = PITFALL.judge(case(engine, model=chosen, **given))
    is_whole(finding)
    return finding


def test_a_small_model_at_a_large_batch_fails_where_both_agree() -> None:
    finding = judge(awq(SMALL), max_model_len=user(256))
    assert finding.outcome is Outcome.FAIL
    assert "no gain by table and roofline" in finding.summary.en
    assert finding.remedy is not None


def test_a_small_model_at_a_small_batch_has_two_witnesses_against_each_other() -> None:
    finding = judge(awq(SMALL), max_num_seqs=user(4))
    assert finding.outcome is Outcome.UNPROVEN
    assert "table says no gain, roofline" in finding.summary.en


def test_long_contexts_leave_the_witnesses_apart_too() -> None:
    # With 16 requests of 32,768 tokens the cache, not the weights, is most of what a step reads.
    finding = judge(awq(SMALL), max_num_seqs=user(16), max_model_len=user(32_768))
    assert finding.outcome is Outcome.UNPROVEN


def test_a_cap_that_nobody_set_is_no_plan_to_run_at_it() -> None:
    assert judge(awq(SMALL), max_num_seqs=default(512), max_model_len=user(256)).outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("cap", [1, 4, 16, 32])
def test_a_7b_model_pays_where_both_agree(cap: int) -> None:
    finding = judge(awq(), max_num_seqs=user(cap))
    assert finding.outcome is Outcome.PASS
    assert "pays by table and roofline" in finding.summary.en


def test_a_7b_model_at_a_batch_bound_by_compute_is_not_proven() -> None:
    # The table promises twice the speed at 128 and more; public measurements show 1.01 on such a ratio.
    finding = judge(awq(), max_num_seqs=user(512), max_model_len=user(256))
    assert finding.outcome is Outcome.UNPROVEN
    assert "table says a gain, roofline 1.00x" in finding.summary.en


def test_between_the_tables_sizes_nothing_is_said() -> None:
    finding = judge(awq(4_022_468_096), max_num_seqs=user(16))
    assert finding.outcome is Outcome.UNPROVEN
    assert "table says nothing" in finding.summary.en


def test_unknown_gpu_cap_or_size_is_asked_for() -> None:
    for lacking, option in (
        ({"gpu": nobody()}, "--gpu"),
        ({"max_num_seqs": nobody()}, "--max-num-seqs"),
    ):
        finding = judge(awq(SMALL), **lacking)
        assert finding.outcome is Outcome.UNPROVEN
        assert finding.needs is not None and option in finding.needs.en
    assert judge(awq(SMALL, layers=None)).outcome is Outcome.UNPROVEN
    for several in ("a100", "a100-80gb"):
        assert judge(awq(SMALL), gpu=user(several)).outcome is Outcome.UNPROVEN
    finding = judge(awq(SMALL), gpu=user("a100-80gb"))
    assert finding.needs is not None and "--gpu a100-80gb-sxm or a100-80gb-pcie" in finding.needs.en


def test_a_mixture_of_experts_is_not_judged_by_its_whole_size() -> None:
    assert judge(awq(30_532_122_624, is_mixture=True), max_num_seqs=user(16)).outcome is Outcome.UNPROVEN
    assert judge(awq(SMALL, is_mixture=None), max_model_len=user(256)).outcome is Outcome.UNPROVEN


def test_figures_that_are_not_verified_do_not_decide() -> None:
    assert judge(awq(), max_num_seqs=user(8), gpu=user("rtx-5090")).outcome is Outcome.UNPROVEN


@pytest.mark.parametrize(
    "facts",
    [
        {"accelerator": user("none")},
        {"engine": "llama.cpp", "devices": user("none")},
    ],
)
def test_cpus_are_another_matter(facts: dict[str, Any]) -> None:
    assert judge(awq(SMALL), **facts).outcome is Outcome.NOT_APPLICABLE


def test_llama_cpp_on_an_unknown_device_is_neither() -> None:
    gguf = awq(SMALL, quantization=Quantization("gguf Q4_K_M", 4.8, True))
    facts: dict[str, Any] = {"engine": "llama.cpp", "max_model_len": user(256)}
    assert judge(gguf, **facts).outcome is Outcome.UNPROVEN
    assert judge(gguf, **facts, devices=nobody(), gpu_layers=nobody()).outcome is Outcome.UNPROVEN
    assert judge(gguf, **facts, devices=default(None)).outcome is Outcome.UNPROVEN
    # A GPU build without layers on the GPU still sends large batches there.
    assert judge(gguf, **facts, gpu_layers=user(0)).outcome is Outcome.UNPROVEN


def test_not_quantized_or_activations_too_is_not_concerned() -> None:
    assert judge(model()).outcome is Outcome.NOT_APPLICABLE
    w8a8 = model(quantization=Quantization("compressed-tensors", 8, False))
    assert judge(w8a8).outcome is Outcome.NOT_APPLICABLE


def test_fp8_on_a_gpu_without_fp8_may_run_weight_only() -> None:
    fp8 = model(quantization=Quantization("fp8", 8, False))
    assert judge(fp8, gpu=user("h100-sxm")).outcome is Outcome.NOT_APPLICABLE
    assert judge(fp8, gpu=user("h100")).outcome is Outcome.NOT_APPLICABLE
    assert judge(fp8).outcome is Outcome.UNPROVEN


def test_what_is_not_said_is_not_guessed() -> None:
    assert judge(None, served_model_name=user("llama-1b-awq")).outcome is Outcome.UNPROVEN
    assert judge(model(), quantization=nobody(), notes=[HIDDEN]).outcome is Outcome.UNPROVEN
    assert judge(model(quantization=Quantization("mxfp4", 4, None))).outcome is Outcome.UNPROVEN
    assert judge(None, quantization=user("awq")).outcome is Outcome.UNPROVEN


@pytest.mark.parametrize(
    ("accelerator", "name"), [("google", "TPU"), ("habana", "Gaudi"), ("apple", "Apple")]
)
def test_accelerators_without_figures_are_named(accelerator: str, name: str) -> None:
    finding = judge(awq(SMALL), accelerator=user(accelerator), gpu=nobody())
    assert finding.outcome is Outcome.UNPROVEN
    assert f"unsupported: {name}" in finding.summary.en
    assert finding.needs is not None and "--gpu" not in finding.needs.en
