"""Dynamo's graphs: components of which the workers start an engine.

Source: the Dynamo operator's API. v1alpha1 has `services` by name with `extraPodSpec.mainContainer`,
`resources.limits.gpu` and `subComponentType`; v1beta1 has a list of `components` with `podTemplate` and
`type`. The devices of a multinode component are those of each of its nodes, and one engine has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from preop.deployment.forms.types import Started
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, entries, items, text, whole
from preop.deployment.kubernetes.pod import read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, Node, mapping, scalar, seq
from preop.facts import Fact, Note, known

__all__ = ["DYNAMO_COMPONENT", "DYNAMO_GRAPH"]

_ROLES = frozenset({"prefill", "decode"})
_NO_ENGINES = frozenset({"frontend", "planner", "epp"})


def _graph(owner: Manifest, resources: Resources) -> Workload | Parked:
    started: list[Started] = []
    notes: list[Note] = []
    for name, component in _components(owner):
        count = at(component, "replicas")
        if whole(count) == 0:
            why = f"{owner.name}: {name} does not run: it has 0 replicas"
            notes.append(Note("other", why, component.where))
            continue
        started += _component(owner, resources, component, f"{owner.name}-{name}")
    if notes and not started:
        return Parked("; ".join(note.message for note in notes), owner.node.where)
    return Workload(started, tuple(notes))


def _single(owner: Manifest, resources: Resources) -> Workload | Parked:
    count = at(owner.spec, "replicas")
    if count is not None and whole(count) == 0:
        return Parked("it has 0 replicas", count.where)
    return Workload(_component(owner, resources, owner.spec, owner.name))


def _components(owner: Manifest) -> Iterator[tuple[str, Node]]:
    yield from entries(at(owner.spec, "services"))
    for number, component in enumerate(items(at(owner.spec, "components")), start=1):
        yield text(at(component, "name")) or f"component {number}", component


def _component(owner: Manifest, resources: Resources, component: Node, name: str) -> list[Started]:
    if {text(at(component, key)) for key in ("componentType", "type")} & _NO_ENGINES:
        return []
    facts: dict[str, Fact] = {**replicas_of(at(component, "replicas")), **_role(component)}
    pod = _pod(owner, component, name)
    if pod is None:
        return []
    found = read_pod(pod, owner, resources, name=name, facts=facts)
    return [_over_nodes(each, at(component, "multinode", "nodeCount")) for each in found]


def _pod(owner: Manifest, component: Node, name: str) -> Map | None:
    """The pod of a component in either version of the API."""
    template = at(component, "podTemplate", "spec")
    environment = [
        *items(at(owner.spec, "env")),
        *items(at(owner.spec, "envs")),
        *items(at(component, "envs")),
    ]
    if isinstance(template, Map):
        containers = [_with(item, environment) for item in items(template.get("containers"))]
        return mapping({**dict(template.items()), "containers": seq(containers, template)}, template)
    extra = at(component, "extraPodSpec")
    main = at(extra, "mainContainer")
    if not isinstance(main, Map) or not isinstance(extra, Map):
        return None
    secret = at(component, "envFromSecret")
    sources = [*items(main.get("envFrom"))]
    if secret is not None:
        sources.append(mapping({"secretRef": mapping({"name": secret}, secret)}, secret))
    added: dict[str, Node | None] = {
        "name": scalar(name, component),
        **dict(main.items()),
        "envFrom": seq(sources, main) if sources else None,
        "resources": _devices(component) or main.get("resources"),
    }
    made = _with(mapping(added, main), environment)
    others = items(extra.get("containers"))
    kept = {key: node for key, node in extra.items() if key != "mainContainer"}
    return mapping({**kept, "containers": seq([made, *others], extra)}, extra)


def _with(container: Node, environment: list[Node]) -> Node:
    """The container with the graph's variables before its own, which win."""
    if not isinstance(container, Map) or not environment:
        return container
    both = [*environment, *items(container.get("env"))]
    return mapping({**dict(container.items()), "env": seq(both, container)}, container)


def _devices(component: Node) -> Map | None:
    """`gpu` of v1alpha1, a count of NVIDIA's unless `gpuType` names the resource."""
    for part in ("limits", "requests"):
        told = at(component, "resources", part)
        count = at(told, "gpu")
        if count is not None:
            kind = text(at(told, "gpuType")) or "nvidia.com/gpu"
            return mapping({"limits": mapping({kind: count}, count)}, count)
    return None


def _role(component: Node) -> dict[str, Fact]:
    for key in ("subComponentType", "type"):
        node = at(component, key)
        if node is not None and text(node) in _ROLES:
            return {"role": known(text(node), "user", node.origin)}
    return {}


def _over_nodes(started: Started, nodes: Node | None) -> Started:
    """One engine on several nodes: it has the devices of all of them."""
    count = whole(nodes)
    if count is None or count < 2:
        return started
    commands = []
    for each in started.commands:
        gpus = each.gpus
        if gpus is not None and gpus.count is not None:
            gpus = msgspec.structs.replace(gpus, count=gpus.count * count)
        commands.append(replace(each, gpus=gpus))
    return replace(started, commands=commands)


DYNAMO_GRAPH, DYNAMO_COMPONENT = _graph, _single
