"""From the samples of one level to its numbers, and whether they may be used.

Definitions, per request: TTFT from its start (closed loop: the hand-over to the kernel, on an open
connection; open loop: the moment it was to start) to the read that brought the first generated text (answer,
reasoning or tool call; a role alone is none). e2e to the read that brought the finish_reason.
TPOT = (e2e - TTFT) / (n - 1) with n from `usage`. ITL is the gap between two events with text, pooled over
requests: with several tokens in an event it is no time per token, and since gaps of one request are not
independent, its p99 is weaker than the others'.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from preop.evidence import ClientCost, Level, Percentiles
from preop.instruments.load.samples import LevelSamples, Sample
from preop.instruments.load.slo import Objective
from preop.instruments.load.statistics import least_samples, percentiles

__all__ = ["MAX_CPU_SHARE", "MAX_ERROR_SHARE", "MIN_EFFECTIVE", "summarize"]

MAX_ERROR_SHARE = 0.05
"""More failures than this and the requests that finished no longer speak for the level."""
MIN_EFFECTIVE = 0.9
"""Least share of the nominal concurrency that must really have been in flight."""
MIN_ACHIEVED = 0.95
"""Open loop, imported results: least share of the offered rate at which requests must have been started."""
MAX_CPU_SHARE = 0.8
"""CPU share of the client's thread from which it may have been the bottleneck itself."""
MAX_LAG_SHARE = 0.1
"""Most that the client may wake up late, at the median, in shares of the median TTFT ..."""
MAX_LAG_MS = 5.0
"""... or in milliseconds, whichever is more."""
GROWTH = 1.5
GROWTH_ROOM = 4.0
"""Open loop: so many times the requests in flight in the window's first third may be in flight in its last,
and some more, since arrivals by chance come in clusters."""
FOREIGN_SHARE = 0.2
"""More running in the engine than this share above what was asked for: somebody else is using it."""


