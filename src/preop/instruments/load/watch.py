"""The kill switch: load on a shared engine ends by itself when it hurts somebody."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from preop.instruments.load.limits import LoadLimits
from preop.instruments.load.server import Reading

__all__ = ["KillSwitch"]


_LAST = 20
_LEAST = 10
_SLACK = 0.1
"""Ours are counted here and the engine's there, not at the same instant."""


@dataclass
class KillSwitch:
    """Asked a few times a second whether to stop."""

    limits: LoadLimits
    _ends: deque[bool] = field(default_factory=lambda: deque(maxlen=_LAST))
    _hurt_since: float | None = None
    _looks: int = -1
    _preempted: tuple[float, float] | None = None
    """When the engine was last looked at, and its preemptions until then."""

    def ended(self, failed: bool) -> None:
        """One of our requests ended."""
        self._ends.append(failed)

    def hurts(self, ours: int, reading: Reading | None, looks: int, now_s: float) -> str | None:
        """Why the load must end now; None while it may go on.

        `ours`: our requests in flight; `reading`: the engine's newest, the `looks`-th one.
        """
        if len(self._ends) >= _LEAST and sum(self._ends) > self.limits.errors * len(self._ends):
            return (
                f"{sum(self._ends)} of the last {len(self._ends)} requests failed, "
                f"the limit is {self.limits.errors:.0%}"
            )
        if reading is None or looks == self._looks:
            return None
        self._looks = looks
        said = self._others(ours, reading, self._preemptions_per_s(reading, now_s))
        if said is None:
            self._hurt_since = None
            return None
        if self._hurt_since is None:
            self._hurt_since = now_s
        return said if now_s - self._hurt_since >= self.limits.seconds else None

    def _preemptions_per_s(self, reading: Reading, now_s: float) -> float:
        before, total = self._preempted, reading.values.get("preemptions_total")
        self._preempted = (now_s, total) if total is not None else None
        if before is None or total is None or now_s <= before[0]:
            return 0.0
        return (total - before[1]) / (now_s - before[0])

    def _others(self, ours: int, reading: Reading, preemptions: float) -> str | None:
        running, waiting = reading.values.get("running"), reading.values.get("waiting")
        if running is None or waiting is None:
            return None
        others = running + waiting - ours
        if others <= self.limits.others + _SLACK * ours:
            return None
        there = f"about {others:.0f} requests of others are in the engine"
        if waiting > 0:
            return f"{there}, and {waiting:.0f} have to wait"
        kv = reading.values.get("kv_usage")
        if kv is not None and kv > self.limits.kv_usage:
            return f"{there}, whose KV cache is {kv:.0%} full, the limit is {self.limits.kv_usage:.0%}"
        if preemptions > self.limits.preemptions:
            limit = self.limits.preemptions
            return f"{there}, which preempts {preemptions:.1f} a second, the limit is {limit:g}"
        return None
