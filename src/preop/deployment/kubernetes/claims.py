"""Dynamic resource allocation: the devices that a container's `resources.claims` ask for.

Source: resource.k8s.io v1 (`exactly`, `firstAvailable`) and v1beta1 (the fields in the request itself):
allocationMode is ExactCount and count 1 by default; `adminAccess` looks at devices that others hold. A pod
that names a ResourceClaim shares it with all others that do; of a template each pod gets its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from preop.deployment.gpus import Vendor
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
from preop.deployment.types import GpuRequest
from preop.deployment.yaml_nodes import Map, Node
from preop.facts import Fact, known, unknown

__all__ = ["claimed"]

_CLASSES: dict[str, tuple[Vendor, str]] = {
    "gpu.nvidia.com": ("nvidia", "whole"),
    "mig.nvidia.com": ("nvidia", "mig"),
    "gpu.amd.com": ("amd", "whole"),
    "gpu.intel.com": ("intel", "whole"),
}


@dataclass(frozen=True)
class _Asked:
    vendor: Vendor
    how: str
    count: int | None
    node: Node


def claimed(
    container: Map, pod: Map, owner: Manifest, resources: Resources
) -> tuple[GpuRequest, dict[str, Fact]] | None:
    """The devices claimed, and how they are handed out; None where the container claims none. What cannot be
    seen (a claim of another file, a device class of the cluster's own) is unknown."""
    claims = items(at(container.get("resources"), "claims"))
    if not claims:
        return None
    asked: list[_Asked] = []
    shared: Fact | None = None
    for claim in claims:
        entry = _entry(pod, text(at(claim, "name")))
        spec = _spec(entry, owner, resources)
        found = [_asked(each) for each in items(at(spec, "devices", "requests")) if _is_meant(claim, each)]
        if not found or None in found:
            return _unseen(claim)
        asked += [each for each in found if each is not None]
        shared = shared or _shared(claim, entry, spec, found[0], pod, owner)
    first = asked[0]
    if any((each.vendor, each.how) != (first.vendor, first.how) for each in asked):
        return _unseen(claims[0])
    counts = [each.count for each in asked]
    count = None if first.how == "mig" or None in counts else sum(each or 0 for each in counts)
    facts: dict[str, Fact] = {}
    if count is None:
        why = "MIG devices, and no whole GPU" if first.how == "mig" else "the claim asks for all that match"
        facts["gpu_count"] = unknown(why, origin=first.node.origin, unit="GPUs")
    own = known(first.how, "user", first.node.origin, note="by a resource claim")
    facts["gpu_allocation"] = shared or own
    return GpuRequest(first.vendor, count, None, first.node.origin), facts


def _unseen(claim: Node) -> tuple[GpuRequest, dict[str, Fact]]:
    why = "a resource claim asks for a device that cannot be seen here"
    count = unknown(why, origin=claim.origin, unit="GPUs")
    return GpuRequest("unknown", None, None, claim.origin), {"gpu_count": count}


def _entry(pod: Map, name: str | None) -> Node | None:
    entries = items(pod.get("resourceClaims"))
    return next((each for each in entries if name is not None and text(at(each, "name")) == name), None)


def _spec(entry: Node | None, owner: Manifest, resources: Resources) -> Node | None:
    for key, kind, path in (
        ("resourceClaimTemplateName", "ResourceClaimTemplate", ("spec", "spec")),
        ("resourceClaimName", "ResourceClaim", ("spec",)),
    ):
        name = text(at(entry, key)) or text(at(entry, "source", key))  # `source` up to v1.30
        target = resources.find(kind, name, owner.namespace) if name is not None else None
        if target is not None and target.group == "resource.k8s.io":
            return at(target.node, *path)
    return None


def _is_meant(claim: Node, request: Node) -> bool:
    wanted = text(at(claim, "request"))
    return wanted is None or wanted.partition("/")[0] == text(at(request, "name"))


def _asked(request: Node) -> _Asked | None:
    """None: which device it is cannot be told."""
    told = at(request, "exactly") or request
    kind = _CLASSES.get(text(at(told, "deviceClassName")) or "")
    if kind is None:
        return None
    count = at(told, "count")
    is_all = text(at(told, "allocationMode")) == "All"
    number = None if is_all else 1 if count is None else whole(count)
    how = "shared" if (text(at(told, "adminAccess")) or "").lower() == "true" else kind[1]
    return _Asked(kind[0], how, number, told)


def _shared(
    claim: Node, entry: Node | None, spec: Node | None, asked: _Asked | None, pod: Map, owner: Manifest
) -> Fact | None:
    """That others hold the device too, or may; None where it is the container's own."""
    if asked is not None and asked.how == "shared":
        return known("shared", "user", asked.node.origin, note="adminAccess: others hold the device too")
    for config in items(at(spec, "devices", "config")):
        strategy = at(config, "opaque", "parameters", "sharing", "strategy")
        if strategy is not None:
            return known("shared", "user", strategy.origin, note=f"the claim's sharing: {text(strategy)}")
    name = text(at(claim, "name"))
    users = [
        each
        for container in items(pod.get("containers"))
        for each in items(at(container, "resources", "claims"))
        if text(at(each, "name")) == name
        and (None in (_request_of(each), _request_of(claim)) or _request_of(each) == _request_of(claim))
    ]
    if len(users) > 1:
        return known("shared", "user", claim.origin, note="several containers of the pod use the claim")
    named = at(entry, "resourceClaimName") or at(entry, "source", "resourceClaimName")
    if named is None:
        return None
    if (whole(at(owner.spec, "replicas")) or 1) > 1:
        why = f"all replicas use the one ResourceClaim {text(named)}"
        return known("shared", "user", named.origin, note=why)
    why = f"ResourceClaim {text(named)} is one for all pods that name it, and they cannot all be seen"
    return unknown(why, origin=named.origin)


def _request_of(claim: Node) -> str | None:
    """The one request of the claim that a container uses; None: all of them."""
    return text(at(claim, "request"))
