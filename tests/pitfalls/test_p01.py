"""P01: quantized, and its answers never compared."""

from __future__ import annotations

from typing import Any

import pytest
from cases import HIDDEN, case, default, in_file, is_whole, model, nobody, unseen, user

from preop.facts import Fact
from preop.findings import Outcome
from preop.models.types import Quantization
from preop.pitfalls.p01_quantization_quality import PITFALL

AWQ = Quantization("awq", 4, True)


def test_an_unquantized_model_whose_files_were_read_is_not_concerned() -> None:
    finding = PITFALL.judge(case(model=model(), quantization=nobody(), kv_cache_dtype=nobody()))
    is_whole(finding)
    assert finding.outcome is Outcome.NOT_APPLICABLE


def test_default_flags_of_a_stated_version_leave_it_unquantized() -> None:
    facts: dict[str, Any] = {"quantization": default(None), "kv_cache_dtype": default("auto")}
    assert PITFALL.judge(case(model=model(), **facts)).outcome is Outcome.NOT_APPLICABLE


def test_quantized_weights_need_a_comparison() -> None:
    finding = PITFALL.judge(case(model=model(quantization=AWQ), quantization=nobody()))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert "awq" in finding.summary.en
    assert finding.needs is not None and "--reference URL" in finding.needs.en and "200" in finding.needs.en


def test_a_flag_quantizes_a_plain_model() -> None:
    finding = PITFALL.judge(case(model=model(), quantization=in_file("fp8")))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.where == "compose.yml:14:9"


@pytest.mark.parametrize("kv", ["fp8", "fp8_e5m2", "int8_per_token_head"])
def test_a_quantized_kv_cache_alone_needs_a_comparison(kv: str) -> None:
    finding = PITFALL.judge(case(model=model(), quantization=nobody(), kv_cache_dtype=user(kv)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert kv in finding.summary.en


@pytest.mark.parametrize("kv", ["auto", "bfloat16", "f16", "float16"])
def test_a_full_width_kv_cache_is_not_quantized(kv: str) -> None:
    finding = PITFALL.judge(case(model=model(), quantization=nobody(), kv_cache_dtype=user(kv)))
    assert finding.outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("keys", "values"), [(user("q8_0"), user("f16")), (default("f16"), user("q4_0"))], ids=["keys", "values"]
)
def test_llama_cpp_quantizes_keys_and_values_apart(keys: Fact, values: Fact) -> None:
    finding = PITFALL.judge(case("llama.cpp", model=model(), kv_cache_dtype=keys, kv_cache_dtype_v=values))
    assert finding.outcome is Outcome.UNPROVEN
    is_whole(finding)


def test_llama_cpp_serves_the_file_as_it_is() -> None:
    facts: dict[str, Any] = {"kv_cache_dtype": nobody(), "kv_cache_dtype_v": nobody()}
    assert PITFALL.judge(case("llama.cpp", model=model(), **facts)).outcome is Outcome.NOT_APPLICABLE
    gguf = model(quantization=Quantization("gguf Q4_K_M", 4.8, True))
    assert PITFALL.judge(case("llama.cpp", model=gguf, **facts)).outcome is Outcome.UNPROVEN


def test_a_name_is_no_evidence() -> None:
    facts: dict[str, Any] = {
        "served_model_name": user("llama-70b-awq"),
        "quantization": nobody(),
        "kv_cache_dtype": nobody(),
    }
    finding = PITFALL.judge(case(model=model(), **facts))
    assert finding.outcome is Outcome.NOT_APPLICABLE
    unread = PITFALL.judge(case(model=None, **facts))
    is_whole(unread)
    assert unread.outcome is Outcome.UNPROVEN
    assert "not known" in unread.summary.en
    assert any("no evidence" in one.name and one.value == "llama-70b-awq" for one in unread.evidence)


@pytest.mark.parametrize(
    "hidden",
    [
        {"quantization": nobody(), "notes": [HIDDEN]},
        {"quantization": unseen()},
        {"quantization": nobody(), "kv_cache_dtype": unseen()},
    ],
    ids=["hidden words", "hidden value", "hidden kv type"],
)
def test_what_may_be_hidden_is_never_absent(hidden: dict[str, object]) -> None:
    finding = PITFALL.judge(case(model=model(), **hidden))  # type: ignore[arg-type]  # mixed keywords
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN


def test_files_that_cannot_tell_leave_it_unknown() -> None:
    finding = PITFALL.judge(case(model=model(quantization_known=False), quantization=nobody()))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "--model-path" in finding.needs.en


def test_another_revision_of_a_catalog_model_may_be_quantized() -> None:
    facts: dict[str, Any] = {"quantization": nobody(), "kv_cache_dtype": nobody()}
    plain = case(model=model(kind="catalog"), revision=nobody(), **facts)
    assert PITFALL.judge(plain).outcome is Outcome.NOT_APPLICABLE
    branch = case(model=model(kind="catalog"), revision=user("gptq-4bit"), **facts)
    assert PITFALL.judge(branch).outcome is Outcome.UNPROVEN
