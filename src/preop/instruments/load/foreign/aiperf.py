"""AIPerf's `profile_export_aiperf.json`: one level a file.

Schema and definitions read in AIPerf 0.13.0. Each metric states its unit. Its ITL of a request is
(e2e - TTFT) / (n - tokens of the first chunk), which is our TPOT where n is the engine's own count; AIPerf
takes n from its tokenizer unless told otherwise, and `usage_completion_tokens` shows whether the two agree.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preop.errors import InputError
from preop.evidence import Amount, Count, Percentiles
from preop.instruments.load.foreign.result import (
    CLIENT_UNKNOWN,
    GROWTH_UNKNOWN,
    SUCCESSES_ONLY,
    Concurrency,
    Result,
    Taken,
    ratio,
    read_as,
    stated,
)

__all__ = ["read"]

_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1000.0, "sec": 1000.0, "seconds": 1000.0, "milliseconds": 1.0}
_DISAGREE = "AIPerf's tokenizer and the engine disagree on the output tokens, so"


class _Metric(msgspec.Struct):
    unit: str
    avg: float | None = None
    p50: Amount | None = None
    p99: Amount | None = None
    min: float | None = None
    max: float | None = None
    sum: Amount | None = None
    count: Count | None = None


class _Phase(msgspec.Struct):
    kind: str | None = None
    name: str | None = None
    type: str | None = None
    concurrency: Concurrency | None = None
    rate: Amount | None = None
    exclude_from_results: bool | None = None
    concurrency_ramp: Any = None
    rate_ramp: Any = None
    rate_series: Any = None

    @property
    def is_warmup(self) -> bool:
        """Whether it is outside the results."""
        return bool(self.exclude_from_results) or "warmup" in (self.kind, self.name)


class _Loadgen(msgspec.Struct):
    """Before 0.11 or so."""

    concurrency: Concurrency | None = None
    request_rate: Amount | None = None


class _Named(msgspec.Struct):
    name: str | None = None


class _Models(msgspec.Struct):
    items: list[_Named] = []


class _Endpoint(msgspec.Struct):
    urls: list[str] = []
    url: str | None = None
    model_names: list[str] = []


class _Config(msgspec.Struct):
    phases: list[_Phase] = []
    loadgen: _Loadgen | None = None
    models: _Models | None = None
    endpoint: _Endpoint | None = None


class _Export(msgspec.Struct):
    request_latency: _Metric
    input_config: _Config
    aiperf_version: str | None = None
    benchmark_id: str | None = None
    request_count: _Metric | None = None
    error_request_count: _Metric | None = None
    request_throughput: _Metric | None = None
    time_to_first_token: _Metric | None = None
    inter_token_latency: _Metric | None = None
    inter_chunk_latency: _Metric | None = None
    output_token_throughput: _Metric | None = None
    output_sequence_length: _Metric | None = None
    input_sequence_length: _Metric | None = None
    usage_completion_tokens: _Metric | None = None
    usage_prompt_tokens: _Metric | None = None
    usage_completion_tokens_diff_pct: _Metric | None = None
    total_usage_completion_tokens: _Metric | None = None
    effective_concurrency: _Metric | None = None
    benchmark_duration: _Metric | None = None
    was_cancelled: bool | None = None
    error_summary: list[Any] | None = None


def read(document: dict[str, Any], where: str) -> list[Result] | None:
    """The level; None where it is no such document."""
    if "input_config" not in document or not {"request_latency", "request_count"} & document.keys():
        return None
    if document.get("request_latency") is None:
        raise InputError(f"{where}: no request_latency, so no request of this AIPerf run finished")
    export = read_as(_Export, document, where)
    count = export.request_latency.count
    finished = count if count is not None else _whole(export.request_count, "request_count", where)
    failed = (
        _whole(export.error_request_count, "error_request_count", where) if export.error_request_count else 0
    )
    duration = _scaled(export.benchmark_duration, where)
    taken = Taken(
        requests=finished + failed,
        errors=failed,
        window_s=None if duration is None else duration / 1000,
        per_s=_average(export.request_throughput),
        effective=_effective(export, finished, duration, where),
        stopped="the run was cancelled" if export.was_cancelled else None,
    )
    loop = _load(export.input_config, taken, where)
    said = [
        "All events that one read of the socket brings share one time stamp.",
        "An error that arrives inside a stream after a token is counted as a success.",
        CLIENT_UNKNOWN,
        "No times of single chunks or requests are in this file.",
        SUCCESSES_ONLY,
    ]
    for name, metric in (("e2e_ms", export.request_latency), ("ttft_ms", export.time_to_first_token)):
        setattr(taken, name, _percentiles(metric, finished, failed, where))
    # Gaps between chunks are not independent of failures the way requests are: ours ignore them too.
    taken.itl_ms = _percentiles(export.inter_chunk_latency, finished, 0, where)
    said += _tokens(export, taken, finished, failed, where)
    if loop == "open":
        said += [
            "Its latencies count from the real start of a request, not from the intended one.",
            GROWTH_UNKNOWN,
        ]
    config = export.input_config
    models = [each.name for each in config.models.items if each.name] if config.models else []
    if not models and config.endpoint is not None:
        models = config.endpoint.model_names
    if len(set(models)) > 1:
        named = " and ".join(repr(each[:60]) for each in sorted(set(models))[:2])
        raise InputError(f"{where}: one run against several models, {named}")
    urls = config.endpoint.urls or [config.endpoint.url or ""] if config.endpoint else []
    return [
        Result(
            where=where,
            tool=f"aiperf {export.aiperf_version}" if export.aiperf_version else "aiperf",
            level=taken.level(where),
            loop=loop,
            run=export.benchmark_id,
            model=models[0] if models else None,
            url=urls[0] if len(urls) == 1 and urls[0] else None,
            cannot_show=tuple(said),
        )
    ]


def _load(config: _Config, taken: Taken, where: str) -> Literal["closed", "open"]:
    phases = [phase for phase in config.phases if not phase.is_warmup]
    if len(phases) > 1:
        raise InputError(f"{where}: {len(phases)} phases pooled into one, so it is no one level")
    if phases:
        (phase,) = phases
        concurrency, rate = phase.concurrency, phase.rate
        if phase.rate_series is not None:
            raise InputError(f"{where}: the rate followed a series, so it is no one level")
        if phase.concurrency_ramp is not None or phase.rate_ramp is not None:
            taken.warnings.append("the load rose to this level during the time measured")
    else:
        old = config.loadgen or _Loadgen()
        concurrency, rate = old.concurrency, old.request_rate
    taken.concurrency = concurrency
    if rate is None:
        return "closed"
    taken.offered_per_s = rate
    if concurrency is not None:
        taken.warnings.append(f"never more than {concurrency} in flight: requests beyond that waited unseen")
    return "open"


def _effective(export: _Export, finished: int, duration_ms: float | None, where: str) -> float | None:
    if export.effective_concurrency is not None:
        return _average(export.effective_concurrency)
    mean = _average(export.request_latency)
    return ratio(
        None if mean is None else finished * mean * _unit(export.request_latency, where), duration_ms
    )


def _tokens(export: _Export, taken: Taken, finished: int, failed: int, where: str) -> list[str]:
    """Whatever depends on the number of tokens; what had to be left out or converted."""
    own, usage, itl = (
        export.output_sequence_length,
        export.usage_completion_tokens,
        export.inter_token_latency,
    )
    prompt = export.usage_prompt_tokens or export.input_sequence_length
    taken.prompt_tokens = prompt.p50 if prompt is not None else None
    taken.tpot_ms = _percentiles(itl, finished, failed, where)
    if usage is None:
        taken.output_tokens = own.p50 if own is not None else None
        taken.output_tokens_per_s = _average(export.output_token_throughput)
        return [
            "Output tokens were counted by AIPerf's own tokenizer: the engine's count is not in the file."
        ]
    taken.output_tokens = usage.p50
    duration = _scaled(export.benchmark_duration, where)
    total = export.total_usage_completion_tokens
    total_tokens = total.avg if total is not None else usage.sum
    if duration and total_tokens is not None and usage.count == finished:
        taken.output_tokens_per_s = total_tokens / (duration / 1000)
    if usage.count == finished and _agree(own, usage, export.usage_completion_tokens_diff_pct):
        return []
    factor = _constant_factor(own, usage, finished)
    if factor is None:
        taken.tpot_ms = Percentiles()
        return [f"{_DISAGREE} there is no TPOT here."]
    taken.tpot_ms = _percentiles(itl, finished, failed, where, factor)
    if factor == 1.0:
        return []
    return [f"{_DISAGREE} TPOT was converted to the engine's count (every answer has the same length)."]


def _agree(own: _Metric | None, usage: _Metric, difference: _Metric | None) -> bool:
    """Whether AIPerf counted as the engine did. It writes no differences where it was told to take usage."""
    if difference is not None:
        return difference.min == 0 and difference.max == 0
    return own is not None and _figures(own) == _figures(usage)


def _figures(metric: _Metric) -> tuple[float | None, ...]:
    return metric.count, metric.sum, metric.min, metric.p50, metric.p99, metric.max


def _constant_factor(own: _Metric | None, usage: _Metric, finished: int) -> float | None:
    """Our TPOT over AIPerf's ITL, exact where every answer has one length by either count."""
    if own is None or own.min is None or own.min != own.max or usage.min is None or usage.min != usage.max:
        return None
    if usage.count != finished or own.count != finished or own.min <= 1 or usage.min <= 1:
        return None
    return (own.min - 1) / (usage.min - 1)


def _percentiles(
    metric: _Metric | None, finished: int, failed: int, where: str, factor: float = 1.0
) -> Percentiles:
    if metric is None:
        return Percentiles()
    samples = metric.count if metric.count is not None else finished
    return stated(metric.p50, metric.p99, samples, failed, factor * _unit(metric, where))


def _unit(metric: _Metric, where: str) -> float:
    scale = _MS.get(metric.unit.lower())
    if scale is None:
        raise InputError(f"{where}: a time in {metric.unit[:20]!r}, not in ms or another unit of time")
    return scale


def _scaled(metric: _Metric | None, where: str) -> float | None:
    """Its average, in milliseconds."""
    average = _average(metric)
    return None if metric is None or average is None else average * _unit(metric, where)


def _average(metric: _Metric | None) -> float | None:
    if metric is None or metric.avg is None:
        return None
    return read_as(Amount, metric.avg, "an average")


def _whole(metric: _Metric | None, name: str, where: str) -> int:
    average = _average(metric)
    if average is None or average != int(average):
        raise InputError(f"{where}: {name} is no whole number")
    return int(average)
