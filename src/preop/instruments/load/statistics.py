"""Percentiles, and how many samples one needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from preop.evidence import Percentiles

__all__ = ["CONFIDENCE", "least_samples", "percentiles", "quantile", "wilson"]

CONFIDENCE = 0.99


@cache
def least_samples(q: float) -> int:
    """The least number of samples that carries the quantile `q` with 99 % confidence.

    662 for p99, 64 for p90, 11 for p50.

    MLPerf Inference's early-stopping rule, from order statistics: the second largest of n samples is above
    the true quantile with probability 1 - P(Binomial(n, 1 - q) <= 1); n is the least for which that reaches
    the confidence. It supposes independent samples.
    """
    n = 2
    while q**n + n * (1 - q) * q ** (n - 1) > 1 - CONFIDENCE:
        n += 1
    return n


def quantile(samples: Sequence[float], q: float, failed: int = 0) -> float | None:
    """The nearest-rank quantile, None where the sample does not carry it.

    A failed request is one that took forever: it counts as a sample above all others, so that failures can
    not make the tail look better.
    """
    return _ranked(sorted(samples), q, failed)


def _ranked(ordered: Sequence[float], q: float, failed: int) -> float | None:
    n = len(ordered) + failed
    if n < least_samples(q):
        return None
    rank = math.ceil(q * n - 1e-9)
    return ordered[rank - 1] if rank <= len(ordered) else None


def percentiles(samples: Sequence[float], failed: int = 0) -> Percentiles:
    """p50 and p99, rounded to a microsecond where samples are milliseconds."""
    ordered = sorted(samples)
    values = [_ranked(ordered, q, failed) for q in (0.50, 0.99)]
    p50, p99 = (None if value is None else round(value, 3) for value in values)
    return Percentiles(p50=p50, p99=p99)


def wilson(kept: float, of: int, z: float) -> tuple[float, float]:
    """Wilson's score interval for a share, from `kept` of `of`; (0, 1) of nothing.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
    """
    if of == 0:
        return 0.0, 1.0
    share = kept / of
    centre = share + z * z / (2 * of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    scale = 1 + z * z / of
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)
