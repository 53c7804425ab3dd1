"""One endpoint under load: made ready once, then one level after another."""

from __future__ import annotations

import gc
import math
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from preop.errors import InstrumentError
from preop.instruments.load.arrivals import Arrival
from preop.instruments.load.closed import Decision, LevelRun, Limits, Order, Session, run_level
from preop.instruments.load.open import Due, Window, run_open
from preop.instruments.load.options import Options
from preop.instruments.load.samples import LevelSamples, Sample, glimpse, read_samples
from preop.instruments.load.server import ServerWatch
from preop.instruments.load.watch import KillSwitch
from preop.instruments.load.workload import Workload, workload_of
from preop.instruments.prompts import ROUND, of_length, salted
from preop.instruments.types import MOST_CONCURRENT, Access, Job
from preop.instruments.wire.ask import Asker, knows_ignore_eos, model_name
from preop.instruments.wire.chat import chat_body
from preop.instruments.wire.client import Response, Target

if TYPE_CHECKING:
    from preop.instruments.load.processes import Team

__all__ = ["Counted", "Runner", "Spender"]

REQUEST_TIMEOUT_S = 120.0
_WARM_UP_WORDS = (8, ROUND)
"""A short request, and one with all the words that longer ones repeat: on their line lengths are met best."""
_SHOWN_EVERY = 8
_LEAD_SHARE = 0.25
"""Open loop: arrivals before the window, as a share of it."""


def go_on(sample: Sample) -> Decision:
    """No decision before the level is through."""
    return "go on"


class Runner:
    """Puts load on one endpoint. `ready` first; then its levels, one at a time."""

    def __init__(self, job: Job, access: Access, options: Options) -> None:
        self._job, self._access, self._options = job, access, options
        self._target = Target.of(access)
        self._ignore_eos = knows_ignore_eos(job.deployment)
        self._watch = ServerWatch(self._target, _version(job))
        self._switch = KillSwitch(options.limits)
        self.requests = self.output_tokens = 0
        """Asked for so far in all levels."""
        self._over: str | None = None
        """Which limit of the budget is used up."""
        self.model: str | None = None
        self.workload: Workload
        self._team: Team | None = None
        """Who carries the levels where there are several clients."""
        self.name = ""
        """What stands before this endpoint's lines of progress, where there are several."""

    async def ready(self) -> None:
        """Find the model's name, warm up, and lay out what is sent.

        Raises `InstrumentError` where the endpoint cannot be measured at all.
        """
        self.model = await model_name(self._target, self._job)
        self._job.progress(f"{self.name}warm-up ({self._options.budget.statement()})")
        points = await self._warm_up()
        prompts, options = self._job.inputs.prompts, self._options.workload
        self.workload = workload_of(options, prompts, self.model, self._ignore_eos, points)
        if self._options.workers > 1 or self._options.cluster is not None:
            from preop.instruments.load.processes import Spec, team

            spec = Spec(self._access, self.model, self._ignore_eos, points, prompts, options)
            self._team = team(spec, self._options.workers, self._options.cluster, self)

    def close(self) -> None:
        """Tear down what is still open."""
        self._watch.close()
        if self._team is not None:
            self._team.close()

    async def closed(
        self,
        concurrency: int,
        requests: int | None,
        seconds: float,
        decide: Callable[[Sample], Decision] = go_on,
    ) -> LevelSamples:
        """One level of the closed loop, of at most that many seconds."""
        options = self._options
        windowed = requests is None and options.duration_s is not None
        limits = Limits(
            requests=requests,
            limit_s=max(0.1, seconds),
            window_s=options.duration_s or math.inf if windowed else math.inf,
            timeout_s=REQUEST_TIMEOUT_S,
        )
        if self._team is not None:
            order = Order(concurrency, limits, options.output_tokens)
            ended = self._ended(f"concurrency {concurrency}", requests, decide)
            return await self._watched(self._team.level(order, ended=ended, hurts=self._hurts))
        return await self._watched(
            run_level(
                self._target,
                concurrency,
                limits=limits,
                output_tokens=options.output_tokens,
                session=self._session,
                decide=self._seen(f"concurrency {concurrency}", requests, decide),
                hurts=self._hurts,
            )
        )

    async def rate(self, per_s: float, window_s: float, seconds: float) -> LevelSamples:
        """One level of the open loop at `per_s` requests a second on average."""
        process = self._options.arrivals
        lead = max(1.0, _LEAD_SHARE * window_s)

        def schedule() -> Iterator[Due]:
            for offset in process.offsets(per_s, seed=secrets.randbits(32)):
                yield Due(offset, self._session, self._options.output_tokens)

        window = Window(lead, lead + window_s, seconds, REQUEST_TIMEOUT_S, MOST_CONCURRENT)
        return await self._open(f"{per_s:g} requests/s", schedule(), window, round(per_s * window_s))

    async def trace(self, arrivals: list[Arrival], speed: float, seconds: float) -> LevelSamples:
        """The arrivals of a trace, `speed` times as fast."""
        asked = self._options.output_tokens

        def of_length(tokens: int | None) -> Callable[[], Session]:
            return lambda: Counted(self.workload.session(prompt_tokens=tokens), self)

        schedule = (
            Due(each.offset_s / speed, of_length(each.prompt_tokens), each.output_tokens or asked)
            for each in arrivals
        )
        length = max(arrivals[-1].offset_s / speed, 1e-3)
        window = Window(0.0, length * (1 + 1e-9) + 1e-3, seconds, REQUEST_TIMEOUT_S, MOST_CONCURRENT)
        return await self._open("trace", schedule, window, len(arrivals))

    async def _open(self, name: str, schedule: Iterator[Due], window: Window, requests: int) -> LevelSamples:
        decide = self._seen(name, requests, go_on)
        return await self._watched(run_open(self._target, schedule, window, decide=decide, hurts=self._hurts))

    async def _watched(self, level: Coroutine[Any, Any, LevelRun | LevelSamples]) -> LevelSamples:
        """A level, with what the engine says of itself meanwhile."""
        self.workload.new_level()
        await self._watch.begin()
        collecting = gc.isenabled()
        gc.disable()  # nothing here is cyclic, and a collection over all reads kept would be a pause
        try:
            try:
                run = await level
            finally:
                server = await self._watch.end()
            samples = run if isinstance(run, LevelSamples) else read_samples(run, self._target.api_key)
        finally:
            if collecting:
                gc.enable()
        samples.server = server
        samples.stopped_because = samples.stopped_because or self._over
        return samples

    def _session(self) -> Session:
        return Counted(self.workload.session(), self)

    def _hurts(self, in_flight: int) -> str | None:
        watch = self._watch
        return self._switch.hurts(in_flight, watch.latest, watch.looks, time.monotonic())

    def _seen(
        self, name: str, requests: int | None, decide: Callable[[Sample], Decision]
    ) -> Callable[[Response], Decision]:
        ended = self._ended(name, requests, decide)
        return lambda response: ended(
            response.error is not None or response.status != 200, lambda: glimpse(response)
        )

    def _ended(
        self, name: str, requests: int | None, decide: Callable[[Sample], Decision]
    ) -> Callable[[bool, Callable[[], Sample]], Decision]:
        show = _Shown(self._job, self.name + name, requests)

        def ended(failed: bool, look: Callable[[], Sample]) -> Decision:
            self._switch.ended(failed)
            self._over = self._over or self._options.budget.over(self.requests, self.output_tokens)
            if self._over is not None:
                return "stop"
            is_shown = show.count(failed)
            if not is_shown and decide is go_on:
                return "go on"
            sample = look()
            if is_shown:
                show.line(sample)
            return decide(sample)

        return ended

    async def _warm_up(self) -> list[tuple[int, int]]:
        """Requests before all levels, never counted. They also tell how many words a token is."""
        asker = Asker(self._target)
        points: list[tuple[int, int]] = []
        try:
            for words in _WARM_UP_WORDS:
                messages = salted(of_length(words), secrets.token_hex(6))
                body = chat_body(
                    self.model, messages, self._options.output_tokens, ignore_eos=self._ignore_eos
                )
                stream = await asker.ask_and_read(body, REQUEST_TIMEOUT_S)
                if stream.error is not None:
                    raise InstrumentError(f"the warm-up request failed: {stream.error}")
                if stream.prompt_tokens is not None:
                    points.append((words, stream.prompt_tokens))
        finally:
            asker.close()
        return points


