"""P10: an ONNX export that was never held against its model."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p10_onnx_drift.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

__all__ = ["PITFALL"]

PITFALL = Pitfall(
    id="P10",
    slug="onnx-drift",
    label=Text("ONNX drift", "ONNX 漂移"),
    title=Text("ONNX export never verified", "导出 ONNX 后没有校验"),
    group="operations",
    item=Text("The ONNX export was verified numerically", "ONNX 导出后 verify 数值一致"),
    least=Strength.MEASURED,
    judge=judge,
)
