"""P10: engines without ONNX, ONNX files, and what is not known."""

from __future__ import annotations

import pytest
from made import NOTHING, case, check, deployment

from preop.findings import Outcome
from preop.inputs import Inputs
from preop.pitfalls.p10_onnx_drift import PITFALL


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "tgi"])
def test_engines_that_run_the_weights_cannot_drift(engine: str) -> None:
    assert check(PITFALL, case(deployment(engine=engine))).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize("engine", ["vllm", "onnxruntime", "unknown"])
def test_an_onnx_file_is_never_waved_through(engine: str) -> None:
    given = case(deployment(engine=engine), inputs=Inputs(onnx="model.onnx"))
    finding = check(PITFALL, given)
    assert finding.outcome is Outcome.UNPROVEN
    assert any(i.value == "model.onnx" for i in finding.evidence)
    named = check(PITFALL, case(deployment(engine=engine, model="/models/encoder.ONNX")))
    assert named.outcome is Outcome.UNPROVEN


def test_an_engine_that_is_not_known_is_unproven_and_the_need_is_honest() -> None:
    finding = check(PITFALL, case(NOTHING))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "--onnx" in finding.needs.en and "later release" in finding.needs.en


def test_a_name_that_only_sounds_like_onnx_is_no_evidence() -> None:
    assert check(PITFALL, case(deployment(model="org/llama-onnx-distill"))).outcome is Outcome.NOT_APPLICABLE
