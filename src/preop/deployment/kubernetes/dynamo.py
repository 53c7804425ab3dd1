"""Dynamo's graphs: components of which the workers start an engine.

Source: the Dynamo operator's API. v1alpha1 has `services` by name with `extraPodSpec.mainContainer`,
`resources.limits.gpu` and `subComponentType`; v1beta1 has a list of `components` with `podTemplate` and
`type`. The devices of a multinode component are those of each of its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    components = list(_components(owner))
    # `decode` is also the type of a worker that does both: a graph is split where it has prefill too
    is_split = any(text(_role(each)) == "prefill" for _, each in components)
    for name, component in components:
        count = at(component, "replicas")
        if whole(count) == 0:
            why = f"{owner.name}: {name} does not run: it has 0 replicas"
            notes.append(Note("other", why, component.where))
            continue
        started += _component(owner, resources, component, f"{owner.name}-{name}", is_split=is_split)
    if notes and not started:
        return Parked("; ".join(note.message for note in notes), owner.node.where)
    return Workload(started, tuple(notes))


def _single(owner: Manifest, resources: Resources) -> Workload | Parked:
    count = at(owner.spec, "replicas")
    if count is not None and whole(count) == 0:
        return Parked("it has 0 replicas", count.where)
    return Workload(_component(owner, resources, owner.spec, owner.name, is_split=False))


def _components(owner: Manifest) -> Iterator[tuple[str, Node]]:
    yield from entries(at(owner.spec, "services"))
    for number, component in enumerate(items(at(owner.spec, "components")), start=1):
        yield text(at(component, "name")) or f"component {number}", component


def _component(
    owner: Manifest, resources: Resources, component: Node, name: str, *, is_split: bool
) -> list[Started]:
    if {text(at(component, key)) for key in ("componentType", "type")} & _NO_ENGINES:
        return []
    facts: dict[str, Fact] = dict(replicas_of(at(component, "replicas")))
    role = _role(component)
    if role is not None and is_split:
        facts["role"] = known(text(role), "user", role.origin)
    pod = _pod(owner, component, name)
    if pod is None:
        return []
    return read_pod(pod, owner, resources, name=name, facts=facts)


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


def _role(component: Node) -> Node | None:
    """What the component's type says, where it is a role."""
    for key in ("subComponentType", "type"):
        node = at(component, key)
        if node is not None and text(node) in _ROLES:
            return node
    return None


DYNAMO_GRAPH, DYNAMO_COMPONENT = _graph, _single
