"""The open loop: requests start when they are due, whatever became of those before.

A request's latency counts from the moment it was to start, so that a client or a pool of connections that
falls behind shows up as latency and not as a lower rate. Arrivals before the window are load and no samples;
after it arrivals go on until the last counted request has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from preop.instruments.load.closed import Decision, LevelRun, Session, User, watch_loop
from preop.instruments.wire.client import Response, Target

__all__ = ["Due", "Window", "run_open"]

_SPIN_S = 0.0015
"""A timer of the event loop may come a millisecond late: for the last stretch the loop is asked in turns."""


@dataclass(frozen=True)
class Due:
    """One request to come."""

    offset_s: float
    session: Callable[[], Session]
    output_tokens: int


@dataclass(frozen=True)
class Window:
    """The time in which requests that are due are counted, in seconds from the start."""

    opens_s: float
    closes_s: float
    limit_s: float
    """Seconds after which the level ends, whatever is done by then."""
    timeout_s: float
    most_in_flight: int


async def run_open(
    target: Target,
    schedule: Iterator[Due],
    window: Window,
    *,
    decide: Callable[[Response], Decision] = lambda response: "go on",
    hurts: Callable[[int], str | None] = lambda in_flight: None,
) -> LevelRun:
    """Send what the schedule says. The run's `concurrency` is the most that were in flight."""
    level = _Level(target, window, decide)
    began, cpu = time.monotonic(), time.thread_time()
    ticker = asyncio.create_task(watch_loop(level.run, level.complete, lambda: level.in_flight, hurts))
    sender = asyncio.create_task(level.send(schedule))
    try:
        async with asyncio.timeout(window.limit_s):
            await level.complete.wait()
    except TimeoutError:
        level.run.out_of_time, level.run.unfinished = True, level.running
    finally:
        tasks = [ticker, sender, *level.tasks]
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        level.leave()
    level.run.wall_s, level.run.cpu_s = time.monotonic() - began, time.thread_time() - cpu
    for result in results:
        if isinstance(result, Exception):
            raise result
    counted = level.due_in_window
    level.run.offered_per_s = counted / (window.closes_s - window.opens_s)
    level.run.asked = counted
    return level.run


class _Level:
    def __init__(self, target: Target, window: Window, decide: Callable[[Response], Decision]) -> None:
        self.run = LevelRun(1, 0)
        self.complete = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.running = self.in_flight = self.due_in_window = 0
        self._target, self._window, self._decide = target, window, decide
        self._idle: list[User] = []
        self._sent_all = False

    async def send(self, schedule: Iterator[Due]) -> None:
        start_ns = time.monotonic_ns()
        for due in schedule:
            if due.offset_s >= self._window.closes_s and self._closed():
                break
            due_ns = start_ns + round(due.offset_s * 1e9)
            await _until(due_ns)
            if self.in_flight >= self._window.most_in_flight:
                self.run.stopped_because = (
                    f"{self.in_flight} requests were in flight: the engine does not keep up with this rate"
                )
                self.complete.set()
                return
            counts = self._window.opens_s <= due.offset_s < self._window.closes_s
            self.due_in_window += counts
            self._begin(counts)
            task = asyncio.create_task(self._one(due, due_ns, counts))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        self._sent_all = True
        self._closed()

    def _begin(self, counts: bool) -> None:
        self.in_flight += 1
        self.running += counts
        self.run.concurrency = max(self.run.concurrency, self.in_flight)

    def _closed(self) -> bool:
        """Past the window, with all counted requests ended."""
        if self.running == 0:
            self.complete.set()
        return self.running == 0

    async def _one(self, due: Due, due_ns: int, counts: bool) -> None:
        user = self._idle.pop() if self._idle else User(self._target, due.session, self._window.timeout_s)
        try:
            response = await user.ask(due.output_tokens, due.session)
        except asyncio.CancelledError:
            torn_down = user.leave()
            if torn_down is not None:
                self.run.uncounted.append(torn_down)
            raise
        finally:
            self.in_flight -= 1
            self.running -= counts
        self._idle.append(user)
        self.run.due_ns[id(response)] = due_ns
        (self.run.counted if counts else self.run.uncounted).append(response)
        if counts and self._decide(response) == "stop":
            self.complete.set()
        if self._sent_all:
            self._closed()

    def leave(self) -> None:
        for user in self._idle:
            user.leave()


async def _until(due_ns: int) -> None:
    while (left := (due_ns - time.monotonic_ns()) / 1e9) > 0:
        await asyncio.sleep(left - _SPIN_S if left > _SPIN_S else 0)
