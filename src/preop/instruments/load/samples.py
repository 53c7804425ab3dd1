"""What a level left behind, read: of each request only what the numbers are made of.

Small enough to go from one process to another: clients on several cores or machines send their samples, and
percentiles are taken over all of them, never over percentiles.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from preop.evidence import ServerSeen
from preop.instruments.load.closed import LevelRun
from preop.instruments.wire.chat import ChatStream, parse_chat
from preop.instruments.wire.client import Response

__all__ = ["LevelSamples", "Sample", "glimpse", "merged", "read_samples", "sample_of"]

_ENDS = 4


@dataclass(slots=True)
class Sample:
    """One request. Times are `time.monotonic_ns()` of the client that sent it."""

    due_ns: int
    """When it was to start: every latency counts from here. In a closed loop that is when it was sent."""
    sent_ns: int
    first_ns: int | None
    """The read that brought the first generated text."""
    finish_ns: int | None
    """The read that brought the finish_reason."""
    end_ns: int | None
    """None: torn down while it ran."""
    text_ns: array[int]
    """The read of each event with text."""
    events: int
    output_tokens: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    error: str | None = None

    @property
    def ttft_ms(self) -> float | None:
        """From the start to the first generated text."""
        return None if self.first_ns is None else (self.first_ns - self.due_ns) / 1e6

    @property
    def e2e_ms(self) -> float | None:
        """From the start to the finish_reason."""
        return None if self.finish_ns is None else (self.finish_ns - self.due_ns) / 1e6

    @property
    def tpot_ms(self) -> float | None:
        """(finish - first) / (n - 1); None for one token, and where nothing tells n."""
        n = self.output_tokens
        if n is None or n < 2 or self.first_ns is None or self.finish_ns is None:
            return None
        return (self.finish_ns - self.first_ns) / 1e6 / (n - 1)

    @property
    def ms_per_later_token(self) -> float | None:
        """(finish - first) / tokens after the first read with text; None where nothing tells their number.

        TPOT where that read brought one token. Tokens are laid on the events with text by equal shares.
        """
        n = self.output_tokens
        if n is None or self.first_ns is None or self.finish_ns is None or not self.text_ns:
            return None
        later = n * (1 - self.text_ns.count(self.first_ns) / len(self.text_ns))
        return (self.finish_ns - self.first_ns) / 1e6 / later if later else None

    def gaps_ms(self) -> list[float]:
        """Between two events with text."""
        return [(later - earlier) / 1e6 for earlier, later in pairwise(self.text_ns)]


@dataclass
class LevelSamples:
    """One level, read. `counted` in the order they ended, failed ones included."""

    concurrency: int
    asked: int
    counted: list[Sample] = field(default_factory=list)
    uncounted: list[Sample] = field(default_factory=list)
    """First wave, requests that only kept the load up, and those torn down: load, but no sample."""
    out_of_time: bool = False
    unfinished: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Of the event loop, the most loaded one where there are several."""
    total_cpu_s: float = 0.0
    lags_ms: list[float] = field(default_factory=list)
    offered_per_s: float | None = None
    """Open loop: requests that were to start in a second."""
    stopped_because: str | None = None
    server: ServerSeen | None = None
    """What the engine said of itself meanwhile."""
    notes: list[str] = field(default_factory=list)
    """What must be known to read it."""

    @property
    def finished(self) -> list[Sample]:
        """The counted requests that were whole."""
        return [sample for sample in self.counted if sample.error is None]


def read_samples(run: LevelRun, api_key: str | None = None) -> LevelSamples:
    """Read what one event loop left behind."""
    return LevelSamples(
        concurrency=run.concurrency,
        asked=run.asked,
        counted=[_sample(response, run, api_key) for response in run.counted],
        uncounted=[_sample(response, run, api_key) for response in run.uncounted],
        out_of_time=run.out_of_time,
        unfinished=run.unfinished,
        wall_s=run.wall_s,
        cpu_s=run.cpu_s,
        total_cpu_s=run.cpu_s,
        lags_ms=run.lags_ms,
        offered_per_s=run.offered_per_s,
        stopped_because=run.stopped_because,
    )


def sample_of(stream: ChatStream, due_ns: int | None = None) -> Sample:
    """The sample of one stream."""
    response = stream.response
    return Sample(
        due_ns=response.sent_ns if due_ns is None else due_ns,
        sent_ns=response.sent_ns,
        first_ns=stream.first_ns,
        finish_ns=stream.finish_ns,
        end_ns=response.end_ns,
        text_ns=array("q", [piece.ns for piece in stream.pieces]),
        events=stream.events,
        output_tokens=stream.output_tokens,
        prompt_tokens=stream.prompt_tokens,
        cached_tokens=stream.cached_tokens,
        error=None if stream.error is None else str(stream.error),
    )


def glimpse(response: Response) -> Sample:
    """The sample of a response while others are measured: of its first and last reads where these hold whole
    events, which takes microseconds. Its `text_ns` and `events` are not all of it.
    """
    raw = response.raw
    if len(raw) > 2 * _ENDS and all(data.endswith(b"\n\n") for _, data in (raw[_ENDS - 1], raw[-_ENDS - 1])):
        ends = replace(response, raw=[*raw[:_ENDS], *raw[-_ENDS:]])
        stream = parse_chat(ends)
        if stream.error is None and stream.first_ns is not None and stream.first_ns < raw[_ENDS][0]:
            return sample_of(stream)
    return sample_of(parse_chat(response))


def _sample(response: Response, run: LevelRun, api_key: str | None) -> Sample:
    return sample_of(parse_chat(response, api_key), run.due_ns.get(id(response)))


def merged(parts: Sequence[LevelSamples]) -> LevelSamples:
    """One level that several clients carried together, on one clock."""
    counted = sorted((sample for part in parts for sample in part.counted), key=lambda each: each.end_ns or 0)
    reasons = [part.stopped_because for part in parts if part.stopped_because is not None]
    rates = [part.offered_per_s for part in parts if part.offered_per_s is not None]
    return LevelSamples(
        concurrency=sum(part.concurrency for part in parts),
        asked=sum(part.asked for part in parts),
        counted=counted,
        uncounted=[sample for part in parts for sample in part.uncounted],
        out_of_time=any(part.out_of_time for part in parts),
        unfinished=sum(part.unfinished for part in parts),
        wall_s=max(part.wall_s for part in parts),
        cpu_s=max(part.cpu_s for part in parts),
        total_cpu_s=sum(part.total_cpu_s for part in parts),
        lags_ms=[lag for part in parts for lag in part.lags_ms],
        offered_per_s=sum(rates) if rates else None,
        stopped_because=reasons[0] if reasons else None,
        server=parts[-1].server,
        notes=[note for part in parts for note in part.notes],
    )
