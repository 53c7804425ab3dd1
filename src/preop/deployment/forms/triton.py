"""Triton model repositories: the `config.pbtxt` of each model, and what stands beside it.

Sources: triton-inference-server/common `model_config.proto`; the parameters of tensorrtllm_backend's
`tensorrt_llm` model; vllm_backend, whose `<version>/model.json` holds vLLM's EngineArgs by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from preop.deployment.command import Found, unwrap
from preop.deployment.environment import read_text
from preop.deployment.forms.arguments import arguments_of
from preop.deployment.forms.pbtxt import Message, Text, read_pbtxt
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.kubernetes.expand import expand
from preop.deployment.tokens import Token, unseen_token
from preop.deployment.types import GpuRequest
from preop.deployment.yaml_nodes import Map, Node, Scalar, load, scalar, to_python
from preop.errors import InputError
from preop.facts import Fact, Note, known, unknown

__all__ = ["TRITON"]

_BACKENDS = {
    "tensorrtllm": "TensorRT-LLM",
    "vllm": "vLLM",
    "onnxruntime": "ONNX Runtime",
    "pytorch": "PyTorch",
    "tensorrt": "TensorRT",
    "python": "Python code of its own",
    "ensemble": "other models in a row",
}
# Parameters of the tensorrt_llm model, the fact that each is, and how its text is read.
_PARAMETERS: dict[str, tuple[str, Callable[[str], Any]]] = {}


def _reads(file: File) -> bool:
    return file.path is not None and file.path.suffix == ".pbtxt"


def _read(file: File, context: Context) -> Reading:
    config = read_pbtxt(file.text, file.name)
    backend = config.text("backend") or config.text("platform")
    name = _name(config, file)
    if backend is None:
        raise InputError(
            f"{file.name}: neither backend nor platform; expected Triton's config.pbtxt of a model"
        )
    if backend.is_hole:
        raise InputError(f"{backend.origin}: backend is the template's {backend.text[:60]}; fill it in first")
    kind = {
        "onnxruntime_onnx": "onnxruntime",
        "pytorch_libtorch": "pytorch",
        "tensorrt_plan": "tensorrt",
    }.get(backend.text, backend.text)
    if kind == "tensorrtllm" or (kind == "python" and _has_parameter(config, "gpt_model_path")):
        return Reading([_tensorrt_llm(config, name, file)], once=_left_over(config, file))
    if kind == "vllm":
        return Reading([_vllm(config, name, file)])
    what = _BACKENDS.get(kind, f"the backend {kind[:40]}")
    return Reading(silent=f"the model {name} runs {what}, which is no LLM engine that preop knows")


def _has_parameter(config: Message, name: str) -> bool:
    """Whether there is such a parameter: `gpt_model_path` is that of tensorrtllm_backend's own model.py."""
    keys = (parameter.text("key") for parameter in config.messages("parameters"))
    return any(key is not None and key.text == name for key in keys)


def _name(config: Message, file: File) -> str:
    """Its own, or the folder's, which Triton requires to be the same."""
    own = config.text("name")
    if own is not None and own.text and not own.is_hole:
        return own.text
    return file.path.resolve().parent.name if file.path is not None else "model"


def _found(tokens: tuple[Token, ...], config: Message, why: str, file: File) -> Found:
    return Found(
        tokens=tokens,
        image=unseen_token("the image of the Triton server is not said here", config.origin),
        own_entrypoint=True,
        gpus=_gpus(config),
        hidden=(why,) if why else (),
        folder=file.folder,
    )


def _started(name: str, found: Found, facts: dict[str, Fact], file: File) -> Started:
    return Started(name, f"{file.name}: model {name}", unwrap(found), facts)


# --- TensorRT-LLM


def _tensorrt_llm(config: Message, name: str, file: File) -> Started:
    why = "what config.pbtxt does not say is decided by the engine that was built"
    facts = {**_decoupled(config, "Triton's own default"), **dict(_parameter_facts(config))}
    size = config.text("max_batch_size")
    if size is not None:
        note = "Triton's max_batch_size; the engine that was built may take fewer"
        facts["max_num_seqs"] = _fact(size, _whole, note, unit="requests")
    found = _found((Token("trtllm-serve", config.origin),), config, why, file)
    return _started(name, found, facts, file)


def _parameter_facts(config: Message) -> Iterator[tuple[str, Fact]]:
    for parameter in config.messages("parameters"):
        key, value = parameter.text("key"), parameter.message("value")
        told = value.text("string_value") if value is not None else None
        if key is None or told is None or key.text not in _PARAMETERS or not told.text.strip():
            continue
        name, read = _PARAMETERS[key.text]
        yield name, _fact(told, read, f"parameter {key.text}")


