"""KServe InferenceService: a predictor with a model and a runtime, or with containers of its own.

Source: pkg/controller/v1beta1/inferenceservice of kserve: the runtime's container is merged with the model's,
of which the arguments are appended (`MergeRuntimeContainers`); `{{.Name}}` in them is the service's name; the
storage initializer puts the model at /mnt/models. The runtime that KServe ships for the format huggingface
runs `python -m huggingfaceserver`, which hands its engine arguments to vLLM unless `--backend=huggingface`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from preop.deployment.forms.types import Started
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
from preop.deployment.kubernetes.merge import merged
from preop.deployment.kubernetes.model_uri import hub_id, with_model
from preop.deployment.kubernetes.pod import Extra, read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, Node, Scalar, mapping, scalar, seq
from preop.facts import Fact, Note, known

__all__ = ["INFERENCE_SERVICE"]

_OWN = ("modelFormat", "runtime", "storageUri", "storage", "protocolVersion", "runtimeVersion")
_SERVERS = "huggingfaceserver"
# Arguments of huggingfaceserver itself; all others are vLLM's.
_SERVER_FLAGS = frozenset(
    {"--model_name", "--model_id", "--model_dir", "--backend", "--http_port", "--grpc_port", "--workers"}
    | {
        "--task",
        "--return_token_type_ids",
        "--return_probabilities",
        "--disable_lower_case",
        "--tensor_input_names",
    }
)
_CLUSTERS = "ServingRuntime {} is not among the files: it may pass flags that cannot be seen"


def _read(owner: Manifest, resources: Resources) -> Workload | Parked:
    stopped = at(owner.node, "metadata", "annotations", "serving.kserve.io/stop")
    if stopped is not None and text(stopped) == "true":
        return Parked("it is stopped by its annotation", stopped.where)
    predictor = at(owner.spec, "predictor")
    if not isinstance(predictor, Map):
        return Workload(())
    facts: dict[str, Fact] = dict(replicas_of(at(predictor, "minReplicas")))
    notes: tuple[Note, ...] = ()
    if whole(at(predictor, "minReplicas")) == 0:
        facts.pop("replicas", None)
        notes = (Note("other", f"{owner.name} scales to zero: its first request waits for a start"),)
    model = at(predictor, "model")
    if not isinstance(model, Map):
        model = _of_framework(predictor)
    if model is None:
        return Workload(read_pod(predictor, owner, resources, name=owner.name, facts=facts), notes)
    started = _model(owner, resources, predictor, model, facts)
    worker = at(predictor, "workerSpec")
    if isinstance(worker, Map):
        for name in ("tensorParallelSize", "pipelineParallelSize"):
            size = at(worker, name)
            number = whole(size)
            key = "tensor_parallel_size" if name.startswith("t") else "pipeline_parallel_size"
            if size is not None and number is not None:
                facts[key] = known(number, "user", size.origin)
        started = [replace(each, facts={**each.facts, **facts}) for each in started]
    return Workload(started, notes)


def _of_framework(predictor: Map) -> Map | None:
    """The older way to name a model: by its framework (`predictor.huggingface`, `predictor.triton`)."""
    found = next(
        (at(predictor, name) for name in ("huggingface", "triton", "pytorch") if at(predictor, name)), None
    )
    return found if isinstance(found, Map) else None


def _model(
    owner: Manifest, resources: Resources, predictor: Map, model: Map, facts: dict[str, Fact]
) -> list[Started]:
    uri = at(model, "storageUri")
    container = mapping({key: value for key, value in model.items() if key not in _OWN}, model)
    name = text(at(model, "runtime"))
    runtime = _runtime(resources, owner, name)
    format_ = text(at(model, "modelFormat", "name"))
    if runtime is None:
        if format_ == "huggingface":
            own = _named_arguments(owner, items(container.get("args")))
            return [_huggingface(owner, predictor, container, own, uri, facts, name, resources)]
        why = _CLUSTERS.format(name or f"for the format {format_}")
        return _pod(owner, resources, predictor, container, uri, facts, Extra(hidden=(why,)))
    base = next(iter(items(at(runtime.spec, "containers"))), None)
    both = merged(base, container)
    assert isinstance(both, Map)
    arguments = [*items(at(base, "args")), *items(container.get("args"))]
    named = seq(_named_arguments(owner, arguments), model)
    both = mapping({**dict(both.items()), "args": named if arguments else None}, model)
    if _SERVERS in (text(at(both, "image")) or ""):
        return [_huggingface(owner, predictor, both, list(named.items), uri, facts, None, resources)]
    whole_pod = merged(mapping({"volumes": at(runtime.spec, "volumes")}, runtime.node), predictor)
    pod = whole_pod if isinstance(whole_pod, Map) else predictor
    return _pod(owner, resources, pod, both, uri, facts, Extra())


def _runtime(resources: Resources, owner: Manifest, name: str | None) -> Manifest | None:
    if name is None:
        return None
    return resources.find("ServingRuntime", name, owner.namespace) or resources.find(
        "ClusterServingRuntime", name, None
    )


def _pod(
    owner: Manifest,
    resources: Resources,
    pod: Map,
    container: Map,
    uri: Node | None,
    facts: dict[str, Fact],
    extra: Extra,
) -> list[Started]:
    held = mapping({**dict(pod.items()), "containers": seq([container], container)}, pod)
    started = read_pod(held, owner, resources, name=owner.name, facts=facts, extra=extra)
    return [
        replace(each, commands=[replace(c, tokens=with_model(c.tokens, uri)) for c in each.commands])
        for each in started
    ]


def _named_arguments(owner: Manifest, arguments: tuple[Node, ...] | list[Node]) -> list[Node]:
    return [
        scalar(node.text.replace("{{.Name}}", owner.name).replace("{{ .Name }}", owner.name), node)
        if isinstance(node, Scalar)
        else node
        for node in arguments
    ]


def _huggingface(
    owner: Manifest,
    predictor: Map,
    container: Map,
    arguments: list[Node],
    uri: Node | None,
    facts: dict[str, Fact],
    runtime: str | None,
    resources: Resources,
) -> Started:
    """huggingfaceserver as the vLLM that it starts: its own arguments taken out, the engine's left."""
    own, rest = _split(arguments)
    model = own.get("--model_id") or hub_id(uri) or own.get("--model_dir") or uri
    words: list[Node] = [scalar("vllm", container), scalar("serve", container)]
    words += [model] if model is not None else []
    served = own.get("--model_name")
    words += [scalar("--served-model-name", served), served] if served is not None else []
    hidden = ["KServe's huggingfaceserver decides which engine serves, and its version is not stated"]
    if text(own.get("--backend")) == "huggingface":
        words = [scalar("huggingfaceserver", container)]
    made = mapping(
        {**dict(container.items()), "command": seq([*words, *rest], container), "args": None}, container
    )
    extra = Extra(hidden=tuple(hidden))
    (started,) = _pod(owner, resources, predictor, made, uri, facts, extra)[-1:]
    return started


def _split(arguments: list[Node]) -> tuple[dict[str, Scalar], list[Node]]:
    own: dict[str, Scalar] = {}
    rest: list[Node] = []
    waiting: Iterator[Node] = iter(arguments)
    for node in waiting:
        if not isinstance(node, Scalar):
            continue
        flag, equals, value = node.text.partition("=")
        name = "--" + flag.lstrip("-").replace("-", "_")
        if name not in _SERVER_FLAGS:
            rest.append(node)
        elif equals:
            own[name] = scalar(value, node)
        else:
            following = next(waiting, None)
            if isinstance(following, Scalar):
                own[name] = following
    return own, rest


INFERENCE_SERVICE = _read
