"""What every foreign result becomes before the levels are put together: one level, and what it cannot show.

The gates are those of our own levels (`levels.py`) where the file has the numbers for them. Percentiles that
a tool took itself are over the requests that succeeded, so they stand only under our own rule for the size
of the sample, and a p99 only where no request failed: a failed request is one that took forever.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from preop.errors import InputError
from preop.evidence import Level, Percentiles
from preop.instruments.load.levels import (
    MAX_ERROR_SHARE,
    MAX_LAG_MS,
    MAX_LAG_SHARE,
    MIN_ACHIEVED,
    MIN_EFFECTIVE,
)
from preop.instruments.load.statistics import least_samples
from preop.secrets import mask_text

__all__ = [
    "CLIENT_UNKNOWN",
    "FAILURES_UNKNOWN",
    "GROWTH_UNKNOWN",
    "NO_CHUNKS",
    "SUCCESSES_ONLY",
    "Concurrency",
    "Result",
    "Taken",
    "commonest",
    "median_of",
    "ratio",
    "read_as",
    "stated",
]

CLIENT_UNKNOWN = "Whether the load generator itself kept up (its CPU, its delays) is not recorded."
GROWTH_UNKNOWN = "Whether the requests in flight kept growing is not recorded."
NO_CHUNKS = "No times of single chunks are in the file, so no ITL: a stall inside an answer does not show."
SUCCESSES_ONLY = (
    "Its percentiles are over the requests that succeeded: a level with failures has no p99 here."
)

FAILURES_UNKNOWN = -1
"""For `stated`: nobody counted them."""

Concurrency = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Of = TypeVar("Of")
_NOTHING = Percentiles()


def read_as(kind: type[Of], document: Any, where: str) -> Of:
    """`document` as `kind`; `InputError` naming the place where it is something else."""
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{where}: {error}") from error


@dataclass(frozen=True)
class Result:
    """One level of one file."""

    where: str
    """The file, and the place in it, for messages."""
    tool: str
    level: Level
    loop: Literal["closed", "open"]
    run: str | None = None
    """What tells one run from another, where a tool writes a run more than once."""
    model: str | None = None
    url: str | None = None
    cannot_show: tuple[str, ...] = ()


def stated(
    p50: float | None, p99: float | None, samples: int, failed: int, scale: float = 1.0
) -> Percentiles:
    """Percentiles that the tool took over its successes, as far as the sample carries them."""

    def keep(value: float | None, q: float) -> float | None:
        return None if value is None or samples < least_samples(q) else round(value * scale, 3)

    return Percentiles(p50=keep(p50, 0.50), p99=keep(p99, 0.99) if not failed else None)


@dataclass
class Taken:
    """A level's numbers as far as a tool gave them, in our units."""

    requests: int
    """Failed ones included; none that was cut off at the end."""
    errors: int
    concurrency: int | None = None
    """Closed loop: as asked for. Open loop: the most that were in flight, where known."""
    offered_per_s: float | None = None
    """Open loop."""
    ttft_ms: Percentiles = _NOTHING
    tpot_ms: Percentiles = _NOTHING
    itl_ms: Percentiles = _NOTHING
    e2e_ms: Percentiles = _NOTHING
    start_delay_ms: Percentiles = _NOTHING
    output_tokens_per_s: float | None = None
    effective: float | None = None
    """Requests in flight on average."""
    window_s: float | None = None
    started_per_s: float | None = None
    """Open loop: requests that were really started in a second."""
    per_s: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    stopped: str | None = None
    """Why the run did not end by itself."""
    cause: str | None = None
    """The commonest failure."""
    burst: bool = False
    """Every request was started at once, whatever was in flight."""
    warnings: list[str] = field(default_factory=list)

    def level(self, where: str) -> Level:
        """The level; `InputError` where the load is not known."""
        concurrency = self.concurrency
        warnings = list(self.warnings)
        if concurrency is None and self.offered_per_s is not None and self.effective is not None:
            concurrency = max(1, math.ceil(min(self.effective, 1e9)))
            warnings.append("concurrency is the average in flight: the most that were is not in the file")
        if concurrency is None:
            raise InputError(f"{where}: no concurrency and no request rate, so the level is not known")
        if self.errors > self.requests:
            raise InputError(f"{where}: {self.errors} of {self.requests} requests failed, which cannot be")
        for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
            taken: Percentiles = getattr(self, name)
            if taken.p50 is not None and taken.p99 is not None and taken.p50 > taken.p99:
                raise InputError(
                    f"{where}: {name} has a p50 of {taken.p50:g} and a p99 of {taken.p99:g}, which cannot be"
                )
        least = least_samples(0.99)
        if 0 < self.requests < least:
            warnings.append(f"{self.requests} requests: too few for a p99, which takes {least}")
        if self.errors and self.e2e_ms.p99 is None and self.requests >= least:
            warnings.append(f"{self.errors} requests failed, so there is no p99")
        if (
            self.offered_per_s is not None
            and self.per_s is not None
            and self.per_s > 1.1 * self.offered_per_s
        ):
            warnings.append(f"{self.per_s:.3g} requests a second finished: more than were to start")
        why = self._voided(concurrency)
        return Level(
            concurrency=concurrency,
            valid=why is None,
            voided_because=why,
            requests=self.requests,
            errors=self.errors,
            ttft_ms=self.ttft_ms,
            tpot_ms=self.tpot_ms,
            itl_ms=self.itl_ms,
            e2e_ms=self.e2e_ms,
            output_tokens_per_s=_rounded(self.output_tokens_per_s),
            client=None,
            effective_concurrency=_rounded(self.effective),
            window_s=_rounded(self.window_s),
            offered_per_s=self.offered_per_s,
            achieved_per_s=_rounded(self.per_s),
            start_delay_ms=self.start_delay_ms,
            prompt_tokens=None if self.prompt_tokens is None else round(self.prompt_tokens),
            output_tokens=None if self.output_tokens is None else round(self.output_tokens),
            warnings=warnings,
        )

    def _voided(self, concurrency: int) -> str | None:
        if self.stopped is not None:
            return self.stopped
        if self.errors > MAX_ERROR_SHARE * self.requests:
            most = f", most of them: {mask_text(self.cause)}" if self.cause else ""
            return f"{self.errors} of {self.requests} requests failed{most}"
        least = least_samples(0.50)
        if self.requests < least:
            return f"{self.requests} requests had finished; a median takes {least}"
        if self.burst:
            return f"all {self.requests} requests were started at once: there is no steady state"
        if self.offered_per_s is None:
            if self.effective is not None and self.effective < MIN_EFFECTIVE * concurrency:
                return f"only {self.effective:.1f} of {concurrency} requests were in flight on average"
            return None
        late, ttft = self.start_delay_ms.p50, self.ttft_ms.p50
        if late is not None and late > max(MAX_LAG_MS, MAX_LAG_SHARE * (ttft or 0.0)):
            return f"requests started {late:.1f} ms late at the median: the load generator did not keep up"
        if self.started_per_s is not None and self.started_per_s < MIN_ACHIEVED * self.offered_per_s:
            return f"only {self.started_per_s:.3g} of {self.offered_per_s:.3g} requests a second were started"
        return None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def commonest(errors: Iterable[object]) -> str | None:
    """The failure that is most of them: its last line, where a traceback names it."""
    said = (error.strip() for error in errors if isinstance(error, str))
    causes = Counter(text.splitlines()[-1][:120] for text in said if text)
    return causes.most_common(1)[0][0] if causes else None


def ratio(of: float | None, by: float | None) -> float | None:
    """`of` / `by`; None where one of them is not known or nothing."""
    return None if of is None or not by else of / by


def median_of(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return None
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
