"""The verdict follows from the outcomes, by the table in docs/architecture.md."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from preop.evidence import Strength
from preop.findings import Finding, Outcome, PitfallResult, Verdict, decide, worst
from preop.gates import DEFAULT_GATE, GATES, Gate
from preop.pitfalls import all_pitfalls
from preop.text import Text

SHUT = {Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.WAIVED}


def result(pitfall: str, *outcomes: Outcome) -> PitfallResult:
    return PitfallResult(pitfall, {f"d{i}": Finding(o, Text("x", "x")) for i, o in enumerate(outcomes)})


def gate(*required: str, least: Strength | None = None) -> Gate:
    return Gate("g", Text("g", "g"), dict.fromkeys(required, least))


@pytest.mark.parametrize("outcomes", list(combinations_with_replacement(Outcome, 3)))
def test_every_combination(outcomes: tuple[Outcome, ...]) -> None:
    results = [result(f"P{i:02d}", outcome) for i, outcome in enumerate(outcomes)]
    verdict = decide(results, gate(*(r.pitfall for r in results)))
    if Outcome.FAIL in outcomes:
        assert verdict is Verdict.NO_GO
    elif set(outcomes) <= SHUT:
        assert verdict is Verdict.GO
    else:
        assert verdict is Verdict.HOLD


def test_what_is_not_required_blocks_only_by_failing() -> None:
    required = gate("P01")
    assert decide([result("P01", Outcome.PASS), result("P02", Outcome.UNPROVEN)], required) is Verdict.GO
    assert decide([result("P01", Outcome.PASS), result("P02", Outcome.FAIL)], required) is Verdict.NO_GO


def test_a_required_pitfall_that_nobody_judged_is_no_go_ahead() -> None:
    assert decide([result("P01", Outcome.PASS)], gate("P01", "P02")) is Verdict.HOLD


def test_the_worst_deployment_speaks() -> None:
    assert result("P13", Outcome.PASS, Outcome.FAIL, Outcome.UNPROVEN).outcome is Outcome.FAIL
    first = Finding(Outcome.FAIL, Text("first", "一"))
    assert worst([first, Finding(Outcome.FAIL, Text("second", "二"))]) is first


@pytest.mark.parametrize(
    ("holds", "least", "verdict"),
    [
        (None, Strength.DECLARED, Verdict.HOLD),
        (Strength.DECLARED, None, Verdict.HOLD),
        (Strength.DECLARED, Strength.DECLARED, Verdict.GO),
        (Strength.COMPUTED, Strength.DECLARED, Verdict.GO),
        (Strength.DECLARED, Strength.COMPUTED, Verdict.HOLD),
    ],
)
def test_a_gate_may_be_content_with_less_than_a_measurement(
    holds: Strength | None, least: Strength | None, verdict: Verdict
) -> None:
    finding = Finding(Outcome.UNPROVEN, Text("x", "x"), holds=holds)
    assert decide([PitfallResult("P15", {"d": finding})], gate("P15", least=least)) is verdict


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_the_baseline_has_as_well_stands_in_nobodys_way(outcome: Outcome) -> None:
    known = Finding(outcome, Text("x", "x"), in_baseline=True)
    fresh = Finding(outcome, Text("x", "x"), in_baseline=False)
    assert decide([PitfallResult("P01", {"a": known})], gate("P01")) is Verdict.GO
    both = decide([PitfallResult("P01", {"a": known, "b": fresh})], gate("P01"))
    assert both is decide([result("P01", outcome)], gate("P01"))


def test_of_equals_the_new_one_speaks() -> None:
    known = Finding(Outcome.FAIL, Text("old", "旧"), in_baseline=True)
    fresh = Finding(Outcome.FAIL, Text("new", "新"), in_baseline=False)
    assert worst([known, fresh]) is fresh


def test_gates_name_pitfalls_that_there_are_and_deploy_asks_for_all() -> None:
    every = {pitfall.id: pitfall for pitfall in all_pitfalls()}
    assert GATES.keys() == {"pr", "deploy", "upgrade", "incident"}
    assert GATES[DEFAULT_GATE].required == dict.fromkeys(every)
    for each in GATES.values():
        assert each.required.keys() <= every.keys()
    for pitfall, least in GATES["pr"].required.items():
        assert least is not None and least.rank < Strength.MEASURED.rank
        assert least.rank <= every[pitfall].least.rank


def test_exit_codes_are_the_contract() -> None:
    assert [verdict.exit_code for verdict in (Verdict.GO, Verdict.NO_GO, Verdict.HOLD)] == [0, 1, 3]
