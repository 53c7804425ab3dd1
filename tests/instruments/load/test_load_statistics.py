"""How many samples a percentile takes, held against published figures and against simulation."""

from __future__ import annotations

import random

import pytest

from preop.evidence import P99_SAMPLES, Percentiles
from preop.instruments.load.statistics import least_samples, percentiles, quantile


@pytest.mark.parametrize(("q", "least"), [(0.90, 64), (0.95, 130), (0.97, 219), (0.99, 662)])
def test_least_samples_are_those_of_mlperf(q: float, least: int) -> None:
    """The published table of MLPerf Inference's early-stopping criterion."""
    assert least_samples(q) == least
    assert q < 0.99 or least == P99_SAMPLES


def test_the_rule_keeps_its_promise() -> None:
    """With the least number of samples the second largest is above the true p90 in 99 % of trials."""
    rng = random.Random(7)
    trials = 4000
    above = sum(sorted(rng.random() for _ in range(least_samples(0.90)))[-2] > 0.90 for _ in range(trials))
    assert 0.985 < above / trials < 0.997


def test_nearest_rank() -> None:
    samples = [float(value) for value in range(1, 1001)]
    assert quantile(samples, 0.50) == 500
    assert quantile(samples, 0.99) == 990
    assert quantile(list(reversed(samples)), 0.99) == 990


def test_too_few_samples_have_no_percentile() -> None:
    assert percentiles([1.0] * 10) == Percentiles(None, None)
    assert percentiles([1.0] * 11) == Percentiles(1.0, None)
    assert percentiles([1.0] * 661) == Percentiles(1.0, None)
    assert percentiles([1.0] * 662) == Percentiles(1.0, 1.0)


def test_failures_lie_above_all_samples() -> None:
    samples = [1.0] * 990
    assert quantile(samples, 0.99, failed=10) == 1.0
    assert quantile(samples, 0.99, failed=11) is None
    assert quantile(samples, 0.50, failed=991) is None
