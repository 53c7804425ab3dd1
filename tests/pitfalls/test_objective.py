"""P04 and P07 after a search for the user's own objective."""

from __future__ import annotations

from typing import Any

import pytest
from cases import case, in_file, is_whole, user

from preop.evidence import Load, SloAnswer, Strength
from preop.findings import Finding, Outcome
from preop.pitfalls.p04_concurrency_latency import PITFALL as P04
from preop.pitfalls.p07_batch_cap import PITFALL as P07
from preop.pitfalls.types import Pitfall

OBJECTIVE = {"P04.ttft_p99_ms": 500.0, "P04.tpot_p99_ms": 50.0}
TERMS = {"ttft_p99": 500.0, "tpot_p99": 50.0}


def judged(
    pitfall: Pitfall, cap: int | None, thresholds: dict[str, float] | None = None, **slo: Any
) -> Finding:
    answer = SloAnswer(**{"concurrency": None, "resolved": False, "why": "w", "terms": TERMS, **slo})
    load = Load("http://127.0.0.1:8000", "m", 500, 256, [], slo=answer)
    facts: dict[str, Any] = {} if cap is None else {"max_num_seqs": in_file(cap)}
    finding = pitfall.judge(
        case(payload=load, thresholds=OBJECTIVE if thresholds is None else thresholds, **facts)
    )
    is_whole(finding)
    return finding


@pytest.mark.parametrize("pitfall", [P04, P07])
def test_a_boundary_below_the_cap_fails_and_names_the_level_that_keeps_it(pitfall: Pitfall) -> None:
    slo: dict[str, Any] = {
        "concurrency": 40,
        "resolved": True,
        "proved": True,
        "breaks_at": 41,
        "broken": "tpot_p99",
    }
    finding = judged(pitfall, 256, **slo)
    assert finding.outcome is Outcome.FAIL and finding.strength is Strength.MEASURED
    assert "41" in finding.summary.en and "256" in finding.summary.en
    assert finding.remedy is not None and finding.remedy.en.startswith("--max-num-seqs 40")
    assert finding.where == "compose.yml:14:9"


@pytest.mark.parametrize("pitfall", [P04, P07])
@pytest.mark.parametrize(
    "slo",
    [
        {"concurrency": 32, "proved": True},
        {"concurrency": 40, "proved": True, "resolved": True, "breaks_at": 41},
    ],
)
def test_an_objective_proved_up_to_the_cap_passes(pitfall: Pitfall, slo: dict[str, Any]) -> None:
    assert judged(pitfall, 32, **slo).outcome is Outcome.PASS


@pytest.mark.parametrize("pitfall", [P04, P07])
@pytest.mark.parametrize(
    "slo",
    [
        {"concurrency": 32},
        {"concurrency": 16, "proved": True, "why": "the budget of 120 s was over"},
        {"concurrency": 16, "breaks_at": 17},
        {},
    ],
)
def test_what_the_search_left_open_is_not_proven(pitfall: Pitfall, slo: dict[str, Any]) -> None:
    finding = judged(pitfall, 32, **slo)
    assert finding.outcome is Outcome.UNPROVEN and finding.needs is not None


def test_one_request_that_breaks_the_users_objective_fails_p04_and_leaves_the_cap_open() -> None:
    slo: dict[str, Any] = {"concurrency": 0, "resolved": True, "breaks_at": 1, "broken": "ttft_p99"}
    assert judged(P04, 32, **slo).outcome is Outcome.FAIL
    assert judged(P04, None, **slo).outcome is Outcome.FAIL
    assert judged(P07, 32, **slo).outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("pitfall", [P04, P07])
def test_a_cap_that_is_not_known_cannot_be_held_against_the_boundary(pitfall: Pitfall) -> None:
    finding = judged(pitfall, None, concurrency=40, resolved=True, proved=True, breaks_at=41)
    assert finding.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("pitfall", [P04, P07])
@pytest.mark.parametrize(
    "thresholds", [{}, {"P04.tpot_p99_ms": 50.0}, {**OBJECTIVE, "P04.ttft_p99_ms": 100.0}]
)
def test_a_search_for_another_objective_says_nothing(pitfall: Pitfall, thresholds: dict[str, float]) -> None:
    finding = judged(pitfall, 32, thresholds, concurrency=40, resolved=True, proved=True, breaks_at=41)
    assert finding.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize(("target", "says"), [(64, "above the 40"), (32, "within the 40")])
def test_an_autoscaler_that_counts_running_requests_is_held_against_the_boundary(
    target: int, says: str
) -> None:
    answer = SloAnswer(40, True, "w", TERMS, 41, "tpot_p99", True)
    load = Load("http://127.0.0.1:8000", "m", 500, 256, [], slo=answer)
    scaled: dict[str, Any] = {
        "autoscaler_metric": user("vllm:num_requests_running"),
        "autoscaler_target": user(target),
    }
    finding = P04.judge(case(payload=load, thresholds=OBJECTIVE, max_num_seqs=in_file(256), **scaled))
    shown = next(item for item in finding.evidence if item.name.startswith("autoscaler target"))
    assert shown.value == target and says in str(shown.source)
