"""Judge of P06: which resource is the bottleneck?

Utilization alone says that a kernel was running, not what it waited for; deciding needs the GPU's own
signals beside the engine's. This release reads only the engine's, so the answer is UNPROVEN with those
shown, and N/A only where it is certain that no GPU is used.
"""

from __future__ import annotations

from preop.evidence import Live, Strength
from preop.findings import Finding, Item
from preop.pitfalls.accelerator import NAME_IT, cpu, foreign_sensor, vendor
from preop.pitfalls.say import item, not_applicable, place, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_SHOWN = {
    "running": ("requests running", "requests"),
    "waiting": ("requests waiting", "requests"),
    "kv_usage": ("KV cache in use", "share"),
    "preemptions_total": ("preemptions since start", "requests"),
}
_SIGNALS = Text(
    "compute and memory activity, power and clocks under load", "负载下的算力与显存活动、功耗和时钟"
)


def judge(case: Case) -> Finding:
    """P06 for one deployment."""
    on_cpu = cpu(case)
    if on_cpu is not None:
        return not_applicable(
            Text(
                "runs on the CPU: there is no GPU utilization to misread",
                "跑在 CPU 上，没有 GPU 利用率可误读",
            ),
            Strength.DECLARED,
            evidence=[item("accelerator", on_cpu)],
            where=place(on_cpu),
        )
    evidence = [item("accelerator", case.fact("accelerator")), *_engine_signals(case)]
    foreign = foreign_sensor(case, _SIGNALS)
    if foreign is not None:
        summary, needs = foreign
        return unproven(summary, needs=needs, evidence=evidence)
    if vendor(case) != "nvidia":
        return unproven(
            Text("accelerator not known, its signals not read", "不知道是哪种加速器，也没有读到它的信号"),
            needs=NAME_IT,
            evidence=evidence,
        )
    return unproven(
        Text(
            "GPU signals not read: utilization alone decides nothing",
            "没有读到 GPU 信号，单看利用率定不了瓶颈",
        ),
        needs=Text(
            "GPU sensors under load, which this release of preop cannot read; by hand, at least 5 samples: "
            "nvidia-smi --query-gpu=utilization.gpu,utilization.memory,power.draw,clocks.sm,"
            "clocks_event_reasons.active --format=csv -l 2, beside the engine's queue and KV usage",
            "负载下的 GPU 传感器数据，本版 preop 读不到；人工查看（至少 5 个样本）："
            "nvidia-smi --query-gpu=utilization.gpu,utilization.memory,power.draw,clocks.sm,"
            "clocks_event_reasons.active --format=csv -l 2，并对照引擎的排队请求数和 KV 占用",
        ),
        evidence=evidence,
    )


def _engine_signals(case: Case) -> list[Item]:
    live = case.payload(Live)
    if live is None:
        return []
    return [
        Item(name, live.metrics[key], unit=unit, source=f"metrics of {live.url}")
        for key, (name, unit) in _SHOWN.items()
        if key in live.metrics
    ]
