"""P08: speculative decoding and the batch."""

from __future__ import annotations

from typing import Any

import pytest
from cases import HIDDEN, case, default, in_file, is_whole, nobody, unseen, user

from preop.facts import Note
from preop.findings import Outcome
from preop.pitfalls.p08_speculative_decoding import PITFALL

EAGLE = {"method": "eagle3", "model": "an-eagle-head", "num_speculative_tokens": 3}


@pytest.mark.parametrize("off", [nobody(), default(None), default("none"), user("none"), user({})])
def test_no_speculation_is_not_concerned(off: Any) -> None:
    finding = PITFALL.judge(case(speculative=off))
    is_whole(finding)
    assert finding.outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize("facts", [{"speculative": unseen()}, {"speculative": nobody(), "notes": [HIDDEN]}])
def test_hidden_speculation_is_not_absent(facts: dict[str, Any]) -> None:
    finding = PITFALL.judge(case(**facts))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("kind", ["removed-flag", "unknown-flag"])
def test_a_flag_of_another_version_may_switch_it_on(kind: Any) -> None:
    note = Note(kind, "--speculative-model is no flag of vLLM 0.32.0 any more")
    finding = PITFALL.judge(case(speculative=nobody(), notes=[note]))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("cap", [8, 16, 24, 256])
def test_no_batch_cap_decides_alone(cap: int) -> None:
    finding = PITFALL.judge(case(speculative=in_file(EAGLE), max_num_seqs=user(cap)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert str(cap) in finding.summary.en
    assert finding.needs is not None and "--without-speculation" in finding.needs.en
    assert finding.where == "compose.yml:14:9"
    prior = next(one for one in finding.evidence if one.name.endswith("P08.break_even"))
    assert prior.source is not None and "prior" in prior.source


def test_a_large_cap_says_so() -> None:
    finding = PITFALL.judge(case(speculative=user(EAGLE), max_num_seqs=user(256)))
    assert "256 > break-even about 32" in finding.summary.en


def test_an_unknown_cap_is_said() -> None:
    finding = PITFALL.judge(case(speculative=user(EAGLE), max_num_seqs=nobody()))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert "unknown" in finding.summary.en


@pytest.mark.parametrize(
    ("engine", "value", "remedy"),
    [
        ("vllm", EAGLE, "num_speculative_tokens_per_batch_size"),
        ("sglang", "EAGLE3", "--speculative-algorithm"),
        ("llama.cpp", "ngram-simple", "--spec-type none"),
    ],
)
def test_the_remedy_is_that_of_the_engine(engine: str, value: Any, remedy: str) -> None:
    finding = PITFALL.judge(case(engine, speculative=user(value), max_num_seqs=user(64)))
    assert finding.remedy is not None and remedy in finding.remedy.en


@pytest.mark.parametrize(("version", "dead"), [("0.12.0", True), ("0.9.2", False), (None, True)])
def test_the_dead_option_is_called_dead(version: str | None, dead: bool) -> None:
    config = {**EAGLE, "disable_by_batch_size": 16}
    facts: dict[str, Any] = {"engine_version": user(version)} if version else {}
    finding = PITFALL.judge(case(speculative=user(config), max_num_seqs=user(64), **facts))
    assert any("does nothing" in one.name for one in finding.evidence) is dead
