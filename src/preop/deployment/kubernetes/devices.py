"""The GPUs that a container asks Kubernetes for, and how they are handed out.

Resource names: the device plugins of NVIDIA (`nvidia.com/gpu`, `nvidia.com/mig-*`, `.shared` where sharing
renames), AMD, Intel, Habana, Google and AWS; HAMi (`nvidia.com/gpumem`, MiB; `nvidia.com/gpucores`); Aliyun
(`aliyun.com/gpu-mem`, GiB); Volcano (`volcano.sh/vgpu-*`); Tencent GPU Manager (`tencent.com/vcuda-core`, 100
for a GPU; `tencent.com/vcuda-memory`, 256 MiB each).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from preop.deployment.gpus import Vendor, from_nvidia_variable
from preop.deployment.kubernetes.manifest import at, entries, items, text, whole
from preop.deployment.types import GpuRequest
from preop.deployment.yaml_nodes import Map, Node
from preop.facts import Fact, Word, known, unknown

__all__ = ["Devices", "devices_of", "gpu_of_node", "unasked"]

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
_GKE = {
    "nvidia-h100-80gb": "h100-80gb-sxm",
    "nvidia-h100-mega-80gb": "h100-80gb-sxm",
    "nvidia-a100-80gb": "a100-80gb-sxm",
    "nvidia-tesla-a100": "a100-40gb",
}
"""Labels of GKE's accelerators whose machine types have one variant each (A3 High, A3 Mega, A2 Ultra, A2
Standard in Google Cloud's list of GPU machine types)."""
_MIG = re.compile(r"nvidia\.com/mig-[\w.+-]+")
_SHARED = re.compile(r"nvidia\.com/(gpu|mig-[\w.+-]+)\.shared")
_MEMORY_MIB = {
    **{"nvidia.com/gpumem": 1, "volcano.sh/vgpu-memory": 1},
    **{"aliyun.com/gpu-mem": 1024, "tencent.com/vcuda-memory": 256},
}
_HUNDREDTHS = ("tencent.com/vcuda-core", "tencent.com/qgpu-core", "aliyun.com/gpu-core.percentage")
"""Units of which 100 are one GPU: less is a share, multiples are whole ones."""
_FRACTION = frozenset(
    {
        *_MEMORY_MIB,
        *("nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "volcano.sh/vgpu-cores"),
        *(*_HUNDREDTHS, "tencent.com/qgpu-memory"),
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
    whole_by_units = next((name for name in _HUNDREDTHS if name in found and _gpus(found[name])), None)
    if request is None and whole_by_units is not None:
        node = found[whole_by_units]
        request = GpuRequest("nvidia", _gpus(node), None, node.origin)
        note = f"{text(node)} of {whole_by_units}, 100 for a GPU"
        facts["gpu_allocation"] = known("whole", "user", node.origin, note=note)
        return Devices(request, facts)
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
    return Devices(request, facts)


def _gpus(node: Node) -> int | None:
    """Whole GPUs in hundredths; None where they are a share."""
    units = whole(node)
    return units // 100 if units and units % 100 == 0 else None


def unasked(environment: Mapping[str, Word]) -> Devices:
    """The GPUs that NVIDIA_VISIBLE_DEVICES hands a container which asks Kubernetes for none: the scheduler
    does not count them, so they are shared with whoever was given them (NVIDIA container toolkit)."""
    request = from_nvidia_variable(environment)
    if request is None or request.origin is None:
        return Devices()
    if request.ids is None:
        return Devices(request)
    note = "NVIDIA_VISIBLE_DEVICES without a GPU request: Kubernetes gives the same GPUs to others"
    return Devices(request, {"gpu_allocation": known("shared", "user", request.origin, note=note)})


def gpu_of_node(pod: Map) -> Fact | None:
    """The GPU that the pod's node must have: by a label in `nodeSelector`, or one required by an affinity.

    Unknown where the labels admit more than one model, or a name that preop does not know.
    """
    admitted = _admitted(pod)
    if not admitted:
        return None
    origin = admitted[0].origin
    names = [text(node) or "" for node in admitted]
    models = [_model(name) for name in names]
    if None in models or len(set(models)) > 1:
        listed = " or ".join(dict.fromkeys(names))
        return unknown(f"the node's label ({listed}) does not say which one GPU it is", origin=origin)
    return known(models[0], "user", origin, note="the node's label")


def _model(label: str) -> str | None:
    """The one GPU of the sheet that a label's value names; None for a family, or a name not in the sheet."""
    from preop.errors import InputError
    from preop.models.gpus import find_gpu

    name = _GKE.get(label) or label.removesuffix("-SHARED").replace("-", " ").replace("_", " ")
    try:
        gpu = find_gpu(name)
    except InputError:  # a family, whose members differ in memory
        return None
    return gpu.name if gpu is not None and " or " not in gpu.name else None


def _admitted(pod: Map) -> list[Node]:
    """The values of a label that names a GPU, of which the node has one; none where any GPU may be.

    `nodeSelector` and each expression of a term must hold, so the one that admits the fewest counts; of the
    terms of an affinity one is enough.
    """
    selector = at(pod, "nodeSelector")
    for label in _PRODUCT_LABELS:
        value = at(selector, label)
        if value is not None:
            return [value]
    required = at(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    found: list[Node] = []
    for term in items(at(required, "nodeSelectorTerms")):
        sets = [
            list(items(at(expression, "values")))
            for expression in items(at(term, "matchExpressions"))
            if text(at(expression, "key")) in _PRODUCT_LABELS and text(at(expression, "operator")) == "In"
        ]
        if not sets:
            return []
        fewest = min(sets, key=len)
        found += fewest
    return found
