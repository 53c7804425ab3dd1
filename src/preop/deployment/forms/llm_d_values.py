"""Values of llm-d's modelservice chart: a decode and a prefill part, each with containers.

Source: charts/llm-d-modelservice/templates/_helpers.tpl of llm-d-incubation/llm-d-modelservice: with
`modelCommand: vllmServe` the chart writes `vllm serve MODEL --port ...`, with `imageDefault` `--model MODEL`
for the image's own entrypoint, the sizes of `parallelism` where they are over 1, `--served-model-name`, and
then the container's arguments; without it (`custom`) the command is the container's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
from preop.deployment.kubernetes.pod import Extra, read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, Node, Scalar, mapping, scalar, seq
from preop.errors import InputError
from preop.facts import Note, Origin, known

__all__ = ["LLM_D_VALUES"]

_RESOURCES = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "google": "google.com/tpu",
    "intel-i915": "gpu.intel.com/i915",
    "intel-xe": "gpu.intel.com/xe",
    "intel-gaudi": "habana.ai/gaudi",
}
_NAME = re.compile(r"\{\{-?\s*\.Values\.modelArtifacts\.name\s*-?\}\}")
_SIMULATOR = "llm-d-inference-sim"
_CHART = Origin("default", "the chart's default")


def _reads(file: File) -> bool:
    if "modelArtifacts" not in file.text:
        return False
    try:
        return any(_is_values(each) for each in file.mappings)
    except InputError:
        return False


def _is_values(values: Map) -> bool:
    return "modelArtifacts" in values.entries and bool({"decode", "prefill"} & values.entries.keys())


def _read(file: File, context: Context) -> Reading:
    values = next(each for each in file.mappings if _is_values(each))
    started: list[Started] = []
    once: list[Note] = []
    has_prefill = isinstance(at(values, "prefill"), Map) and _parked(at(values, "prefill"), "prefill") is None
    for role in ("decode", "prefill"):
        part = at(values, role)
        if not isinstance(part, Map):
            continue
        why = _parked(part, role)
        if why is not None:
            once.append(Note("other", f"{role} does not run: {why}", part.where))
            continue
        started += _part(file, values, part, role, has_roles=has_prefill)
    said = "; ".join(note.message for note in once)
    return Reading(started, (), once, f"nothing to judge: {said or 'no container starts an engine'}")


def _parked(part: Node | None, role: str) -> str | None:
    """The chart's own default is 1 replica of decode, and none of prefill."""
    count = at(part, "replicas")
    if text(at(part, "create")) == "false":
        return "create is false"
    if count is None and role == "prefill":
        return "replicas is not stated, and the chart's default is 0"
    return "it has 0 replicas" if whole(count) == 0 else None


def _part(file: File, values: Map, part: Map, role: str, *, has_roles: bool) -> list[Started]:
    containers = [_container(values, part, item) for item in items(part.get("containers"))]
    pod = mapping(
        {
            "containers": seq(containers, part),
            "affinity": _affinity(at(part, "acceleratorTypes")),
            "nodeSelector": at(part, "nodeSelector"),
            "volumes": at(part, "volumes"),
        },
        part,
    )
    count = at(part, "replicas")
    facts = replicas_of(count) if count is not None else {"replicas": known(1, "default", _CHART)}
    if has_roles:
        facts["role"] = known(role, "user", part.origin, note=f"its {role} part")
    owner = Manifest(file, part, "", "part", role, None)
    extra = Extra(hidden=("the chart's own values may set what this file does not say",))
    name = text(at(values, "fullnameOverride")) or text(at(values, "modelArtifacts", "name")) or "model"
    return read_pod(pod, owner, Resources(()), name=f"{name}-{role}", facts=facts, extra=extra)


def _container(values: Map, part: Map, container: Node) -> Node:
    if not isinstance(container, Map):
        return container
    how = text(at(container, "modelCommand")) or "custom"
    own = dict(container.items())
    parallel = at(part, "parallelism")
    made: dict[str, Node | None] = {**own, "resources": _devices(values, part, container)}
    if how in ("vllmServe", "imageDefault"):
        words = [*_arguments(values, parallel, container, how == "imageDefault"), *items(own.get("args"))]
        serve = seq([scalar("vllm", container), scalar("serve", container)], container)
        made |= {"command": serve if how == "vllmServe" else None, "args": seq(words, container)}
    return mapping(made, container)


