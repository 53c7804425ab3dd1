"""KServe InferenceService: a predictor with a model and a runtime, or with containers of its own.

Source: pkg/controller/v1beta1/inferenceservice of kserve: the runtime's container is merged with the model's,
of which the arguments are appended (`MergeRuntimeContainers`); `{{.Name}}` and its like in them are the
service's own metadata; the storage initializer puts the model at /mnt/models. Of the runtimes that KServe
ships, that for the format huggingface runs `python -m huggingfaceserver` and that for vLLM vLLM's own server.
"""

from __future__ import annotations

from dataclasses import replace

from preop.deployment.forms.types import Started
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
from preop.deployment.kubernetes.merge import merged
from preop.deployment.kubernetes.model_uri import MOUNTED, with_model
from preop.deployment.kubernetes.placeholders import filled, metadata, unseen
from preop.deployment.kubernetes.pod import Extra, read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, mapping, scalar, seq
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


def _model(
    owner: Manifest, resources: Resources, predictor: Map, model: Map, facts: dict[str, Fact]
) -> tuple[list[Started], list[Note]]:
    """What a model and its runtime start, and what must be said where that cannot be seen."""
    uri = at(model, "storageUri")
    container = mapping({key: value for key, value in model.items() if key not in _OWN}, model)
    name, format_ = at(model, "runtime"), (text(at(model, "modelFormat", "name")) or "").lower()
    runtime = _runtime(resources, owner, text(name), format_)
    hidden: tuple[str, ...] = ()
    if runtime is not None:
        if name is None:
            hidden = (f"KServe chooses the runtime; {runtime.name} is the one among the files",)
        base = next(iter(items(at(runtime.spec, "containers"))), None)
        both = merged(base, container)
        assert isinstance(both, Map)
        arguments = (*items(at(base, "args")), *items(container.get("args")))
        pod = merged(mapping({"volumes": at(runtime.spec, "volumes")}, runtime.node), predictor)
    elif format_ in _SHIPPED and (text(name) or _SHIPPED[format_][1]).startswith(_SHIPPED[format_][1]):
        server, shipped = _SHIPPED[format_]
        own_model = [scalar(f"--model_dir={MOUNTED}", uri)] if uri is not None else []
        if format_ == "vllm":
            own_model = [scalar("--model", uri or model), scalar(MOUNTED, uri or model)]
            own_model.append(scalar("--served-model-name={{.Name}}", owner.node))
        words = seq((scalar(word, model) for word in server), model)
        both = mapping({**dict(container.items()), "command": container.get("command") or words}, model)
        arguments = (*own_model, *items(container.get("args")))
        hidden = (f"the runtime {shipped} is not among the files: it may pass more, and states the version",)
        pod = predictor
    else:
        what = f"ServingRuntime {text(name)}" if name is not None else f"a runtime for the format {format_!r}"
        said = f"{owner.kind} {owner.name} is not judged: {what} is not among the files"
        is_llm = format_ in _SHIPPED or name is not None
        return [], [Note("other", said, model.where)] if is_llm else []
    both = mapping({**dict(both.items()), "args": seq(arguments, model) if arguments else None}, model)
    whole_container = filled(both, lambda path: metadata(owner, path))
    around = pod if isinstance(pod, Map) else predictor
    held = mapping({**dict(around.items()), "containers": seq([whole_container], both)}, around)
    extra = Extra(unseen(owner), hidden)
    started = read_pod(held, owner, resources, name=owner.name, facts=facts, extra=extra)
    return [
        replace(each, commands=[replace(c, tokens=with_model(c.tokens, uri)) for c in each.commands])
        for each in started
    ], []


def _runtime(resources: Resources, owner: Manifest, name: str | None, format_: str) -> Manifest | None:
    """The runtime of that name; without one the only one among the files that takes the format by itself."""
    if name is not None:
        own = resources.find("ServingRuntime", name, owner.namespace)
        return own or resources.find("ClusterServingRuntime", name, None)
    found = []
    for each in resources.of_kind("ServingRuntime", "ClusterServingRuntime"):
        for supported in items(at(each.spec, "supportedModelFormats")):
            is_format = (text(at(supported, "name")) or "").lower() == format_
            if is_format and text(at(supported, "autoSelect")) == "true":
                found.append(each)
                break
    return found[0] if len(found) == 1 else None


INFERENCE_SERVICE = _read
