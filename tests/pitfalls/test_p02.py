"""P02: token ids against the training side's."""

from __future__ import annotations

from cases import case, in_file, is_whole, user

from preop.evidence import Strength, TokenDifference, Tokens
from preop.findings import Outcome
from preop.pitfalls.p02_tokenizer_parity import PITFALL

BOS = TokenDifference(
    cause="BOS added twice",
    text="Hello",
    position=1,
    reference_ids=[1, 15043, 2],
    candidate_ids=[1, 1, 15043, 2],
    fix="send add_special_tokens=false with text that already carries <s>",
)


def tokens(compared: int, *differences: TokenDifference, left_out: tuple[str, ...] = ()) -> Tokens:
    return Tokens("tokenizer.json", "http://127.0.0.1:8000", compared, list(differences), list(left_out))


def test_equal_ids_everywhere_pass() -> None:
    finding = PITFALL.judge(case(payload=tokens(140)))
    is_whole(finding)
    assert finding.outcome is Outcome.PASS
    assert finding.strength is Strength.MEASURED
    assert "140" in finding.summary.en


def test_a_difference_fails_with_its_cause_position_and_fix() -> None:
    finding = PITFALL.judge(case(payload=tokens(140, BOS, BOS), tokenizer=in_file("other/tokenizer")))
    is_whole(finding)
    assert finding.outcome is Outcome.FAIL
    assert finding.strength is Strength.MEASURED
    assert "BOS added twice" in finding.summary.en and "1" in finding.summary.en
    assert finding.remedy is not None and "add_special_tokens=false" in finding.remedy.en
    shown = next(one for one in finding.evidence if one.name.startswith("difference"))
    assert shown.value["engine ids from there"] == [1, 15043, 2]
    assert finding.where == "compose.yml:14:9"


def test_what_was_left_out_keeps_it_open_and_is_named() -> None:
    finding = PITFALL.judge(case(payload=tokens(140, left_out=("chat template: no /apply-template here",))))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "chat template" in finding.needs.en
    assert any(one.name == "not compared" for one in finding.evidence)


def test_nothing_compared_proves_nothing() -> None:
    for payload in (None, tokens(0)):
        finding = PITFALL.judge(case(payload=payload))
        is_whole(finding)
        assert finding.outcome is Outcome.UNPROVEN
        assert finding.needs is not None and "--measure tokens" in finding.needs.en


def test_another_tokenizer_is_mentioned_but_not_judged() -> None:
    finding = PITFALL.judge(case(tokenizer=in_file("hf-internal/llama-tokenizer")))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert "another tokenizer" in finding.summary.en
    same = PITFALL.judge(case(tokenizer=user("a-model")))
    assert "another tokenizer" not in same.summary.en
