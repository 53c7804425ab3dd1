"""Waivers: owner, reason and last day, or none; what is accepted is judged all the same."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.types import Deployment
from preop.errors import UsageError
from preop.findings import Finding, Item, Outcome, PitfallResult, Verdict, decide
from preop.gates import GATES
from preop.text import Text
from preop.waivers import apply, load_waivers

TODAY = date(2026, 12, 1)
PITFALLS = [f"P{number:02}" for number in range(1, 16)]
ENTRY = '[[waiver]]\npitfall = "P11"\nowner = "sre"\nreason = "first release"\nexpires = 2026-12-31\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "preop-waivers.toml"
    path.write_text(text, encoding="utf-8")
    return path


def applied(
    folder: Path,
    text: str,
    outcome: Outcome = Outcome.UNPROVEN,
    name: str = "chat",
    today: date = TODAY,
    beside: tuple[str, ...] = (),
) -> tuple[Finding, list[str]]:
    grants = load_waivers(write(folder, text), PITFALLS)
    finding = Finding(outcome, Text("s", "s"), evidence=(Item("n", 1, source="x"),), remedy=Text("r", "r"))
    deployment = Deployment(name, "vllm", "compose.yml", {}, own_name="own")
    others = [Deployment(other, "vllm", "compose.yml", {}) for other in beside]
    result = PitfallResult("P11", {name: finding})
    results, remarks = apply([result], [deployment, *others], grants, today, 14)
    return results[0].by_deployment[name], [remark.en for remark in remarks]


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.UNPROVEN, Outcome.ERROR])
def test_what_is_open_is_waived_and_keeps_its_evidence(tmp_path: Path, outcome: Outcome) -> None:
    finding, remarks = applied(tmp_path, ENTRY, outcome)
    assert (finding.outcome, finding.waived) == (Outcome.WAIVED, outcome)
    assert finding.waiver is not None
    assert (finding.waiver.owner, finding.waiver.reason) == ("sre", "first release")
    assert finding.waiver.expires == "2026-12-31"
    assert finding.evidence and finding.remedy
    assert remarks == []


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.NOT_APPLICABLE])
def test_what_is_shut_needs_none_and_that_is_said(tmp_path: Path, outcome: Outcome) -> None:
    finding, remarks = applied(tmp_path, ENTRY, outcome)
    assert finding.outcome is outcome and finding.waiver is None
    assert len(remarks) == 1 and "drop it" in remarks[0]


@pytest.mark.parametrize(
    ("day", "outcome", "said"),
    [
        (date(2026, 12, 16), Outcome.WAIVED, None),
        (date(2026, 12, 17), Outcome.WAIVED, "in 14 days"),
        (date(2026, 12, 30), Outcome.WAIVED, "in 1 day"),
        (date(2026, 12, 31), Outcome.WAIVED, "in 0 days"),
        (date(2027, 1, 1), Outcome.UNPROVEN, "expired on 2026-12-31: it counts as none"),
    ],
)
def test_the_last_day_counts_and_the_end_is_announced(
    tmp_path: Path, day: date, outcome: Outcome, said: str | None
) -> None:
    finding, remarks = applied(tmp_path, ENTRY, today=day)
    assert finding.outcome is outcome
    assert (said is None and not remarks) or (said is not None and said in remarks[0])


@pytest.mark.parametrize(
    ("pattern", "covers"), [("chat", True), ("ch*", True), ("own", True), ("code", False)]
)
def test_a_waiver_may_be_for_some_deployments(tmp_path: Path, pattern: str, covers: bool) -> None:
    finding, _ = applied(tmp_path, ENTRY + f'deployment = "{pattern}"\n')
    assert (finding.outcome is Outcome.WAIVED) is covers


@pytest.mark.parametrize("everybody", ["", 'deployment = "*"\n', 'deployment = "**"\n'])
@pytest.mark.parametrize("outcome", [Outcome.UNPROVEN, Outcome.ERROR])
def test_a_waiver_that_names_none_of_several_accepts_what_is_not_proven_and_no_fail(
    tmp_path: Path, everybody: str, outcome: Outcome
) -> None:
    assert applied(tmp_path, ENTRY + everybody, outcome)[0].outcome is Outcome.WAIVED
    finding, remarks = applied(tmp_path, ENTRY + everybody, Outcome.FAIL, name="later", beside=("chat",))
    assert finding.outcome is Outcome.FAIL and finding.waiver is None
    assert len(remarks) == 1 and 'accepts no FAIL: add deployment = "later"' in remarks[0]


def test_a_waiver_for_what_is_not_checked_here_is_not_to_be_dropped(tmp_path: Path) -> None:
    _, remarks = applied(tmp_path, ENTRY + 'deployment = "elsewhere"\n')
    assert len(remarks) == 1 and "no deployment that is checked here" in remarks[0]


def test_a_name_with_brackets_is_no_set_of_letters(tmp_path: Path) -> None:
    pattern = ENTRY + 'deployment = "chat [a*"\n'
    assert applied(tmp_path, pattern, name="chat [a]")[0].outcome is Outcome.WAIVED
    assert applied(tmp_path, ENTRY + 'deployment = "chat[ab]"\n', name="chata")[0].outcome is Outcome.UNPROVEN


def test_a_waiver_without_an_end_in_sight_counts_and_is_asked_about(tmp_path: Path) -> None:
    finding, remarks = applied(tmp_path, ENTRY.replace("2026-12-31", "9999-12-31"))
    assert finding.outcome is Outcome.WAIVED
    assert len(remarks) == 1 and "is that meant?" in remarks[0]


def test_of_two_waivers_for_one_finding_the_expired_is_said_and_the_later_counts(tmp_path: Path) -> None:
    expired = ENTRY.replace("2026-12-31", "2026-11-30").replace('"sre"', '"then"')
    for text in (expired + ENTRY, ENTRY + expired):
        finding, remarks = applied(tmp_path, text)
        assert finding.waiver is not None and finding.waiver.owner == "sre"
        assert len(remarks) == 1 and "expired on 2026-11-30" in remarks[0]


def test_with_every_open_pitfall_accepted_the_deployment_may_go() -> None:
    findings = [PitfallResult(name, {"d": Finding(Outcome.WAIVED, Text("x", "x"))}) for name in PITFALLS]
    assert decide(findings, GATES["deploy"]) is Verdict.GO


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('owner = "sre"\n', ""), "waiver 1: owner is missing"),
        (('reason = "first release"\n', ""), "reason is missing"),
        (("expires = 2026-12-31\n", ""), "expires is missing"),
        (('"first release"', '"  "'), "expected a text that is not empty"),
        (("P11", "P99"), "expected one of P01"),
        (("2026-12-31", '"soon"'), "expected a day such as 2026-12-31"),
        (("2026-12-31", "20261231"), "expected a day"),
        (("2026-12-31", "2026-12-31T10:00:00Z"), "expected a day"),
        (("owner", "ownr"), "did you mean owner?"),
        (("[[waiver]]", "[waiver]"), "with double brackets"),
        (("[[waiver]]", "[[waivers]]"), "waivers is not a key"),
        (("[[waiver]]", "[[waiver"), "not valid TOML"),
        (('"sre"', f'"{"x" * 2001}"'), "longer than 2000"),
    ],
)
def test_a_waiver_that_is_none_is_refused(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert change[0] in ENTRY
    with pytest.raises(UsageError) as error:
        load_waivers(write(tmp_path, ENTRY.replace(*change)), PITFALLS)
    assert said in str(error.value) and "preop-waivers.toml" in str(error.value)


def test_a_day_may_be_written_as_text_and_a_secret_is_masked(tmp_path: Path) -> None:
    text = ENTRY.replace("2026-12-31", '"2026-12-31"').replace("first", "key sk-abcdefghijklmnop")
    finding, _ = applied(tmp_path, text)
    assert finding.waiver is not None
    assert finding.waiver.expires == "2026-12-31" and "abcdefgh" not in finding.waiver.reason


@given(st.text(max_size=80), st.integers(-400, 400))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_gives_waivers_or_one_sentence(tmp_path: Path, text: str, days: int) -> None:
    day = TODAY + timedelta(days=days)
    for content in (text, ENTRY + text, ENTRY.replace("2026-12-31", day.isoformat())):
        path = tmp_path / "w.toml"
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        try:
            load_waivers(path, PITFALLS)
        except UsageError as error:
            assert str(error).startswith(str(path))
