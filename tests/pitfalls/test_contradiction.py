"""A declared value that the running engine denies fails the pitfall that owns it."""

from __future__ import annotations

from made import case, deployment, fact

from preop.deployment.types import Contradiction
from preop.evidence import Strength
from preop.facts import Origin, known
from preop.findings import Finding, Item, Outcome
from preop.pitfalls import all_pitfalls, find_pitfall
from preop.pitfalls.contradiction import apply, owner
from preop.text import Text

ROUTE = Origin("route", "GET /v1/models")
PASSED = Finding(Outcome.PASS, Text("fine", "好"), Strength.MEASURED)


def denied(name: str, declared: object, running: object) -> Contradiction:
    return Contradiction(name, fact(declared, where="compose.yml:14:9"), known(running, "engine", ROUTE))


def test_it_fails_its_owner_with_both_values_and_both_sources() -> None:
    subject = case(deployment(contradictions=(denied("max_num_seqs", 64, 256),)))
    pitfall = find_pitfall(owner("max_num_seqs"))
    finding = apply(pitfall, subject, PASSED)
    assert finding.outcome is Outcome.FAIL and finding.strength is Strength.MEASURED
    assert "64" in finding.summary.en and "256" in finding.summary.zh
    assert {(i.value, i.source) for i in finding.evidence} == {
        (64, "compose.yml:14:9"),
        (256, "GET /v1/models"),
    }
    assert finding.where == "compose.yml:14:9" and finding.remedy is not None


def test_every_contradicted_fact_fails_exactly_one_pitfall() -> None:
    for name in ("max_num_seqs", "max_model_len", "image", "served_model_name", "a_fact_that_nobody_owns"):
        subject = case(deployment(contradictions=(denied(name, 1, 2),)))
        failing = [p.id for p in all_pitfalls() if apply(p, subject, PASSED).outcome is Outcome.FAIL]
        assert failing == [owner(name)]
    assert owner("a_fact_that_nobody_owns") == "P12"


def test_a_failure_keeps_its_own_words_and_gains_the_evidence() -> None:
    failure = Finding(
        Outcome.FAIL,
        Text("too much", "太多"),
        Strength.DECLARED,
        (Item("sum", 1.2),),
        remedy=Text("less", "少些"),
    )
    subject = case(deployment(contradictions=(denied("nobody", "x", "y"),)))
    finding = apply(find_pitfall("P12"), subject, failure)
    assert finding.summary == failure.summary and len(finding.evidence) == 3
    assert finding.remedy is not None and finding.remedy.en.startswith("less; bring nobody in line")


def test_without_a_contradiction_nothing_changes() -> None:
    assert all(apply(p, case(deployment()), PASSED) is PASSED for p in all_pitfalls())


def test_long_values_are_cut_for_the_line_and_whole_in_the_evidence() -> None:
    long = "m" * 500
    subject = case(deployment(contradictions=(denied("nobody", long, {"a": [1]}),)))
    finding = apply(find_pitfall("P12"), subject, PASSED)
    assert len(finding.summary.en) < 120 and any(i.value == long for i in finding.evidence)
