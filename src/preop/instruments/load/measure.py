"""The run over all levels: warm-up, levels one after another, the end by itself."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from preop.errors import InstrumentError, UsageError
from preop.evidence import ClientCost, Level, Load, Percentiles
from preop.instruments.load.closed import LevelRun, run_level
from preop.instruments.load.levels import summarize
from preop.instruments.load.permission import refusal
from preop.instruments.prompts import Messages, built_in, of_length, read_prompts, salted
from preop.instruments.types import MOST_CONCURRENT, Job
from preop.instruments.wire.ask import Asker, knows_ignore_eos, model_name, reachable
from preop.instruments.wire.chat import ChatStream, chat_body
from preop.instruments.wire.client import Target, run_loop

__all__ = ["Options", "measure", "options_of"]

_BUDGET_S = 120.0
_OUTPUT_TOKENS = 64
_REQUEST_TIMEOUT_S = 120.0
_WARM_UP_WORDS = (40, 120)
_LEAST_REQUESTS = 12
"""A median takes 11 (see `statistics.least_samples`)."""
_WAVES = 3
_DEFAULT_TOP = 8
_HOPELESS = 0.5
"""Share of failed requests in a level after which no higher level is tried."""


@dataclass(frozen=True)
class Options:
    """What the user may set. `requests` and `duration_s` are for each level, `budget_s` for all of them."""

    concurrency: tuple[int, ...]
    requests: int | None = None
    """None: three for each of the level's workers, 12 at least; with `duration_s`, as many as it allows."""
    duration_s: float | None = None
    prompt_tokens: int | None = None
    """None: the prompts as they are."""
    output_tokens: int = _OUTPUT_TOKENS
    budget_s: float = _BUDGET_S

    def requests_at(self, concurrency: int) -> int | None:
        """Requests to be counted at a level; None: until its time is over."""
        if self.requests is not None:
            return self.requests
        return None if self.duration_s is not None else max(_WAVES * concurrency, _LEAST_REQUESTS)


def options_of(job: Job) -> Options:
    """The job's options with defaults. Raises `UsageError` for one that cannot be."""
    given = job.options
    levels = given.get("concurrency")
    if levels is None:
        levels = _default_levels(job)
    if isinstance(levels, int):
        levels = [levels]
    if not isinstance(levels, list | tuple) or not levels:
        raise UsageError("--concurrency: expected whole numbers, as 1,2,4,8")
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= MOST_CONCURRENT:
            raise UsageError(f"--concurrency: {level!r} is not a whole number from 1 to {MOST_CONCURRENT}")
    numbers = {name: _number(given, name) for name in ("duration_s", "budget_s")}
    counts = {name: _number(given, name) for name in ("requests", "prompt_tokens", "output_tokens")}
    for name, value in counts.items():
        if value is not None and value != int(value):
            raise UsageError(f"{_flag(name)}: {value} is not a whole number")
    return Options(
        concurrency=tuple(sorted(set(levels))),
        requests=_whole(counts["requests"]),
        duration_s=numbers["duration_s"],
        prompt_tokens=_whole(counts["prompt_tokens"]),
        output_tokens=_whole(counts["output_tokens"]) or _OUTPUT_TOKENS,
        budget_s=numbers["budget_s"] or _BUDGET_S,
    )


def _default_levels(job: Job) -> list[int]:
    """1, 2, 4, 8, none above the engine's own cap, and the cap itself where it is below 8."""
    cap = job.deployment.fact("max_num_seqs").value
    top = (
        cap
        if isinstance(cap, int) and not isinstance(cap, bool) and 1 <= cap <= _DEFAULT_TOP
        else _DEFAULT_TOP
    )
    return sorted({level for level in (1, 2, 4, 8) if level <= top} | {top})


