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
    "ClientCost",
    "Level",
    "Live",
    "Load",
    "Payload",
    "Percentiles",
    "Record",
    "Route",
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


class Level(msgspec.Struct, frozen=True):
    """One level of concurrency."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    valid: bool
    voided_because: str | None
    requests: Count
    errors: Count
    ttft_ms: Percentiles
    tpot_ms: Percentiles
    itl_ms: Percentiles
    e2e_ms: Percentiles
    output_tokens_per_s: Amount | None
    client: ClientCost
    effective_concurrency: Amount | None = None
    """Requests in flight, averaged over the time measured (Little's law holds it against `concurrency`)."""


class Load(msgspec.Struct, frozen=True, tag_field="kind", tag="load"):
    """Latency against concurrency, closed loop."""

    url: str
    model: str | None
    prompt_tokens: Count | None
    output_tokens: Count | None
    levels: list[Level]


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


Payload = Live | Streaming | Load | Tokens


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
