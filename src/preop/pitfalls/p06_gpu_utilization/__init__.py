"""P06: GPU utilization read as load."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p06_gpu_utilization.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

__all__ = ["PITFALL"]

PITFALL = Pitfall(
    id="P06",
    slug="gpu-utilization",
    label=Text("GPU metrics", "GPU 指标"),
    title=Text("GPU utilization as the only metric", "用 GPU 利用率当唯一指标"),
    group="scheduling",
    item=Text(
        "GPU utilization is read beside memory signals, so compute-bound and memory-bound are told apart",
        "同时看 GPU 利用率与显存信号，区分 compute-bound 与 memory-bound",
    ),
    least=Strength.MEASURED,
    judge=judge,
)
