"""From what one level left behind to its numbers.

Definitions, per request: TTFT from the hand-over of the request to the kernel, on an open connection, to the
read that brought the first generated text (answer, reasoning or tool call; a role alone is none). e2e to
the read that brought the finish_reason. TPOT = (e2e - TTFT) / (n - 1) with n from `usage`. ITL is the gap
between two events with text, pooled over requests: with several tokens in an event it is no time per token,
and since gaps of one request are not independent, its p99 is weaker than the others'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from preop.evidence import ClientCost, Level, Percentiles
from preop.instruments.load.closed import LevelRun
from preop.instruments.load.statistics import least_samples, percentiles
from preop.instruments.wire.chat import ChatStream, parse_chat

__all__ = ["MAX_CPU_SHARE", "MAX_ERROR_SHARE", "MIN_EFFECTIVE", "summarize"]

MAX_ERROR_SHARE = 0.05
"""More failures than this and the requests that finished no longer speak for the level."""
MIN_EFFECTIVE = 0.9
"""Least share of the nominal concurrency that must really have been in flight."""
MAX_CPU_SHARE = 0.8
"""CPU share of the client's thread from which it may have been the bottleneck itself."""
MAX_LAG_SHARE = 0.1
"""Most that the client may wake up late, at the median, in shares of the median TTFT ..."""
MAX_LAG_MS = 5.0
"""... or in milliseconds, whichever is more."""


def summarize(run: LevelRun, api_key: str | None = None) -> tuple[Level, list[ChatStream]]:
    """The level's numbers, and its counted requests, read."""
    streams = [parse_chat(response, api_key) for response in run.counted]
    finished = [stream for stream in streams if stream.error is None]
    failed = len(streams) - len(finished)
    others = [parse_chat(response, api_key) for response in run.uncounted]
    ttft = [_ms(stream, stream.first_ns) for stream in finished if stream.first_ns is not None]
    e2e = [_ms(stream, stream.finish_ns) for stream in finished if stream.finish_ns is not None]
    tpot = [value for stream in finished if (value := _tpot_ms(stream)) is not None]
    itl = [(later.ns - earlier.ns) / 1e6 for stream in finished for earlier, later in pairwise(stream.pieces)]
    window = _window(finished)
    effective = _in_flight([*streams, *others], window) if window else None
    lag = median(run.lags_ms) if run.lags_ms else None
    why = _voided(run, streams, finished, effective, lag, ttft)
    # A request without usage has no TPOT; percentiles over the rest would speak for too few.
    counts_tokens = len(tpot) == sum(1 for stream in finished if stream.output_tokens != 1)
    level = Level(
        concurrency=run.concurrency,
        valid=why is None,
        voided_because=why,
        requests=len(streams),
        errors=failed,
        ttft_ms=percentiles(ttft, failed),
        tpot_ms=percentiles(tpot, failed) if counts_tokens else Percentiles(),
        itl_ms=percentiles(itl),
        e2e_ms=percentiles(e2e, failed),
        output_tokens_per_s=_tokens_per_s(finished, others, window) if window else None,
        client=ClientCost(
            cpu_s=round(run.cpu_s, 4),
            events=sum(stream.events for stream in (*streams, *others)),
            lag_p50_ms=round(lag, 3) if lag is not None else None,
        ),
        effective_concurrency=round(effective, 2) if effective is not None else None,
    )
    return level, streams


def _ms(stream: ChatStream, ns: int) -> float:
    return (ns - stream.response.sent_ns) / 1e6


def _tpot_ms(stream: ChatStream) -> float | None:
    n = stream.output_tokens
    if n is None or n < 2 or stream.first_ns is None or stream.finish_ns is None:
        return None
    return (stream.finish_ns - stream.first_ns) / 1e6 / (n - 1)


def _window(finished: Sequence[ChatStream]) -> tuple[int, int] | None:
    """From the first counted request's start to the last one's end."""
    ends = [stream.finish_ns for stream in finished if stream.finish_ns is not None]
    if not ends:
        return None
    window = min(stream.response.sent_ns for stream in finished), max(ends)
    return window if window[0] < window[1] else None


def _in_flight(streams: Sequence[ChatStream], window: tuple[int, int]) -> float:
    begin, end = window
    busy = 0
    for stream in streams:
        ended = stream.response.end_ns if stream.response.end_ns is not None else end
        busy += max(0, min(end, ended) - max(begin, stream.response.sent_ns))
    return busy / (end - begin)


def _tokens_per_s(
    finished: Sequence[ChatStream], others: Sequence[ChatStream], window: tuple[int, int]
) -> float | None:
    """Tokens that came inside the window, of all requests in flight then.

    An event carries its request's tokens by equal shares; a request that was torn down has no usage and
    takes the average of the others.
    """
    counted = [(stream.output_tokens, len(stream.pieces)) for stream in finished if stream.pieces]
    if not counted or any(tokens is None for tokens, _ in counted):
        return None
    average = sum(tokens or 0 for tokens, _ in counted) / sum(events for _, events in counted)
    begin, end = window
    total = 0.0
    for stream in (*finished, *others):
        each = average if stream.output_tokens is None else stream.output_tokens / max(1, len(stream.pieces))
        total += each * sum(1 for piece in stream.pieces if begin < piece.ns <= end)
    return round(total / ((end - begin) / 1e9), 2)


def _voided(
    run: LevelRun,
    streams: Sequence[ChatStream],
    finished: Sequence[ChatStream],
    effective: float | None,
    lag_ms: float | None,
    ttft_ms: Sequence[float],
) -> str | None:
    """Why the level's numbers must not be used; None when they may."""
    total, failed = len(streams), len(streams) - len(finished)
    if failed > MAX_ERROR_SHARE * total:
        causes = Counter(str(stream.error) for stream in streams if stream.error is not None)
        return f"{failed} of {total} requests failed, most of them: {causes.most_common(1)[0][0]}"
    least = least_samples(0.50)
    if total < least:
        ended = f" when the time was over ({run.unfinished} more were running)" if run.out_of_time else ""
        asked = f" of {run.asked}" if run.asked else ""
        return f"{total}{asked} requests had finished{ended}; a median takes {least}"
    if effective is not None and effective < MIN_EFFECTIVE * run.concurrency:
        return f"only {effective:.1f} of {run.concurrency} requests were in flight on average"
    if run.wall_s and run.cpu_s / run.wall_s > MAX_CPU_SHARE:
        return f"the load generator itself was busy for {run.cpu_s / run.wall_s:.0%} of the time"
    if lag_ms is not None and ttft_ms and lag_ms > max(MAX_LAG_MS, MAX_LAG_SHARE * median(ttft_ms)):
        return f"the load generator woke up {lag_ms:.1f} ms late at the median: this machine is too busy"
    return None
