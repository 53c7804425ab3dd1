"""DynamoGraphDeployment: services of a graph; those that are workers start an engine.

Source: the API of the Dynamo operator (nvidia.com/v1alpha1): `extraPodSpec.mainContainer` holds the
container, `resources.limits.gpu` counts GPUs, `subComponentType` says prefill or decode.
"""

from __future__ import annotations

from preop.deployment.forms.types import Started
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, entries, items, text, whole
from preop.deployment.kubernetes.pod import read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, Node, mapping, scalar, seq
from preop.facts import Fact, Note, known

__all__ = ["DYNAMO_GRAPH"]


def _read(owner: Manifest, resources: Resources) -> Workload | Parked:
    started: list[Started] = []
    notes: list[Note] = []
    for name, service in entries(at(owner.spec, "services")):
        count = at(service, "replicas")
        if whole(count) == 0:
            notes.append(
                Note("other", f"{owner.name}: {name} does not run: it has 0 replicas", service.where)
            )
            continue
        facts: dict[str, Fact] = dict(replicas_of(count))
        role = at(service, "subComponentType")
        if role is not None and text(role) in ("prefill", "decode"):
            facts["role"] = known(text(role), "user", role.origin)
        container = at(service, "extraPodSpec", "mainContainer")
        if not isinstance(container, Map):
            continue
        environment = [
            *items(at(owner.spec, "envs")),
            *items(at(service, "envs")),
            *items(container.get("env")),
        ]
        made = mapping(
            {
                "name": scalar(name, service),
                **dict(container.items()),
                "env": seq(environment, service),
                "resources": _devices(service) or container.get("resources"),
            },
            container,
        )
        pod = mapping({"containers": seq([made], service)}, service)
        found = read_pod(pod, owner, resources, name=f"{owner.name}-{name}", facts=facts)
        started += found
    return Workload(started, tuple(notes))


def _devices(service: Node) -> Map | None:
    count = at(service, "resources", "limits", "gpu") or at(service, "resources", "requests", "gpu")
    if count is None:
        return None
    return mapping({"limits": mapping({"nvidia.com/gpu": count}, count)}, count)


DYNAMO_GRAPH = _read
