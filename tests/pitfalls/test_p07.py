"""P07: the batch cap against the measured curve."""

from __future__ import annotations

from typing import Any

import pytest
from cases import HIDDEN, case, default, in_file, is_whole, nobody, user

from preop.evidence import ClientCost, Level, Load, Percentiles, Strength
from preop.findings import Outcome
from preop.pitfalls.p07_batch_cap import PITFALL


def level(concurrency: int, ttft: float | None, tpot: float | None = 20.0, **more: Any) -> Level:
    """One level with these p99; a p50 at half of each."""

    def around(p99: float | None) -> Percentiles:
        return Percentiles(more.get("p50", p99 / 2 if p99 else None), p99)

    return Level(
        concurrency=concurrency,
        valid=more.get("valid", True),
        voided_because=None,
        requests=700,
        errors=more.get("errors", 0),
        ttft_ms=around(ttft),
        tpot_ms=around(tpot),
        itl_ms=Percentiles(),
        e2e_ms=Percentiles(),
        output_tokens_per_s=100.0,
        client=ClientCost(0.1, 100),
    )


def load(*levels: Level) -> Load:
    return Load("http://127.0.0.1:8000", "a-model", 500, 256, list(levels))


def test_the_curve_of_the_checklist_fails_a_cap_of_64() -> None:
    curve = load(level(1, 25), level(4, 30), level(16, 50), level(32, 1800), level(64, 12000))
    finding = PITFALL.judge(case(payload=curve, max_num_seqs=in_file(64)))
    is_whole(finding)
    assert finding.outcome is Outcome.FAIL
    assert finding.strength is Strength.MEASURED
    assert "cap 64" in finding.summary.en and "32" in finding.summary.en
    assert finding.remedy is not None and finding.remedy.en.startswith("--max-num-seqs 16")
    assert finding.where == "compose.yml:14:9"


def test_a_cap_that_holds_to_its_end_passes() -> None:
    finding = PITFALL.judge(case(payload=load(level(1, 25), level(16, 50)), max_num_seqs=user(16)))
    is_whole(finding)
    assert finding.outcome is Outcome.PASS
    assert finding.strength is Strength.MEASURED


def test_a_higher_level_that_holds_covers_the_cap() -> None:
    finding = PITFALL.judge(case(payload=load(level(1, 25), level(32, 60)), max_num_seqs=user(24)))
    assert finding.outcome is Outcome.PASS


def test_queueing_above_the_cap_is_not_held_against_it() -> None:
    curve = load(level(1, 25), level(16, 50), level(64, 9000))
    assert PITFALL.judge(case(payload=curve, max_num_seqs=user(16))).outcome is Outcome.PASS
    between = PITFALL.judge(case(payload=curve, max_num_seqs=user(32)))
    is_whole(between)
    assert between.outcome is Outcome.UNPROVEN


def test_a_break_exactly_at_the_cap_fails() -> None:
    curve = load(level(1, 25), level(16, 50), level(32, 900))
    assert PITFALL.judge(case(payload=curve, max_num_seqs=user(32))).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("engine", "flag"),
    [("sglang", "--max-running-requests 8"), ("llama.cpp", "--parallel 8"), ("vllm", "--max-num-seqs 8")],
)
def test_the_remedy_speaks_the_engines_own_words(engine: str, flag: str) -> None:
    curve = load(level(1, 25), level(8, 50), level(16, 50, tpot=80))
    finding = PITFALL.judge(case(engine, payload=curve, max_num_seqs=user(16)))
    assert finding.outcome is Outcome.FAIL
    assert "TPOT" in finding.summary.en
    assert finding.remedy is not None and finding.remedy.en.startswith(flag)


