"""`python -m sglang.bench_serving`: one JSON object a line, each one run (appended).

Schema and definitions read in SGLang 0.5.23's `sglang/benchmark/serving.py`: lists in seconds, percentiles in
milliseconds; TPOT = (latency - TTFT) / (n - 1); TTFT to the first content or reasoning; `concurrency` is
the measured one (sum of latencies over the duration), `max_concurrency` the one asked for. Failed requests
are nowhere counted; only `--output-details` has them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preop.errors import InputError
from preop.evidence import Amount, Count
from preop.instruments.load.foreign.result import (
    CLIENT_UNKNOWN,
    FAILURES_UNKNOWN,
    GROWTH_UNKNOWN,
    SUCCESSES_ONLY,
    Concurrency,
    Result,
    Taken,
    commonest,
    median_of,
    ratio,
    read_as,
    stated,
)
from preop.instruments.load.statistics import percentiles

__all__ = ["read"]


class _Run(msgspec.Struct):
    backend: str
    request_rate: Amount | str
    completed: Count
    duration: Amount
    max_concurrency: Concurrency | None = None
    total_input_tokens: Count | None = None
    total_output_tokens: Count | None = None
    request_throughput: Amount | None = None
    output_throughput: Amount | None = None
    concurrency: Amount | None = None
    median_ttft_ms: Amount | None = None
    p99_ttft_ms: Amount | None = None
    median_tpot_ms: Amount | None = None
    p99_tpot_ms: Amount | None = None
    median_itl_ms: Amount | None = None
    p99_itl_ms: Amount | None = None
    median_e2e_latency_ms: Amount | None = None
    p99_e2e_latency_ms: Amount | None = None
    accept_length: Amount | None = None
    server_info: Any = None
    input_lens: list[Count] | None = None
    output_lens: list[Count] | None = None
    ttfts: list[Amount] | None = None
    errors: list[str | None] | None = None


def read(document: dict[str, Any], where: str) -> list[Result] | None:
    """The level of one run; None where it is no such document."""
    if (
        not {"backend", "dataset_name", "request_rate", "completed", "median_e2e_latency_ms"}
        <= document.keys()
    ):
        return None
    # Python's json writes an unlimited rate as Infinity.
    rate = document["request_rate"]
    unlimited = rate == float("inf")
    run = read_as(_Run, {**document, "request_rate": "inf"} if unlimited else document, where)
    failed = len([error for error in run.errors if error]) if run.errors is not None else 0
    taken = Taken(
        requests=run.completed + failed,
        errors=failed,
        window_s=run.duration,
        per_s=run.request_throughput,
        output_tokens_per_s=run.output_throughput,
        prompt_tokens=ratio(run.total_input_tokens, run.completed),
        output_tokens=ratio(run.total_output_tokens, run.completed),
        effective=run.concurrency,
    )
    loop = _load(run, taken, where)
    # Where nobody counted the failures there may have been some.
    lost = FAILURES_UNKNOWN if run.errors is None else failed
    taken.ttft_ms = stated(run.median_ttft_ms, run.p99_ttft_ms, run.completed, lost)
    taken.tpot_ms = stated(run.median_tpot_ms, run.p99_tpot_ms, run.completed, lost)
    taken.itl_ms = stated(run.median_itl_ms, run.p99_itl_ms, run.completed, lost)
    taken.e2e_ms = stated(run.median_e2e_latency_ms, run.p99_e2e_latency_ms, run.completed, lost)
    _details(run, taken, failed)
    said = [
        "Its version is not in the file.",
        "Without usage in the answer, the length asked for is taken for the length of the answer.",
        "Its ITL is the gap between chunks, divided by re-tokenising where the server speculates.",
        CLIENT_UNKNOWN,
        SUCCESSES_ONLY,
    ]
    if run.errors is None:
        said.insert(
            1,
            "Failed requests are not in the file: errors are 0 here whatever happened, and there is no p99.",
        )
    if loop == "open":
        said += [
            "Its latencies count from the real start of a request, not from the intended one.",
            GROWTH_UNKNOWN,
        ]
    return [
        Result(
            where=where,
            tool="sglang bench_serving",
            level=taken.level(where),
            loop=loop,
            model=_model(run.server_info),
            cannot_show=tuple(said),
        )
    ]


def _load(run: _Run, taken: Taken, where: str) -> Literal["closed", "open"]:
    if run.request_rate == "inf":
        taken.burst = run.max_concurrency is None
        taken.concurrency = run.max_concurrency or max(1, taken.requests)
        return "closed"
    if run.request_rate == "trace":
        # The trace's own rate is not in the file; what was sent is what finished.
        taken.offered_per_s = run.request_throughput
        taken.warnings.append("a trace was replayed: its rate is the one at which requests finished")
    elif isinstance(run.request_rate, str):
        raise InputError(f"{where}: request_rate is {run.request_rate[:40]!r}, not a number, inf or trace")
    else:
        taken.offered_per_s = run.request_rate
    if run.max_concurrency is not None:
        taken.warnings.append(
            f"never more than {run.max_concurrency} in flight: requests beyond that waited unseen"
        )
    return "open"


def _details(run: _Run, taken: Taken, failed: int) -> None:
    """What `--output-details` makes exact."""
    errors = run.errors
    if errors is None:
        return
    whole = [index for index, error in enumerate(errors) if not error]
    if run.ttfts is not None and len(run.ttfts) == len(errors) and len(whole) == run.completed:
        taken.ttft_ms = percentiles([1000 * run.ttfts[i] for i in whole], failed)
    if run.output_lens is not None and len(run.output_lens) == len(errors):
        taken.output_tokens = median_of([run.output_lens[i] for i in whole])
    if run.input_lens is not None and len(run.input_lens) == len(errors):
        taken.prompt_tokens = median_of([run.input_lens[i] for i in whole])
    taken.cause = commonest(errors)


def _model(server_info: Any) -> str | None:
    """The model by the server's own word, where it was asked."""
    if not isinstance(server_info, dict):
        return None
    decode = server_info.get("decode")
    if isinstance(decode, list) and decode and isinstance(decode[0], dict):
        server_info = decode[0]
    for name in ("served_model_name", "model_path"):
        if isinstance(server_info.get(name), str):
            return str(server_info[name])
    return None
