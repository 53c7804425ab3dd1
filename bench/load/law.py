"""The pacer's law, simulated: what a closed loop of N clients sees of it, to hold a search against."""

from __future__ import annotations

from dataclasses import dataclass

TURN_US = 300.0
"""From a request's end until the next one of the same client has arrived."""


@dataclass(frozen=True)
class Law:
    """Continuous batching in steps (`bench/pacer`)."""

    base_us: float
    per_seq_us: float = 0.0
    slots: int = 512
    free_seqs: float = 0.0
    prefill_us: float = 0.0
    prompt_tokens: int = 66

    def options(self) -> list[str]:
        """As the pacer's flags."""
        return [
            "--base-us", str(self.base_us), "--per-seq-us", str(self.per_seq_us), "--slots", str(self.slots),
            "--free-seqs", str(self.free_seqs), "--prefill-us", str(self.prefill_us),
        ]  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What the requests of a closed loop see, in ms, sorted."""

    ttft: list[float]
    tpot: list[float]
    e2e: list[float]


def closed_loop(law: Law, clients: int, tokens: int, requests: int = 600) -> Seen:
    """Simulate until so many requests have ended after each client's first."""
    waiting = [(0.0, max(1, round(tokens * (index + 1) / clients)), True) for index in range(clients)]
    active: list[list[float]] = []  # arrived, first token or -1, tokens given, tokens asked, is counted
    ttft: list[float] = []
    tpot: list[float] = []
    e2e: list[float] = []
    now = 0.0
    while len(e2e) < requests:
        arrived = [each for each in waiting if each[0] <= now]
        if not arrived and not active:
            now = min(each[0] for each in waiting)
            continue
        prefill = 0.0
        for each in sorted(arrived):
            if len(active) >= law.slots:
                break
            waiting.remove(each)
            active.append([each[0], -1.0, 0.0, float(each[1]), 0.0 if each[2] else 1.0])
            prefill += law.prefill_us * law.prompt_tokens
        now += law.base_us + law.per_seq_us * max(0.0, len(active) - law.free_seqs) + prefill
        for request in list(active):
            request[2] += 1
            if request[1] < 0:
                request[1] = now
            if request[2] >= request[3]:
                active.remove(request)
                waiting.append((now + TURN_US, tokens, False))
                if request[4]:
                    ttft.append((request[1] - request[0]) / 1e3)
                    tpot.append((now - request[1]) / 1e3 / max(1, tokens - 1))
                    e2e.append((now - request[0]) / 1e3)
    return Seen(sorted(ttft), sorted(tpot), sorted(e2e))


def boundary(law: Law, quantity: str, limit_ms: float, tokens: int, top: int) -> int:
    """The highest concurrency at which 99 of 100 requests keep the limit; 0 for none."""
    low, high = 0, top + 1
    while high - low > 1:
        middle = (low + high) // 2
        values = getattr(closed_loop(law, middle, tokens), quantity)
        kept = sum(value <= limit_ms for value in values) / len(values)
        low, high = (middle, high) if kept >= 0.99 else (low, middle)
    return low
