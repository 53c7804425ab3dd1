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
    least=Strength.MEASURED,
    judge=judge,
)
