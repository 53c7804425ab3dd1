"""P04: the latency of one request quoted as the latency of production."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p04_concurrency_latency.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

__all__ = ["PITFALL"]

PITFALL = Pitfall(
    id="P04",
    slug="concurrency-latency",
    label=Text("concurrency", "并发延迟"),
    title=Text("Single-request latency quoted as production latency", "把单请求延迟当成生产延迟"),
    group="scheduling",
    item=Text(
        "Latency is reported for one request and for many at once, and the curve's bend is known",
        "单请求延迟与多并发延迟同时报，并找到曲线拐点",
    ),
    least=Strength.MEASURED,
    judge=judge,
    needs=("load",),
)
