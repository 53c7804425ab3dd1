"""The GPUs that a container asks Kubernetes for, and how they are handed out.

Resource names: the device plugins of NVIDIA (`nvidia.com/gpu`, `nvidia.com/mig-*`, `.shared` where sharing
renames), AMD, Intel, Habana, Google and AWS; HAMi (`nvidia.com/gpumem`, MiB; `nvidia.com/gpucores`); Aliyun
(`aliyun.com/gpu-mem`, GiB); Volcano (`volcano.sh/vgpu-*`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from preop.deployment.gpus import Vendor
from preop.deployment.kubernetes.manifest import at, entries, items, text, whole
from preop.deployment.types import GpuRequest
from preop.deployment.yaml_nodes import Map, Node
from preop.facts import Fact, known, unknown

__all__ = ["Devices", "devices_of", "gpu_of_node"]

_WHOLE: dict[str, Vendor] = {
    "nvidia.com/gpu": "nvidia",
    "amd.com/gpu": "amd",
    "gpu.intel.com/i915": "intel",
    "gpu.intel.com/xe": "intel",
    "habana.ai/gaudi": "habana",
    "google.com/tpu": "google",
    "aws.amazon.com/neuron": "unknown",
    "aws.amazon.com/neuroncore": "unknown",
    "huawei.com/Ascend910": "unknown",
    "huawei.com/ascend-1980": "unknown",
}
_MIG = re.compile(r"nvidia\.com/mig-[\w.+-]+")
_SHARED = re.compile(r"nvidia\.com/(gpu|mig-[\w.+-]+)\.shared")
_MEMORY_MIB = {"nvidia.com/gpumem": 1, "volcano.sh/vgpu-memory": 1, "aliyun.com/gpu-mem": 1024}
_FRACTION = frozenset(
    {
        *_MEMORY_MIB,
        *("nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "volcano.sh/vgpu-cores"),
        *("aliyun.com/gpu-core.percentage", "tencent.com/vcuda-core", "tencent.com/vcuda-memory"),
    }
)
_COUNTS: dict[str, Vendor] = {"volcano.sh/vgpu-number": "nvidia", "aliyun.com/gpu-count": "nvidia"}
_PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "amd.com/gpu.product-name",
    "gpu.nvidia.com/class",
    "gpu.nvidia.com/model",
)


@dataclass(frozen=True)
class Devices:
    """What a container asks for: none where `request` is None."""

    request: GpuRequest | None = None
    facts: dict[str, Fact] = field(default_factory=dict)


def devices_of(resources: Node | None) -> Devices:
    """The devices in `resources` of a container: limits first, which for devices equal the requests."""
    found: dict[str, Node] = {}
    for part in ("requests", "limits"):
        found.update(entries(at(resources, part)))
    request: GpuRequest | None = None
    facts: dict[str, Fact] = {}
    for name, node in found.items():
        count = whole(node)
        vendor = _WHOLE.get(name) or _COUNTS.get(name)
        how = "whole" if name in _WHOLE else "mig" if _MIG.fullmatch(name) else None
        if _SHARED.fullmatch(name):
            vendor, how = "nvidia", "shared"
        elif how == "mig":
            vendor = "nvidia"
        if vendor is None or count == 0:
            continue
        request = GpuRequest(vendor, None if how == "mig" else count, None, node.origin)
        if how == "mig":
            why = f"{count} MIG slices, and no whole GPU"
            facts["gpu_count"] = unknown(why, origin=node.origin, unit="GPUs")
        if how is not None and vendor != "unknown":
            facts["gpu_allocation"] = known(how, "user", node.origin, note=f"by the resource {name}")
    for name, node in found.items():
        if name not in _FRACTION:
            continue
        if request is None:
            request = GpuRequest("nvidia", 1, None, node.origin)
        facts["gpu_allocation"] = known("fraction", "user", node.origin, note=f"by the resource {name}")
        amount = whole(node)
        if name in _MEMORY_MIB and amount:
            mib = amount * _MEMORY_MIB[name]
            facts["gpu_memory_limit_mib"] = known(mib, "user", node.origin, unit="MiB")
    claims = items(at(resources, "claims"))
    if request is None and claims:
        request = GpuRequest("unknown", None, None, claims[0].origin)
        why = "a resource claim asks for a device that cannot be seen here"
        facts["gpu_count"] = unknown(why, origin=claims[0].origin, unit="GPUs")
    return Devices(request, facts)


def gpu_of_node(pod: Map) -> Fact | None:
    """The GPU that the pod's node must have: by a label in `nodeSelector`, or one required by an affinity."""
    from preop.errors import InputError
    from preop.models.gpus import find_gpu

    for node in _wanted(pod):
        name = text(node)
        if name is None:
            continue
        try:
            gpu = find_gpu(name.removesuffix("-SHARED").replace("-", " ").replace("_", " "))
        except InputError:  # a family, whose members differ in memory
            continue
        if gpu is not None:
            return known(gpu.name, "user", node.origin, note="the node's label")
    return None


def _wanted(pod: Map) -> Iterator[Node]:
    """The values of the labels that name a GPU."""
    selector = at(pod, "nodeSelector")
    for label in _PRODUCT_LABELS:
        value = at(selector, label)
        if value is not None:
            yield value
    required = at(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in items(at(required, "nodeSelectorTerms")):
        for expression in items(at(term, "matchExpressions")):
            values = items(at(expression, "values"))
            is_in = text(at(expression, "operator")) == "In"
            if text(at(expression, "key")) in _PRODUCT_LABELS and is_in and len(values) == 1:
                yield values[0]