def summarize(samples: LevelSamples, objective: Objective | None = None) -> Level:
    """The level's numbers."""
    finished = samples.finished
    failed = len(samples.counted) - len(finished)
    ttft = _known(sample.ttft_ms for sample in finished)
    tpot = _known(sample.tpot_ms for sample in finished)
    window = _window(finished)
    in_flight = _in_flight([*samples.counted, *samples.uncounted], window) if window else None
    effective = round(in_flight, 2) if in_flight is not None else None
    # A request without usage has no TPOT; percentiles over the rest would speak for too few.
    counts_tokens = len(tpot) == sum(1 for sample in finished if sample.output_tokens != 1)
    lag = median(samples.lags_ms) if samples.lags_ms else None
    delays = [(sample.sent_ns - sample.due_ns) / 1e6 for sample in samples.counted]
    why = _voided(samples, finished, effective, lag, ttft, delays)
    return Level(
        concurrency=samples.concurrency,
        valid=why is None,
        voided_because=why,
        requests=len(samples.counted),
        errors=failed,
        ttft_ms=percentiles(ttft, failed),
        tpot_ms=percentiles(tpot, failed) if counts_tokens else Percentiles(),
        itl_ms=percentiles([gap for sample in finished for gap in sample.gaps_ms()]),
        e2e_ms=percentiles(_known(sample.e2e_ms for sample in finished), failed),
        output_tokens_per_s=_tokens_per_s(finished, samples.uncounted, window) if window else None,
        client=ClientCost(
            cpu_s=round(samples.total_cpu_s, 4),
            events=sum(sample.events for sample in (*samples.counted, *samples.uncounted)),
            lag_p50_ms=round(lag, 3) if lag is not None else None,
        ),
        effective_concurrency=effective,
        window_s=round((window[1] - window[0]) / 1e9, 3) if window else None,
        offered_per_s=samples.offered_per_s,
        achieved_per_s=round(len(finished) / ((window[1] - window[0]) / 1e9), 3) if window else None,
        start_delay_ms=percentiles(delays) if samples.offered_per_s is not None else Percentiles(),
        held=objective.held_share(samples) if objective is not None else None,
        tokens_per_chunk=_tokens_per_chunk(finished),
        prompt_tokens=_median(sample.prompt_tokens for sample in finished),
        output_tokens=_median(sample.output_tokens for sample in finished),
        cached_share=_cached_share(finished),
        server=samples.server,
        warnings=_warnings(samples, finished, counts_tokens),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _median(values: Iterable[int | None]) -> int | None:
    found = [value for value in values if value is not None]
    return round(median(found)) if found else None


def _window(finished: Sequence[Sample]) -> tuple[int, int] | None:
    """From the first counted request's start to the last one's end."""
    ends = [sample.finish_ns for sample in finished if sample.finish_ns is not None]
    if not ends:
        return None
    window = min(sample.sent_ns for sample in finished), max(ends)
    return window if window[0] < window[1] else None


def _in_flight(samples: Sequence[Sample], window: tuple[int, int]) -> float:
    begin, end = window
    busy = 0
    for sample in samples:
        ended = sample.end_ns if sample.end_ns is not None else end
        busy += max(0, min(end, ended) - max(begin, sample.due_ns))
    return busy / (end - begin)


def _first_and_last_third(samples: LevelSamples) -> tuple[float, float]:
    """Requests waiting to start or in flight, averaged over the first and the last third of the window."""
    dues = [sample.due_ns for sample in samples.counted]
    begin, end = min(dues), max(dues) + 1
    third = max(1, (end - begin) // 3)
    everything = [*samples.counted, *samples.uncounted]
    return (
        _in_flight(everything, (begin, begin + third)),
        _in_flight(everything, (end - third, end)),
    )


def _tokens_per_s(
    finished: Sequence[Sample], others: Sequence[Sample], window: tuple[int, int]
) -> float | None:
    """Tokens that came inside the window, of all requests in flight then.

    An event carries its request's tokens by equal shares; a request that was torn down has no usage and
    takes the average of the others.
    """
    average = _tokens_per_chunk(finished)
    if average is None:
        return None
    begin, end = window
    total = 0.0
    for sample in (*finished, *others):
        times = sample.text_ns
        each = average if sample.output_tokens is None else sample.output_tokens / max(1, len(times))
        total += each * (bisect_right(times, end) - bisect_right(times, begin))
    return round(total / ((end - begin) / 1e9), 2)


def _tokens_per_chunk(finished: Sequence[Sample]) -> float | None:
    """Output tokens over events with text; None where a request does not state its tokens."""
    spoke = [sample for sample in finished if sample.text_ns]
    tokens = _known(sample.output_tokens for sample in spoke)
    if not spoke or len(tokens) < len(spoke):
        return None
    return round(sum(tokens) / sum(len(sample.text_ns) for sample in spoke), 4)


def _cached_share(finished: Sequence[Sample]) -> float | None:
    told = [sample for sample in finished if sample.cached_tokens is not None and sample.prompt_tokens]
    if not told:
        return None
    prompt = sum(sample.prompt_tokens or 0 for sample in told)
    return round(min(1.0, sum(sample.cached_tokens or 0 for sample in told) / prompt), 4)


def _voided(
    samples: LevelSamples,
    finished: Sequence[Sample],
    effective: float | None,
    lag_ms: float | None,
    ttft_ms: Sequence[float],
    delays_ms: Sequence[float],
) -> str | None:
    """Why the level's numbers must not be used; None when they may."""
    total, failed = len(samples.counted), len(samples.counted) - len(finished)
    if samples.stopped_because is not None:
        return f"stopped: {samples.stopped_because}"
    if failed > MAX_ERROR_SHARE * total:
        causes = Counter(sample.error for sample in samples.counted if sample.error is not None)
        return f"{failed} of {total} requests failed, most of them: {causes.most_common(1)[0][0]}"
    least = least_samples(0.50)
    if total < least:
        more = (
            f" when the time was over ({samples.unfinished} more were running)" if samples.out_of_time else ""
        )
        asked = f" of {samples.asked}" if samples.asked else ""
        return f"{total}{asked} requests had finished{more}; a median takes {least}"
    if samples.offered_per_s is not None:
        late = median(delays_ms)
        if ttft_ms and late > max(MAX_LAG_MS, MAX_LAG_SHARE * median(ttft_ms)):
            return f"requests started {late:.1f} ms late at the median: the load generator did not keep up"
        if samples.unfinished > MAX_ERROR_SHARE * (total + samples.unfinished):
            return (
                f"{samples.unfinished} of {samples.asked} requests were still running when the time was over"
            )
        first, last = _first_and_last_third(samples)
        if last > GROWTH * first + GROWTH_ROOM:
            return f"in flight grew from {first:.1f} to {last:.1f}: at this rate there is no steady state"
    elif effective is not None and effective < MIN_EFFECTIVE * samples.concurrency:
        return f"only {effective:.1f} of {samples.concurrency} requests were in flight on average"
    if samples.wall_s and samples.cpu_s / samples.wall_s > MAX_CPU_SHARE:
        return f"the load generator itself was busy for {samples.cpu_s / samples.wall_s:.0%} of the time"
    if lag_ms is not None and ttft_ms and lag_ms > max(MAX_LAG_MS, MAX_LAG_SHARE * median(ttft_ms)):
        return f"the load generator woke up {lag_ms:.1f} ms late at the median: this machine is too busy"
    return None


def _warnings(samples: LevelSamples, finished: Sequence[Sample], counts_tokens: bool) -> list[str]:
    said, server = [*samples.notes], samples.server
    if samples.out_of_time and samples.unfinished:
        said.append(f"{samples.unfinished} requests were still running when the time was over: not counted")
    if finished and not counts_tokens:
        said.append("some answers state no usage, so there is no time per output token")
    per_chunk = _tokens_per_chunk(finished)
    if per_chunk is not None and per_chunk > 1.05:
        said.append(f"{per_chunk:.2f} tokens in a chunk: ITL is the gap between chunks, not between tokens")
    if server is None:
        return said
    if server.counters_fell:
        said.append("the engine's counters fell: it was started anew, or several engines answer in turn")
    if server.running_max is not None and samples.offered_per_s is None:
        asked = samples.concurrency
        if server.running_max > asked + max(1.0, FOREIGN_SHARE * asked):
            said.append(f"{server.running_max:.0f} requests ran in the engine, {asked} of them from here")
    if server.preemptions:
        said.append(f"{server.preemptions:.0f} preemptions: the KV cache was too small for this level")
    if server.prefix_queries and server.prefix_hits is not None:
        share = server.prefix_hits / server.prefix_queries
        if share > 0.5:
            said.append(f"{share:.0%} of the prompt tokens came from the prefix cache")
    return said
