"""P11: a flag that the stated version no longer has stops the start; everything else needs two versions."""

from __future__ import annotations

from made import NOTHING, case, check, deployment

from preop.deployment.read import ReadOptions, read_targets
from preop.facts import Note, unknown
from preop.findings import Outcome
from preop.inputs import Inputs
from preop.pitfalls.p11_engine_upgrade import PITFALL

GONE = Note(
    "removed-flag",
    "--swap-space is no flag of vLLM 0.32.0 any more",
    "compose.yml:9:7",
    "drop --swap-space",
    "0.32.0",
)


def test_a_removed_flag_in_a_stated_version_fails_at_its_place() -> None:
    finding = check(PITFALL, case(deployment(engine_version="0.32.0", notes=(GONE,))))
    assert finding.outcome is Outcome.FAIL
    assert finding.where == "compose.yml:9:7"
    assert finding.remedy is not None and "drop --swap-space" in finding.remedy.en
    assert "--swap-space is gone: vLLM 0.32.0 cannot start" in finding.summary.en


def test_without_a_stated_version_the_flag_may_still_exist() -> None:
    unstated = unknown("the image tag is no engine version")
    subjects = [deployment(notes=(GONE,), engine_version=v) for v in (unstated, "0.6.0", "0.3", "0.32.01")]
    for subject in (deployment(notes=(GONE,)), *subjects):
        finding = check(PITFALL, case(subject))
        assert finding.outcome is Outcome.UNPROVEN
        assert finding.needs is not None and "--engine-version" in finding.needs.en


def test_the_reader_and_the_judge_agree_on_what_a_removed_flag_is() -> None:
    command = ["vllm", "serve", "m", "--swap-space", "4"]
    for version, expected in (
        ("0.32.0", Outcome.FAIL),
        ("0.6.0", Outcome.UNPROVEN),
        (None, Outcome.UNPROVEN),
    ):
        (found,) = read_targets((), command, ReadOptions(engine_version=version, environment={}))
        assert check(PITFALL, case(found)).outcome is expected


def test_other_notes_are_no_failure() -> None:
    for kind in ("unknown-flag", "bad-value", "repeated-flag", "hidden", "other"):
        note = Note(kind, "something")
        given = case(deployment(engine_version="0.32.0", notes=(note,)))
        assert check(PITFALL, given).outcome is Outcome.UNPROVEN


def test_nothing_passes() -> None:
    assert check(PITFALL, case(NOTHING)).outcome is Outcome.UNPROVEN
    given = case(deployment(engine_version="0.32.0"), inputs=Inputs(reference="http://old:8000"))
    finding = check(PITFALL, given)
    assert finding.outcome is Outcome.UNPROVEN
    assert any(i.value == "http://old:8000" for i in finding.evidence)
