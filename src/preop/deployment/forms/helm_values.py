"""Values of the vLLM production-stack chart.

The command is the one that the chart's own template writes (helm/templates/deployment-vllm-multi.yaml of
vllm-project/production-stack): the flags of `vllmConfig` in the template's order, then `extraArgs`, of which
the last wins; `--no-enable-prefix-caching` wherever `enablePrefixCaching` is not true.
"""

from __future__ import annotations

from collections.abc import Iterator

from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
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
_DEVICES = (
    ("GPUMem", "nvidia.com/gpumem"),
    ("GPUMemPercentage", "nvidia.com/gpumem-percentage"),
    ("GPUCores", "nvidia.com/gpucores"),
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
    engines_off = at(spec, "enableEngine")
    for model in items(at(spec, "modelSpec")):
        if not isinstance(model, Map):
            raise InputError(f"{model.where}: an entry of modelSpec: expected a mapping")
        name = text(model.get("name")) or "model"
        why = _parked(model, engines_off)
        if why is not None:
            once.append(Note("other", f"model {name} does not run: {why}", model.where))
            continue
        started += _model(file, model, spec, name)
    said = "; ".join(note.message for note in once)
    return Reading(started, (), once, f"nothing to judge: {said or 'modelSpec is empty'}")


def _parked(model: Map, engines_off: Node | None) -> str | None:
    if text(engines_off) == "false":
        return "enableEngine is false"
    if text(model.get("enabled")) == "false":
        return "it is not enabled"
    return "it has 0 replicas" if whole(model.get("replicaCount")) == 0 else None


def _model(file: File, model: Map, spec: Node | None, name: str) -> list[Started]:
    url, repository, tag = (model.get(key) for key in ("modelURL", "repository", "tag"))
    if not isinstance(url, Scalar):
        raise InputError(f"{model.where}: model {name}: modelURL is missing; the chart needs it")
    image = None
    if isinstance(repository, Scalar) and isinstance(tag, Scalar):
        image = scalar(f"{repository.text}:{tag.text}", tag)
    container = mapping(
        {
            "name": scalar("vllm", model),
            "image": image,
            "command": seq(_command(model, url), model),
            "env": seq((*items(at(spec, "env")), *items(model.get("env"))), model),
            "envFrom": seq(_references(model), model),
            "resources": model.get("resources") or mapping({"limits": _devices(model)}, model),
        },
        model,
    )
    pod = mapping(
        {"containers": seq([container], model), "nodeSelector": model.get("nodeSelectorTerms")}, model
    )
    owner = Manifest(file, model, "", "model", name, None)
    facts = replicas_of(at(model, "replicaCount"))
    return read_pod(pod, owner, Resources(()), name=name, facts=facts)


def _references(model: Map) -> list[Node]:
    secret = model.get("envFromSecret")
    return [mapping({"secretRef": secret}, secret)] if secret is not None else []


def _command(model: Map, url: Scalar) -> Iterator[Node]:
    def word(value: str, like: Node) -> Scalar:
        return scalar(value, like)

    yield from (word("vllm", url), word("serve", url), url)
    for key, flag in (("enableLoRA", "--enable-lora"), ("enableTool", "--enable-auto-tool-choice")):
        node = model.get(key)
        if node is not None and _true(node):
            yield word(flag, node)
    parser = model.get("toolCallParser")
    if parser is not None:
        yield from (word("--tool-call-parser", parser), parser)
    config = model.get("vllmConfig")
    if isinstance(config, Map) and config.entries:
        yield from _config(config)
    for key, flag in (("modelRevision", "--revision"),):
        node = model.get(key)
        if node is not None:
            yield from (word(flag, node), node)
    cache = at(model, "lmcacheConfig")
    enabled = at(cache, "enabled")
    if cache is not None and enabled is not None and _true(enabled):
        role = text(at(cache, "kvRole")) or "kv_both"
        told = f'{{"kv_connector": "LMCacheConnectorV1", "kv_role": "{role}"}}'
        yield from (word("--kv-transfer-config", cache), word(told, cache))
    chat = model.get("chatTemplate")
    if isinstance(chat, Scalar) and not chat.is_null:
        yield from (word("--chat-template", chat), word(f"/templates/{chat.text}", chat))


def _config(config: Map) -> Iterator[Node]:
    chunked, caching = config.get("enableChunkedPrefill"), config.get("enablePrefixCaching")
    if chunked is not None:
        yield scalar(f"--{'' if _true(chunked) else 'no-'}enable-chunked-prefill", chunked)
    is_on = caching is not None and _true(caching)
    yield scalar(f"--{'' if is_on else 'no-'}enable-prefix-caching", caching or config)
    for key, flag in _FLAGS:
        node = config.get(key)
        if node is not None:
            yield from (scalar(flag, node), node)
    yield from items(config.get("extraArgs"))


def _true(node: Node) -> bool:
    """As a template's `if` takes it: any text but an empty one, false and 0."""
    return (text(node) or "") not in ("", "false", "False", "0")


def _devices(model: Map) -> Map:
    found: dict[str, Node | None] = {}
    count = model.get("requestGPU")
    if whole(count):
        found[text(model.get("requestGPUType")) or "nvidia.com/gpu"] = count
    for key, resource in _DEVICES:
        found[resource] = model.get(f"limit{key}") or model.get(f"request{key}")
    return mapping(found, model)


HELM_VALUES = Form("values of the vLLM production-stack chart", _reads, _read)
