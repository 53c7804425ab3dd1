"""What a search for the user's own objective says of the batch cap, for the judges of P04 and P07.

Such a search (`instruments/load/search`) proves one level with a few hundred requests, where a curve takes
662 at each. It counts only where the objective it searched for is the one in force in preop.toml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from preop.evidence import Load, SloAnswer
from preop.findings import Item
from preop.pitfalls.readings import whole_cap
from preop.pitfalls.types import Case
from preop.text import Text
from preop.thresholds import Thresholds

__all__ = ["TERMS", "Searched", "objective_of", "searched"]

TERMS = {"ttft_p99": "P04.ttft_p99_ms", "tpot_p99": "P04.tpot_p99_ms"}
"""The limits of an objective, by the thresholds that hold them."""


@dataclass(frozen=True)
class Searched:
    """The answer of a search, held against the cap."""

    load: Load
    slo: SloAnswer
    cap: int | None
    outcome: Literal["kept", "broken", "open"]
    """kept: up to the cap, proved; broken: within the cap, beyond doubt."""

    @property
    def evidence(self) -> list[Item]:
        """The answer's numbers."""
        source = f"load, {self.load.url}"
        items = [
            Item(name, limit, "ms", "the objective, preop.toml") for name, limit in self.slo.terms.items()
        ]
        items.append(Item("highest concurrency that keeps it", self.slo.concurrency, "requests", source))
        if self.slo.breaks_at is not None:
            items.append(Item("breaks at", self.slo.breaks_at, "requests", self.slo.broken or source))
        for level in self.load.levels:
            if level.concurrency in (1, self.slo.concurrency, self.slo.breaks_at) and level.valid:
                for name, seen in (("TTFT", level.ttft_ms), ("TPOT", level.tpot_ms)):
                    items.append(Item(f"{name} p50 at {level.concurrency}", seen.p50, "ms", source))
        return items

    @property
    def limits(self) -> Text:
        """`p99 TTFT 500, TPOT 50 ms`."""
        parts = [f"{name.partition('_')[0].upper()} {limit:g}" for name, limit in self.slo.terms.items()]
        return Text(f"p99 {', '.join(parts)} ms", f"p99 {'、'.join(parts)} ms")


def objective_of(thresholds: Thresholds) -> dict[str, float]:
    """The limits that the user set in preop.toml; empty where there is none."""
    return {name: thresholds[key] for name, key in TERMS.items() if thresholds.source(key) == "preop.toml"}


def searched(case: Case) -> Searched | None:
    """The newest load measurement, where it searched for the objective in force; None where it did not."""
    load = case.payload(Load)
    wanted = objective_of(case.thresholds)
    if load is None or load.slo is None or load.loop != "closed" or not wanted or load.slo.terms != wanted:
        return None
    cap, slo = whole_cap(case), load.slo
    outcome: Literal["kept", "broken", "open"] = "open"
    within = slo.concurrency == 0 or (cap is not None and slo.breaks_at is not None and slo.breaks_at <= cap)
    if slo.resolved and within:
        outcome = "broken"
    if cap is not None and slo.proved and slo.concurrency is not None and slo.concurrency >= cap:
        outcome = "kept"
    return Searched(load, slo, cap, outcome)
