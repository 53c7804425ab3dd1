"""The run: levels one after another, the end by itself."""

from __future__ import annotations

import time
from statistics import median

from preop.errors import InstrumentError
from preop.evidence import ClientCost, Level, Load, Percentiles, SloAnswer
from preop.instruments.load.answers import answer_of_rates, answer_of_search, answer_of_walk
from preop.instruments.load.arrivals import Arrival, read_trace
from preop.instruments.load.closed import Decision
from preop.instruments.load.knee import knee
from preop.instruments.load.levels import summarize
from preop.instruments.load.options import Options, options_of
from preop.instruments.load.permission import refusal
from preop.instruments.load.resume import Unfinished
from preop.instruments.load.runner import Runner
from preop.instruments.load.samples import LevelSamples, Sample
from preop.instruments.load.search import Effort, search
from preop.instruments.load.slo import Count, Objective, Verdict, verdict_of
from preop.instruments.load.statistics import least_samples
from preop.instruments.prompts import read_prompts
from preop.instruments.types import Job
from preop.instruments.wire.ask import reachable
from preop.instruments.wire.client import run_loop

__all__ = ["measure"]

_HOPELESS = 0.5
"""Share of failed requests in a level after which no higher level is tried."""
_PROBING_REQUESTS = 24


def measure(job: Job) -> Load:
    """Run all levels, within the budget.

    Raises `InstrumentError` when the endpoint cannot be measured at all, `UsageError` for options and
    `InputError` for prompts or a trace that are wrong. A level that cannot be trusted is not `valid`.
    """
    access = reachable(job)
    refused = refusal(job)
    if refused is not None:
        raise InstrumentError(refused.en)
    options = options_of(job)
    if job.inputs.prompts is not None:
        read_prompts(job.inputs.prompts)  # what is wrong with them is said before anything is sent
    trace = read_trace(options.trace) if options.trace is not None else None
    run = _Run(job, options, Runner(job, access, options))

    async def main() -> Load:
        try:
            await run.runner.ready()
            if trace is not None:
                slo = await run.replay(trace)
            elif options.rates is not None:
                slo = await run.rates(options.rates)
            elif options.concurrency is not None:
                slo = await run.walk(options.concurrency)
            else:
                slo = await run.search()
        finally:
            run.runner.close()
        return run.load(slo)

    load = run_loop(main())
    if load.stopped_because is None:
        run.unfinished.done()
    return load


