"""What a search for the user's own objective says of the batch cap, for the judges of P04 and P07.

Such a search (`instruments/load/search`) proves one level with a few hundred requests, where a curve takes
662 at each. It counts only where the objective it searched for is the one in force in preop.toml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from preop.evidence import Load, SloAnswer
from preop.findings import Item
from preop.pitfalls.clip import clip
from preop.pitfalls.readings import number, whole_cap
from preop.pitfalls.types import Case
from preop.text import Text
from preop.thresholds import Thresholds

__all__ = ["TERMS", "Searched", "objective_of", "searched"]

_IN_A_POD = ("running", "concurrency", "in_flight", "inflight", "processing")
"""Words in the name of a metric that counts requests being served."""

TERMS = {"ttft_p99": "P04.ttft_p99_ms", "tpot_p99": "P04.tpot_p99_ms"}
"""The limits of an objective, by the thresholds that hold them."""


@dataclass(frozen=True)
class Searched:
    """The answer of a search, held against the cap."""

    load: Load
    slo: SloAnswer
    cap: int | None
    autoscaler: Item | None
    """Its target, where it counts requests in a pod."""
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
        return [*items, self.autoscaler] if self.autoscaler is not None else items

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
    return Searched(load, slo, cap, _autoscaler(case, slo), outcome)


def _autoscaler(case: Case, slo: SloAnswer) -> Item | None:
    """The target of an autoscaler that counts requests in a pod, held against the boundary: a pod that is to
    take more than keeps the objective breaks it before another one is added."""
    metric, target = case.fact("autoscaler_metric"), number(case.fact("autoscaler_target"))
    named = str(metric.value).lower() if metric.is_known else ""
    if target is None or not slo.concurrency or not any(word in named for word in _IN_A_POD):
        return None
    says = "above" if target > slo.concurrency else "within"
    source = f"{case.fact('autoscaler_target').source}; {says} the {slo.concurrency} that keep the objective"
    return Item(f"autoscaler target of {clip(metric.value, 40)}", target, "requests", source)
