"""Instrument "load": latency against concurrency or rate; and two endpoints under the same load."""

from __future__ import annotations

from preop.evidence import Payload
from preop.instruments.types import Instrument, Job
from preop.text import Text

__all__ = ["COMPARE", "LOAD"]


def _run(job: Job) -> Payload:
    from preop.instruments.load.measure import measure

    return measure(job)


def _missing(job: Job) -> Text | None:
    if job.access is None:
        return Text(en="give the running endpoint: --endpoint URL", zh="请给出正在运行的端点：--endpoint URL")
    from preop.instruments.load.permission import refusal

    return refusal(job)


def _compare(job: Job) -> Payload:
    from preop.instruments.load.compare import compare

    return compare(job)


_DEPENDS_ON = (
    "engine_version",
    "model",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "gpu_memory_fraction",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "quantization",
    "kv_cache_dtype",
    "speculative",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "gpu",
    "gpu_count",
    "accelerator",
)

LOAD = Instrument("load", puts_load=True, run=_run, missing=_missing, depends_on=_DEPENDS_ON)
COMPARE = Instrument(
    "load-comparison", puts_load=True, run=_compare, missing=_missing, depends_on=_DEPENDS_ON
)
"""The endpoint (A) against the URL in the option `compare` (B)."""
