"""llm-d-benchmark's report (`benchmark_report*.yaml` or `.json`), 0.1 to 0.2.1: one level a file.

Schema read in llm-d-benchmark's `br_v0_1` and `br_v0_2_1`. It is the result of another tool in one form, with
a unit at each quantity; the definitions stay that tool's. guidellm's `time_per_output_token` divides by n,
not n - 1, and its `inter_token_latency` is weighed by tokens: neither is read.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preop.errors import InputError
from preop.evidence import Amount, Count, Percentiles
from preop.instruments.load.foreign.result import (
    CLIENT_UNKNOWN,
    FAILURES_UNKNOWN,
    GROWTH_UNKNOWN,
    NO_CHUNKS,
    SUCCESSES_ONLY,
    Result,
    Taken,
    ratio,
    read_as,
    stated,
)

__all__ = ["read"]

_MS = {"ms": 1.0, "s": 1000.0, "ms/token": 1.0, "s/token": 1000.0}


class _Quantity(msgspec.Struct):
    units: str
    mean: float | None = None
    p50: Amount | None = None
    p99: Amount | None = None


class _Requests(msgspec.Struct):
    total: Count
    failures: Count | None = None
    incomplete: Count | None = None
    input_length: _Quantity | None = None
    output_length: _Quantity | None = None


class _Latency(msgspec.Struct):
    request_latency: _Quantity | None = None
    time_to_first_token: _Quantity | None = None
    time_per_output_token: _Quantity | None = None


class _Performance(msgspec.Struct):
    requests: _Requests
    latency: _Latency | None = None
    throughput: dict[str, Any] | None = None
    time: dict[str, Any] | None = None


def read(document: dict[str, Any], where: str) -> list[Result] | None:
    """The level; None where it is no such document."""
    if not {"version", "scenario"} <= document.keys() or not {"metrics", "results"} & document.keys():
        return None
    version = str(document["version"])[:20]
    if version.startswith("0.1"):
        performance = _at(document, "metrics")
        tool, concurrency, rate = _load_0_1(document)
        model = _at(document, "scenario", "model", "name")
    else:
        performance = _at(document, "results", "request_performance", "aggregate")
        tool, concurrency, rate = _load_0_2(document)
        model = _model_0_2(document)
    if performance is None:
        raise InputError(f"{where}: a report without the performance of requests in it")
    measured = read_as(_Performance, performance, where)
    requests, latency = measured.requests, measured.latency or _Latency()
    if tool.startswith("inference-perf") and _count(concurrency, where) is not None:
        rate = None  # the rate of its stage says nothing where concurrency holds it
    failed = requests.failures or 0
    lost = FAILURES_UNKNOWN if requests.failures is None else failed
    total = requests.total - (requests.incomplete or 0)
    if total < failed:
        raise InputError(
            f"{where}: {failed} failed and {requests.incomplete or 0} incomplete of {requests.total}"
        )
    per_s = _rate(measured.throughput, "request_rate", "requests_per_sec", where)
    e2e_ms = _mean_ms(latency.request_latency, where)
    taken = Taken(
        requests=total,
        errors=failed,
        concurrency=_count(concurrency, where),
        offered_per_s=_number(rate, where),
        per_s=per_s,
        output_tokens_per_s=_rate(measured.throughput, "output_token_rate", "output_tokens_per_sec", where),
        effective=None if per_s is None or e2e_ms is None else per_s * e2e_ms / 1000,
        window_s=_duration(measured.time, where) or ratio(total - failed, per_s),
        prompt_tokens=requests.input_length.p50 if requests.input_length else None,
        output_tokens=requests.output_length.p50 if requests.output_length else None,
        ttft_ms=_percentiles(latency.time_to_first_token, total - failed, lost, where),
        e2e_ms=_percentiles(latency.request_latency, total - failed, lost, where),
    )
    loop: Literal["closed", "open"] = "open" if taken.offered_per_s is not None else "closed"
    said = [
        f"The definitions are those of {tool}, which measured.",
        "Whether an error inside a stream counts as a failure depends on that tool.",
        NO_CHUNKS,
        CLIENT_UNKNOWN,
        SUCCESSES_ONLY,
    ]
    if "guidellm" in tool.lower():
        said.append("guidellm's time per output token is another quantity: there is no TPOT here.")
    else:
        taken.tpot_ms = _percentiles(latency.time_per_output_token, total - failed, lost, where)
    if requests.failures is None:
        said.append("Failed requests are not in the report: errors are 0 here, and there is no p99.")
    if loop == "open":
        said += ["Whether latencies count from the intended start is not recorded.", GROWTH_UNKNOWN]
    return [
        Result(
            where=where,
            tool=f"llm-d-benchmark report {version} ({tool})",
            level=taken.level(where),
            loop=loop,
            model=model if isinstance(model, str) and model else None,
            cannot_show=tuple(said),
        )
    ]


def _at(document: Any, *path: str) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _load_0_1(document: dict[str, Any]) -> tuple[str, Any, Any]:
    """The tool, its concurrency and rate, from the tool's own arguments."""
    load = _at(document, "scenario", "load")
    arguments, stage = _at(load, "args"), _at(load, "metadata", "stage")
    concurrency, rate = _at(arguments, "max_concurrency"), _at(arguments, "request_rate")
    stages = _at(arguments, "load", "stages")
    if isinstance(stages, list) and type(stage) is int and 0 <= stage < len(stages):  # inference-perf
        concurrency, rate = _at(stages[stage], "concurrency_level"), _at(stages[stage], "rate")
    old = _at(arguments, "loadgen")
    if isinstance(old, dict):  # AIPerf
        concurrency, rate = old.get("concurrency"), old.get("request_rate")
    return str(_at(load, "name") or "an unnamed tool")[:40], concurrency, rate


