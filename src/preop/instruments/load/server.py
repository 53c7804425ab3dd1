"""What the engine says of itself while load is put on it: its /metrics, read on a connection of its own.

Of an exposition of hundreds of kilobytes only the lines that are used are taken out, since what reads them
shares the event loop with the measurement. An engine without /metrics is measured all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from preop.evidence import ServerSeen, Speculation
from preop.instruments.endpoint.exposition import Sample, canonical, names, parse, total
from preop.instruments.wire.client import Connection, Target
from preop.instruments.wire.errors import WireError

__all__ = ["Reading", "ServerWatch", "read", "seen"]

_EVERY_S = 0.5
_TIMEOUT_S = 5.0
_TOO_SLOW = 3
"""Reads that fail in a row after which nothing more is asked of it."""
_GAUGES = frozenset({"running", "waiting", "kv_usage"})
"""All others only ever grow."""
_MOST = 1e15
"""What evidence can hold (`preop.evidence.Amount`)."""


@dataclass(frozen=True)
class Reading:
    """One look at the engine's metrics, under preop's names."""

    engine: str
    values: Mapping[str, float]
    """Gauges and counters; of histograms `ttft_sum`, `ttft_count` and so on."""
    per_position: tuple[float, ...] = ()
    """Accepted tokens at draft position 0, 1, ..."""

    def fell_to(self, later: Reading) -> bool:
        """Whether a counter of this reading is smaller in a later one."""
        return self.engine != later.engine or any(
            later.values.get(name, value) < value
            for name, value in self.values.items()
            if name not in _GAUGES
        )


@cache
def _wanted() -> frozenset[bytes]:
    """The names of the lines that are used, whichever engine speaks."""
    used: set[str] = set()
    for known in names().values():
        during = known.get("during_load", {})
        used.update(entry["name"] for spec in known["metrics"].values() for entry in spec["names"])
        used.update(*during.get("counters", {}).values(), during.get("per_position", ()))
        for each in during.get("histograms", {}).values():
            used.update(name + part for name in each for part in ("_sum", "_count"))
    return frozenset(name.encode() for name in used)


def read(body: bytes, version: str | None = None) -> Reading | None:
    """The reading of an exposition; None where no engine speaks in it."""
    wanted = _wanted()
    used = [line for line in body.split(b"\n") if line.partition(b" ")[0].partition(b"{")[0] in wanted]
    exposition = parse(b"\n".join(used))
    for engine in names():
        if samples := exposition.of(engine):
            break
    else:
        return None
    values, _ = canonical(exposition, engine, version)
    during = names()[engine].get("during_load", {})
    sources = dict(during.get("counters", {}))
    for kind, each in during.get("histograms", {}).items():
        sources |= {f"{kind}_{part}": [f"{name}_{part}" for name in each] for part in ("sum", "count")}
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    for ours, theirs in sources.items():
        found = next((by_name[name] for name in theirs if name in by_name), [])
        value = total(found, engine)
        if value is not None:
            values[ours] = value
    per_position = [sample for name in during.get("per_position", ()) for sample in by_name.get(name, ())]
    believed = {name: value for name, value in values.items() if value <= _MOST}
    return Reading(engine, believed, _positions(per_position))


def _positions(samples: list[Sample]) -> tuple[float, ...]:
    found: dict[int, float] = {}
    for sample in samples:
        position = sample.labels.get("position", "")
        if (
            not position.isdecimal() or len(position) > 3 or not 0 <= sample.value <= _MOST
        ):  # NaN is not, either
            return ()
        found[int(position)] = found.get(int(position), 0.0) + sample.value
    return tuple(found.get(position, 0.0) for position in range(max(found, default=-1) + 1))


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
    _fell: bool = False
    _task: asyncio.Task[None] | None = None
    _connection: Connection | None = None

    async def begin(self) -> None:
        """Take the level's first reading and go on by itself."""
        self._highest, self.looks, self._first, self.latest, self._fell = {}, 0, None, None, False
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
        return seen(self._first, self.latest, self._highest, self.looks, fell=self._fell)

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
            self._fell = self._fell or (self.latest is not None and self.latest.fell_to(reading))
            self.latest = reading
            self.looks += 1
            for name, value in reading.values.items():
                self._highest[name] = max(value, self._highest.get(name, value))
            return
        self.why_not = f"/metrics could not be read: {why}"


def seen(
    first: Reading, last: Reading, highest: Mapping[str, float], looks: int, *, fell: bool = False
) -> ServerSeen:
    """The difference of two readings. `fell`: a counter did between them; then there is no difference."""
    fell = fell or first.fell_to(last)
    during = names()[last.engine].get("during_load", {})

    def grown(name: str) -> float | None:
        before, after = first.values.get(name), last.values.get(name)
        if before is None and name in during.get("born_late", ()):
            before = 0.0
        return after - before if before is not None and after is not None and not fell else None

    def mean_ms(kind: str) -> float | None:
        whole, count = grown(f"{kind}_sum"), grown(f"{kind}_count")
        return round(whole / count * 1e3, 4) if whole is not None and count else None

    prompts, hits = grown("prompt_tokens_total"), grown("prefix_hits_total")
    queries = grown("prefix_queries_total")
    if queries is None and hits is not None and prompts is not None:  # looked up is all of the prompt
        queries = prompts if during.get("prompt_tokens_hold_cached") else prompts + hits
    return ServerSeen(
        samples=looks,
        running_max=highest.get("running"),
        waiting_max=highest.get("waiting"),
        kv_usage_max=highest.get("kv_usage"),
        preemptions=grown("preemptions_total"),
        prefix_queries=queries,
        prefix_hits=hits,
        prompt_tokens=prompts,
        output_tokens=grown("generation_tokens_total"),
        requests=grown("requests"),
        ttft_mean_ms=mean_ms("ttft"),
        tpot_mean_ms=mean_ms("tpot"),
        e2e_mean_ms=mean_ms("e2e"),
        speculation=_speculation(first, last, grown),
        counters_fell=fell,
    )


def _speculation(first: Reading, last: Reading, grown: Callable[[str], float | None]) -> Speculation | None:
    prefix = names()[last.engine]["prefix"]
    drafted, accepted = grown("spec_draft_tokens_total"), grown("spec_accepted_tokens_total")
    if drafted is not None and accepted is not None:
        before = first.per_position + (0.0,) * len(last.per_position)  # printed from the first draft on
        return Speculation(
            drafts=round(grown("spec_drafts_total") or 0),
            draft_tokens=round(drafted),
            accepted_tokens=round(accepted),
            accepted_per_position=[
                max(0, round(now - then)) for now, then in zip(last.per_position, before, strict=False)
            ],
            source=f"{prefix}spec_decode_* of /metrics",
        )
    steps, tokens, requests = grown("spec_verify_total"), grown("generation_tokens_total"), grown("requests")
    if steps and tokens is not None and requests is not None:
        # SGLang counts no drafted tokens. A step gives one more than it accepted, the prefill one.
        return Speculation(
            drafts=round(steps),
            draft_tokens=0,
            accepted_tokens=max(0, round(tokens - steps - requests)),
            source=f"{prefix}spec_verify_calls_total of /metrics, with generated tokens and requests",
        )
    return None
