"""P06: no sensor in this release, so nothing passes; certain CPUs are N/A; no CUDA advice elsewhere."""

from __future__ import annotations

import pytest
from made import NOTHING, case, check, deployment, record

from preop.evidence import Live
from preop.facts import unknown
from preop.findings import Outcome
from preop.pitfalls.p06_gpu_utilization import PITFALL


@pytest.mark.parametrize("vendor", ["amd", "intel", "google", "habana", "apple"])
def test_other_accelerators_are_named_and_get_no_cuda_advice(vendor: str) -> None:
    finding = check(PITFALL, case(deployment(accelerator=vendor)))
    assert finding.outcome is Outcome.UNPROVEN and "no sensor" in finding.summary.en
    assert finding.needs is not None
    for text in (finding.needs.en, finding.needs.zh, finding.summary.en):
        assert "nvidia" not in text.lower() and "cuda" not in text.lower()


def test_only_a_certain_cpu_is_not_applicable() -> None:
    assert check(PITFALL, case(deployment(accelerator="none"))).outcome is Outcome.NOT_APPLICABLE
    cpu = deployment(engine="llama.cpp", devices="none")
    assert check(PITFALL, case(cpu)).outcome is Outcome.NOT_APPLICABLE
    for unsure in (
        NOTHING,
        deployment(engine="llama.cpp", gpu_layers=0),
        deployment(engine="vllm", devices="none"),
        deployment(accelerator=unknown("$ACCELERATOR is not set here")),
    ):
        assert check(PITFALL, case(unsure)).outcome is Outcome.UNPROVEN


def test_nvidia_is_told_what_to_read() -> None:
    finding = check(PITFALL, case(deployment(accelerator="nvidia")))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "nvidia-smi --query-gpu" in finding.needs.en
    assert finding.needs is not None and "release" in finding.needs.en


def test_an_unknown_accelerator_gets_no_cuda_advice() -> None:
    finding = check(PITFALL, case(deployment()))
    assert finding.needs is not None and "nvidia-smi" not in finding.needs.en
    assert "--accelerator" in finding.needs.en


def test_the_engines_own_signals_are_shown_and_decide_nothing() -> None:
    live = Live("http://127.0.0.1:8000", "vllm", {}, {"running": 4.0, "waiting": 12.0, "kv_usage": 0.97}, [])
    finding = check(PITFALL, case(deployment(accelerator="nvidia"), record("endpoint", live)))
    assert finding.outcome is Outcome.UNPROVEN
    assert {i.value for i in finding.evidence} >= {4.0, 12.0, 0.97}
