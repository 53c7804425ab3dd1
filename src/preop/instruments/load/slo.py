"""The objective: limits on quantiles, and whether a level's sample keeps them.

A level keeps `ttft_p99=500ms` when at least 99 of 100 requests have their first token within 500 ms. How many
of n requests kept a limit is a binomial count, so the sample says one of three things (Wilson's interval, one
side, 95 %): it holds, it breaks, or it does not tell yet. A failed request keeps no limit. 268 requests
without a miss prove 99 %; two misses in the first few disprove it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from preop.errors import UsageError
from preop.instruments.load.samples import LevelSamples, Sample
from preop.instruments.load.statistics import wilson

__all__ = ["Count", "Objective", "Term", "Verdict", "parse_objective", "verdict_of"]

Verdict = Literal["holds", "breaks", "undecided"]
Quantity = Literal["ttft", "tpot", "itl", "e2e"]

_TERM = re.compile(r"(ttft|tpot|itl|e2e)_p(\d{1,2}(?:\.\d{1,3})?)=(\d+(?:\.\d+)?)(us|ms|s)?", re.ASCII)
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
Z = 1.6449
"""One side, 95 %."""


@dataclass(frozen=True)
class Term:
    """One limit."""

    quantity: Quantity
    quantile: float
    """0.99 for p99."""
    limit_ms: float

    @property
    def name(self) -> str:
        """`ttft_p99`."""
        return f"{self.quantity}_p{self.quantile * 100:g}"

    def kept_by(self, sample: Sample) -> float | None:
        """The share of this request that kept the limit: 0 or 1, of gaps between; None where it has none."""
        if sample.error is not None:
            return 0.0
        if self.quantity == "itl":
            gaps = sample.gaps_ms()
            return sum(gap <= self.limit_ms for gap in gaps) / len(gaps) if gaps else None
        value: float | None = getattr(sample, f"{self.quantity}_ms")
        return None if value is None else float(value <= self.limit_ms)


@dataclass
class Count:
    """How many of the requests seen so far kept one limit."""

    term: Term
    of: int = 0
    kept: float = 0.0

    def add(self, share: float | None) -> None:
        """One more request."""
        if share is not None:
            self.of += 1
            self.kept += share

    @property
    def verdict(self) -> Verdict:
        """What the sample says of the limit."""
        low, high = wilson(self.kept, self.of, Z)
        if low >= self.term.quantile:
            return "holds"
        return "breaks" if high < self.term.quantile else "undecided"


@dataclass(frozen=True)
class Objective:
    """All limits together."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return ",".join(f"{term.name}={term.limit_ms:g}ms" for term in self.terms)

    def counts(self, samples: Sequence[Sample] = ()) -> list[Count]:
        """One count a limit."""
        counts = [Count(term) for term in self.terms]
        for sample in samples:
            for count in counts:
                count.add(count.term.kept_by(sample))
        return counts

    def held_share(self, level: LevelSamples) -> float | None:
        """The share of the counted requests that kept every limit."""
        if not level.counted:
            return None
        shares = [
            min((kept for term in self.terms if (kept := term.kept_by(sample)) is not None), default=1.0)
            for sample in level.counted
        ]
        return sum(shares) / len(shares)


def verdict_of(counts: Sequence[Count]) -> Verdict:
    """A level holds when all limits hold, and breaks when one does."""
    verdicts = [count.verdict for count in counts]
    if "breaks" in verdicts:
        return "breaks"
    return "undecided" if "undecided" in verdicts or not verdicts else "holds"


def parse_objective(text: str) -> Objective:
    """`ttft_p99=500ms,tpot_p99=50ms`; a number without unit is in ms. Raises `UsageError`."""
    terms: list[Term] = []
    for part in (piece.strip() for piece in text.split(",")):
        found = _TERM.fullmatch(part)
        if found is None:
            raise UsageError(
                f"--slo {text}: {part or 'an empty part'} is no limit; expected ttft_p99=500ms,tpot_p99=50ms "
                "(ttft, tpot, itl or e2e, any quantile)"
            )
        quantile, limit = float(found[2]) / 100, float(found[3]) * _UNITS[found[4] or "ms"]
        if not 0 < quantile < 1 or not 0 < limit < 1e9:
            raise UsageError(f"--slo {text}: {part} is out of range")
        term = Term(found[1], quantile, limit)  # type: ignore[arg-type]  # one of the four by the expression
        if any(term.name == other.name for other in terms):
            raise UsageError(f"--slo {text}: {term.name} stands there twice")
        terms.append(term)
    return Objective(tuple(terms))