def _arguments(values: Map, parallel: Node | None, container: Map, is_flag: bool) -> Iterator[Node]:
    model = _model(values)
    if model is not None:
        yield from ([scalar("--model", model)] if is_flag else [])
        yield model
    for key, flag in (("tensor", "--tensor-parallel-size"), ("data", "--data-parallel-size")):
        size = at(parallel, key)
        if size is not None and (whole(size) or 0) > 1:
            yield from (scalar(flag, size), size)
    local = at(parallel, "dataLocal")
    if local is not None and (whole(local) or 0) > 1:
        yield from (scalar("--data-parallel-size-local", local), local)
    name = at(values, "modelArtifacts", "name")
    if name is not None:
        yield from (scalar("--served-model-name", name), name)


def _model(values: Map) -> Scalar | None:
    """What the chart makes of `modelArtifacts.uri`: the id on the hub, or a path below the mount."""
    uri, name = at(values, "modelArtifacts", "uri"), at(values, "modelArtifacts", "name")
    if not isinstance(uri, Scalar):
        return name if isinstance(name, Scalar) else None
    told = _NAME.sub(lambda match: text(name) or match[0], uri.text).replace('"', "")
    scheme, _, rest = told.partition("://")
    if scheme == "hf":
        return scalar(rest, uri)
    if scheme == "pvc+hf":
        return scalar("/".join(rest.split("/")[-2:]), uri)
    if scheme == "pvc":
        folder = text(at(values, "modelArtifacts", "mountPath")) or "/model-cache"
        return scalar(f"{folder}/{rest.partition('/')[2]}", uri)
    raise InputError(f"{uri.where}: modelArtifacts.uri is {told[:60]!r}; expected hf://, pvc:// or pvc+hf://")


def _devices(values: Map, part: Map, container: Map) -> Node | None:
    """The container's own devices, else as many as its parallelism has on one worker."""
    own, parallel = at(container, "resources"), at(part, "parallelism")
    kind = text(_accelerator(values, part, "type")) or "nvidia"
    resource = _RESOURCES.get(kind)
    limits = at(own, "limits")
    is_no_gpu = kind == "cpu" or _SIMULATOR in (text(at(container, "image")) or "")
    if is_no_gpu or resource is None:
        return own
    if text(_accelerator(values, part, "dra")) == "true":
        claim = mapping({"name": scalar(kind, part)}, part)
        return mapping({"limits": limits, "claims": seq([claim], part)}, part)
    if any(at(limits, name) is not None for name in _RESOURCES.values()):
        return own
    tensor, local = at(parallel, "tensor"), at(parallel, "dataLocal") or at(parallel, "data")
    count = (whole(tensor) or 1) * (whole(local) or 1)
    place = tensor or local or container
    both = dict(limits.items()) if isinstance(limits, Map) else {}
    return mapping({"limits": mapping({**both, resource: scalar(str(count), place)}, place)}, place)


def _accelerator(values: Map, part: Map, key: str) -> Node | None:
    """The part's own, else that of all."""
    own = at(part, "accelerator", key)
    return own if own is not None else at(values, "accelerator", key)


def _affinity(types: Node | None) -> Node | None:
    key, values = at(types, "labelKey"), at(types, "labelValues")
    if key is None or values is None:
        return None
    expression = mapping({"key": key, "operator": scalar("In", key), "values": values}, key)
    term = mapping({"matchExpressions": seq([expression], key)}, key)
    required = mapping({"nodeSelectorTerms": seq([term], key)}, key)
    node = mapping({"requiredDuringSchedulingIgnoredDuringExecution": required}, key)
    return mapping({"nodeAffinity": node}, key)


LLM_D_VALUES = Form("values of llm-d's modelservice chart", _reads, _read)
