"""What the user may set for a run of load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from preop.errors import UsageError
from preop.instruments.load.arrivals import Process, parse_process
from preop.instruments.load.budget import Budget, parse_budget
from preop.instruments.load.limits import LoadLimits
from preop.instruments.load.slo import Objective, parse_objective
from preop.instruments.load.workload.options import RECORDED, WorkloadOptions
from preop.instruments.types import MOST_CONCURRENT, Job

__all__ = ["Options", "options_of", "workload_options"]

BUDGET_S = 120.0
OUTPUT_TOKENS = 64
MAX_CONCURRENCY = 256
_WAVES = 3
_LEAST_REQUESTS = 12
"""A median takes 11 (see `statistics.least_samples`)."""
_PROVING_REQUESTS = 662
"""What a p99 takes; the search stops a level before, as soon as its sample tells."""
_DEFAULT_TOP = 8
_OPEN_REQUESTS = 64
_MOST_PER_S = 100_000
_LEAST_WINDOW_S = 2.0
_MOST_DIGITS = 9
_MOST_WORKERS = 256


@dataclass(frozen=True)
class Options:
    """`requests` and `duration_s` are for each level, the budget for all of them."""

    concurrency: tuple[int, ...] | None
    """The levels to walk; None: search for the objective's boundary."""
    top: int
    """The highest level that a search may reach."""
    objective: Objective | None = None
    requests: int | None = None
    """None: three for each of the level's workers, 12 at least; with `duration_s`, as many as it allows."""
    duration_s: float | None = None
    workload: WorkloadOptions = field(default_factory=lambda: WorkloadOptions(OUTPUT_TOKENS))
    output_tokens: int = OUTPUT_TOKENS
    budget: Budget = field(default_factory=lambda: Budget(BUDGET_S))
    limits: LoadLimits = field(default_factory=LoadLimits)
    rates: tuple[float, ...] | None = None
    """Open loop: requests a second."""
    arrivals: Process = field(default_factory=lambda: parse_process("poisson"))
    trace: str | None = None
    """Open loop: a file with the times of arrivals, replayed `trace_speed` times as fast."""
    trace_speed: float = 1.0
    workers: int = 1
    """Client processes on this machine."""
    cluster: str | None = None
    """Instead, one client on each node of the Ray cluster at that address."""

    @property
    def is_open(self) -> bool:
        """Requests start when they are due, not when another one ends."""
        return self.rates is not None or self.trace is not None

    def window_at(self, rate: float) -> float:
        """Seconds for which requests are counted at a rate."""
        if self.duration_s is not None:
            return self.duration_s
        return max(_LEAST_WINDOW_S, (self.requests or _OPEN_REQUESTS) / rate)

    def requests_at(self, concurrency: int) -> int | None:
        """Requests to be counted at a level of a walk; None: until its time is over."""
        if self.requests is not None:
            return self.requests
        return None if self.duration_s is not None else max(_WAVES * concurrency, _LEAST_REQUESTS)

    @property
    def proving_requests(self) -> int:
        """Most requests that the search spends on proving one level."""
        return self.requests or _PROVING_REQUESTS


def options_of(job: Job, budget_s: float = BUDGET_S) -> Options:
    """The job's options with defaults, `budget_s` among them. Raises `UsageError` for one that cannot be."""
    given = job.options
    slo = given.get("slo")
    objective = parse_objective(slo) if isinstance(slo, str) else None
    top = _whole(_number(given, "max_concurrency")) or (_cap(job) if given.get("to_cap") else None)
    top = top or MAX_CONCURRENCY
    limits = given.get("limits")
    rates = _rates(given.get("rate"))
    trace, speed = given.get("trace"), _number(given, "trace_speed") or 1.0
    levels = given.get("concurrency") if rates is None and trace is None else None
    if levels is None and objective is None and rates is None and trace is None:
        levels = _default_levels(job, given.get("max_concurrency"))
    if isinstance(levels, int):
        levels = [levels]
    if levels is not None:
        if not isinstance(levels, list | tuple) or not levels:
            raise UsageError("--concurrency: expected whole numbers, as 1,2,4,8")
        for level in levels:
            if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= MOST_CONCURRENT:
                raise UsageError(
                    f"--concurrency: {level!r} is not a whole number from 1 to {MOST_CONCURRENT}"
                )
    numbers = {name: _number(given, name) for name in ("duration_s", "budget_s")}
    budget = _budget(given, numbers["budget_s"] or budget_s)
    if given.get("natural_end") and math.isfinite(budget.tokens):
        raise UsageError(
            "--natural-end: a budget of tokens or money cannot be kept, since no request says how long its "
            "answer may be; limit the time (300s) or the requests (5000req)"
        )
    workers, cluster = _workers(given.get("workers"))
    if (workers > 1 or cluster is not None) and (rates is not None or trace is not None):
        raise UsageError("--workers goes with levels of concurrency; a rate or a trace is sent by one client")
    workload = workload_options(given)
    if workload.turns == RECORDED and job.inputs.prompts is None:
        raise UsageError("--turns recorded goes with --prompts; without them give a number of turns")
    return Options(
        concurrency=None if levels is None else tuple(sorted(set(levels))),
        top=min(top, MOST_CONCURRENT),
        objective=objective,
        requests=_count(given, "requests"),
        duration_s=numbers["duration_s"],
        workload=workload,
        output_tokens=_count(given, "output_tokens") or OUTPUT_TOKENS,
        budget=budget,
        limits=limits if isinstance(limits, LoadLimits) else LoadLimits(),
        rates=rates,
        arrivals=parse_process(str(given.get("arrivals") or "poisson")),
        trace=str(trace) if trace is not None else None,
        trace_speed=speed,
        workers=workers,
        cluster=cluster,
    )


