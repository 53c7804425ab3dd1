"""The closed loop: N requests in flight, each followed by the next one as soon as it ends.

Nothing is read or computed while it runs: responses are kept as they came. Three things keep the loop from
measuring itself:

- the first wave (each worker's first request) is never counted: N requests that start together are prefilled
  together. Its answers are of different lengths, so that the requests after it start apart;
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

from preop.instruments.wire.ask import Asker
from preop.instruments.wire.client import Response, Target
from preop.instruments.wire.errors import WireError

__all__ = ["LevelRun", "run_level"]

_LAG_TICK_S = 0.01

BodyOf = Callable[[int], bytes]
"""The request for an answer of that many tokens; each call gives another one."""


@dataclass
class LevelRun:
    """What one level of concurrency left behind. Times are `time.monotonic_ns()`."""

    concurrency: int
    asked: int
    """Requests that were to be counted; 0: as many as the time allows."""
    counted: list[Response] = field(default_factory=list)
    """In the order they ended, failed ones included."""
    uncounted: list[Response] = field(default_factory=list)
    """The first wave, and what was torn down at the end (`end_ns` None): load, but no sample."""
    out_of_time: bool = False
    """The time was over before all requests that were asked for had ended."""
    unfinished: int = 0
    """Counted requests that were still running then."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """CPU time of the event loop's thread."""
    lags_ms: list[float] = field(default_factory=list)
    """How late each tick of the event loop came."""


async def run_level(
    target: Target,
    concurrency: int,
    *,
    requests: int | None,
    output_tokens: int,
    body_of: BodyOf,
    limit_s: float,
    timeout_s: float,
    progress: Callable[[int, int], None] = lambda done, failed: None,
) -> LevelRun:
    """Run one level until `requests` are counted or `limit_s` is over; `timeout_s` is each request's own."""
    level = _Level(target, concurrency, requests, output_tokens, body_of, timeout_s, progress)
    began, cpu = time.monotonic(), time.thread_time()
    ticker = asyncio.create_task(_tick(level.run.lags_ms))
    workers = [asyncio.create_task(level.work(index)) for index in range(concurrency)]
    try:
        async with asyncio.timeout(limit_s):
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


class _Level:
    def __init__(
        self,
        target: Target,
        concurrency: int,
        requests: int | None,
        output_tokens: int,
        body_of: BodyOf,
        timeout_s: float,
        progress: Callable[[int, int], None],
    ) -> None:
        self.run = LevelRun(concurrency, requests or 0)
        self.complete = asyncio.Event()
        self.running = 0
        """Counted requests in flight."""
        self._target, self._body_of, self._timeout_s = target, body_of, timeout_s
        self._tokens, self._progress = output_tokens, progress
        self._left = math.inf if requests is None else requests
        self._failed = 0

    async def work(self, index: int) -> None:
        asker = Asker(self._target)
        try:
            share = math.ceil(self._tokens * (index + 1) / self.run.concurrency)
            self.run.uncounted.append(await self._ask(asker, share))
            while not self.complete.is_set():
                if self._left > 0:
                    await self._counted(asker)
                else:
                    self.run.uncounted.append(await self._ask(asker, self._tokens))
        finally:
            if asker.torn_down is not None:
                self.run.uncounted.append(asker.torn_down)
            asker.close()

    async def _counted(self, asker: Asker) -> None:
        self._left -= 1
        self.running += 1
        try:
            response = await self._ask(asker, self._tokens)
        finally:
            self.running -= 1
        self.run.counted.append(response)
        self._failed += response.error is not None or response.status != 200
        self._progress(len(self.run.counted), self._failed)
        if self._left <= 0 and self.running == 0:
            self.complete.set()

    async def _ask(self, asker: Asker, tokens: int) -> Response:
        body = self._body_of(tokens)
        try:
            return await asker.ask(body, self._timeout_s)
        except WireError as error:
            await asyncio.sleep(0.05)  # nobody there: do not spin
            now = time.monotonic_ns()
            return Response(sent_ns=now, end_ns=now, error=error)


async def _tick(lags_ms: list[float]) -> None:
    while True:
        due = time.monotonic() + _LAG_TICK_S
        await asyncio.sleep(_LAG_TICK_S)
        lags_ms.append(max(0.0, (time.monotonic() - due) * 1e3))
