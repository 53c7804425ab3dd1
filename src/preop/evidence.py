"""Evidence: what an instrument saw, as typed documents.

A `Record` is one document on disk (`.preop/runs/<run>/evidence/*.json`), readable without preop. Its
`payload` is one of the payload types below, told apart by `kind`. Judges read payloads; nothing here
measures or judges. Times are milliseconds unless the name says otherwise; percentiles are null where
the sample is too small to have them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from preop.facts import Fact

__all__ = [
    "P99_SAMPLES",
    "RECORD_SCHEMA",
    "BreakEven",
    "ClientCost",
    "Comparison",
    "Knee",
    "Level",
    "Live",
    "Load",
    "Pair",
    "Payload",
    "Percentiles",
    "Record",
    "Route",
    "ServerSeen",
    "SloAnswer",
    "Speculation",
    "StreamedRequest",
    "Streaming",
    "Strength",
    "TokenDifference",
    "Tokens",
]


Amount = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
"""What no measurement can exceed: a document with a negative latency is refused when it is read."""


class Strength(StrEnum):
    """How a thing is known: read from files, computed by a formula, or measured."""

    DECLARED = "declared"
    COMPUTED = "computed"
    MEASURED = "measured"

    @property
    def rank(self) -> int:
        """0 for the weakest."""
        return ("declared", "computed", "measured").index(self.value)


class Route(msgspec.Struct, frozen=True):
    """One read-only request to a running engine and what came of it."""

    path: str
    status: int | None
    """HTTP status, or null when there was no whole answer."""
    note: str | None = None
    """Why the answer could not be used, in one sentence."""


class Live(msgspec.Struct, frozen=True, tag_field="kind", tag="live"):
    """What a running engine says of itself on its read-only routes."""

    url: str
    engine: str
    """One of the engine names of `preop.engines`, or "unknown"."""
    facts: dict[str, Fact]
    """By canonical name, as in a deployment. `set_by` is "engine"."""
    metrics: dict[str, float]
    """The gauges and counters that judges use, under preop's names (running, waiting, preemptions, ...)."""
    routes: list[Route]


class StreamedRequest(msgspec.Struct, frozen=True):
    """One streamed chat completion, as it arrived."""

    status: int | None
    content_type: str | None
    reads: Count
    """Reads from the socket that carried body bytes."""
    events: Count
    content_events: Count
    """Events that carried text."""
    first_content_ms: Amount | None
    last_content_ms: Amount | None
    output_tokens: Count | None
    """From `usage`, never counted from events."""
    finished: bool
    """A finish_reason and the end of the stream were both seen."""
    error: str | None = None


class Streaming(msgspec.Struct, frozen=True, tag_field="kind", tag="streaming"):
    """Whether the endpoint really streams."""

    url: str
    model: str | None
    requests: list[StreamedRequest]
    verdict: Literal["streams", "buffered", "not-sse", "failed"]
    """streams: text arrived in many reads spread over the generation; buffered: SSE, but all at once at
    the end; not-sse: another content type; failed: no request finished."""
    why: str


class Percentiles(msgspec.Struct, frozen=True):
    """p50 and p99 of one quantity, null where the sample does not carry them."""

    p50: Amount | None = None
    p99: Amount | None = None


class ClientCost(msgspec.Struct, frozen=True):
    """What the load generator itself used in a level."""

    cpu_s: Amount
    events: Count
    lag_p50_ms: Amount | None = None
    """How late its event loop woke up."""


