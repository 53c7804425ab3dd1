"""What the engine says of itself while load is put on it: its /metrics, read on a connection of its own.

Of an exposition of hundreds of kilobytes only the lines that are used are taken out, since what reads them
shares the event loop with the measurement. An engine without /metrics is measured all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from preop.evidence import ServerSeen, Speculation
from preop.instruments.endpoint.exposition import Exposition, canonical, names, parse
from preop.instruments.wire.client import Connection, Target
from preop.instruments.wire.errors import WireError

__all__ = ["Reading", "ServerWatch", "read", "seen"]

_EVERY_S = 0.5
_TIMEOUT_S = 5.0
_TOO_SLOW = 3
"""Reads that fail in a row after which nothing more is asked of it."""


@dataclass(frozen=True)
class Reading:
    """One look at the engine's metrics, under preop's names."""

    engine: str
    values: Mapping[str, float]
    """Gauges and counters; of histograms `ttft_sum`, `ttft_count` and so on."""
    per_position: tuple[float, ...] = ()


@cache
def _wanted() -> frozenset[bytes]:
    """The names of the lines that are used, whichever engine speaks."""
    used: set[str] = set()
    for known in names().values():
        for spec in known["metrics"].values():
            used |= {entry["name"] for entry in spec["names"]}
        for kind, each in known.get("during_load", {}).items():
            ends = ("",) if kind in ("requests", "per_position") else ("_sum", "_count")
            used |= {name + end for name in each for end in ends}
    return frozenset(name.encode() for name in used)


def read(body: bytes, version: str | None = None) -> Reading | None:
    """The reading of an exposition; None where no engine speaks in it."""
    wanted = _wanted()
    used = [line for line in body.split(b"\n") if line.partition(b" ")[0].partition(b"{")[0] in wanted]
    exposition = parse(b"\n".join(used))
    for engine, known in names().items():
        if not exposition.of(engine):
            continue
        values, _ = canonical(exposition, engine, version)
        extra = known.get("during_load", {})
        for kind in ("ttft", "tpot", "e2e"):
            for name in extra.get(kind, ()):
                for part in ("sum", "count"):
                    total = _total(exposition, engine, f"{name}_{part}")
                    if total is not None:
                        values[f"{kind}_{part}"] = total
        for name in extra.get("requests", ()):
            total = _total(exposition, engine, name)
            if total is not None:
                values["requests"] = total
        return Reading(engine, values, _positions(exposition, engine, extra.get("per_position", ())))
    return None


def _total(exposition: Exposition, engine: str, name: str) -> float | None:
    own = [sample.value for sample in exposition.of(engine) if sample.name == name]
    return sum(own) if own else None


def _positions(exposition: Exposition, engine: str, given: Any) -> tuple[float, ...]:
    found: dict[int, float] = {}
    for sample in exposition.of(engine):
        position = sample.labels.get("position", "")
        if sample.name in given and position.isdecimal() and int(position) < 1000:
            found[int(position)] = found.get(int(position), 0.0) + sample.value
    return tuple(found[position] for position in sorted(found))


@dataclass
class ServerWatch:
    """Reads /metrics twice a second while a level runs. `begin`, then `end`."""

    target: Target
    version: str | None = None
    latest: Reading | None = None
    looks: int = 0
    """Readings so far."""
    why_not: str | None = None
    """Why there is no reading, in one sentence."""
    _first: Reading | None = None
    _highest: dict[str, float] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None
    _connection: Connection | None = None

    async def begin(self) -> None:
        """Take the level's first reading and go on by itself."""
        self._highest, self.looks, self._first = {}, 0, None
        if self.why_not is None:
            await self._look()
            self._first = self.latest
            self._task = asyncio.create_task(self._go_on())

    async def end(self) -> ServerSeen | None:
        """What was seen since `begin`; None where the engine tells nothing."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self.why_not is not None:
            return None
        await self._look()
        if self._first is None or self.latest is None:
            return None
        return seen(self._first, self.latest, self._highest, self.looks)

    def close(self) -> None:
        """Tear the connection down."""
        if self._connection is not None:
            self._connection.close()

    async def _go_on(self) -> None:
        while self.why_not is None:
            await asyncio.sleep(_EVERY_S)
            await self._look()

    async def _look(self) -> None:
        for _ in range(_TOO_SLOW):
            try:
                if self._connection is None or not self._connection.usable:
                    self._connection = await Connection.open(self.target, _TIMEOUT_S)
                response = await self._connection.request("GET", "/metrics", timeout_s=_TIMEOUT_S)
                if response.error is not None:
                    raise response.error
                if response.status != 200:
                    self.why_not = f"/metrics answers HTTP {response.status}"
                    return
                reading = read(response.body(), self.version)
            except WireError as error:
                why = str(error)
                continue
            if reading is None:
                self.why_not = "/metrics holds nothing of an engine that is known"
                return
            self.latest = reading
            self.looks += 1
            for name, value in reading.values.items():
                self._highest[name] = max(value, self._highest.get(name, value))
            return
        self.why_not = f"/metrics could not be read: {why}"


def seen(first: Reading, last: Reading, highest: Mapping[str, float], looks: int) -> ServerSeen:
    """The difference of two readings. A counter that fell was reset: the engine was started anew."""

    def grown(name: str) -> float | None:
        before, after = first.values.get(name), last.values.get(name)
        if before is None or after is None or after < before:
            return None
        return after - before

    def mean_ms(kind: str) -> float | None:
        total, count = grown(f"{kind}_sum"), grown(f"{kind}_count")
        return round(total / count * 1e3, 4) if total is not None and count else None

    queries, hits = grown("prefix_queries_total"), grown("prefix_hits_total")
    if (
        queries is None and hits is not None
    ):  # llama.cpp counts what it took from the cache beside what it read
        queries = hits + (grown("prompt_tokens_total") or 0.0)
    return ServerSeen(
        samples=looks,
        running_max=highest.get("running"),
        waiting_max=highest.get("waiting"),
        kv_usage_max=highest.get("kv_usage"),
        preemptions=grown("preemptions_total"),
        prefix_queries=queries,
        prefix_hits=hits,
        prompt_tokens=grown("prompt_tokens_total"),
        output_tokens=grown("generation_tokens_total"),
        requests=grown("requests"),
        ttft_mean_ms=mean_ms("ttft"),
        tpot_mean_ms=mean_ms("tpot"),
        e2e_mean_ms=mean_ms("e2e"),
        speculation=_speculation(first, last, grown("spec_drafts_total"), grown("spec_draft_tokens_total"),
                                 grown("spec_accepted_tokens_total")),
    )  # fmt: skip


def _speculation(
    first: Reading, last: Reading, drafts: float | None, drafted: float | None, accepted: float | None
) -> Speculation | None:
    if drafted is None or accepted is None:
        return None
    per_position = [
        round(after - before)
        for before, after in zip(first.per_position, last.per_position, strict=False)
        if after >= before
    ]
    if not first.per_position:  # the labels appear with the first draft
        per_position = [round(value) for value in last.per_position]
    prefix = names()[last.engine]["prefix"]
    return Speculation(
        drafts=round(drafts or 0),
        draft_tokens=round(drafted),
        accepted_tokens=round(accepted),
        accepted_per_position=per_position,
        source=f"{prefix}spec_decode_* of /metrics",
    )
