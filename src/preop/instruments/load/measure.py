"""The run: warm-up, levels one after another, the end by itself."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from statistics import median

from preop.errors import InstrumentError
from preop.evidence import ClientCost, Level, Load, Percentiles, SloAnswer
from preop.instruments.load.closed import Decision, Limits, run_level
from preop.instruments.load.knee import knee
from preop.instruments.load.levels import summarize
from preop.instruments.load.options import Options, options_of
from preop.instruments.load.permission import refusal
from preop.instruments.load.samples import LevelSamples, Sample, glimpse, read_samples
from preop.instruments.load.search import Boundary, Effort, search
from preop.instruments.load.slo import Count, Objective, Verdict, verdict_of
from preop.instruments.load.statistics import least_samples
from preop.instruments.load.workload import Workload, workload_of
from preop.instruments.prompts import Messages, of_length, read_prompts, salted
from preop.instruments.types import Job
from preop.instruments.wire.ask import Asker, knows_ignore_eos, model_name, reachable
from preop.instruments.wire.chat import chat_body
from preop.instruments.wire.client import Response, Target, run_loop

__all__ = ["measure"]

_REQUEST_TIMEOUT_S = 120.0
_WARM_UP_WORDS = (40, 120)
_HOPELESS = 0.5
"""Share of failed requests in a level after which no higher level is tried."""
_PROBING_REQUESTS = 24
_NO_OBJECTIVE = "no objective was given: --slo ttft_p99=500ms,tpot_p99=50ms"


def measure(job: Job) -> Load:
    """Run all levels, within the budget.

    Raises `InstrumentError` when the endpoint cannot be measured at all, `UsageError` for options and
    `InputError` for prompts that are wrong. A level that cannot be trusted is not `valid`.
    """
    access = reachable(job)
    refused = refusal(job)
    if refused is not None:
        raise InstrumentError(refused.en)
    options, target = options_of(job), Target.of(access)
    own = read_prompts(job.inputs.prompts) if job.inputs.prompts else None
    return run_loop(_Run(job, options, target, own).run())


class _Run:
    def __init__(self, job: Job, options: Options, target: Target, own: list[Messages] | None) -> None:
        self._job, self._options, self._target, self._own = job, options, target, own
        self._model: str | None = None
        self._end = time.monotonic() + options.budget_s
        self._levels: dict[int, Level] = {}
        self._stopped: str | None = None
        self._workload: Workload

    async def run(self) -> Load:
        job, options = self._job, self._options
        self._model = await model_name(self._target, job)
        job.progress("warm-up")
        points = await self._warm_up()
        self._workload = workload_of(
            options, self._own, self._model, knows_ignore_eos(job.deployment), points
        )
        slo = await self._walk(options.concurrency) if options.concurrency else await self._search()
        levels = [self._levels[level] for level in sorted(self._levels)]
        return Load(
            url=job.access.url if job.access else "",
            model=self._model,
            prompt_tokens=_middle([level.prompt_tokens for level in levels]),
            output_tokens=_middle([level.output_tokens for level in levels]),
            levels=levels,
            slo=slo,
            knee=knee(levels),
            stopped_because=self._stopped,
            notes=[self._workload.describe()],
        )

    # a walk over given levels

    async def _walk(self, concurrencies: tuple[int, ...]) -> SloAnswer:
        objective = self._options.objective
        verdicts: dict[int, list[Count]] = {}
        for index, concurrency in enumerate(concurrencies):
            if self._stopped is None and time.monotonic() >= self._end:
                self._stopped = f"the budget of {self._options.budget_s:g} s was over before this level"
            if self._stopped is not None:
                self._levels[concurrency] = _not_run(concurrency, self._stopped)
                continue
            left = self._end - time.monotonic()
            # What a level leaves of its share goes to those after it.
            share = max(1.0, left / (len(concurrencies) - index))
            samples = await self._level(
                concurrency, self._options.requests_at(concurrency), share, lambda sample: "go on"
            )
            level = self._levels[concurrency] = summarize(samples, objective=objective)
            if objective is not None and level.valid:
                verdicts[concurrency] = objective.counts(samples.counted)
            if level.errors > _HOPELESS * level.requests:
                self._stopped = (
                    f"not tried: {level.errors} of {level.requests} requests failed at {concurrency}"
                )
        return _answer_of_walk(objective, verdicts)

    # the search for the boundary

    async def _search(self) -> SloAnswer:
        objective = self._options.objective
        assert objective is not None  # without one there are levels to walk
        counted: dict[int, list[Count]] = {}

        async def look(concurrency: int, effort: Effort) -> Verdict | None:
            for _ in range(2):  # a machine that was busy for a moment is asked again
                if time.monotonic() >= self._end:
                    self._stopped = f"the budget of {self._options.budget_s:g} s was over"
                    return None
                samples = await self._look(objective, concurrency, effort)
                level = summarize(samples, objective=objective)
                known = self._levels.get(concurrency)
                if known is None or not known.valid or (level.valid and level.requests >= known.requests):
                    self._levels[concurrency] = level
                if level.valid:
                    counts = objective.counts(samples.counted)
                    verdict = verdict_of(counts)
                    counted[concurrency] = counts
                    return "holds" if effort == "probe" and verdict == "undecided" else verdict
                if level.errors > _HOPELESS * level.requests:
                    break
            return None

        boundary = await search(look, self._options.top)
        return _answer_of_search(objective, boundary, counted, self._levels, self._stopped)

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

        return await self._level(concurrency, requests, self._end - time.monotonic(), decide)

    # one level

    async def _level(
        self, concurrency: int, requests: int | None, seconds: float, decide: Callable[[Sample], Decision]
    ) -> LevelSamples:
        options = self._options
        self._workload.new_level()
        show = _Shown(self._job, concurrency, requests)

        def seen(response: Response) -> Decision:
            sample = glimpse(response)
            show.add(sample)
            return decide(sample)

        window = options.duration_s if options.duration_s is not None and requests is None else None
        limits = Limits(
            requests=requests,
            limit_s=max(0.1, min(seconds, self._end - time.monotonic())),
            window_s=window if window is not None else float("inf"),
            timeout_s=_REQUEST_TIMEOUT_S,
        )
        run = await run_level(
            self._target,
            concurrency,
            limits=limits,
            output_tokens=options.output_tokens,
            session=self._workload.session,
            decide=seen,
        )
        return read_samples(run, self._target.api_key)

    async def _warm_up(self) -> list[tuple[int, int]]:
        """Requests before all levels, never counted. They also tell how many words a token is."""
        asker = Asker(self._target)
        points: list[tuple[int, int]] = []
        ignore_eos = knows_ignore_eos(self._job.deployment)
        try:
            for words in _WARM_UP_WORDS:
                messages = salted(of_length(words), secrets.token_hex(6))
                body = chat_body(self._model, messages, self._options.output_tokens, ignore_eos=ignore_eos)
                stream = await asker.ask_and_read(body, _REQUEST_TIMEOUT_S)
                if stream.error is not None:
                    raise InstrumentError(f"the warm-up request failed: {stream.error}")
                if stream.prompt_tokens is not None:
                    points.append((words, stream.prompt_tokens))
        finally:
            asker.close()
        return points


class _Shown:
    """The line of progress of one level."""

    def __init__(self, job: Job, concurrency: int, requests: int | None) -> None:
        self._job, self._concurrency = job, concurrency
        self._of = f" of {requests}" if requests is not None else ""
        self._began = time.monotonic()
        self._ttft: list[float] = []
        self._done = self._failed = 0

    def add(self, sample: Sample) -> None:
        self._done += 1
        self._failed += sample.error is not None
        if sample.ttft_ms is not None and sample.error is None:
            self._ttft.append(sample.ttft_ms)
        line = f"concurrency {self._concurrency}, {self._done}{self._of} requests"
        if self._failed:
            line += f", {self._failed} failed"
        if self._done % 8 == 0 and self._ttft:
            line += f", TTFT p50 {median(self._ttft):,.0f} ms"
        self._job.progress(line)


def _answer_of_walk(objective: Objective | None, seen: dict[int, list[Count]]) -> SloAnswer:
    """The highest walked level below which, itself included, none breaks the objective."""
    if objective is None:
        return SloAnswer(None, False, _NO_OBJECTIVE)
    terms = {term.name: term.limit_ms for term in objective.terms}
    if not seen:
        return SloAnswer(None, False, "no level gave valid numbers", terms)
    verdicts = {level: verdict_of(counts) for level, counts in sorted(seen.items())}
    breaks = next((level for level, verdict in verdicts.items() if verdict == "breaks"), None)
    below = [level for level in verdicts if breaks is None or level < breaks]
    if not below:
        assert breaks is not None
        return SloAnswer(
            0 if breaks == 1 else None,
            breaks == 1,
            "one request alone does not keep the objective"
            if breaks == 1
            else f"{breaks}, the lowest level measured, breaks it",
            terms,
            breaks,
            _broken(seen[breaks]),
        )
    holds = below[-1]
    if breaks is None:
        resolved, why = False, f"it is kept up to {holds}, the highest level measured"
    elif breaks - holds > 1:
        resolved, why = False, f"{holds} keeps it, {breaks} breaks it; no level between was measured"
    else:
        resolved, why = True, f"{holds} keeps it, {breaks} breaks it"
    if verdicts[holds] != "holds":
        requests = max(count.of for count in seen[holds])
        resolved, why = False, f"{why}; {requests} requests at {holds} do not prove it"
    return SloAnswer(holds, resolved, why, terms, breaks, _broken(seen[breaks]) if breaks else None)


def _answer_of_search(
    objective: Objective,
    boundary: Boundary,
    seen: dict[int, list[Count]],
    levels: dict[int, Level],
    stopped: str | None,
) -> SloAnswer:
    terms = {term.name: term.limit_ms for term in objective.terms}
    why = f"{boundary.why}: {stopped}" if stopped else boundary.why
    known = boundary.holds if boundary.holds or boundary.resolved else None
    resolved = boundary.resolved
    if boundary.breaks is not None and boundary.holds:
        low, high = levels[boundary.holds].tpot_ms.p50, levels[boundary.breaks].tpot_ms.p50
        if low and high and high < 0.9 * low:
            resolved = False
            why = f"not monotone: TPOT {low:g} ms at {boundary.holds}, {high:g} ms at {boundary.breaks}"
    broken = _broken(seen[boundary.breaks]) if boundary.breaks in seen else None
    return SloAnswer(known, resolved, why, terms, boundary.breaks, broken)


def _broken(counts: list[Count]) -> str | None:
    """The limits that the level breaks: `tpot_p99: 3 of 40 requests within 50 ms`."""
    said = [
        f"{count.term.name}: {count.kept:.0f} of {count.of} requests within {count.term.limit_ms:g} ms"
        for count in counts
        if count.verdict == "breaks"
    ]
    return "; ".join(said) or None


def _not_run(concurrency: int, why: str) -> Level:
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
    )


def _middle(values: list[int | None]) -> int | None:
    found = [value for value in values if value is not None]
    return round(median(found)) if found else None