def test_measured_below_the_cap_only_proves_nothing() -> None:
    finding = PITFALL.judge(case(payload=load(level(1, 25), level(8, 50)), max_num_seqs=user(256)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "256" in finding.needs.en


def test_without_a_p99_nothing_passes_but_a_bad_p50_still_fails() -> None:
    quiet = load(level(1, None, None), level(8, None, None))
    finding = PITFALL.judge(case(payload=quiet, max_num_seqs=user(8)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    slow = load(level(1, 25), level(8, None, None, p50=900))
    assert PITFALL.judge(case(payload=slow, max_num_seqs=user(8))).outcome is Outcome.FAIL


def test_one_request_over_the_objective_is_not_the_caps_fault() -> None:
    finding = PITFALL.judge(case(payload=load(level(1, 900), level(8, 1900)), max_num_seqs=user(8)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "thresholds.P04" in finding.needs.en


def test_a_hiccup_in_the_middle_is_measured_again() -> None:
    curve = load(level(1, 25), level(8, 700), level(16, 60))
    finding = PITFALL.judge(case(payload=curve, max_num_seqs=user(16)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN


def test_void_levels_and_errors_do_not_prove_anything() -> None:
    void = load(level(1, 25), level(16, 9000, valid=False))
    assert PITFALL.judge(case(payload=void, max_num_seqs=user(16))).outcome is Outcome.UNPROVEN
    errors = load(level(1, 25), level(16, 50, errors=3))
    assert PITFALL.judge(case(payload=errors, max_num_seqs=user(16))).outcome is Outcome.UNPROVEN


def test_the_users_own_objective_decides() -> None:
    curve = load(level(1, 700), level(16, 900))
    loose = {"P04.ttft_p99_ms": 1000.0}
    assert PITFALL.judge(case(payload=curve, max_num_seqs=user(16), thresholds=loose)).outcome is Outcome.PASS


def test_a_cap_left_at_the_default_is_named() -> None:
    finding = PITFALL.judge(case(max_num_seqs=default(1024)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert "default of 1,024" in finding.summary.en
    assert finding.remedy is not None and "--max-num-seqs" in finding.remedy.en


def test_a_default_that_depends_on_the_gpu_is_not_a_number() -> None:
    finding = PITFALL.judge(case(max_num_seqs=nobody()))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert "depends on engine and GPU" in finding.summary.en
    measured = PITFALL.judge(case(max_num_seqs=nobody(), payload=load(level(1, 25), level(64, 9000))))
    is_whole(measured)
    assert measured.outcome is Outcome.UNPROVEN


def test_a_hidden_cap_is_unknown() -> None:
    finding = PITFALL.judge(case(max_num_seqs=nobody(), notes=[HIDDEN]))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN


def test_replicas_share_the_load() -> None:
    curve = load(level(1, 25), level(16, 50), level(32, 900))
    replicated = case(payload=curve, max_num_seqs=user(8), data_parallel_size=user(2))
    assert PITFALL.judge(replicated).outcome is Outcome.PASS
    broken = load(level(1, 25), level(16, 50), level(32, 900))
    finding = PITFALL.judge(case(payload=broken, max_num_seqs=user(16), data_parallel_size=user(2)))
    assert finding.outcome is Outcome.FAIL
    assert finding.remedy is not None and finding.remedy.en.startswith("--max-num-seqs 8:")
    # SGLang's cap is for each plain replica, but for all ranks of DP attention together: which is not known.
    other = case("sglang", payload=curve, max_num_seqs=user(16), data_parallel_size=user(2))
    assert PITFALL.judge(other).outcome is Outcome.UNPROVEN


def test_a_cap_fails_only_beside_a_lower_level_that_does_not() -> None:
    finding = PITFALL.judge(case(payload=load(level(8, 1900), level(16, 2900)), max_num_seqs=user(16)))
    is_whole(finding)
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "--concurrency 1," in finding.needs.en


def test_what_is_lacking_is_named_for_what_it_is() -> None:
    def said(*levels: Level) -> str:
        finding = PITFALL.judge(case(payload=load(level(1, 25), *levels), max_num_seqs=user(16)))
        is_whole(finding)
        assert finding.outcome is Outcome.UNPROVEN
        return finding.summary.en

    assert "3 of 700 requests failed" in said(level(16, 50, errors=3))
    assert "state their tokens" in said(level(16, 50, None))
