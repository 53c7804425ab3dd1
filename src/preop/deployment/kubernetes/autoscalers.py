"""HorizontalPodAutoscaler and KEDA's ScaledObject: how many of their target run, and by which metric.

Sources: autoscaling/v1 and v2 API reference (minReplicas is 1 by default; no metrics means 80 % CPU); KEDA
ScaledObject specification (kind Deployment, minReplicaCount 0, maxReplicaCount 100 by default).
"""

from __future__ import annotations

from collections.abc import Iterator

from preop.deployment.kubernetes.manifest import Manifest, Resources, at, entries, items, text, whole
from preop.deployment.yaml_nodes import Node
from preop.facts import Fact, Origin, known, unknown
from preop.secrets import mask_text

__all__ = ["AUTOSCALERS", "autoscaler_of", "autoscaling_facts"]

AUTOSCALERS = {"HorizontalPodAutoscaler": "autoscaling", "ScaledObject": "keda.sh"}
"""The kinds, and their groups."""
_SOURCES = {"Pods": "pods", "Object": "object", "External": "external"}
_RESOURCES = {"Resource": "resource", "ContainerResource": "containerResource"}
_THRESHOLDS = ("threshold", "targetValue", "value", "targetQueryValue")


def autoscaler_of(owner: Manifest, resources: Resources) -> Manifest | None:
    """The first autoscaler whose target is that object."""
    return next(_autoscalers(owner, resources), None)


def _autoscalers(owner: Manifest, resources: Resources) -> Iterator[Manifest]:
    for each in resources.of_kind(*AUTOSCALERS):
        if each.group != AUTOSCALERS[each.kind]:
            continue
        target = at(each.spec, "scaleTargetRef")
        kind = text(at(target, "kind")) or ("Deployment" if each.kind == "ScaledObject" else None)
        # without a namespace either goes where the rest is put
        near = each.namespace == owner.namespace or None in (each.namespace, owner.namespace)
        if near and (kind, text(at(target, "name"))) == (owner.kind, owner.name):
            yield each


def autoscaling_facts(owner: Manifest, resources: Resources) -> dict[str, Fact]:
    """min_replicas, max_replicas, autoscaler_metric, autoscaler_target, and `replicas`: what runs at least.
    Nothing where no autoscaler names the object; unknown where several do."""
    found = list(_autoscalers(owner, resources))
    if not found:
        return {}
    names = ("replicas", "min_replicas", "max_replicas", "autoscaler_metric", "autoscaler_target")
    if len(found) > 1:
        who = ", ".join(f"{each.kind} {each.name}" for each in found)
        return dict.fromkeys(names, unknown(f"several autoscalers name it: {who}"))
    (scaler,) = found
    is_keda = scaler.kind == "ScaledObject"
    lowest = _bound(scaler, "minReplicaCount" if is_keda else "minReplicas", 0 if is_keda else 1)
    idle = at(scaler.spec, "idleReplicaCount") if is_keda else None
    least = _bound(scaler, "idleReplicaCount", 0) if idle is not None else lowest
    highest = _bound(scaler, "maxReplicaCount" if is_keda else "maxReplicas", 100 if is_keda else None)
    metric, target = _keda(scaler) if is_keda else _horizontal(scaler)
    return dict(zip(names, (least, lowest, highest, metric, target), strict=True))


def _bound(scaler: Manifest, key: str, default: int | None) -> Fact:
    node = at(scaler.spec, key)
    if node is None and default is None:
        return unknown(f"{scaler.kind} {scaler.name} has no {key}", origin=scaler.node.origin)
    if node is None:
        return known(default, "default", Origin("default", f"{scaler.kind}: {key} where it is not given"))
    count = whole(node)
    if count is None:
        return unknown(f"{key} is {text(node)!r}, no number", origin=node.origin)
    return known(count, "user", node.origin, note=f"{scaler.kind} {scaler.name}")


def _horizontal(scaler: Manifest) -> tuple[Fact, Fact]:
    metrics = items(at(scaler.spec, "metrics"))
    share = at(scaler.spec, "targetCPUUtilizationPercentage")
    if not metrics and share is not None:  # autoscaling/v1
        return known("cpu", "user", share.origin), _number(share, "% of the request")
    if not metrics:
        default = Origin("default", "HorizontalPodAutoscaler: 80 % CPU where no metric is given")
        return known("cpu", "default", default), known(80, "default", default, unit="% of the request")
    if len(metrics) > 1:
        return _several(scaler, len(metrics), metrics[0])
    kind = text(at(metrics[0], "type")) or ""
    held = at(metrics[0], _SOURCES.get(kind) or _RESOURCES.get(kind) or "")
    name = at(held, "metric", "name") or at(held, "name") or at(held, "metricName")
    aim = at(held, "target") or held
    values = [
        (key, node)
        for key, node in entries(aim)
        if key in ("averageValue", "value", "averageUtilization")
        or key in ("targetAverageValue", "targetValue", "targetAverageUtilization")
    ]
    if name is None or not values:
        why = unknown(f"the metric of {scaler.kind} {scaler.name} is not read", origin=metrics[0].origin)
        return why, why
    key, node = values[0]
    units = {"averagevalue": "per pod", "averageutilization": "% of the request"}
    unit = units.get(key.removeprefix("target").lower())
    return known(text(name), "user", name.origin), _number(node, unit)


def _keda(scaler: Manifest) -> tuple[Fact, Fact]:
    triggers = items(at(scaler.spec, "triggers"))
    if len(triggers) != 1:
        return _several(scaler, len(triggers), scaler.node)
    (trigger,) = triggers
    held = at(trigger, "metadata")
    named = at(held, "query") or at(held, "metricName") or at(trigger, "type")
    value = next((node for key in _THRESHOLDS if (node := at(held, key)) is not None), None)
    if named is None:
        why = unknown(f"the trigger of ScaledObject {scaler.name} has no type", origin=trigger.origin)
        return why, why
    metric = known(mask_text(text(named) or ""), "user", named.origin)
    if value is None:
        return metric, unknown("the trigger states no threshold that preop knows", origin=trigger.origin)
    # KEDA hands the threshold on as AverageValue unless metricType says otherwise
    is_resource = text(at(trigger, "type")) in ("cpu", "memory")
    older = text(at(held, "type")) if is_resource else None  # where cpu and memory had it at first
    usual = "Utilization" if is_resource else "AverageValue"
    kind = text(at(trigger, "metricType")) or older or usual
    unit = {"AverageValue": "per pod", "Utilization": "% of the request"}.get(kind)
    return metric, _number(value, unit)


def _several(scaler: Manifest, count: int, node: Node) -> tuple[Fact, Fact]:
    why = unknown(f"{scaler.kind} {scaler.name} scales by {count} metrics, not one", origin=node.origin)
    return why, why


def _number(node: Node, unit: str | None) -> Fact:
    """A quantity of Kubernetes as a number where it is one: 5, 0.7, 500m."""
    written = (text(node) or "").strip()
    scale = 1000 if written.endswith("m") else 1
    try:
        value = float(written.removesuffix("m")) / scale
    except ValueError:
        return unknown(f"the target is {written!r}, which is no plain number", origin=node.origin)
    if not 0 <= value < 1e15:
        return unknown(f"the target is {written!r}, no usable number", origin=node.origin)
    return known(int(value) if value.is_integer() else value, "user", node.origin, unit=unit)
