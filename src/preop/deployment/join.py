"""What is declared, joined with what the running engine says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from preop.deployment.types import Contradiction, Deployment
from preop.errors import InputError
from preop.evidence import Live
from preop.facts import Fact, Origin, known
from preop.models.types import Model
from preop.secrets import mask_text

__all__ = ["from_live", "join"]

Same = Callable[[Any, Any], bool]

_DTYPES = {
    **dict.fromkeys(("half", "float16", "fp16", "f16"), "float16"),
    **dict.fromkeys(("bfloat16", "bf16"), "bfloat16"),
    **dict.fromkeys(("float", "float32", "fp32", "f32"), "float32"),
    **dict.fromkeys(("fp8_e4m3", "fp8_e4m3fn"), "fp8_e4m3"),
}
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+\Z")
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|::1)\Z")
_CONTEXT_STEP = 256
"""llama.cpp rounds the context of a slot up to this many tokens."""


def from_live(live: Live) -> Deployment:
    """A deployment of which nothing is declared: all that is known is what the engine says."""
    url = mask_text(live.url)
    deployment = Deployment(url, live.engine, url, dict(live.facts), endpoint=live.url)
    return msgspec.structs.replace(deployment, model=_model_of(live))


def join(declared: Deployment, live: Live) -> Deployment:
    """The declared deployment with what the engine says.

    What was unknown, or only a default, is filled in. Where a value that the user set means something else
    than the running one, that is a contradiction, and the running value counts from there on. Only values
    that can be compared are: `auto`, paths of different machines, and sizes that an engine rounds are not
    held against it.
    """
    if declared.engine != "unknown" and live.engine not in ("unknown", declared.engine):
        here, there = Origin("argument", declared.source), Origin("route", live.url)
        engines = Contradiction(
            "engine", known(declared.engine, "user", here), known(live.engine, "engine", there)
        )
        return msgspec.structs.replace(
            declared, endpoint=live.url, contradictions=(*declared.contradictions, engines)
        )
    facts = dict(declared.facts)
    contradictions = list(declared.contradictions)
    for name, running in live.facts.items():
        if not running.is_known:
            continue
        fact = facts.get(name)
        if fact is None or fact.set_by != "user" or _is_open(fact.value):
            facts[name] = running
        elif not _same(name, fact.value, running.value, declared, live.facts):
            contradictions.append(Contradiction(name, fact, running))
            facts[name] = running
    denied_model = any(each.name == "model" for each in contradictions)
    return msgspec.structs.replace(
        declared,
        engine=live.engine if declared.engine == "unknown" else declared.engine,
        facts=facts,
        model=_model_of(live) if denied_model or declared.model is None else declared.model,
        contradictions=tuple(contradictions),
        endpoint=live.url,
    )


def _model_of(live: Live) -> Model | None:
    """The model that the engine names: by its hub id, or by its path where the engine is on this machine."""
    from preop.models.find import find_model

    is_here = bool(_LOOPBACK.match(urlsplit(live.url).hostname or ""))
    for name in ("weights_path", "model"):
        fact = live.facts.get(name)
        if fact is None or not fact.is_known or not isinstance(fact.value, str):
            continue
        if is_here or _HUB_ID.match(fact.value):
            try:
                model = find_model(fact.value)
            except InputError:  # the engine names something here that is no model
                continue
            if model is not None:
                return model
    return None


def _is_open(value: Any) -> bool:
    """A value with which the user leaves the choice to the engine."""
    return value is None or (isinstance(value, str) and value.strip().lower() in ("auto", ""))


def _same(name: str, declared: Any, running: Any, deployment: Deployment, live: Mapping[str, Fact]) -> bool:
    """Whether both mean the same, or cannot be compared."""
    if declared == running:
        return True
    if name == "model":
        return _same_model(str(declared), str(running), _names(deployment.fact("served_model_name").value))
    if name == "max_num_batched_tokens" and deployment.engine == "sglang":
        ranks = deployment.fact("data_parallel_size").value  # SGLang shares its chunk between the ranks
        return _same_number(declared, running) or (
            isinstance(ranks, int) and isinstance(running, int) and running * ranks == declared
        )
    if name in ("context_size", "max_model_len") and deployment.engine == "llama.cpp":
        slots = _first_int(deployment.fact("max_num_seqs").value, _value(live, "max_num_seqs"))
        return _rounded_up(declared, running, slots if name == "context_size" else 1)
    compare = _COMPARED.get(name)
    return compare is None or (running is None and name != "speculative") or compare(declared, running)


def _value(facts: Mapping[str, Fact], name: str) -> Any:
    fact = facts.get(name)
    return fact.value if fact is not None else None


def _first_int(*values: Any) -> int:
    return next((value for value in values if isinstance(value, int) and value > 0), 1)


def _names(value: Any) -> set[str]:
    values = value if isinstance(value, list | tuple) else [value]
    return {str(each) for each in values if each}


def _same_model(declared: str, running: str, served: set[str]) -> bool:
    """The model by hub id, path or served name. Paths of a container and of this machine may differ, so only
    two hub ids, or two GGUF files by name, can disagree."""
    if running in served or declared.strip("/").lower() == running.strip("/").lower():
        return True
    last = [text.rstrip("/").rpartition("/")[2].lower() for text in (declared, running)]
    if last[0] == last[1] and not (_HUB_ID.match(declared) and _HUB_ID.match(running)):
        return True
    if f"models--{declared.replace('/', '--')}/" in running:
        return True
    is_file = [text.endswith(".gguf") for text in (declared, running)]
    if any(is_file):
        return not all(is_file)
    return not (_HUB_ID.match(declared) and _HUB_ID.match(running))


def _same_names(declared: Any, running: Any) -> bool:
    return bool(_names(declared) & _names(running)) or not _names(running)


def _same_number(declared: Any, running: Any) -> bool:
    numbers = (int, float)
    if not isinstance(declared, numbers) or not isinstance(running, numbers):
        return True
    return abs(declared - running) <= 1e-3 * max(abs(declared), abs(running)) * (
        isinstance(declared, float) or isinstance(running, float)
    )


def _same_switch(declared: Any, running: Any) -> bool:
    return not isinstance(declared, bool) or not isinstance(running, bool) or declared is running


def _rounded_up(declared: Any, running: Any, slots: int) -> bool:
    if not isinstance(declared, int) or not isinstance(running, int):
        return True
    return 0 <= running - declared < _CONTEXT_STEP * max(slots, 1)


def _same_dtype(declared: Any, running: Any) -> bool:
    texts = [str(value).lower().removeprefix("torch.") for value in (declared, running)]
    first, second = (_DTYPES.get(text, text) for text in texts)
    if _is_open(second):  # the model's own type, which is none of the quantized ones
        return first in _DTYPES.values() and "fp8" not in first
    # plain fp8 leaves the format to the engine
    return first == second or (
        first.startswith("fp8") and second.startswith("fp8") and "fp8" in (first, second)
    )


def _same_quantization(declared: Any, running: Any) -> bool:
    """awq and awq_marlin are one method under two kernels."""
    first, second = (str(value).lower().replace("-", "_") for value in (declared, running))
    return first.startswith(second) or second.startswith(first)


def _same_version(declared: Any, running: Any) -> bool:
    builds = [re.match(r"b?(\d{3,})\b", str(value)) for value in (declared, running)]
    if builds[0] and builds[1]:
        return builds[0][1] == builds[1][1]
    releases = [re.match(r"v?(\d+(?:\.\d+)+)(?!\.?dev)", str(value)) for value in (declared, running)]
    if not releases[0] or not releases[1] or ".dev" in str(running):
        return True
    parts = [release[1].split(".") for release in releases if release]
    return all(first == second for first, second in zip(*parts, strict=False))


def _same_speculation(declared: Any, running: Any) -> bool:
    methods = [_method(value) for value in (declared, running)]
    if running is None:
        return methods[0] is None
    if methods[0] is None or methods[1] is None:
        return True
    return methods[0] == methods[1]


def _method(value: Any) -> str | None:
    method = value.get("method") if isinstance(value, dict) else value
    return method.lower().replace("-", "_") if isinstance(method, str) else None


_COMPARED: dict[str, Same] = {
    "served_model_name": _same_names,
    "engine_version": _same_version,
    "dtype": _same_dtype,
    "kv_cache_dtype": _same_dtype,
    "kv_cache_dtype_v": _same_dtype,
    "quantization": _same_quantization,
    "speculative": _same_speculation,
    "enable_prefix_caching": _same_switch,
    "enable_chunked_prefill": _same_switch,
    "kv_unified": _same_switch,
    **dict.fromkeys(
        (
            "max_model_len",
            "context_size",
            "max_num_seqs",
            "max_num_batched_tokens",
            "gpu_memory_fraction",
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "data_parallel_size",
            "stream_interval",
        ),
        _same_number,
    ),
}