def _cap(job: Job) -> int | None:
    """How many requests the engine runs at once; None where that is not known."""
    cap, replicas = (job.deployment.fact(name).value for name in ("max_num_seqs", "data_parallel_size"))
    if not isinstance(cap, int) or isinstance(cap, bool) or cap < 1:
        return None
    several = isinstance(replicas, int) and not isinstance(replicas, bool) and replicas > 1
    return cap * replicas if several else cap


def _default_levels(job: Job, asked_top: object) -> list[int]:
    """1, 2, 4, ... up to --max-concurrency; without it to 8, none above the engine's own cap, and the cap
    itself where it is below 8."""
    cap = job.deployment.fact("max_num_seqs").value
    top = asked_top if isinstance(asked_top, int) else _DEFAULT_TOP
    if isinstance(cap, int) and not isinstance(cap, bool) and 1 <= cap <= top:
        top = cap
    return sorted({1 << power for power in range(top.bit_length()) if 1 << power <= top} | {top})


def _workers(given: object) -> tuple[int, str | None]:
    """Processes here, and the address of a Ray cluster."""
    text = "1" if given is None else str(given).strip()
    kind, _, address = text.partition(":")
    if kind == "ray":
        return 1, address or "auto"
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:_MOST_DIGITS]) <= _MOST_WORKERS:
        raise UsageError(
            f"--workers {text[:40]}: expected a number of processes (1 to {_MOST_WORKERS}) or ray[:ADDRESS]"
        )
    return int(text), None


def _turns(given: object) -> Literal["recorded"] | int | None:
    text = "" if given is None else str(given).strip()
    if text in ("", RECORDED):
        return RECORDED if text else None
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise UsageError(f"--turns {text[:40]}: expected a number of turns, or {RECORDED}")
    return int(text)


def workload_options(given: Mapping[str, object]) -> WorkloadOptions:
    """What is sent, by the names of the flags. Raises `UsageError`."""
    turns, adapters, natural = _turns(given.get("turns")), given.get("adapters"), given.get("natural_end")
    if turns is not None and (given.get("rate") is not None or given.get("trace") is not None):
        raise UsageError(
            "--turns goes with levels of concurrency: at a rate or in a trace requests start when they are "
            "due, and wait for no answer"
        )
    if natural and given.get("output_tokens") is not None:
        raise UsageError("--natural-end and --output-tokens: give one of them")
    return WorkloadOptions(
        output_tokens=None if natural else _count(given, "output_tokens") or OUTPUT_TOKENS,
        prompt_tokens=_count(given, "prompt_tokens"),
        prompt_tokens_stdev=_count(given, "prompt_tokens_stdev") or 0,
        turns=turns,
        shared_prefix_tokens=_count(given, "shared_prefix_tokens"),
        prefix_groups=_count(given, "prefix_groups") or 1,
        cache_hits=bool(given.get("cache_hits")),
        adapters=tuple(name.strip() for name in str(adapters).split(",")) if adapters else (),
    )


def _budget(given: dict[str, object], seconds: float) -> Budget:
    text, price = given.get("budget"), _number(given, "per_million_output_tokens")
    return parse_budget(text, seconds, price) if isinstance(text, str) else Budget(seconds)


def _rates(given: object) -> tuple[float, ...] | None:
    if given is None:
        return None
    try:
        rates = sorted({float(part) for part in str(given).split(",")})
    except ValueError:
        rates = []
    if not rates or not all(0 < rate <= _MOST_PER_S for rate in rates):
        raise UsageError(f"--rate {given}: expected requests a second, as 0.5,1,2")
    return tuple(rates)


def _count(given: Mapping[str, object], name: str) -> int | None:
    value = _number(given, name)
    if value is not None and value != int(value):
        raise UsageError(f"{_flag(name)}: {value} is not a whole number")
    return _whole(value)


def _number(given: Mapping[str, object], name: str) -> float | None:
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
