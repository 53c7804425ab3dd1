"""Pods, and the workloads with a pod template: Deployment, StatefulSet, DaemonSet, Job, CronJob, ..."""

from __future__ import annotations

from collections.abc import Mapping

from preop.deployment.kubernetes.autoscalers import autoscaler_of
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, text, whole
from preop.deployment.kubernetes.pod import read_pod
from preop.deployment.yaml_nodes import Map, Node
from preop.facts import Fact, Origin, known, unknown

__all__ = ["CRON_JOB", "JOB", "POD", "TEMPLATED", "replicas_of"]


_ONE = known(1, "default", Origin("default", "Kubernetes API: 1 where it is not given"))
"""`replicas` of the workloads, `parallelism` of a Job (API reference of apps/v1 and batch/v1)."""


def replicas_of(node: Node | None, default: Fact | None = None) -> dict[str, Fact]:
    """`replicas` as a fact; where it is not given, `default` if there is one."""
    if node is None:
        return {} if default is None else {"replicas": default}
    count = whole(node)
    if count is None:
        return {"replicas": unknown(f"replicas is {text(node)!r}, no number", origin=node.origin)}
    return {"replicas": known(count, "user", node.origin)}


def template_of(owner: Manifest, template: Node | None) -> Map:
    """The pod of a template; an empty one where there is none: a patch, and no workload."""
    pod = at(template, "spec")
    return pod if isinstance(pod, Map) else Map(owner.file.name, owner.node.line, owner.node.column, {})


def _pod(owner: Manifest, resources: Resources) -> Workload:
    return Workload(read_pod(owner.spec, owner, resources, name=owner.name, facts={}))


def _templated(owner: Manifest, resources: Resources) -> Workload | Parked:
    count = _rollout_replicas(owner, resources) or at(owner.spec, "replicas")
    facts: Mapping[str, Fact] = {} if owner.kind == "DaemonSet" else replicas_of(count, _ONE)
    scaler = autoscaler_of(owner, resources)
    is_started = scaler is not None and scaler.kind == "ScaledObject"  # an HPA leaves 0 replicas alone
    if count is not None and whole(count) == 0 and not is_started:
        return Parked("it has 0 replicas", count.where)
    if _is_paused(owner):
        return Parked("it is stopped by its annotation", owner.node.where)
    pod = template_of(owner, at(owner.spec, "template"))
    return Workload(read_pod(pod, owner, resources, name=owner.name, facts=facts))


def _rollout_replicas(owner: Manifest, resources: Resources) -> Node | None:
    """Those of the Argo Rollout that runs this workload in its place (`workloadRef`), itself at 0."""
    for rollout in resources.of_kind("Rollout"):
        reference = at(rollout.spec, "workloadRef")
        named = text(at(reference, "kind")), text(at(reference, "name"))
        if named == (owner.kind, owner.name) and rollout.namespace == owner.namespace:
            return at(rollout.spec, "replicas")
    return None


def _is_paused(owner: Manifest) -> bool:
    """KEDA's annotation that holds its target at 0 replicas."""
    note = at(owner.node, "metadata", "annotations", "autoscaling.keda.sh/paused-replicas")
    return whole(note) == 0


def _job(owner: Manifest, resources: Resources) -> Workload | Parked:
    suspended = at(owner.spec, "suspend")
    if suspended is not None and text(suspended) in ("true", "True"):
        return Parked("it is suspended", suspended.where)
    count = at(owner.spec, "parallelism")
    if count is not None and whole(count) == 0:
        return Parked("its parallelism is 0", count.where)
    pod = template_of(owner, at(owner.spec, "template"))
    return Workload(read_pod(pod, owner, resources, name=owner.name, facts=replicas_of(count, _ONE)))


def _cron_job(owner: Manifest, resources: Resources) -> Workload | Parked:
    suspended = at(owner.spec, "suspend")
    if suspended is not None and text(suspended) in ("true", "True"):
        return Parked("it is suspended", suspended.where)
    pod = template_of(owner, at(owner.spec, "jobTemplate", "spec", "template"))
    return Workload(read_pod(pod, owner, resources, name=owner.name, facts={}))


POD, TEMPLATED, JOB, CRON_JOB = _pod, _templated, _job, _cron_job