class Spender(Protocol):
    """Who asks for so much."""

    requests: int
    output_tokens: int


class Counted:
    """A session whose requests are counted for the budget."""

    def __init__(self, session: Session, spender: Spender) -> None:
        self._session, self._spender = session, spender
        self.needs_answer, self.answered = session.needs_answer, session.answered

    def next(self, output_tokens: int) -> bytes | None:
        body = self._session.next(output_tokens)
        if body is not None:
            self._spender.requests += 1
            self._spender.output_tokens += output_tokens
        return body


def _version(job: Job) -> str | None:
    value = job.deployment.fact("engine_version").value
    return value if isinstance(value, str) else None


class _Shown:
    """The line of progress of one level."""

    def __init__(self, job: Job, name: str, requests: int | None) -> None:
        self._job, self._name = job, name
        self._of = f" of {requests}" if requests is not None else ""
        self._ttft: list[float] = []
        self._done = self._failed = 0

    def count(self, failed: bool) -> bool:
        """One more request; whether it is time for another line."""
        self._done += 1
        self._failed += failed
        return self._done % _SHOWN_EVERY == 1

    def line(self, sample: Sample) -> None:
        """Show how far it is, with the time to first token so far of the requests looked at."""
        if sample.ttft_ms is not None and sample.error is None:
            self._ttft.append(sample.ttft_ms)
        line = f"{self._name}, {self._done}{self._of} requests"
        if self._failed:
            line += f", {self._failed} failed"
        if self._ttft:
            line += f", TTFT p50 {median(self._ttft):,.0f} ms"
        self._job.progress(line)
