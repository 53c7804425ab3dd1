"""The search against laws whose boundary is a line of arithmetic; no clock, no network."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import UsageError
from preop.evidence import ClientCost, Level, Percentiles
from preop.instruments.load.knee import knee
from preop.instruments.load.search import Boundary, Effort, search
from preop.instruments.load.slo import Count, Term, Verdict, parse_objective
from preop.instruments.load.statistics import wilson


def found(verdict: Callable[[int, Effort], Verdict | None], top: int = 256) -> Boundary:
    async def look(level: int, effort: Effort) -> Verdict | None:
        return verdict(level, effort)

    return asyncio.run(search(look, top))


@given(st.integers(0, 300), st.integers(1, 300))
@settings(deadline=None)
def test_a_sharp_boundary_is_found_within_five_percent(truth: int, top: int) -> None:
    answer = found(lambda level, effort: "holds" if level <= truth else "breaks", top)
    reachable = min(truth, top)
    assert reachable / 1.05 - 1 < answer.holds <= reachable
    assert answer.resolved == (truth < top)
    if answer.breaks is not None:
        assert answer.holds < answer.breaks <= top


def test_levels_far_above_the_boundary_are_not_measured() -> None:
    answer = found(lambda level, effort: "holds" if level <= 40 else "breaks")
    assert max(level for level, _, _ in answer.looks) == 64
    assert sum(effort == "prove" for _, effort, _ in answer.looks) == 1


def test_one_stall_of_the_machine_is_no_limit_of_the_engine() -> None:
    seen: dict[int, int] = {}

    def verdict(level: int, effort: Effort) -> Verdict:
        seen[level] = seen.get(level, 0) + 1
        stalled = level == 4 and seen[level] == 1
        return "breaks" if stalled or level > 100 else "holds"

    answer = found(verdict)
    assert answer.resolved and 95 <= answer.holds <= 100


def test_a_level_that_fails_its_proof_moves_the_boundary_down() -> None:
    """Rare misses: probes do not see them, the proof does."""
    answer = found(lambda level, effort: "breaks" if level > (50 if effort == "prove" else 60) else "holds")
    assert answer.resolved and 47 <= answer.holds <= 50


def test_a_sample_that_cannot_tell_is_unresolved() -> None:
    answer = found(
        lambda level, effort: "undecided" if effort == "prove" else "holds" if level < 9 else "breaks"
    )
    assert not answer.resolved and "neither" in answer.why and answer.holds == 8


def test_a_level_that_cannot_be_measured_ends_the_search_with_what_is_known() -> None:
    answer = found(lambda level, effort: None if level > 8 else "holds")
    assert (answer.holds, answer.resolved) == (8, False) and "16" in answer.why


def test_verdicts_that_never_settle_end_unresolved() -> None:
    answer = found(lambda level, effort: "breaks" if effort == "prove" else "holds")
    assert not answer.resolved or answer.holds == 0
    assert answer.why


@given(st.integers(0, 2**32), st.floats(0, 0.1))
@settings(max_examples=60, deadline=None)
def test_wrong_verdicts_now_and_then_end_all_the_same(seed: int, wrong: float) -> None:
    noise = random.Random(seed)

    def verdict(level: int, effort: Effort) -> Verdict:
        right = level <= 70
        return "holds" if right != (noise.random() < wrong) else "breaks"

    answer = found(verdict)
    assert answer.why and 0 <= answer.holds <= 256


def test_an_objective_is_read_with_its_units() -> None:
    objective = parse_objective("ttft_p99=0.5s, tpot_p50=50,e2e_p99.9=2000000us")
    assert [(t.quantity, t.quantile, t.limit_ms) for t in objective.terms] == [
        ("ttft", 0.99, 500.0), ("tpot", 0.5, 50.0), ("e2e", pytest.approx(0.999), 2000.0),
    ]  # fmt: skip
    assert str(objective) == "ttft_p99=500ms,tpot_p50=50ms,e2e_p99.9=2000ms"


@pytest.mark.parametrize(
    "text",
    ["", "ttft", "ttft_p99", "ttft_p99=", "ttft_p99=0", "ttft_p0=5ms", "ttft_p100=5ms", "ttft_p99=-1ms",
     "ttft_p99=5h", "ttft_p99=nan", "ttft_p99=5ms,", "ttft_p99=5ms,ttft_p99=6ms", "latency_p99=5ms"],
)  # fmt: skip
def test_what_is_no_objective(text: str) -> None:
    with pytest.raises(UsageError, match="--slo"):
        parse_objective(text)


@given(st.text(max_size=30))
def test_any_text_is_an_objective_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_objective(text).terms


def test_samples_prove_disprove_or_do_not_tell() -> None:
    """A published value: 0 misses of n give the upper bound z^2/(n + z^2) for misses (Wilson)."""
    term = Term("ttft", 0.99, 100.0)
    assert Count(term).verdict == "undecided"
    assert Count(term, 267, 267).verdict == "undecided"
    assert Count(term, 268, 268).verdict == "holds"
    assert Count(term, 1, 0).verdict == "breaks"


def test_wilson_against_published_values() -> None:
    """R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3: 81/263, 15/148, 0/20, 1/29."""
    for kept, of, low, high in (
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718),
    ):  # fmt: skip
        assert wilson(kept, of, 1.959964) == pytest.approx((low, high), abs=5e-5)


def level(concurrency: int, rate: float | None, valid: bool = True) -> Level:
    nothing = Percentiles()
    return Level(
        concurrency, valid, None, 20, 0, nothing, nothing, nothing, nothing, rate, ClientCost(0.0, 0)
    )  # fmt: skip


def test_a_batch_cap_is_the_knee() -> None:
    levels = [level(n, 100.0 * min(n, 32)) for n in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert knee(levels).concurrency == 32


def test_a_straight_curve_has_no_knee() -> None:
    answer = knee([level(n, 100.0 * n) for n in (1, 2, 4, 8, 16)])
    assert answer.concurrency is None and "none" in answer.method


def test_voided_levels_are_not_part_of_the_curve() -> None:
    levels = [level(n, 100.0 * min(n, 8)) for n in (1, 2, 4, 8, 16, 32)]
    assert knee([*levels, level(64, 99_999.0, valid=False)]).concurrency == 8
    assert knee(levels[:3]).concurrency is None
