"""P08 and P03 after the same load was put on both engines in turns."""

from __future__ import annotations

from typing import Any

import pytest
from cases import case, in_file, is_whole, user

from preop.evidence import BreakEven, Comparison, Pair, Strength
from preop.findings import Finding, Outcome
from preop.pitfalls.p03_weight_only_quantization import PITFALL as P03
from preop.pitfalls.p08_speculative_decoding import PITFALL as P08

SPECULATIVE = {"method": "ngram", "num_speculative_tokens": 3}


def comparison(*pairs: tuple[int, float, float, float], **more: Any) -> Comparison:
    """Pairs: concurrency, ratio, low, high."""
    return Comparison(
        "http://127.0.0.1:1", "http://127.0.0.1:2", "m", "m", [Pair(*pair) for pair in pairs],
        **{"break_even": BreakEven(None, 32), "about": "speculation", **more},
    )  # fmt: skip


def p08(cap: int | None, told: Comparison) -> Finding:
    facts: dict[str, Any] = {} if cap is None else {"max_num_seqs": in_file(cap)}
    finding = P08.judge(case(payload=told, speculative=user(SPECULATIVE), **facts))
    is_whole(finding)
    return finding


PAYS = ((1, 0.6, 0.58, 0.62), (16, 0.8, 0.78, 0.82), (32, 0.95, 0.93, 0.97))
TURNS = ((1, 0.6, 0.58, 0.62), (16, 0.9, 0.88, 0.92), (64, 1.4, 1.38, 1.42))


def test_speculation_that_costs_within_the_cap_fails_with_the_measured_break_even() -> None:
    finding = p08(256, comparison(*TURNS, break_even=BreakEven(22.4, 64)))
    assert finding.outcome is Outcome.FAIL and finding.strength is Strength.MEASURED
    assert "40%" in finding.summary.en and "64" in finding.summary.en
    assert finding.remedy is not None and finding.remedy.en.startswith("--max-num-seqs 22 ")


def test_speculation_that_costs_above_the_cap_only_passes() -> None:
    finding = p08(16, comparison(*TURNS))
    assert finding.outcome is Outcome.PASS and "1.11x at 16" in finding.summary.en


def test_speculation_that_pays_at_every_level_up_to_the_cap_passes() -> None:
    assert p08(32, comparison(*PAYS)).outcome is Outcome.PASS
    assert p08(24, comparison(*PAYS)).outcome is Outcome.PASS  # the level above covers it


@pytest.mark.parametrize(
    ("cap", "told"),
    [
        (64, comparison(*PAYS)),  # not measured up to the cap
        (None, comparison(*PAYS)),
        (32, comparison((1, 0.6, 0.58, 0.62), (32, 0.99, 0.9, 1.1))),  # cannot be told apart
        (32, comparison((1, 0.6, None, None), (32, None, None, None))),  # type: ignore[arg-type]
        (32, comparison(*PAYS, b_speculates=True)),
        (32, comparison(*PAYS, about=None)),  # nobody says what B is without
        (32, comparison(*PAYS, about="quantization")),
    ],
)
def test_what_the_comparison_left_open_is_not_proven(cap: int | None, told: Comparison) -> None:
    assert p08(cap, told).outcome is Outcome.UNPROVEN


def p03(told: Comparison | None) -> Finding:
    finding = P03.judge(case(payload=told, quantization=user("awq"), max_num_seqs=in_file(16)))
    is_whole(finding)
    return finding


def test_a_measured_loss_fails_weight_only_quantization_whatever_table_and_roofline_say() -> None:
    finding = p03(comparison((1, 1.3, 1.25, 1.35), about="quantization"))
    assert finding.outcome is Outcome.FAIL and finding.strength is Strength.MEASURED


def test_a_measured_gain_passes_it() -> None:
    told = comparison((1, 0.5, 0.49, 0.51), (16, 0.8, 0.78, 0.82), about="quantization")
    finding = p03(told)
    assert finding.outcome is Outcome.PASS and "1.25x as fast at 16" in finding.summary.en


def test_without_a_decision_table_and_roofline_speak() -> None:
    told = comparison((1, 0.99, 0.9, 1.1), about="quantization")
    assert p03(told).outcome is p03(None).outcome is Outcome.UNPROVEN
