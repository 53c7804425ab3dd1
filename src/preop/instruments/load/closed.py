"""The closed loop: N requests in flight, each followed by the next one as soon as it ends.

Nothing is read or computed while it runs: responses are kept as they came. Four things keep the loop from
measuring itself:

- the first wave (each worker's first request) is never counted, nor is anything that starts before all of it
  is being answered: N requests that start together are prefilled together. Its answers are of different
  lengths, so that the requests after it start apart. A window of time opens when all of it has ended;
- the counted requests are the next ones to start, whatever they take: a cohort, so that no slow request is
  left out for being slow;
- when the last counted request is out, the workers go on with further ones, so that it too ends under full
  load; those are torn down then;
- failed requests are counted, and a kept connection that was closed while idle is opened anew.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from preop.instruments.wire.ask import Asker
from preop.instruments.wire.chat import parse_chat
from preop.instruments.wire.client import Response, Target
from preop.instruments.wire.errors import WireError

__all__ = [
    "Decision",
    "LevelRun",
    "Limits",
    "Order",
    "Peers",
    "Session",
    "Stage",
    "User",
    "run_level",
    "watch_loop",
]

_LAG_TICK_S = 0.01
_HURTS_TICKS = 20

Decision = Literal["go on", "enough", "stop"]
"""After a counted request has ended. "enough": start no more counted ones, let those that run end; "stop":
end the level now."""

Stage = Literal["answered", "ended", "counted"]
"""The first wave is being answered; has ended; the last counted request has ended."""


class Peers(Protocol):
    """The other clients that carry a level together with this one (`processes`)."""

    def all_at(self, stage: Stage) -> bool:
        """This client has come so far; whether all have."""

    @property
    def is_over(self) -> bool:
        """The level ends now."""


class Session(Protocol):
    """One user's requests, one after another: a single one, or a conversation whose history grows."""

    needs_answer: bool
    """The next request is made of the last answer."""

    def next(self, output_tokens: int) -> bytes | None:
        """The body of the next request; None: over."""

    def answered(self, text: str) -> None:
        """Take the last answer; only called where it is needed."""


@dataclass
class LevelRun:
    """What one level left behind. Times are `time.monotonic_ns()`."""

    concurrency: int
    asked: int
    """Requests that were to be counted; 0: as many as the time allows."""
    counted: list[Response] = field(default_factory=list)
    """In the order they ended, failed ones included."""
    uncounted: list[Response] = field(default_factory=list)
    """The first wave, and what was torn down at the end (`end_ns` None): load, but no sample."""
    due_ns: dict[int, int] = field(default_factory=dict)
    """Open loop: when a response's request was to start, by the response's `id`."""
    offered_per_s: float | None = None
    out_of_time: bool = False
    """The time was over before all requests that were asked for had ended."""
    unfinished: int = 0
    """Counted requests that were still running then."""
    stopped_because: str | None = None
    """Why the level was ended from outside."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """CPU time of the event loop's thread."""
    lags_ms: list[float] = field(default_factory=list)
    """How late each tick of the event loop came."""


@dataclass(frozen=True)
class Limits:
    """When a level ends."""

    requests: int | None
    """Counted requests; None: as many as start within `window_s`."""
    limit_s: float
    """Seconds for the whole level, whatever is done by then."""
    window_s: float = math.inf
    """Seconds in which counted requests may start."""
    timeout_s: float = 120.0
    """Seconds for each request."""


@dataclass(frozen=True)
class Order:
    """A level, or one client's part of it."""

    concurrency: int
    limits: Limits
    output_tokens: int


async def run_level(
    target: Target,
    concurrency: int,
    *,
    limits: Limits,
    output_tokens: int,
    session: Callable[[], Session],
    progress: Callable[[int, int], None] = lambda done, failed: None,
    decide: Callable[[Response], Decision] = lambda response: "go on",
    hurts: Callable[[int], str | None] = lambda in_flight: None,
    peers: Peers | None = None,
) -> LevelRun:
    """Run one level until its requests are counted, or its time is over.

    `decide` is asked after each counted request, and must be quick; `hurts`, asked a few times a second with
    the number of requests in flight, ends the level with a reason. With `peers` none counts before all may,
    and each keeps its load up until all are done.
    """
    level = _Level(target, concurrency, limits, output_tokens, session, progress, decide, peers)
    began, cpu = time.monotonic(), time.thread_time()
    ticker = asyncio.create_task(watch_loop(level.run, level.complete, lambda: level.in_flight, hurts))
    workers = [asyncio.create_task(level.work(index)) for index in range(concurrency)]
    if peers is not None:
        workers.append(asyncio.create_task(level.leave_with(peers)))
    try:
        async with asyncio.timeout(limits.limit_s):
            await level.complete.wait()
    except TimeoutError:
        level.run.out_of_time, level.run.unfinished = True, level.running
    finally:
        for task in (ticker, *workers):
            task.cancel()
        results = await asyncio.gather(ticker, *workers, return_exceptions=True)
    level.run.wall_s, level.run.cpu_s = time.monotonic() - began, time.thread_time() - cpu
    for result in results:
        if isinstance(result, Exception):
            raise result
    return level.run