def _load_0_2(document: dict[str, Any]) -> tuple[str, Any, Any]:
    load = _at(document, "scenario", "load", "standardized")
    name = " ".join(str(part) for part in (_at(load, "tool"), _at(load, "tool_version")) if part)
    return (name or "an unnamed tool")[:60], _at(load, "concurrency"), _at(load, "rate_qps")


def _model_0_2(document: dict[str, Any]) -> Any:
    """The model of the first engine that names one."""
    stack = _at(document, "scenario", "stack")
    for part in stack if isinstance(stack, list) else []:
        name = _at(part, "standardized", "model", "name")
        if name:
            return name
    return None


def _number(value: Any, where: str) -> float | None:
    """A rate; None where there is none, or no limit."""
    if value is None or value == "inf" or value == float("inf"):
        return None
    return read_as(Amount, value, f"{where}, rate")


def _count(value: Any, where: str) -> int | None:
    if value is None or value == "inf" or value == float("inf"):
        return None
    return read_as(Count, value, f"{where}, concurrency") or None


def _percentiles(quantity: _Quantity | None, finished: int, failed: int, where: str) -> Percentiles:
    if quantity is None:
        return Percentiles()
    return stated(quantity.p50, quantity.p99, finished, failed, _unit(quantity, where))


def _unit(quantity: _Quantity, where: str) -> float:
    scale = _MS.get(quantity.units)
    if scale is None:
        raise InputError(
            f"{where}: a time in {quantity.units[:20]!r}, where ms, s, ms/token or s/token was expected"
        )
    return scale


def _mean_ms(quantity: _Quantity | None, where: str) -> float | None:
    if quantity is None or quantity.mean is None:
        return None
    return read_as(Amount, quantity.mean, f"{where}, mean") * _unit(quantity, where)


def _rate(throughput: dict[str, Any] | None, name: str, old_name: str, where: str) -> float | None:
    """A mean rate: a quantity since 0.2, a bare number in 0.1."""
    if throughput is None:
        return None
    value = throughput.get(old_name) if name not in throughput else _at(throughput, name, "mean")
    return None if value is None else read_as(Amount, value, f"{where}, {name}")


def _duration(time: dict[str, Any] | None, where: str) -> float | None:
    value = _at(time, "duration")
    return read_as(Amount, value, f"{where}, duration") if isinstance(value, (int, float)) else None