def _number(given: dict[str, object], name: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise UsageError(f"{_flag(name)}: {value!r} is not a number above 0")
    return value


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _flag(name: str) -> str:
    return "--" + name.removesuffix("_s").replace("_", "-")


def measure(job: Job) -> Load:
    """Run all levels, within the budget.

    Raises `InstrumentError` when the endpoint cannot be measured at all, `UsageError` for options and
    `InputError` for prompts that are wrong. A level that cannot be trusted is not `valid`.
    """
    access = reachable(job)
    refused = refusal(job)
    if refused is not None:
        raise InstrumentError(refused.en)
    options = options_of(job)
    target = Target.of(access)
    prompts = read_prompts(job.inputs.prompts) if job.inputs.prompts else None
    sweep = _Sweep(job, options, target, prompts)
    return run_loop(sweep.run())


class _Sweep:
    def __init__(self, job: Job, options: Options, target: Target, prompts: list[Messages] | None) -> None:
        self._job, self._options, self._target = job, options, target
        self._prompts = prompts or built_in()
        self._own_prompts = prompts is not None
        self._model: str | None = None
        self._words: int | None = None
        self._sent = 0
        self._end = time.monotonic() + options.budget_s

    async def run(self) -> Load:
        job, options = self._job, self._options
        self._model = await model_name(self._target, job)
        job.progress("warm-up")
        await self._warm_up()
        levels: list[Level] = []
        streams: list[ChatStream] = []
        stopped: str | None = None
        for index, concurrency in enumerate(options.concurrency):
            if stopped is None and time.monotonic() >= self._end:
                stopped = f"the budget of {options.budget_s:g} s was over before this level"
            if stopped is not None:
                levels.append(_not_run(concurrency, stopped))
                continue
            level, seen = summarize(await self._level(concurrency, index), self._target.api_key)
            levels.append(level)
            streams += [stream for stream in seen if stream.error is None]
            if level.errors > _HOPELESS * level.requests:
                stopped = f"not tried: {level.errors} of {level.requests} requests failed at {concurrency}"
        return Load(
            url=job.access.url if job.access else "",
            model=self._model,
            prompt_tokens=_median(stream.prompt_tokens for stream in streams),
            output_tokens=_median(stream.output_tokens for stream in streams),
            levels=levels,
        )

    async def _level(self, concurrency: int, index: int) -> LevelRun:
        options = self._options
        requests = options.requests_at(concurrency)
        left = self._end - time.monotonic()
        # What a level leaves of its share goes to those after it.
        share = max(1.0, left / (len(options.concurrency) - index))
        limit = min(left, options.duration_s) if options.duration_s is not None else share
        return await run_level(
            self._target,
            concurrency,
            requests=requests,
            output_tokens=options.output_tokens,
            body_of=self._body,
            limit_s=max(0.1, limit),
            timeout_s=_REQUEST_TIMEOUT_S,
            progress=self._reporter(concurrency, requests),
        )

    def _reporter(self, concurrency: int, requests: int | None) -> Callable[[int, int], None]:
        of = f" of {requests}" if requests is not None else ""

        def report(done: int, failed: int) -> None:
            errors = f", {failed} failed" if failed else ""
            self._job.progress(f"concurrency {concurrency}, {done}{of} requests{errors}")

        return report

    async def _warm_up(self) -> None:
        """Requests before all levels, never counted. They also tell how many words a token is."""
        asker = Asker(self._target)
        points: list[tuple[int, int]] = []
        try:
            for words in _WARM_UP_WORDS:
                messages = salted(of_length(words), secrets.token_hex(6))
                body = self._request(messages, self._options.output_tokens)
                stream = await asker.ask_and_read(body, _REQUEST_TIMEOUT_S)
                if stream.error is not None:
                    raise InstrumentError(f"the warm-up request failed: {stream.error}")
                if stream.prompt_tokens is not None:
                    points.append((words, stream.prompt_tokens))
        finally:
            asker.close()
        if self._options.prompt_tokens is not None:
            self._words = _words_for(self._options.prompt_tokens, points)

    def _body(self, tokens: int) -> bytes:
        number, self._sent = self._sent, self._sent + 1
        if self._words is not None and not self._own_prompts:
            messages = of_length(self._words, number)
        else:
            messages = self._prompts[number % len(self._prompts)]
        return self._request(salted(messages, secrets.token_hex(6)), tokens)

    def _request(self, messages: Messages, tokens: int) -> bytes:
        return chat_body(self._model, messages, tokens, ignore_eos=knows_ignore_eos(self._job.deployment))


def _words_for(tokens: int, points: list[tuple[int, int]]) -> int:
    """Words of a prompt of that many tokens, chat template and salt included, on the line through two."""
    if len(points) < 2:
        raise InstrumentError(
            "the engine sends no usage, so a prompt of a given number of tokens cannot be made"
        )
    (words_a, tokens_a), (words_b, tokens_b) = points[0], points[-1]
    per_word = (tokens_b - tokens_a) / (words_b - words_a)
    if per_word <= 0:
        raise InstrumentError("the engine counts no more prompt tokens for a longer prompt")
    return max(1, round(words_a + (tokens - tokens_a) / per_word))


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


def _median(values: Iterable[int | None]) -> int | None:
    found = [value for value in values if value is not None]
    return round(median(found)) if found else None