class _Run:
    def __init__(self, job: Job, options: Options, runner: Runner) -> None:
        self.runner = runner
        self.unfinished = Unfinished(job)
        self._job, self._options = job, options
        self._earlier = self.unfinished.read() if job.options.get("resume") else {}
        self._end = time.monotonic() + options.budget.seconds
        self._levels: dict[float, Level] = {}
        """By concurrency, or by rate."""
        self._stopped: str | None = None

    def load(self, slo: SloAnswer | None = None) -> Load:
        """All that was measured so far."""
        levels = [self._levels[key] for key in sorted(self._levels)]
        closed = not self._options.is_open
        return Load(
            url=self._job.access.url if self._job.access else "",
            model=self.runner.model,
            prompt_tokens=_middle([level.prompt_tokens for level in levels]),
            output_tokens=_middle([level.output_tokens for level in levels]),
            levels=levels,
            slo=slo,
            knee=knee(levels) if closed else None,
            loop="closed" if closed else "open",
            stopped_because=self._stopped,
            notes=self._notes(),
        )

    def _notes(self) -> list[str]:
        kept = sorted(key for key, level in self._earlier.items() if self._levels.get(key) is level)
        said = [f"measured by the run before: {', '.join(f'{key:g}' for key in kept)}"] if kept else []
        return [self.runner.workload.describe(), *said]

    @property
    def _left(self) -> float:
        return self._end - time.monotonic()

    def _share(self, levels: int) -> float | None:
        """Seconds for the next of so many levels; None, with the reason kept, where it cannot be run."""
        if self._stopped is None and self._left <= 0:
            self._stopped = f"the budget of {self._options.budget.seconds:g} s was over before this level"
        # What a level leaves of its share goes to those after it.
        return None if self._stopped is not None else max(1.0, self._left / levels)

    def _after(self, samples: LevelSamples, level: Level, name: str) -> None:
        """Keep what there is, and say whether to go on."""
        self.unfinished.keep(self._levels)
        self._job.partial(self.load())
        if samples.stopped_because is not None:
            self._stopped = f"at {name}: {samples.stopped_because}"
        elif level.errors > _HOPELESS * level.requests:
            self._stopped = f"not tried: {level.errors} of {level.requests} requests failed at {name}"

    async def walk(self, concurrencies: tuple[int, ...]) -> SloAnswer:
        """Measure the given levels of concurrency."""
        objective = self._options.objective
        counted: dict[int, list[Count]] = {}
        for index, concurrency in enumerate(concurrencies):
            if concurrency in self._earlier and objective is None:
                self._levels[concurrency] = self._earlier[concurrency]
                continue
            share = self._share(len(concurrencies) - index)
            if share is None:
                self._levels[concurrency] = _not_run(concurrency, self._stopped or "")
                continue
            samples = await self.runner.closed(concurrency, self._options.requests_at(concurrency), share)
            level = self._levels[concurrency] = summarize(samples, objective=objective)
            if objective is not None and level.valid:
                counted[concurrency] = objective.counts(samples.counted)
            self._after(samples, level, str(concurrency))
        return answer_of_walk(objective, counted)

    async def rates(self, rates: tuple[float, ...]) -> SloAnswer:
        """Measure the given rates in the open loop."""
        objective = self._options.objective
        counted: dict[float, list[Count]] = {}
        for index, rate in enumerate(rates):
            if rate in self._earlier and objective is None:
                self._levels[rate] = self._earlier[rate]
                continue
            share = self._share(len(rates) - index)
            if share is None:
                self._levels[rate] = _not_run(1, self._stopped or "", rate)
                continue
            samples = await self.runner.rate(rate, self._options.window_at(rate), share)
            level = self._levels[rate] = summarize(samples, objective=objective)
            if objective is not None:
                # No steady state is an answer too: whatever is measured there only grows.
                counted[rate] = objective.counts(samples.counted)
            self._after(samples, level, f"{rate:g} requests/s")
        return answer_of_rates(objective, counted)

    async def replay(self, trace: list[Arrival]) -> SloAnswer:
        """Send the requests of a trace at its own times."""
        samples = await self.runner.trace(trace, self._options.trace_speed, self._left)
        level = summarize(samples, objective=self._options.objective)
        rate = level.offered_per_s or 0.0
        self._levels[rate] = level
        objective = self._options.objective
        counted = {rate: objective.counts(samples.counted)} if objective is not None else {}
        return answer_of_rates(objective, counted)

    async def search(self) -> SloAnswer:
        """Find the objective's boundary."""
        objective = self._options.objective
        assert objective is not None  # without one there are levels to walk
        counted: dict[int, list[Count]] = {}

        async def look(concurrency: int, effort: Effort) -> Verdict | None:
            for _ in range(2):  # a machine that was busy for a moment is asked again
                if self._stopped is not None:
                    return None
                if self._left <= 0:
                    self._stopped = f"the budget of {self._options.budget.seconds:g} s was over"
                    return None
                samples = await self._look(objective, concurrency, effort)
                level = summarize(samples, objective=objective)
                known = self._levels.get(concurrency)
                if known is None or not known.valid or (level.valid and level.requests >= known.requests):
                    self._levels[concurrency] = level
                if level.valid:
                    counted[concurrency] = objective.counts(samples.counted)
                    verdict = verdict_of(counted[concurrency])
                    return "holds" if effort == "probe" and verdict == "undecided" else verdict
                self._after(samples, level, str(concurrency))
            return None

        boundary = await search(look, self._options.top)
        levels = {level.concurrency: level for level in self._levels.values()}
        return answer_of_search(objective, boundary, counted, levels, self._stopped)

    async def _look(self, objective: Objective, concurrency: int, effort: Effort) -> LevelSamples:
        requests = _PROBING_REQUESTS if effort == "probe" else self._options.proving_requests
        counts = objective.counts()

        def decide(sample: Sample) -> Decision:
            for count in counts:
                count.add(count.term.kept_by(sample))
            verdict = verdict_of(counts)
            if verdict == "breaks" and counts[0].of >= least_samples(0.50):
                return "stop"
            return "enough" if verdict == "holds" and effort == "prove" else "go on"

        return await self.runner.closed(concurrency, requests, self._left, decide)


def _not_run(concurrency: int, why: str, per_s: float | None = None) -> Level:
    nothing = Percentiles()
    return Level(
        concurrency=concurrency,
        valid=False,
        voided_because=why,
        requests=0,
        errors=0,
        ttft_ms=nothing,
        tpot_ms=nothing,
        itl_ms=nothing,
        e2e_ms=nothing,
        output_tokens_per_s=None,
        client=ClientCost(cpu_s=0.0, events=0),
        offered_per_s=per_s,
    )


def _middle(values: list[int | None]) -> int | None:
    found = [value for value in values if value is not None]
    return round(median(found)) if found else None
