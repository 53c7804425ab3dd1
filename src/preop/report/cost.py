"""What a million output tokens cost at the objective, where that was measured."""

from __future__ import annotations

import msgspec

from preop.evidence import Level, Load
from preop.report.types import Report

__all__ = ["Cost", "cost_of"]


class Cost(msgspec.Struct, frozen=True):
    """The price, and all that it was worked out from."""

    deployment: str
    per_million: float
    currency: str
    gpu_hour: float
    gpus: int
    concurrency: int
    output_tokens_per_s: float
    ttft_p99_ms: float
    tpot_p99_ms: float
    taken_at: str


def cost_of(report: Report, deployment: str, gpu_hour: float, currency: str) -> Cost | None:
    """`gpu_hour x GPUs / (output tokens/s x 3600) x 1e6` at the highest valid level that meets the objective.

    None where no such level was measured, or where the number of GPUs is not known.
    """
    found = next(each for each in report.deployments if each.name == deployment)
    count = found.fact("gpu_count").value
    record = next(
        (
            each
            for each in reversed(report.records)
            if each.deployment == deployment and isinstance(each.payload, Load)
        ),
        None,
    )
    if record is None or not isinstance(count, int) or isinstance(count, bool) or count < 1:
        return None
    assert isinstance(record.payload, Load)
    limits = report.thresholds["P04.ttft_p99_ms"], report.thresholds["P04.tpot_p99_ms"]
    good = [level for level in record.payload.levels if _meets(level, *limits)]
    if not good:
        return None
    level = max(good, key=lambda each: each.concurrency)
    rate = level.output_tokens_per_s
    assert rate and level.ttft_ms.p99 is not None and level.tpot_ms.p99 is not None
    price = gpu_hour * count / (rate * 3600) * 1e6
    return Cost(
        deployment,
        price,
        currency,
        gpu_hour,
        count,
        level.concurrency,
        rate,
        level.ttft_ms.p99,
        level.tpot_ms.p99,
        record.taken_at,
    )


def _meets(level: Level, ttft_ms: float, tpot_ms: float) -> bool:
    ttft, tpot = level.ttft_ms.p99, level.tpot_ms.p99
    return (
        level.valid
        and level.errors == 0
        and bool(level.output_tokens_per_s)
        and ttft is not None
        and tpot is not None
        and ttft <= ttft_ms
        and tpot <= tpot_ms
    )
