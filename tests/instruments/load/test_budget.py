"""What a run may spend."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.pacers import pacing

from load.measuring import measured
from preop.errors import UsageError
from preop.instruments.load.budget import Budget, parse_budget


def test_all_limits_are_read_and_said() -> None:
    budget = parse_budget("2min, 5kreq,2Mtok,5usd", 60, per_million=2.5)
    assert budget == Budget(120, 5_000, 2_000_000, 5, 2.5)
    assert budget.tokens == 2_000_000
    assert budget.statement() == (
        "at most 120 s, 5,000 requests, 2,000,000 output tokens, 5 USD at 2.5 USD per million output tokens"
    )


def test_a_number_alone_is_seconds_as_it_always_was() -> None:
    assert parse_budget("300", 120) == Budget(300)
    assert parse_budget("100req", 120) == Budget(120, 100)


def test_money_limits_tokens() -> None:
    budget = parse_budget("1usd", 60, per_million=10)
    assert budget.tokens == 100_000
    assert budget.over(1, 99_999) is None and "100,000 output tokens" in str(budget.over(1, 100_000))


def test_tokens_with_a_price_are_said_in_money_too() -> None:
    """300,000 tokens at 2.50 a million are 0.75."""
    assert parse_budget("120s,300ktok", 60, per_million=2.5).statement() == (
        "at most 120 s, 300,000 output tokens, about 0.75 USD at 2.5 USD per million output tokens"
    )
    assert parse_budget("120s", 60, per_million=2.5).statement() == "at most 120 s"


def test_money_is_in_the_currency_of_the_price() -> None:
    budget = parse_budget("3eur", 60, per_million=3, currency="EUR")
    assert budget.tokens == 1_000_000 and "3 EUR at 3 EUR per million" in budget.statement()
    with pytest.raises(UsageError, match=r"3usd is no limit; expected .*5eur"):
        parse_budget("3usd", 60, per_million=3, currency="EUR")


AMOUNTS = {
    "req": st.integers(1, 10**9),
    "tok": st.integers(1, 10**9),
    "usd": st.integers(1, 10**6),
    "s": st.integers(1, 86_400),
}


@given(st.lists(st.sampled_from(sorted(AMOUNTS)), min_size=1, unique=True).flatmap(
    lambda units: st.fixed_dictionaries({unit: AMOUNTS[unit] for unit in units})
))  # fmt: skip
def test_what_is_written_is_what_is_read(amounts: dict[str, int]) -> None:
    text = ",".join(f"{value}{unit}" for unit, value in amounts.items())
    budget = parse_budget(text, 60, per_million=1.0)
    assert budget == Budget(
        amounts.get("s", 60),
        amounts.get("req", math.inf),
        amounts.get("tok", math.inf),
        amounts.get("usd", math.inf),
        1.0,
    )
    limits = [amounts[unit] * scale for unit, scale in (("tok", 1), ("usd", 10**6)) if unit in amounts]
    if limits:
        assert budget.over(0, min(limits) - 1) is None and budget.over(0, min(limits)) is not None


@pytest.mark.parametrize("text", ["", "0", "-5", "5x", "5s,6s", "5Ms", "1e9", "nan", "100000h", "5,", "5usd"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match="--budget"):
        parse_budget(text, 60)


@given(st.text(max_size=20))
def test_any_text_is_a_budget_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert math.isfinite(parse_budget(text, 60, 1.0).seconds)


def test_a_run_ends_with_its_budget_of_requests() -> None:
    with pacing(slots=8, base_us=2_000) as url:
        load = measured(url, concurrency=[1, 2, 4], requests=30, output_tokens=4, budget="60s,50req")
    assert load.stopped_because is not None and "50 requests is used up" in load.stopped_because
    one, _, four = load.levels
    assert one.valid and not four.valid and four.requests == 0
    assert sum(level.requests for level in load.levels) <= 50
