"""Values of the vLLM production-stack chart.

The command is the one that the chart's own templates write (helm/templates/deployment-vllm-multi.yaml, and
ray-cluster.yaml for a model with `raySpec`, of vllm-project/production-stack): the flags of `vllmConfig` in
the template's order, then `extraArgs`, of which the last wins; `--no-enable-prefix-caching` wherever a
`vllmConfig` does not switch it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, entries, items, text, whole
from preop.deployment.kubernetes.pod import read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, Node, Scalar, mapping, scalar, seq
from preop.errors import InputError
from preop.facts import Note

__all__ = ["HELM_VALUES"]

# In the order of the template: key of vllmConfig, flag as it writes it.
_FLAGS = (
    ("maxModelLen", "--max-model-len"),
    ("dtype", "--dtype"),
    ("tensorParallelSize", "--tensor-parallel-size"),
    ("maxNumSeqs", "--max-num-seqs"),
    ("gpuMemoryUtilization", "--gpu_memory_utilization"),
    ("maxLoras", "--max_loras"),
    ("runner", "--runner"),
    ("convert", "--convert"),
)
_RAY_FLAGS = (("pipelineParallelSize", "--pipeline-parallel-size"),)
_DEVICES = (
    ("GPUMem", "nvidia.com/gpumem"),
    ("GPUMemPercentage", "nvidia.com/gpumem-percentage"),
    ("GPUCores", "nvidia.com/gpucores"),
)
_CONFIG_KEYS = frozenset(
    {
        *(key for key, _ in (*_FLAGS, *_RAY_FLAGS)),
        *("enableChunkedPrefill", "enablePrefixCaching", "extraArgs", "v0", "v1", "prometheusMultiprocDir"),
    }
)


def _reads(file: File) -> bool:
    if "servingEngineSpec" not in file.text:
        return False
    try:
        return any("servingEngineSpec" in each.entries for each in file.mappings)
    except InputError:
        return False


def _read(file: File, context: Context) -> Reading:
    values = next(each for each in file.mappings if "servingEngineSpec" in each.entries)
    spec = at(values, "servingEngineSpec")
    started: list[Started] = []
    once: list[Note] = []
    for model in items(at(spec, "modelSpec")):
        if not isinstance(model, Map):
            raise InputError(f"{model.where}: an entry of modelSpec: expected a mapping")
        name = text(model.get("name")) or "model"
        why = _parked(model, at(spec, "enableEngine"))
        if why is not None:
            once.append(Note("other", f"model {name} does not run: {why}", model.where))
            continue
        started += _model(file, model, spec, name)
        once += _left_out(model, name)
    said = "; ".join(note.message for note in once)
    return Reading(started, (), once, f"nothing to judge: {said or 'modelSpec is empty'}")


def _parked(model: Map, enabled: Node | None) -> str | None:
    if text(enabled) == "false":
        return "enableEngine is false"
    if text(model.get("enabled")) == "false":
        return "it is not enabled"
    is_scaled = _true(at(model, "keda", "enabled"))
    return "it has 0 replicas" if whole(model.get("replicaCount")) == 0 and not is_scaled else None


def _left_out(model: Map, name: str) -> Iterator[Note]:
    """Keys of vllmConfig that the chart makes nothing of."""
    for key, node in entries(model.get("vllmConfig")):
        if key not in _CONFIG_KEYS:
            near = get_close_matches(key, _CONFIG_KEYS, 1)
            what = f"model {name}: vllmConfig.{key[:60]} is no key of the chart, which writes no flag for it"
            yield Note("other", what, node.where, near[0] if near else "extraArgs takes any flag")


def _model(file: File, model: Map, spec: Node | None, name: str) -> list[Started]:
    url, repository, tag = (model.get(key) for key in ("modelURL", "repository", "tag"))
    if not isinstance(url, Scalar) or url.is_null:
        raise InputError(f"{model.where}: model {name}: modelURL is missing; the chart needs it")
    image = None
    if isinstance(repository, Scalar) and isinstance(tag, Scalar):
        image = scalar(f"{repository.text}:{tag.text}", tag)
    is_ray = _true(at(model, "raySpec", "enabled"))
    container = mapping(
        {
            "name": scalar("vllm", model),
            "image": image,
            "command": seq(_command(model, url, is_ray), model),
            "env": seq(_environment(model, spec), model),
            "envFrom": seq(_references(model), model),
            "resources": _resources(model, is_ray),
        },
        model,
    )
    pod = mapping({"containers": seq([container], model), "affinity": _affinity(model)}, model)
    owner = Manifest(file, model, "", "model", name, None)
    is_scaled = _true(at(model, "keda", "enabled"))
    facts = replicas_of(None if is_ray or is_scaled else at(model, "replicaCount"))
    return read_pod(pod, owner, Resources(()), name=name, facts=facts)


def _affinity(model: Map) -> Node | None:
    """As the chart: `affinity`, else the terms that the node must meet."""
    own, terms = at(model, "affinity"), at(model, "nodeSelectorTerms")
    if (isinstance(own, Map) and own.entries) or terms is None or at(model, "nodeName") is not None:
        return own
    required = mapping({"nodeSelectorTerms": terms}, terms)
    node = mapping({"requiredDuringSchedulingIgnoredDuringExecution": required}, terms)
    return mapping({"nodeAffinity": node}, terms)


def _environment(model: Map, spec: Node | None) -> Iterator[Node]:
    """The chart's `configs`, then the variables of all models, then the model's own, which win."""
    for name, value in entries(at(spec, "configs")):
        yield mapping({"name": scalar(name, value), "value": value}, value)
    yield from items(at(spec, "env"))
    yield from items(model.get("env"))
    old = at(model, "vllmConfig", "v0")
    if old is not None and text(old) == "1":
        yield mapping({"name": scalar("VLLM_USE_V1", old), "value": scalar("0", old)}, old)
    devices = at(model, "lmcacheConfig", "cudaVisibleDevices")
    if devices is not None:
        yield mapping({"name": scalar("CUDA_VISIBLE_DEVICES", devices), "value": devices}, devices)


def _references(model: Map) -> list[Node]:
    secret = at(model, "envFromSecret")
    return [mapping({"secretRef": secret}, secret)] if secret is not None else []


def _command(model: Map, url: Scalar, is_ray: bool) -> Iterator[Node]:
    yield from (scalar("vllm", url), scalar("serve", url), url)
    if is_ray:
        yield from (scalar("--distributed-executor-backend", url), scalar("ray", url))
    for key, flag in (("enableLoRA", "--enable-lora"), ("enableTool", "--enable-auto-tool-choice")):
        node = model.get(key)
        if node is not None and _true(node):
            yield scalar(flag, node)
    parser = at(model, "toolCallParser")
    if parser is not None:
        yield from (scalar("--tool-call-parser", parser), parser)
    config = model.get("vllmConfig")
    if isinstance(config, Map) and config.entries:
        yield from _config(config, is_ray)
    revision = at(model, "modelRevision")
    if revision is not None and _true(revision):
        yield from (scalar("--revision", revision), revision)
    cache = at(model, "lmcacheConfig")
    if cache is not None and _true(at(cache, "enabled")):
        yield from (scalar("--kv-transfer-config", cache), scalar(_transfer(model, cache, is_ray), cache))
    chat = at(model, "chatTemplate")
    if isinstance(chat, Scalar) and chat.text:
        path = chat.text if is_ray else f"/templates/{chat.text}"
        yield from (scalar("--chat-template", chat), scalar(path, chat))


def _config(config: Map, is_ray: bool) -> Iterator[Node]:
    chunked, caching = config.get("enableChunkedPrefill"), config.get("enablePrefixCaching")
    if chunked is not None:
        yield scalar(f"--{'' if _true(chunked) else 'no-'}enable-chunked-prefill", chunked)
    if _true(caching) or not is_ray:
        yield scalar(f"--{'' if _true(caching) else 'no-'}enable-prefix-caching", caching or config)
    for key, flag in (*_FLAGS, *(_RAY_FLAGS if is_ray else ())):
        node = config.get(key)
        if node is not None and not (is_ray and key in ("runner", "convert")):
            yield from (scalar(flag, node), node)
    yield from items(config.get("extraArgs"))


def _transfer(model: Map, cache: Node, is_ray: bool) -> str:
    """The connector's JSON, without what only says where its peer is."""
    role = "kv_both" if is_ray else text(at(cache, "kvRole")) or "kv_both"
    config = at(model, "vllmConfig")
    v1 = text(at(config, "v1")) == "1" if is_ray else text(at(config, "v0")) != "1"
    is_v1 = v1 or (not is_ray and at(cache, "enablePD") is not None)
    return f'{{"kv_connector": "LMCacheConnector{"V1" if is_v1 else ""}", "kv_role": "{role}"}}'


def _true(node: Node | None) -> bool:
    """As a template's `if` takes it: any text but an empty one, false and 0."""
    return (text(node) or "") not in ("", "false", "False", "0")


def _resources(model: Map, is_ray: bool) -> Node | None:
    """The container's; on a Ray cluster those of its head, which starts the engine."""
    place = at(model, "raySpec", "headNode") if is_ray else model
    if not isinstance(place, Map):
        return None
    own = at(place, "resources")
    return own if isinstance(own, Map) and own.entries else mapping({"limits": _devices(place)}, place)


def _devices(model: Map) -> Map:
    found: dict[str, Node | None] = {}
    count = model.get("requestGPU")
    if whole(count):
        found[text(at(model, "requestGPUType")) or "nvidia.com/gpu"] = count
    for key, resource in _DEVICES:
        found[resource] = at(model, f"limit{key}") or at(model, f"request{key}")
    return mapping(found, model)


HELM_VALUES = Form("values of the vLLM production-stack chart", _reads, _read)
