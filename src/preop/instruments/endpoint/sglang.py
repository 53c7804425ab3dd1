"""SGLang: /server_info gives the resolved server arguments and the state of each scheduler.

The answer holds `api_key`, `admin_api_key` and, where asked for, environment variables: only named fields
are taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from preop.facts import Fact
from preop.instruments.endpoint.exposition import Exposition
from preop.instruments.endpoint.told import Told, count, fraction, mapping, rows, switch, text

__all__ = ["facts", "is_server_info", "metrics_facts"]

_TEXTS = {
    "model_path": "model",
    "served_model_name": "served_model_name",
    "revision": "revision",
    "tokenizer_path": "tokenizer",
    "tokenizer_mode": "tokenizer_mode",
    "chat_template": "chat_template",
    "quantization": "quantization",
    "dtype": "dtype",
    "kv_cache_dtype": "kv_cache_dtype",
}
_COUNTS = {
    "context_length": ("max_model_len", "tokens"),
    "chunked_prefill_size": ("max_num_batched_tokens", "tokens"),
    "page_size": ("block_size", "tokens"),
    "tp_size": ("tensor_parallel_size", "GPUs"),
    "pp_size": ("pipeline_parallel_size", "GPUs"),
    "dp_size": ("data_parallel_size", None),
    "stream_interval": ("stream_interval", None),
}
_SWITCHES = {"allow_auto_truncate": "auto_truncate", "enable_metrics": "enable_metrics"}


def is_server_info(answer: object) -> bool:
    """Whether this is SGLang's answer: three of its own argument names together."""
    return {"model_path", "mem_fraction_static", "disable_radix_cache"} <= mapping(answer).keys()


def facts(info: Mapping[str, Any], route: str) -> dict[str, Fact]:
    """All that /server_info tells, by canonical name."""
    told = Told(route)
    told.put("engine_version", text(info.get("version"), 100))
    for field, name in _TEXTS.items():
        told.put(name, text(info.get(field)))
    for field, (name, unit) in _COUNTS.items():
        told.put(name, count(info.get(field)), unit)
    for field, name in _SWITCHES.items():
        told.put(name, switch(info.get(field)))
    told.put("gpu_memory_fraction", fraction(info.get("mem_fraction_static")))
    radix_off = switch(info.get("disable_radix_cache"))
    told.put("enable_prefix_caching", None if radix_off is None else not radix_off)
    told.put("hf_overrides", _overrides(info.get("json_model_override_args")))
    if "speculative_algorithm" in info:
        algorithm = text(info["speculative_algorithm"], 100)
        if algorithm is not None:
            told.put("speculative", algorithm)
        elif info["speculative_algorithm"] is None:
            told.put_none("speculative")
    states = rows(info.get("internal_states"))
    told.put("max_num_seqs", _running_requests(info, states), "requests")
    several = f"each of {len(states)} data-parallel ranks" if len(states) > 1 else None
    told.put("kv_cache_tokens", count(info.get("max_total_num_tokens")), "tokens", several)
    return told.facts


def metrics_facts(exposition: Exposition) -> dict[str, Fact]:
    """The size of the KV cache, which /metrics tells without a key; the smallest rank's."""
    told = Told("/metrics (sglang:max_total_num_tokens)")
    name = "sglang:max_total_num_tokens"
    sizes = [sample.value for sample in exposition.of("sglang") if sample.name == name]
    if sizes and all(size.is_integer() for size in sizes):
        told.put("kv_cache_tokens", count(int(min(sizes))), "tokens")
    return told.facts


def _running_requests(info: Mapping[str, Any], states: list[dict[str, Any]]) -> int | None:
    """What the schedulers really use, all ranks together, as `--max-running-requests` counts it; the argument
    where they do not tell."""
    effective = [count(state.get("effective_max_running_requests_per_dp")) for state in states]
    if effective and None not in effective and len(effective) == (count(info.get("dp_size")) or 1):
        return sum(value for value in effective if value is not None)
    return count(info.get("max_running_requests"))


def _overrides(value: object) -> Any:
    """`--json-model-override-args` is JSON in a string; `{}` says nothing."""
    if not isinstance(value, str) or len(value) > 65_536:
        return None
    try:
        return mapping(json.loads(value)) or None
    except (ValueError, RecursionError):
        return None
