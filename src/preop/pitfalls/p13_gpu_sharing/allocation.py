"""What a platform that hands out GPUs says of how they are shared: Kubernetes and its device plugins."""

from __future__ import annotations

from preop.deployment.types import Deployment
from preop.evidence import Strength
from preop.findings import Finding
from preop.pitfalls.say import item, passed, place, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["allocated", "is_apart"]


def is_apart(deployment: Deployment) -> bool:
    """Whether its platform gives it devices, or MIG slices, of its own."""
    return deployment.fact("gpu_allocation").value in ("whole", "mig")


def allocated(case: Case) -> Finding | None:
    """What a platform that hands out devices says (Kubernetes); None where none does.

    A whole device or a MIG slice is the pod's own, unless the node's device plugin hands the same one out
    several times: time-slicing keeps the resource's name unless told to rename it, so files cannot tell.
    """
    allocation = case.fact("gpu_allocation")
    if not allocation.is_known:
        return None
    count = case.fact("gpu_count")
    evidence = [item("gpu_allocation", allocation), item("gpu_count", count)]
    where = place(allocation, count)
    if allocation.value in ("whole", "mig"):
        number = f"{count.value} " if isinstance(count.value, int) else ""
        what = "MIG slice" if allocation.value == "mig" else "whole GPU"
        what_zh = "个 MIG 切片" if allocation.value == "mig" else "张完整 GPU"
        return unproven(
            Text(
                f"asks for {number}{what}{'' if count.value == 1 else 's'}; node sharing not seen",
                f"申请独占 {number}{what_zh}；看不到节点是否做了共享",
            ),
            needs=Text(
                "the node's own word that it hands no GPU out twice, which this release cannot read: "
                "kubectl get nodes -L nvidia.com/gpu.sharing-strategy,nvidia.com/gpu.replicas",
                "节点没有把同一张 GPU 分给多个 pod 的证明，本版读不到；可查看："
                "kubectl get nodes -L nvidia.com/gpu.sharing-strategy,nvidia.com/gpu.replicas",
            ),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=where,
            holds=Strength.DECLARED,
        )
    limit = case.fact("gpu_memory_limit_mib")
    evidence.append(item("gpu_memory_limit_mib", limit))
    if allocation.value == "fraction" and limit.is_known:
        return passed(
            Text(f"its share is limited to {limit.value} MiB", f"显存配额为 {limit.value} MiB"),
            Strength.DECLARED,
            evidence=evidence,
            where=place(limit, allocation),
        )
    return unproven(
        Text("shares a GPU; no limit on its memory is stated", "与他人共享 GPU，没有写明显存上限"),
        needs=Text(
            "a share with a limit: a MIG slice, MPS with a pinned-memory limit, or a quota of GPU memory "
            "(nvidia.com/gpumem); time-slicing alone limits nothing",
            "带上限的份额：MIG 切片、限制显存的 MPS，或 GPU 显存配额（nvidia.com/gpumem）；"
            "单靠时间片没有任何限制",
        ),
        strength=Strength.DECLARED,
        evidence=evidence,
        where=where,
    )
