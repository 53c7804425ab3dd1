"""LoRA adapters in P01 and P02, and Triton's transaction policy in P14."""

from __future__ import annotations

from typing import Any

import pytest
from cases import case, in_file, is_whole, nobody, user

from preop.evidence import Tokens
from preop.findings import Outcome
from preop.pitfalls.p01_quantization_quality import PITFALL as P01
from preop.pitfalls.p02_tokenizer_parity import PITFALL as P02
from preop.pitfalls.p14_streaming import PITFALL as P14
from preop.pitfalls.types import Pitfall

ADAPTERS = [{"name": "sql", "path": "/a"}, {"name": "chat", "path": "/b"}]


@pytest.mark.parametrize("pitfall", [P01, P02])
def test_each_adapter_is_to_be_proven_by_itself(pitfall: Pitfall) -> None:
    finding = pitfall.judge(case(quantization=user("awq"), lora_modules=user(ADAPTERS)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "each of 2 adapters" in finding.needs.en
    assert any(item.name == "adapters" and item.value == ["sql", "chat"] for item in finding.evidence)


def test_ids_that_are_equal_for_the_base_do_not_pass_for_its_adapters() -> None:
    equal = Tokens("tokenizer.json", "http://127.0.0.1:8000", 140, [])
    assert P02.judge(case(payload=equal)).outcome is Outcome.PASS
    finding = P02.judge(case(payload=equal, lora_modules=user(ADAPTERS)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN and "2 adapters not compared" in finding.summary.en
    assert finding.needs is not None and "sql, chat" in finding.needs.en and "sql, chat" in finding.needs.zh


@pytest.mark.parametrize("pitfall", [P01, P02])
def test_without_adapters_nothing_is_said_of_them(pitfall: Pitfall) -> None:
    finding = pitfall.judge(case(quantization=user("awq"), lora_modules=nobody()))
    assert finding.needs is not None and "adapters" not in finding.needs.en


def test_a_triton_model_that_answers_once_cannot_stream() -> None:
    finding = P14.judge(case("tensorrt-llm", decoupled=in_file(False)))
    is_whole(finding)
    assert finding.outcome is Outcome.FAIL and finding.where == "compose.yml:14:9"
    assert finding.remedy is not None and "decoupled: true" in finding.remedy.en


@pytest.mark.parametrize("decoupled", [in_file(True), nobody()])
def test_a_policy_that_is_decoupled_or_not_stated_proves_nothing(decoupled: Any) -> None:
    assert P14.judge(case("tensorrt-llm", decoupled=decoupled)).outcome is Outcome.UNPROVEN
