"""P09: nobody watches the GPU's temperature."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p09_gpu_temperature.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

__all__ = ["PITFALL"]

PITFALL = Pitfall(
    id="P09",
    slug="gpu-temperature",
    label=Text("GPU heat", "GPU 温度"),
    title=Text("GPU temperature not watched", "没监控 GPU 温度"),
    group="operations",
    item=Text(
        "GPU temperature is watched, with alarms and load shedding", "监控 GPU 温度，有告警并能自动降负载"
    ),
    least=Strength.MEASURED,
    judge=judge,
    facts=("gpu",),
)
