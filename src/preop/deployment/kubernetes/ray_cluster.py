"""RayCluster, whose containers may start an engine, and RayJob, whose entrypoint may.

Source: KubeRay's API reference (ray.io/v1): a cluster has a `headGroupSpec` and `workerGroupSpecs`, each with
a pod template, a group's `replicas` too; `suspend` holds either back. A job's `entrypoint` is a shell text
that runs on the cluster of `rayClusterSpec`, or on another one that `clusterSelector` finds.
"""

from __future__ import annotations

from dataclasses import replace

from preop.deployment.command import Found, read_text_commands
from preop.deployment.forms.types import Started
from preop.deployment.kubernetes.expand import expand
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
from preop.deployment.kubernetes.pod import read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.tokens import Lines, Source
from preop.deployment.yaml_nodes import Map, Node, Scalar

__all__ = ["RAY_CLUSTER", "RAY_JOB"]

_UNSEEN = "the Ray cluster and the job's runtime_env may set variables"


def _cluster(owner: Manifest, resources: Resources) -> Workload | Parked:
    return _suspended(owner) or Workload(_pods(owner, owner.spec, resources))


def _job(owner: Manifest, resources: Resources) -> Workload | Parked:
    parked = _suspended(owner)
    if parked is not None:
        return parked
    cluster = at(owner.spec, "rayClusterSpec")
    started = _pods(owner, cluster, resources)
    entrypoint = at(owner.spec, "entrypoint")
    if isinstance(entrypoint, Scalar) and entrypoint.text.strip():
        started.insert(0, _entrypoint(owner, entrypoint, cluster))
    return Workload(started)


def _suspended(owner: Manifest) -> Parked | None:
    node = at(owner.spec, "suspend")
    is_held = node is not None and (text(node) or "").lower() == "true"
    return Parked("it is suspended", node.where) if node is not None and is_held else None


def _pods(owner: Manifest, cluster: Node | None, resources: Resources) -> list[Started]:
    """The containers of all groups that run. Their GPUs are for what the cluster runs: none is a stranger."""
    found: list[Started] = []
    head = at(cluster, "headGroupSpec", "template", "spec")
    if isinstance(head, Map):
        found += read_pod(head, owner, resources, name=owner.name, facts={})
    for group in items(at(cluster, "workerGroupSpecs")):
        pod, count = at(group, "template", "spec"), at(group, "replicas")
        if isinstance(pod, Map) and not (count is not None and whole(count) == 0):
            name = f"{owner.name}-{text(at(group, 'groupName')) or 'worker'}"
            found += read_pod(pod, owner, resources, name=name, facts=replicas_of(count))
    return [replace(each, otherwise=()) for each in found]


def _entrypoint(owner: Manifest, node: Scalar, cluster: Node | None) -> Started:
    containers = items(at(cluster, "headGroupSpec", "template", "spec", "containers"))
    image = at(containers[0], "image") if containers else None
    outer = Found(
        (),
        image=expand(image, {}) if isinstance(image, Scalar) else None,
        own_entrypoint=True,
        hidden_environment=(_UNSEEN,),
    )
    block = node.raw[:1] in ("|", ">")
    place = Lines(node.text, owner.file.name, node.line + 1 if block else node.line, 1)
    commands = read_text_commands(Source(node.text, place), outer)
    return Started(owner.name, f"{owner.title}: entrypoint", commands)


RAY_CLUSTER, RAY_JOB = _cluster, _job
