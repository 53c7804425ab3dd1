"""guidellm's `benchmarks.json` or `.yaml`, 0.2 to 0.8: one level for each benchmark in it.

Schema and definitions read in the sources of 0.3.0, 0.5.0 and 0.8.1. `inter_token_latency_ms` of a request
is (last token - first token) / (n - 1): our TPOT but for its end at the last token. Its
`time_per_output_token_ms` divides by n instead and is not read. Over a level guidellm weighs both by tokens,
so percentiles over requests take the requests themselves, which a file has unless they were sampled away.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preop.errors import InputError
from preop.evidence import Amount, Count, Percentiles
from preop.instruments.load.foreign.result import (
    CLIENT_UNKNOWN,
    GROWTH_UNKNOWN,
    NO_CHUNKS,
    SUCCESSES_ONLY,
    Concurrency,
    Result,
    Taken,
    commonest,
    read_as,
    stated,
)
from preop.instruments.load.statistics import percentiles

__all__ = ["read"]


class _Ranks(msgspec.Struct):
    p50: Amount | None = None
    p99: Amount | None = None


class _Summary(msgspec.Struct):
    count: Count = 0
    mean: Amount | None = None
    max: Amount | None = None
    percentiles: _Ranks = msgspec.field(default_factory=_Ranks)


class _Split(msgspec.Struct):
    successful: _Summary | None = None
    total: _Summary | None = None


class _Totals(msgspec.Struct):
    successful: Count
    errored: Count = 0
    incomplete: Count = 0


class _Metrics(msgspec.Struct):
    requests_per_second: _Split
    request_concurrency: _Split
    request_latency: _Split
    time_to_first_token_ms: _Split
    inter_token_latency_ms: _Split
    output_tokens_per_second: _Split
    prompt_token_count: _Split
    output_token_count: _Split
    request_totals: _Totals | None = None


class _Timings(msgspec.Struct):
    targeted_start: float | None = None
    request_start: float | None = None


class _Info(msgspec.Struct):
    timings: _Timings | None = None
    """0.4 and later."""
    targeted_start_time: float | None = None
    """Before 0.4."""


class _Request(msgspec.Struct):
    request_latency: Amount | None = None
    """Seconds."""
    time_to_first_token_ms: Amount | None = None
    inter_token_latency_ms: Amount | None = None
    output_tokens: Count | None = None
    start_time: float | None = None
    """Before 0.4."""
    info: _Info | None = None
    scheduler_info: _Info | None = None

    @property
    def delay_ms(self) -> float | None:
        """How much later than intended it started."""
        if self.info is not None and self.info.timings is not None:
            due, sent = self.info.timings.targeted_start, self.info.timings.request_start
        else:
            due = self.scheduler_info.targeted_start_time if self.scheduler_info else None
            sent = self.start_time
        # Before 0.4, -1 is a time that was not taken.
        return None if due is None or sent is None or min(due, sent) < 0 else 1000 * (sent - due)


class _Failed(msgspec.Struct):
    error: Any = None
    """Before 0.4."""
    info: Any = None

    @property
    def why(self) -> Any:
        """The error's text, where there is one."""
        return self.info.get("error") if isinstance(self.info, dict) else self.error


class _Requests(msgspec.Struct):
    successful: list[_Request] | None = None
    errored: list[_Failed] | None = None


class _Strategy(msgspec.Struct):
    type_: str
    streams: Concurrency | None = None
    max_concurrency: Concurrency | None = None
    rate: Amount | None = None


class _Backend(msgspec.Struct):
    model: str | None = None
    target: str | None = None


class _Config(msgspec.Struct):
    strategy: _Strategy
    id_: str | None = None
    backend: _Backend | None = None


class _Worker(msgspec.Struct):
    backend_model: str | None = None
    backend_target: str | None = None


class _Benchmark(msgspec.Struct):
    metrics: _Metrics
    config: _Config | None = None
    """0.4 and later."""
    args: _Config | None = None
    """Before 0.4."""
    worker: _Worker | None = None
    """Before 0.4."""
    request_totals: _Totals | None = None
    """Before 0.4."""
    id_: str | None = None
    """Before 0.4."""
    requests: _Requests | None = None
    start_time: float | None = None
    end_time: float | None = None
    duration: Amount | None = None


class _Metadata(msgspec.Struct):
    guidellm_version: str | None = None


class _Report(msgspec.Struct):
    benchmarks: list[_Benchmark]
    metadata: _Metadata | None = None


def read(document: dict[str, Any], where: str) -> list[Result] | None:
    """A level for each benchmark; None where it is no such document."""
    benchmarks = document.get("benchmarks")
    if not isinstance(benchmarks, list):
        return None
    if benchmarks and not (
        isinstance(benchmarks[0], dict) and str(benchmarks[0].get("type_", "")).startswith("generative")
    ):
        return None
    report = read_as(_Report, document, where)
    if not report.benchmarks:
        raise InputError(f"{where}: a guidellm report without any benchmark in it")
    version = report.metadata.guidellm_version if report.metadata is not None else None
    tool = f"guidellm {version}" if version else "guidellm"
    return [
        _result(benchmark, tool, f"{where}, benchmark {index + 1}")
        for index, benchmark in enumerate(report.benchmarks)
    ]


