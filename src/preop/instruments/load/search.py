"""The search for the highest concurrency that keeps an objective: double, bisect, then prove the boundary.

A level is *probed* with few requests, which is enough to reject one that breaks; confidence is spent where it
is needed, on the boundary. There the level that broke is measured again (a stall of the machine must not look
like a limit of the engine), and the level below it is *proved*: measured until the sample carries the
objective. A level that fails its proof moves the boundary down.

It rests on latency that does not fall with concurrency: levels above one that broke twice are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from preop.instruments.load.slo import Verdict

__all__ = ["Boundary", "Effort", "Look", "search"]

Effort = Literal["probe", "prove"]
Look = Callable[[int, Effort], Awaitable[Verdict | None]]
"""Measures a level; None: it gave no valid numbers, or there is no budget left for it."""

CLOSE = 1.05
"""The boundary is found when the level that breaks is at most this much above the one that holds."""
_MOST_LOOKS = 60


@dataclass
class Boundary:
    """What the search found."""

    holds: int
    """The highest level that keeps the objective; 0: none does."""
    breaks: int | None
    """The lowest level above it that breaks."""
    proved: bool
    """The sample at `holds` carries the objective."""
    resolved: bool = False
    why: str = ""
    looks: list[tuple[int, Effort, Verdict | None]] = field(default_factory=list)


async def search(look: Look, top: int) -> Boundary:
    """Find the boundary among 1 to `top`."""
    found = Boundary(0, None, False)
    broke: dict[int, int] = {}  # how often each level broke
    kept: set[int] = set()
    while len(found.looks) < _MOST_LOOKS:
        level = _between(found.holds, found.breaks, top)
        effort: Effort = "probe"
        if level is None:
            if found.breaks is not None and broke[found.breaks] < 2:
                level = found.breaks
            elif found.holds == 0 or found.proved:
                return _said(found)
            else:
                level, effort = found.holds, "prove"
        verdict = await look(level, effort)
        found.looks.append((level, effort, verdict))
        if verdict is None:
            found.why = f"level {level} could not be measured"
            return found
        if effort == "prove" and verdict == "undecided":
            found.why = (
                f"the sample at {level} proves neither that it keeps the objective nor that it breaks it"
            )
            return found
        if verdict == "breaks":
            broke[level] = broke.get(level, 0) + 1
            kept.discard(level)
            found.breaks = level
            found.holds = max((other for other in kept if other < level), default=0)
        else:
            kept.add(level)
            found.holds = level
            if level == found.breaks:  # it had broken once: look for the limit above it
                found.breaks = min((other for other in broke if other > level), default=None)
        found.proved = effort == "prove" and verdict == "holds"
    found.why = f"no boundary after {_MOST_LOOKS} levels: the latency changes from one look to the next"
    return found


def _between(holds: int, breaks: int | None, top: int) -> int | None:
    """The next level to look at; None where the boundary is close enough."""
    if breaks is None:
        return None if holds >= top else min(max(1, 2 * holds), top)
    if breaks - holds <= 1 or (holds and breaks <= holds * CLOSE):
        return None
    return max(holds + 1, min(breaks - 1, round(math.sqrt(max(1, holds) * breaks))))


def _said(found: Boundary) -> Boundary:
    if found.breaks is None:
        found.why = f"{found.holds} is the highest level allowed: the limit lies at or above it"
    elif found.holds == 0:
        found.resolved = True
        found.why = "one request alone does not keep the objective, measured twice"
    else:
        found.resolved = True
        found.why = f"{found.holds} keeps the objective, {found.breaks} breaks it, each measured twice"
    return found
