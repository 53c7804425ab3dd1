"""`vllm bench serve --save-result` (with or without `--save-detailed`), one JSON object a run.

Schema and definitions read in vLLM 0.32's `vllm/benchmarks/serve.py`: times of the lists in seconds, of the
percentiles in milliseconds; TPOT = (latency - TTFT) / (n - 1) over answers of two tokens and more; latency
to the last chunk with `choices`; TTFT to the first chunk with `choices`, so for `openai-chat` that of a role.
`--percentile-metrics` and `--metric-percentiles` decide which percentiles a file has.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preop.errors import InputError
from preop.evidence import Amount, Count
from preop.instruments.load.foreign.result import (
    CLIENT_UNKNOWN,
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
    model_id: str
    completed: Count
    duration: Amount
    request_rate: Amount | Literal["inf"]
    max_concurrency: Concurrency | None = None
    num_prompts: Count | None = None
    failed: Count | None = None
    total_input_tokens: Count | None = None
    total_output_tokens: Count | None = None
    request_throughput: Amount | None = None
    output_throughput: Amount | None = None
    ramp_up_strategy: str | None = None
    mean_ttft_ms: Amount | None = None
    mean_tpot_ms: Amount | None = None
    mean_e2el_ms: Amount | None = None
    median_ttft_ms: Amount | None = None
    p99_ttft_ms: Amount | None = None
    median_tpot_ms: Amount | None = None
    p99_tpot_ms: Amount | None = None
    median_itl_ms: Amount | None = None
    p99_itl_ms: Amount | None = None
    median_e2el_ms: Amount | None = None
    p99_e2el_ms: Amount | None = None
    ttfts: list[Amount] | None = None
    itls: list[list[Amount]] | None = None
    output_lens: list[Count] | None = None
    input_lens: list[Count] | None = None
    errors: list[str | None] | None = None
    latencies: list[Amount] | None = None


def read(document: dict[str, Any], where: str) -> list[Result] | None:
    """The level of one run; None where it is no such document."""
    if not {"model_id", "tokenizer_id", "request_rate", "completed"} <= document.keys():
        return None
    run = read_as(_Run, document, where)
    if run.ramp_up_strategy is not None:
        raise InputError(f"{where}: the rate was ramped up ({run.ramp_up_strategy}), so it is no one level")
    failed = run.failed if run.failed is not None else max(0, (run.num_prompts or 0) - run.completed)
    taken = Taken(
        requests=run.completed + failed,
        errors=failed,
        window_s=run.duration,
        per_s=run.request_throughput,
        output_tokens_per_s=run.output_throughput,
        prompt_tokens=ratio(run.total_input_tokens, run.completed),
        output_tokens=ratio(run.total_output_tokens, run.completed),
        effective=_in_flight(run),
    )
    _load(run, taken)
    detailed = _detailed(run, taken, where)
    return [
        Result(
            where=where,
            tool="vllm bench serve",
            level=taken.level(where),
            loop="closed" if taken.offered_per_s is None else "open",
            model=run.model_id,
            cannot_show=tuple(_cannot_show(run, detailed, taken)),
        )
    ]


def _load(run: _Run, taken: Taken) -> None:
    if isinstance(run.request_rate, str):
        taken.burst = run.max_concurrency is None
        taken.concurrency = run.max_concurrency or max(1, taken.requests)
        return
    taken.offered_per_s = run.request_rate
    if taken.effective is None:
        taken.effective = _about_in_flight(run)
    if run.max_concurrency is not None:
        taken.warnings.append(
            f"never more than {run.max_concurrency} in flight: requests beyond that waited unseen"
        )


def _in_flight(run: _Run) -> float | None:
    """By Little's law, over the whole run."""
    if run.mean_e2el_ms is None or not run.duration:
        return None
    return run.completed * run.mean_e2el_ms / 1000 / run.duration


def _about_in_flight(run: _Run) -> float | None:
    """The same from means alone, exact only for answers of one length: names a level of the open loop."""
    ttft, tpot, tokens = run.mean_ttft_ms, run.mean_tpot_ms, ratio(run.total_output_tokens, run.completed)
    if ttft is None or tpot is None or tokens is None or not run.duration:
        return None
    return run.completed * (ttft + tpot * max(0.0, tokens - 1)) / 1000 / run.duration


def _detailed(run: _Run, taken: Taken, where: str) -> bool:
    """The level's percentiles; over its requests where the file holds them."""
    failed = taken.errors
    ttfts, itls, lengths, errors = run.ttfts, run.itls, run.output_lens, run.errors
    if ttfts is None or itls is None or lengths is None or errors is None:
        taken.ttft_ms = stated(run.median_ttft_ms, run.p99_ttft_ms, run.completed, failed)
        taken.tpot_ms = stated(run.median_tpot_ms, run.p99_tpot_ms, run.completed, failed)
        # How many gaps there were is not in the file: at least one for each answer.
        taken.itl_ms = stated(run.median_itl_ms, run.p99_itl_ms, run.completed, failed)
        taken.e2e_ms = stated(run.median_e2el_ms, run.p99_e2el_ms, run.completed, failed)
        if run.latencies is not None and not failed and len(run.latencies) == run.completed:
            taken.e2e_ms = percentiles([1000 * each for each in run.latencies])
            taken.effective = ratio(sum(run.latencies), run.duration)
        return False
    if not len(ttfts) == len(itls) == len(lengths) == len(errors) == taken.requests:
        raise InputError(
            f"{where}: its lists of requests (ttfts, itls, output_lens, errors) differ in length"
        )
    # A failed request has an error; its times are zero or those of a part.
    whole = [index for index, error in enumerate(errors) if not error]
    if len(whole) != run.completed:
        raise InputError(f"{where}: {run.completed} requests completed, but {len(whole)} have no error")
    latencies = run.latencies
    e2e = [latencies[i] if latencies else ttfts[i] + sum(itls[i]) for i in whole]
    taken.ttft_ms = percentiles([1000 * ttfts[i] for i in whole], failed)
    taken.e2e_ms = percentiles([1000 * each for each in e2e], failed)
    taken.tpot_ms = percentiles(
        [
            1000 * (all_ - ttfts[i]) / (lengths[i] - 1)
            for i, all_ in zip(whole, e2e, strict=True)
            if lengths[i] > 1
        ],
        failed,
    )
    taken.itl_ms = percentiles([1000 * gap for i in whole for gap in itls[i]])
    if run.duration:
        taken.effective = sum(e2e) / run.duration
    taken.output_tokens = median_of([lengths[i] for i in whole])
    if run.input_lens is not None and len(run.input_lens) == len(errors):
        taken.prompt_tokens = median_of([run.input_lens[i] for i in whole])
    taken.cause = commonest(errors)
    return True


def _cannot_show(run: _Run, detailed: bool, taken: Taken) -> list[str]:
    said = [
        "Its version is not in the file.",
        "An error that arrives inside a stream after a token is counted as a success.",
        "Whether output tokens are the engine's own count (usage) or its tokenizer's is not recorded.",
        "Its ITL is the gap between chunks, not between tokens.",
        CLIENT_UNKNOWN,
    ]
    if run.backend == "openai-chat":
        said.insert(
            1, "Its TTFT is to the first chunk, which may hold only a role: the first token may be later."
        )
    if not detailed:
        said += ["No times of single chunks or requests are in the file.", SUCCESSES_ONLY]
    if taken.offered_per_s is not None:
        said += [
            "Its latencies count from the real start of a request, not from the intended one.",
            GROWTH_UNKNOWN,
        ]
    return said