def _result(benchmark: _Benchmark, tool: str, where: str) -> Result:
    config = benchmark.config or benchmark.args
    totals = benchmark.metrics.request_totals or benchmark.request_totals
    if config is None or totals is None:
        raise InputError(f"{where}: no strategy or no request totals, which a guidellm benchmark has")
    metrics = benchmark.metrics
    concurrency = metrics.request_concurrency.total or metrics.request_concurrency.successful
    duration = benchmark.duration
    if duration is None and benchmark.start_time is not None and benchmark.end_time is not None:
        duration = max(0.0, benchmark.end_time - benchmark.start_time)
    taken = Taken(
        requests=totals.successful + totals.errored,
        errors=totals.errored,
        window_s=duration,
        per_s=_mean(metrics.requests_per_second),
        output_tokens_per_s=_mean(metrics.output_tokens_per_second),
        prompt_tokens=_median(metrics.prompt_token_count),
        output_tokens=_median(metrics.output_token_count),
        effective=concurrency.mean if concurrency is not None else None,
    )
    most = concurrency.max if concurrency is not None and concurrency.max is not None else 0.0
    loop = _load(config.strategy, taken, max(1, round(most)), where)
    said = [
        "Its TPOT ends at the last token, ours at the finish_reason.",
        "Whether output tokens are the engine's own count (usage) or its tokenizer's is not recorded.",
        NO_CHUNKS,
        CLIENT_UNKNOWN,
    ]
    if not _take_percentiles(benchmark, totals, taken, loop):
        said.append(SUCCESSES_ONLY)
        said.append(
            "Its requests are not all in the file, and over a level it weighs TPOT by tokens: no TPOT here."
        )
        if loop == "open":
            said.append("Its latencies count from the real start of a request, not from the intended one.")
    if loop == "open":
        said.append(GROWTH_UNKNOWN)
    backend = config.backend
    if backend is None and benchmark.worker is not None:
        backend = _Backend(benchmark.worker.backend_model, benchmark.worker.backend_target)
    model = backend.model if backend is not None else None
    return Result(
        where=where,
        tool=tool,
        level=taken.level(where),
        loop=loop,
        run=config.id_ or benchmark.id_,
        model=model if model not in ("", "None") else None,
        url=backend.target if backend is not None else None,
        cannot_show=tuple(said),
    )


def _load(strategy: _Strategy, taken: Taken, most: int, where: str) -> Literal["closed", "open"]:
    match strategy.type_:
        case "synchronous":
            taken.concurrency = 1
        case "concurrent":
            taken.concurrency = strategy.streams
        case "throughput":
            taken.concurrency = strategy.max_concurrency or max(1, taken.requests)
            taken.burst = strategy.max_concurrency is None
        case "constant" | "poisson" | "async_constant" | "async_poisson":
            if not strategy.rate:
                raise InputError(f"{where}: strategy {strategy.type_} without a rate")
            taken.offered_per_s = strategy.rate
            taken.concurrency = most
            return "open"
        case other:
            raise InputError(f"{where}: strategy {other[:40]!r} is no level of concurrency or of rate")
    return "closed"


def _take_percentiles(benchmark: _Benchmark, totals: _Totals, taken: Taken, loop: str) -> bool:
    """Fill in the percentiles; whether they are over the requests themselves."""
    requests, metrics, failed = benchmark.requests, benchmark.metrics, totals.errored
    whole = (requests.successful if requests is not None else None) or []
    taken.cause = commonest(each.why for each in (requests.errored if requests is not None else None) or [])
    late = [each.delay_ms or 0.0 for each in whole]
    if loop == "closed":
        late = [0.0] * len(whole)
    elif any(each.delay_ms is None for each in whole):
        whole = []
    if not whole or len(whole) != totals.successful:
        for name, split, scale in (
            ("ttft_ms", metrics.time_to_first_token_ms, 1.0),
            ("e2e_ms", metrics.request_latency, 1000.0),
        ):
            summary = split.successful or _Summary()
            ranks = summary.percentiles
            setattr(taken, name, stated(ranks.p50, ranks.p99, summary.count, failed, scale))
        return False
    if loop == "open":
        # A start before its time is the clock's grain.
        late = [max(0.0, each) for each in late]
        taken.start_delay_ms = percentiles(late)
    taken.ttft_ms = _over([each.time_to_first_token_ms for each in whole], late, failed)
    taken.e2e_ms = _over(
        [None if each.request_latency is None else 1000 * each.request_latency for each in whole],
        late,
        failed,
    )
    # An answer of one token has no time per token, and older versions write 0 there.
    several = [each.inter_token_latency_ms for each in whole if each.output_tokens != 1]
    taken.tpot_ms = _over(several, [0.0] * len(several), failed)
    return True


def _over(values: list[float | None], late: list[float], failed: int) -> Percentiles:
    """Nothing where a request has no value: percentiles over the rest would speak for too few."""
    known = [value + delay for value, delay in zip(values, late, strict=True) if value is not None]
    return percentiles(known, failed) if len(known) == len(values) else Percentiles()


def _mean(split: _Split) -> float | None:
    return split.successful.mean if split.successful is not None and split.successful.count else None


def _median(split: _Split) -> float | None:
    return (
        split.successful.percentiles.p50 if split.successful is not None and split.successful.count else None
    )
