"""VLLMRuntime: the object from which production-stack's operator makes a deployment of vLLM.

Source: operator/internal/controller/vllmruntime_controller.go of vllm-project/production-stack: the arguments
in its order, both switches always written, `extraArgs` after the fields.
"""

from __future__ import annotations

from collections.abc import Iterator

from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
from preop.deployment.kubernetes.pod import read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, Node, Scalar, mapping, scalar, seq
from preop.errors import InputError

__all__ = ["VLLM_RUNTIME"]

# Where the field stands, and its flag. Numbers of 0 and empty texts are not passed.
_FLAGS = (
    ("model", "maxModelLen", "--max-model-len"),
    ("model", "dtype", "--dtype"),
    ("vllmConfig", "tensorParallelSize", "--tensor-parallel-size"),
    ("model", "maxNumSeqs", "--max-num-seqs"),
    ("vllmConfig", "gpuMemoryUtilization", "--gpu_memory_utilization"),
    ("vllmConfig", "maxLoras", "--max_loras"),
)
_SWITCHES = (
    ("enableChunkedPrefill", "enable-chunked-prefill"),
    ("enablePrefixCaching", "enable-prefix-caching"),
)


def _read(owner: Manifest, resources: Resources) -> Workload | Parked:
    deployment = at(owner.spec, "deploymentConfig")
    count = at(deployment, "replicas")
    if count is not None and whole(count) == 0:
        return Parked("it has 0 replicas", count.where)
    container = mapping(
        {
            "name": scalar("vllm", owner.node),
            "image": _image(at(deployment, "image")),
            "command": seq(_command(owner), owner.node),
            "env": at(owner.spec, "vllmConfig", "env"),
            "resources": _devices(at(deployment, "resources")),
        },
        owner.node,
    )
    pod = mapping({"containers": seq([container], owner.node)}, owner.node)
    return Workload(read_pod(pod, owner, resources, name=owner.name, facts=replicas_of(count)))


def _command(owner: Manifest) -> Iterator[Node]:
    model, config = at(owner.spec, "model"), at(owner.spec, "vllmConfig")
    url = at(model, "modelURL")
    if not isinstance(url, Scalar):
        raise InputError(f"{owner.node.where}: VLLMRuntime {owner.name}: spec.model.modelURL is missing")
    yield from (scalar("vllm", url), scalar("serve", url), url)
    for key, flag in (("enableLoRA", "--enable-lora"), ("enableTool", "--enable-auto-tool-choice")):
        node = at(model, key)
        if node is not None and text(node) == "true":
            yield scalar(flag, node)
    parser = at(model, "toolCallParser")
    if parser is not None and text(parser):
        yield from (scalar("--tool-call-parser", parser), parser)
    for key, flag in _SWITCHES:
        node = at(config, key)
        is_on = node is not None and text(node) == "true"
        yield scalar(f"--{'' if is_on else 'no-'}{flag}", node or config or owner.node)
    for part, key, flag in _FLAGS:
        node = at(owner.spec, part, key)
        if node is not None and text(node) not in ("", "0"):
            yield from (scalar(flag, node), node)
    yield from items(at(config, "extraArgs"))
    cache = at(owner.spec, "lmCacheConfig", "enabled")
    if cache is not None and text(cache) == "true":
        kind = "LMCacheConnectorV1" if text(at(config, "v1")) == "true" else "LMCacheConnector"
        told = f'{{"kv_connector": "{kind}", "kv_role": "kv_both"}}'
        yield from (scalar("--kv-transfer-config", cache), scalar(told, cache))


def _image(image: Node | None) -> Node | None:
    name, registry = at(image, "name"), text(at(image, "registry"))
    if not isinstance(name, Scalar):
        return None
    return scalar(f"{registry}/{name.text}" if registry else name.text, name)


def _devices(resources: Node | None) -> Map | None:
    count = at(resources, "gpu")
    if count is None:
        return None
    kind = text(at(resources, "gpuType")) or "nvidia.com/gpu"
    return mapping({"limits": mapping({kind: count}, count)}, count)


VLLM_RUNTIME = _read