def _fact(value: Text, read: Callable[[str], Any], note: str, unit: str | None = None) -> Fact:
    if value.is_hole:
        return unknown(f"{value.text[:60]} is not filled in", origin=value.origin, unit=unit)
    try:
        return known(read(value.text.strip()), "user", value.origin, note=note, unit=unit)
    except ValueError:
        return unknown(f"{value.text[:40]!r} cannot be its value", origin=value.origin, unit=unit)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise ValueError(text)
    return int(text)


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text.lower() in ("true", "1")


_PARAMETERS |= {
    "gpt_model_type": ("gpt_model_type", str),
    "batch_scheduler_policy": ("batch_scheduler_policy", str),
    "kv_cache_free_gpu_mem_fraction": ("kv_cache_free_memory_fraction", _fraction),
    "max_tokens_in_paged_kv_cache": ("max_tokens_in_paged_kv_cache", _whole),
    "max_attention_window_size": ("max_attention_window_size", _whole),
    "enable_kv_cache_reuse": ("enable_prefix_caching", _switch),
    "enable_chunked_context": ("enable_chunked_prefill", _switch),
}


def _decoupled(config: Message, default: str) -> dict[str, Fact]:
    """Whether one request may have many answers: without it nothing streams."""
    policy = config.message("model_transaction_policy")
    value = policy.text("decoupled") if policy is not None else None
    if value is None:
        return {
            "decoupled": unknown(f"model_transaction_policy is not stated: {default}", origin=config.origin)
        }
    return {"decoupled": _fact(value, _switch, "model_transaction_policy")}


def _gpus(config: Message) -> GpuRequest | None:
    """The GPUs of its instances: by `gpu_device_ids`, else by `instance_group`."""
    for parameter in config.messages("parameters"):
        key, value = parameter.text("key"), parameter.message("value")
        told = value.text("string_value") if value is not None else None
        if key is not None and key.text == "gpu_device_ids" and told is not None and not told.is_hole:
            ids = tuple(part.strip() for part in told.text.replace(";", ",").split(",") if part.strip())
            if ids:
                return GpuRequest("nvidia", len(ids), ids, told.origin)
    groups = config.messages("instance_group")
    for group in groups:
        named = [each.text for each in group.texts("gpus") if not each.is_hole]
        if named:
            return GpuRequest("nvidia", len(named), tuple(named), group.origin)
    return None


def _left_over(config: Message, file: File) -> list[Note]:
    """Triton's templates are filled in by a script; what it left is unknown."""
    if "${" not in file.text:
        return []
    return [
        Note("hidden", "config.pbtxt still holds ${...} of its template: those values are unknown", file.name)
    ]


# --- vLLM


def _vllm(config: Message, name: str, file: File) -> Started:
    path = _model_json(file)
    documents = load(read_text(path, "vLLM's engine arguments"), str(path))
    arguments = documents[0] if documents else None
    if not isinstance(arguments, Map):
        raise InputError(f"{path}: expected a mapping of vLLM's engine arguments")
    model = arguments.get("model")
    words: list[Node] = [scalar("vllm", arguments), scalar("serve", arguments)]
    words += [model] if model is not None else []
    words += arguments_of(arguments, "vllm", skip=("model",))
    tokens = tuple(expand(word, {}) for word in words if isinstance(word, Scalar))
    facts = {**_decoupled(config, "the backend sets it itself"), **_adapters(path)}
    return _started(name, _found(tokens, config, "", file), facts, file)


def _model_json(file: File) -> Path:
    """That of the newest version, which is the one that Triton serves unless told otherwise."""
    folder = file.folder
    if folder is None:
        raise InputError(
            f"{file.name}: the vllm backend reads <version>/model.json beside it; expected the file"
        )
    try:
        versions = [
            each for each in folder.iterdir() if each.name.isdigit() and (each / "model.json").is_file()
        ]
    except OSError:
        versions = []
    if not versions:
        raise InputError(f"{file.name}: the vllm backend reads 1/model.json beside it, and it is not there")
    return max(versions, key=lambda each: int(each.name)) / "model.json"


def _adapters(path: Path) -> Mapping[str, Fact]:
    """`multi_lora.json`: the adapters by their names."""
    beside = path.with_name("multi_lora.json")
    if not beside.is_file():
        return {}
    documents = load(read_text(beside, "a mapping of adapters", may_be_empty=True), str(beside))
    if not documents or not isinstance(documents[0], Map):
        return {}
    told = [{"name": name, "path": to_python(node)} for name, node in documents[0].items()]
    return {"lora_modules": known(told, "user", documents[0].origin)}


TRITON = Form("Triton's config.pbtxt", _reads, _read)
