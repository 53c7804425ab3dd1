"""KServe InferenceService: a predictor with a model and a runtime, or with containers of its own.

Source: pkg/controller/v1beta1/inferenceservice of kserve: the runtime's container is merged with the model's,
of which the arguments are appended (`MergeRuntimeContainers`); `{{.Name}}` and its like in them are the
service's own metadata; the storage initializer puts the model at /mnt/models. Of the runtimes that KServe
ships, that for the format huggingface runs `python -m huggingfaceserver` and that for vLLM vLLM's own server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from preop.deployment.forms.types import Started
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
from preop.deployment.kubernetes.merge import merged
from preop.deployment.kubernetes.model_uri import MOUNTED, with_model
from preop.deployment.kubernetes.placeholders import filled, metadata, unseen
from preop.deployment.kubernetes.pod import Extra, read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, Node, mapping, scalar, seq
from preop.facts import Fact, Note, known

__all__ = ["INFERENCE_SERVICE"]

_OWN = frozenset(
    {"modelFormat", "runtime", "storageUri", "storage", "protocolVersion", "runtimeVersion", "modelVersion"}
)
# By format: the server of the runtime that KServe ships for it, and the names of such runtimes.
_SHIPPED = {
    "huggingface": (("python", "-m", "huggingfaceserver"), "kserve-huggingfaceserver"),
    "vllm": (("python", "-m", "vllm.entrypoints.openai.api_server"), "kserve-vllmserver"),
}
_SIZES = {"tensorParallelSize": "tensor_parallel_size", "pipelineParallelSize": "pipeline_parallel_size"}


def _read(owner: Manifest, resources: Resources) -> Workload | Parked:
    stopped = at(owner.node, "metadata", "annotations", "serving.kserve.io/stop")
    if stopped is not None and text(stopped) == "true":
        return Parked("it is stopped by its annotation", stopped.where)
    predictor = at(owner.spec, "predictor")
    if not isinstance(predictor, Map):
        return Workload(())
    facts: dict[str, Fact] = dict(replicas_of(at(predictor, "minReplicas")))
    notes: list[Note] = []
    if whole(at(predictor, "minReplicas")) == 0:
        facts.pop("replicas", None)
        notes.append(Note("other", f"{owner.name} scales to zero: its first request waits for a start"))
    model = at(predictor, "model")
    if not isinstance(model, Map):
        model = _of_framework(predictor)
    if model is None:
        found = read_pod(predictor, owner, resources, name=owner.name, facts=facts)
        return Workload(found, tuple(notes))
    for key, name in _SIZES.items():
        size = at(predictor, "workerSpec", key)
        number = whole(size)
        if size is not None and number is not None:
            facts[name] = known(number, "user", size.origin)
    started, said = _model(owner, resources, predictor, model, facts)
    return Workload(started, (*notes, *said))


def _of_framework(predictor: Map) -> Map | None:
    """The older way to name a model: by its framework (`predictor.huggingface`, `predictor.triton`)."""
    for name in ("huggingface", "triton", "pytorch"):
        found = at(predictor, name)
        if isinstance(found, Map):
            format_ = mapping({"name": scalar(name, found)}, found)
            return mapping({"modelFormat": format_, **dict(found.items())}, found)
    return None


@dataclass(frozen=True)
class _Served:
    """The container that serves a model, as KServe puts it together."""

    container: Map
    arguments: tuple[Node, ...]
    pod: Node
    """What stands around it."""
    hidden: tuple[str, ...] = ()


def _model(
    owner: Manifest, resources: Resources, predictor: Map, model: Map, facts: dict[str, Fact]
) -> tuple[list[Started], list[Note]]:
    """What a model and its runtime start, and what must be said where that cannot be seen."""
    name, format_ = at(model, "runtime"), (text(at(model, "modelFormat", "name")) or "").lower()
    runtime = _runtime(resources, owner, text(name), format_)
    if runtime is not None:
        served = _by_runtime(runtime, predictor, model, is_chosen=name is None)
    elif format_ in _SHIPPED and (text(name) or _SHIPPED[format_][1]).startswith(_SHIPPED[format_][1]):
        served = _by_shipped(owner, predictor, model, format_)
    else:
        what = f"ServingRuntime {text(name)}" if name is not None else f"a runtime for the format {format_!r}"
        said = f"{owner.kind} {owner.name} is not judged: {what} is not among the files"
        is_llm = format_ in _SHIPPED or name is not None
        return [], [Note("other", said, model.where)] if is_llm else []
    uri, container = at(model, "storageUri"), served.container
    arguments = seq(served.arguments, model) if served.arguments else None
    container = mapping({**dict(container.items()), "args": arguments}, container)
    whole_container = filled(container, lambda path: metadata(owner, path))
    around = dict(served.pod.items()) if isinstance(served.pod, Map) else {}
    held = mapping({**around, "containers": seq([whole_container], container)}, model)
    extra = Extra(unseen(owner), served.hidden)
    started = read_pod(held, owner, resources, name=owner.name, facts=facts, extra=extra)
    return [
        replace(each, commands=[replace(c, tokens=with_model(c.tokens, uri)) for c in each.commands])
        for each in started
    ], []


def _own(model: Map) -> Map:
    return mapping({key: value for key, value in model.items() if key not in _OWN}, model)


def _by_runtime(runtime: Manifest, predictor: Map, model: Map, *, is_chosen: bool) -> _Served:
    """The runtime's container with the model's laid over it, of which the arguments come last."""
    containers = items(at(runtime.spec, "containers"))
    named = (each for each in containers if text(at(each, "name")) == "kserve-container")
    base = next(named, next(iter(containers), None))
    over = _own(model)
    both = merged(base, over)
    pod = merged(mapping({"volumes": at(runtime.spec, "volumes")}, runtime.node), predictor) or predictor
    chosen = f"KServe chooses the runtime; {runtime.name} is the one among the files"
    return _Served(
        both if isinstance(both, Map) else over,
        (*items(at(base, "args")), *items(over.get("args"))),
        pod,
        (chosen,) if is_chosen else (),
    )


def _by_shipped(owner: Manifest, predictor: Map, model: Map, format_: str) -> _Served:
    """As the runtime does that KServe ships for the format."""
    server, shipped = _SHIPPED[format_]
    uri, over = at(model, "storageUri"), _own(model)
    words: list[Node] = [scalar(f"--model_dir={MOUNTED}", uri)] if uri is not None else []
    if format_ == "vllm":
        words = [scalar("--model", uri or model), scalar(MOUNTED, uri or model)]
        words.append(scalar("--served-model-name={{.Name}}", owner.node))
    command = over.get("command") or seq((scalar(word, model) for word in server), model)
    return _Served(
        mapping({**dict(over.items()), "command": command}, model),
        (*words, *items(over.get("args"))),
        predictor,
        (f"the runtime {shipped} is not among the files: it may pass more, and states the version",),
    )


def _runtime(resources: Resources, owner: Manifest, name: str | None, format_: str) -> Manifest | None:
    """The runtime of that name; without one the only one among the files that takes the format by itself."""
    if name is not None:
        own = resources.find("ServingRuntime", name, owner.namespace)
        return own or resources.find("ClusterServingRuntime", name, None)
    found = []
    for each in resources.of_kind("ServingRuntime", "ClusterServingRuntime"):
        for supported in items(at(each.spec, "supportedModelFormats")):
            is_format = (text(at(supported, "name")) or "").lower() == format_
            is_near = each.kind.startswith("Cluster") or each.namespace in (None, owner.namespace)
            if is_format and is_near and text(at(supported, "autoSelect")) == "true":
                found.append(each)
                break
    return found[0] if len(found) == 1 else None


INFERENCE_SERVICE = _read
