"""The verdict follows from the outcomes, by the table in docs/architecture.md."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from preop.findings import Finding, Outcome, PitfallResult, Verdict, decide, worst
from preop.text import Text

SHUT = {Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.WAIVED}


def result(pitfall: str, *outcomes: Outcome) -> PitfallResult:
    return PitfallResult(pitfall, {f"d{i}": Finding(o, Text("x", "x")) for i, o in enumerate(outcomes)})


@pytest.mark.parametrize("outcomes", list(combinations_with_replacement(Outcome, 3)))
def test_every_combination(outcomes: tuple[Outcome, ...]) -> None:
    results = [result(f"P{i:02d}", outcome) for i, outcome in enumerate(outcomes)]
    verdict = decide(results, frozenset(r.pitfall for r in results))
    if Outcome.FAIL in outcomes:
        assert verdict is Verdict.NO_GO
    elif set(outcomes) <= SHUT:
        assert verdict is Verdict.GO
    else:
        assert verdict is Verdict.HOLD


def test_what_is_not_required_blocks_only_by_failing() -> None:
    required = frozenset({"P01"})
    assert decide([result("P01", Outcome.PASS), result("P02", Outcome.UNPROVEN)], required) is Verdict.GO
    assert decide([result("P01", Outcome.PASS), result("P02", Outcome.FAIL)], required) is Verdict.NO_GO


def test_a_required_pitfall_that_nobody_judged_is_no_go_ahead() -> None:
    assert decide([result("P01", Outcome.PASS)], frozenset({"P01", "P02"})) is Verdict.HOLD


def test_the_worst_deployment_speaks() -> None:
    assert result("P13", Outcome.PASS, Outcome.FAIL, Outcome.UNPROVEN).outcome is Outcome.FAIL
    first = Finding(Outcome.FAIL, Text("first", "一"))
    assert worst([first, Finding(Outcome.FAIL, Text("second", "二"))]) is first


def test_exit_codes_are_the_contract() -> None:
    assert [verdict.exit_code for verdict in (Verdict.GO, Verdict.NO_GO, Verdict.HOLD)] == [0, 1, 3]