class Speculation(msgspec.Struct, frozen=True):
    """What speculative decoding did during a level, from the engine's own counters."""

    drafts: Count
    """Draft sequences proposed; 0 where the engine counts tokens only."""
    draft_tokens: Count
    accepted_tokens: Count
    accepted_per_position: list[Count] = []
    """Accepted tokens at draft position 0, 1, ...; empty where the engine does not say."""
    source: str = ""
    """The metrics that were read."""

    @property
    def acceptance(self) -> float | None:
        """Accepted over drafted tokens."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else None

    @property
    def mean_length(self) -> float | None:
        """Tokens that one verification step gives on average: 1 + accepted tokens per draft."""
        return 1 + self.accepted_tokens / self.drafts if self.drafts else None


class ServerSeen(msgspec.Struct, frozen=True):
    """What the engine's /metrics said during a level; null where it has no such metric.

    Gauges are the highest of the samples taken, counters the difference over the level.
    """

    samples: Count
    running_max: Amount | None = None
    waiting_max: Amount | None = None
    kv_usage_max: Amount | None = None
    """Share of the KV cache in use, 0 to 1."""
    preemptions: Amount | None = None
    prefix_queries: Amount | None = None
    prefix_hits: Amount | None = None
    """Prompt tokens looked up in and taken from the prefix cache."""
    prompt_tokens: Amount | None = None
    output_tokens: Amount | None = None
    requests: Amount | None = None
    """Requests that the engine says it finished, whoever asked."""
    ttft_mean_ms: Amount | None = None
    tpot_mean_ms: Amount | None = None
    e2e_mean_ms: Amount | None = None
    """Means of the engine's own histograms over the level, to hold the client's numbers against."""
    speculation: Speculation | None = None
    counters_fell: bool = False
    """The engine was started anew during the level, or several engines answer at its address in turn: there
    are no differences then."""


class Level(msgspec.Struct, frozen=True):
    """One level: so many requests in flight (closed loop), or so many started a second (open loop)."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    """Requests in flight. In an open loop, where nothing holds it, the most that were."""
    valid: bool
    voided_because: str | None
    requests: Count
    errors: Count
    ttft_ms: Percentiles
    tpot_ms: Percentiles
    itl_ms: Percentiles
    e2e_ms: Percentiles
    output_tokens_per_s: Amount | None
    client: ClientCost | None
    """Null where another tool measured and does not say."""
    effective_concurrency: Amount | None = None
    """Requests in flight, averaged over the time measured (Little's law holds it against `concurrency`)."""
    window_s: Amount | None = None
    """Length of the time measured."""
    offered_per_s: Amount | None = None
    """Open loop: requests that were to start in a second."""
    achieved_per_s: Amount | None = None
    """Requests that finished in a second of the time measured."""
    start_delay_ms: Percentiles = Percentiles()
    """Open loop: how much later than intended a request started. It is part of every latency here."""
    held: Amount | None = None
    """Share of the requests that kept every limit of the objective asked for, 0 to 1."""
    tokens_per_chunk: Amount | None = None
    """Output tokens over events with text: above 1, `itl_ms` is the gap between chunks, not tokens."""
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None
    """Medians, from `usage`."""
    cached_share: Amount | None = None
    """Share of the prompt tokens that the engine took from its prefix cache, where `usage` says so."""
    server: ServerSeen | None = None
    warnings: list[str] = []
    """What does not void the level and must be known to read it."""


class SloAnswer(msgspec.Struct, frozen=True):
    """The highest concurrency that keeps the objective."""

    concurrency: Count | None
    """0: not even one request alone keeps it; null: nothing was found out, or no objective was given."""
    resolved: bool
    """Whether the level above it that was measured breaks it, close by, and the samples carry both."""
    why: str
    terms: dict[str, float] = {}
    """The objective: `ttft_p99` and so on, in ms."""
    breaks_at: Count | None = None
    """The lowest level measured that breaks it."""
    broken: str | None = None
    """Which term broke there, with its number."""
    proved: bool = False
    """The sample at `concurrency` carries the objective."""
    rate_per_s: Amount | None = None
    """Open loop: the highest rate measured that keeps the objective; `concurrency` is null then."""


class Knee(msgspec.Struct, frozen=True):
    """Where throughput stops following concurrency: a description of the curve, never a verdict."""

    concurrency: Count | None
    method: str
    """The definition used, and why there is none where there is none."""


class Load(msgspec.Struct, frozen=True, tag_field="kind", tag="load"):
    """Latency against concurrency (closed loop) or against rate (open loop)."""

    url: str
    model: str | None
    prompt_tokens: Count | None
    output_tokens: Count | None
    levels: list[Level]
    slo: SloAnswer | None = None
    knee: Knee | None = None
    loop: Literal["closed", "open"] = "closed"
    tool: str = "preop"
    """What measured; another tool's name and version where the numbers were imported."""
    cannot_show: list[str] = []
    """What the importing tool's format or method does not tell, each in a sentence."""
    stopped_because: str | None = None
    """Why the run ended before it was through: the budget, the kill switch, the user."""
    notes: list[str] = []


class Pair(msgspec.Struct, frozen=True):
    """Two endpoints at one level, measured in turns (A B B A)."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    ratio: Amount | None
    """Median time per output token of A over that of B: below 1, A is faster."""
    low: Amount | None
    high: Amount | None
    """95 % interval of `ratio`."""
    a: Level | None = None
    b: Level | None = None
    voided_because: str | None = None


class BreakEven(msgspec.Struct, frozen=True):
    """The level from which the faster side at level 1 is the faster one no longer."""

    concurrency: Amount | None
    """Interpolated on log2 of the concurrency; null: none up to `up_to`."""
    up_to: Count | None
    """The highest level compared."""
    why: str = ""


class Comparison(msgspec.Struct, frozen=True, tag_field="kind", tag="load-comparison"):
    """Two endpoints under the same load, paired at each level."""

    url_a: str
    url_b: str
    model_a: str | None
    model_b: str | None
    pairs: list[Pair]
    break_even: BreakEven
    about: Literal["speculation", "quantization"] | None = None
    """What B is without, by the user's word; null where the user did not say."""
    b_speculates: bool | None = None
    """Whether engine B says that it speculates; null where it does not say."""
    notes: list[str] = []


class TokenDifference(msgspec.Struct, frozen=True):
    """One text whose token ids differ."""

    cause: str
    text: str
    position: Count
    """Index of the first differing id."""
    reference_ids: list[int]
    candidate_ids: list[int]
    fix: str | None = None


class Tokens(msgspec.Struct, frozen=True, tag_field="kind", tag="tokens"):
    """Token ids of the reference tokenizer held against the engine's."""

    reference: str
    candidate: str
    compared: Count
    differences: list[TokenDifference]
    not_compared: list[str] = []
    """What could not be compared, each in a sentence."""


Payload = Live | Streaming | Load | Comparison | Tokens


class Record(msgspec.Struct, frozen=True):
    """One instrument's answer about one deployment."""

    schema: str
    instrument: str
    deployment: str
    strength: Strength
    taken_at: str
    """UTC, ISO 8601."""
    took_s: Amount
    fingerprint: dict[str, Any]
    """The facts that this evidence belongs to: when one of them changes, it is no longer valid."""
    conditions: dict[str, Any]
    """What a reader must know to read the numbers: versions, machine, options."""
    payload: Payload | None
    error: str | None = None
    """Why there is no payload, in one sentence."""


P99_SAMPLES = 662
"""Independent samples that carry a p99 with 99 % confidence (rule: `instruments/load/statistics.py`)."""

RECORD_SCHEMA = "preop.record/1"
