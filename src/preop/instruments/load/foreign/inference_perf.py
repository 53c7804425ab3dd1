"""inference-perf's `stage_N_lifecycle_metrics.json`: a level each; the model is in `config.yaml` beside it.

Schema and definitions read in its source as of August 2026 and in reports of 2025: all times in seconds.
TPOT = (last token - first token) / (n - 1) with n by its own tokenizer unless told otherwise; its ITL gives
each token of a chunk that chunk's time, so gaps inside a chunk are 0: no gap between chunks, and not read.
`summary_lifecycle_metrics.json` pools all stages and is no level.
"""

from __future__ import annotations

from typing import Any

import msgspec

from preop.errors import InputError
from preop.evidence import Amount, Count, Percentiles
from preop.instruments.load.foreign.result import (
    GROWTH_UNKNOWN,
    NO_CHUNKS,
    SUCCESSES_ONLY,
    Concurrency,
    Result,
    Taken,
    ratio,
    read_as,
    stated,
)

__all__ = ["is_summary", "read", "read_config"]


class _Summary(msgspec.Struct):
    mean: Amount | None = None
    median: Amount | None = None
    p99: Amount | None = None


class _Delay(msgspec.Struct):
    """A start can be a little before its time."""

    median: float | None = None
    p99: float | None = None


class _Load(msgspec.Struct):
    count: Count
    requested_rate: Amount | None = None
    achieved_rate: Amount | None = None
    concurrency: Concurrency | None = None
    schedule_delay: _Delay | None = None
    send_duration: Amount | None = None


class _Latency(msgspec.Struct):
    request_latency: _Summary | None = None
    time_per_output_token: _Summary | None = None
    time_to_first_token: _Summary | None = None


class _Throughput(msgspec.Struct):
    output_tokens_per_sec: Amount | None = None
    requests_per_sec: Amount | None = None


class _Successes(msgspec.Struct):
    count: Count
    latency: _Latency | None = None
    throughput: _Throughput | None = None
    prompt_len: _Summary | None = None
    """In newer reports `prompt_tokens`."""
    prompt_tokens: _Summary | None = None
    output_len: _Summary | None = None


class _Failures(msgspec.Struct):
    count: Count = 0


class _Stage(msgspec.Struct):
    load_summary: _Load
    successes: _Successes
    failures: _Failures
    benchmark_time_seconds: Amount | None = None


class _Server(msgspec.Struct):
    model_name: str | None = None
    base_url: str | None = None


class _Config(msgspec.Struct):
    server: _Server


def is_summary(document: Any) -> bool:
    """Whether it pools all stages of a run."""
    load = document.get("load_summary") if isinstance(document, dict) and _is_stage(document) else None
    return isinstance(load, dict) and load.get("requested_rate") is None and load.get("concurrency") is None


def _is_stage(document: dict[str, Any]) -> bool:
    return {"load_summary", "successes", "failures"} <= document.keys()


def read_config(document: Any, where: str) -> tuple[str | None, str | None] | None:
    """Model and URL from the run's own configuration; None where it is no such document."""
    if not isinstance(document, dict) or not {"load", "server", "api"} <= document.keys():
        return None
    if not isinstance(document["server"], dict):
        return None
    server = read_as(_Config, document, where).server
    return server.model_name, server.base_url


def read(document: dict[str, Any], where: str) -> list[Result] | None:
    """The level of one stage; None where it is no such document."""
    if not _is_stage(document):
        return None
    if is_summary(document):
        raise InputError(
            f"{where}: no requested_rate or concurrency, so a summary over all stages: give theirs"
        )
    stage = read_as(_Stage, document, where)
    load, done, failed = stage.load_summary, stage.successes, stage.failures.count
    if done.count + failed != load.count:
        raise InputError(f"{where}: {load.count} requests, but {done.count} succeeded and {failed} failed")
    latency, throughput = done.latency or _Latency(), done.throughput or _Throughput()
    e2e, prompts = latency.request_latency, done.prompt_len or done.prompt_tokens
    seconds = stage.benchmark_time_seconds or ratio(done.count, throughput.requests_per_sec)
    taken = Taken(
        requests=load.count,
        errors=failed,
        concurrency=load.concurrency,
        window_s=seconds,
        per_s=throughput.requests_per_sec,
        output_tokens_per_s=throughput.output_tokens_per_sec,
        prompt_tokens=prompts.median if prompts is not None else None,
        output_tokens=done.output_len.median if done.output_len else None,
        effective=ratio(done.count * e2e.mean if e2e is not None and e2e.mean is not None else None, seconds),
        ttft_ms=_percentiles(latency.time_to_first_token, done.count, failed),
        tpot_ms=_percentiles(latency.time_per_output_token, done.count, failed),
        e2e_ms=_percentiles(e2e, done.count, failed),
    )
    said = [
        "Its version is not in the file.",
        "An error that arrives inside a stream, or instead of one, is counted as a success.",
        "Output tokens may be counted by its own tokenizer: which was used is not recorded.",
        NO_CHUNKS,
        SUCCESSES_ONLY,
    ]
    if load.concurrency is None:
        taken.offered_per_s = load.requested_rate
        taken.started_per_s = load.achieved_rate
        if load.schedule_delay is not None:
            delay = load.schedule_delay
            taken.start_delay_ms = stated(
                _positive(delay.median), _positive(delay.p99), load.count, 0, 1000.0
            )
        said += [
            "Its latencies count from the real start of a request, not from the intended one.",
            GROWTH_UNKNOWN,
        ]
    return [
        Result(
            where=where,
            tool="inference-perf",
            level=taken.level(where),
            loop="closed" if load.concurrency is not None else "open",
            cannot_show=tuple(said),
        )
    ]


def _positive(value: float | None) -> float | None:
    return None if value is None else max(0.0, value)


def _percentiles(summary: _Summary | None, finished: int, failed: int) -> Percentiles:
    if summary is None:
        return Percentiles()
    return stated(summary.median, summary.p99, finished, failed, 1000.0)