class User:
    """Who sends the requests of one session after the other, on a connection that is kept."""

    def __init__(self, target: Target, session: Callable[[], Session], timeout_s: float) -> None:
        self._asker = Asker(target)
        self._new_session, self._session = session, session()
        self._timeout_s = timeout_s

    async def ask(self, output_tokens: int, new_session: Callable[[], Session] | None = None) -> Response:
        """The next request's response; with `new_session` the first one of another session.

        Never raises for what the other side does.
        """
        body = None if new_session else self._session.next(output_tokens)
        while body is None:
            self._session = (new_session or self._new_session)()
            body = self._session.next(output_tokens)
        try:
            response = await self._asker.ask(body, self._timeout_s)
        except WireError as error:
            await asyncio.sleep(0.05)  # nobody there: do not spin
            now = time.monotonic_ns()
            return Response(sent_ns=now, end_ns=now, error=error)
        if self._session.needs_answer:
            stream = parse_chat(response)
            if stream.error is None:
                self._session.answered(stream.text)
            else:
                self._session = self._new_session()  # a conversation cannot go on without its answer
        return response

    @property
    def is_answered(self) -> bool:
        """Its request has an answer under way: past a role that may come first, text is there."""
        return self._asker.reads_so_far >= 2

    def leave(self) -> Response | None:
        """Tear the connection down; what had come of a request that was cancelled."""
        torn_down = self._asker.torn_down
        self._asker.close()
        return torn_down


class _Level:
    def __init__(
        self,
        target: Target,
        concurrency: int,
        limits: Limits,
        output_tokens: int,
        session: Callable[[], Session],
        progress: Callable[[int, int], None],
        decide: Callable[[Response], Decision],
        peers: Peers | None,
    ) -> None:
        self.run = LevelRun(concurrency, limits.requests or 0)
        self.complete = asyncio.Event()
        self.running = 0
        """Counted requests in flight."""
        self.in_flight = 0
        self._target, self._session, self._limits = target, session, limits
        self._tokens, self._progress, self._decide, self._peers = output_tokens, progress, decide, peers
        self._left = math.inf if limits.requests is None else limits.requests
        self._first_wave: set[User] = set()
        """Users whose first request has not ended."""
        self._waiting = concurrency
        """Users whose first request has not ended or not begun."""
        self._burst_is_over = False
        self._window_ends: float | None = None
        self._failed = 0

    async def work(self, index: int) -> None:
        user = User(self._target, self._session, self._limits.timeout_s)
        share = math.ceil(self._tokens * (index + 1) / self.run.concurrency)
        try:
            self._first_wave.add(user)
            self.run.uncounted.append(await self._ask(user, share))
            self._first_wave.discard(user)
            self._waiting -= 1
            while not self.complete.is_set():
                if self._counts():
                    await self._counted(user)
                else:
                    self.run.uncounted.append(await self._ask(user, self._tokens))
        finally:
            torn_down = user.leave()
            if torn_down is not None:
                self.run.uncounted.append(torn_down)

    def _counts(self) -> bool:
        """Whether a request that starts now is counted."""
        if not self._burst_is_over:
            all_there = len(self._first_wave) == self._waiting
            answered = all_there and all(user.is_answered for user in self._first_wave)
            self._burst_is_over = answered and self._all_at("answered")
        if self._window_ends is None and self._waiting == 0 and self._all_at("ended"):
            self._window_ends = time.monotonic() + self._limits.window_s
        if self._limits.requests is not None:
            return self._burst_is_over and self._left > 0
        return self._window_ends is not None and time.monotonic() < self._window_ends

    def _all_at(self, stage: Stage) -> bool:
        return self._peers is None or self._peers.all_at(stage)

    def _is_over(self) -> bool:
        """Whether no further request will be counted."""
        if self._limits.requests is not None:
            return self._left <= 0
        return self._window_ends is not None and time.monotonic() >= self._window_ends

    async def _counted(self, user: User) -> None:
        self._left -= 1
        self.running += 1
        try:
            response = await self._ask(user, self._tokens)
        finally:
            self.running -= 1
        self.run.counted.append(response)
        self._failed += response.error is not None or response.status != 200
        self._progress(len(self.run.counted), self._failed)
        decision = self._decide(response)
        if decision != "go on":
            self._left, self._window_ends = 0, 0.0
        done = self.running == 0 and self._is_over()
        if decision == "stop" or (done and self._all_at("counted")):
            self.run.unfinished = self.running
            self.complete.set()

    async def leave_with(self, peers: Peers) -> None:
        """End the level when all are done, or it is over."""
        while not peers.is_over:
            if self.running == 0 and self._is_over() and peers.all_at("counted"):
                break
            await asyncio.sleep(_LAG_TICK_S)
        self.run.unfinished = self.running
        self.complete.set()

    async def _ask(self, user: User, tokens: int) -> Response:
        self.in_flight += 1
        try:
            return await user.ask(tokens)
        finally:
            self.in_flight -= 1


async def watch_loop(
    run: LevelRun,
    complete: asyncio.Event,
    in_flight: Callable[[], int],
    hurts: Callable[[int], str | None],
) -> None:
    """How late the event loop wakes up; and the end of the level when something hurts."""
    ticks = 0
    while True:
        due = time.monotonic() + _LAG_TICK_S
        await asyncio.sleep(_LAG_TICK_S)
        run.lags_ms.append(max(0.0, (time.monotonic() - due) * 1e3))
        ticks += 1
        if ticks % _HURTS_TICKS == 0 and (why := hurts(in_flight())) is not None:
            run.stopped_because = why
            complete.set()
