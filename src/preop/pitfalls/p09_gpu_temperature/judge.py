"""Judge of P09: does somebody watch the heat, and is the GPU throttling now?

Both are seen only on the machine: this release reads no sensor, so the answer is UNPROVEN, and N/A only
where it is certain that no GPU is used. 80, 85 and 90 C are the checklist's limits, shown as what a watcher
is to be set to where the device states none of its own.
"""

from __future__ import annotations

from preop.evidence import Strength
from preop.findings import Finding
from preop.pitfalls.accelerator import NAME_IT, cpu, foreign_sensor, vendor
from preop.pitfalls.say import item, not_applicable, place, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_SIGNALS = Text("temperature, its limits, clocks and throttling", "温度、温度上限、时钟和降频状态")


def judge(case: Case) -> Finding:
    """P09 for one deployment."""
    on_cpu = cpu(case)
    if on_cpu is not None:
        return not_applicable(
            Text("runs on the CPU: there is no GPU to overheat", "跑在 CPU 上，没有会过热的 GPU"),
            Strength.DECLARED,
            evidence=[item("accelerator", on_cpu)],
            where=place(on_cpu),
        )
    evidence = [
        item("accelerator", case.fact("accelerator")),
        item("gpu", case.fact("gpu")),
        *(threshold_item(case.thresholds, key) for key in ("P09.warn_c", "P09.alarm_c", "P09.shed_c")),
    ]
    foreign = foreign_sensor(case, _SIGNALS)
    if foreign is not None:
        summary, needs = foreign
        return unproven(summary, needs=needs, evidence=evidence)
    if vendor(case) != "nvidia":
        return unproven(
            Text("accelerator not known, its temperature not read", "不知道是哪种加速器，也没有读到温度"),
            needs=NAME_IT,
            evidence=evidence,
        )
    return unproven(
        Text("no sign that anybody watches the GPU's temperature", "看不出有人在监控 GPU 温度"),
        needs=Text(
            "GPU sensors and a watcher in place, neither of which this release of preop can see; by hand: "
            "nvidia-smi -q -d TEMPERATURE,PERFORMANCE for the limits and throttling of each device",
            "GPU 传感器数据和已就位的监控，本版 preop 都看不到；人工查看每张卡的上限和降频："
            "nvidia-smi -q -d TEMPERATURE,PERFORMANCE",
        ),
        evidence=evidence,
    )
