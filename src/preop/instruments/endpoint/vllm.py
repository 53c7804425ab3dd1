"""vLLM: /version, the labels of vllm:cache_config_info, and /server_info of a server in development mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preop.facts import Fact
from preop.instruments.endpoint.exposition import Exposition, in_range, names
from preop.instruments.endpoint.told import Told, count, fraction, mapping, number_label, switch, text

__all__ = ["facts", "version"]

_CACHE_INFO = "vllm:cache_config_info"
_SPECULATION = "vllm:spec_decode_num_drafts_total"
_POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def version(answer: object) -> str | None:
    """From `GET /version`."""
    return text(mapping(answer).get("version"), 100)


def facts(jsons: Mapping[str, Any], exposition: Exposition) -> dict[str, Fact]:
    """All that vLLM tells, by canonical name. What /server_info says wins: it is the whole configuration."""
    found: dict[str, Fact] = {}
    told = Told("/version")
    told.put("engine_version", version(jsons.get("/version")))
    found |= told.facts
    found |= _cache(exposition)
    found |= _speculative(exposition, version(jsons.get("/version")))
    found |= _server_info(mapping(jsons.get("/server_info")))
    return found


def _cache(exposition: Exposition) -> dict[str, Fact]:
    """From the labels of vllm:cache_config_info, one set for each data-parallel engine."""
    told = Told("/metrics (vllm:cache_config_info)")
    engines = exposition.labels_of("vllm", _CACHE_INFO)
    if not engines:
        return {}
    each = (
        f"each of {len(engines)} data-parallel engines; the smallest is given" if len(engines) > 1 else None
    )

    def least(label: str) -> int | None:
        values = [number_label(labels.get(label)) for labels in engines]
        return (
            min((value for value in values if value is not None), default=None)
            if None not in values
            else None
        )

    def same(label: str) -> str | None:
        values = {labels.get(label) for labels in engines}
        return values.pop() if len(values) == 1 else None

    told.put("block_size", least("block_size"), "tokens")
    told.put("kv_blocks", least("num_gpu_blocks"), "blocks", each)
    own_size = least("kv_cache_memory_bytes")
    told.put("kv_cache_memory_bytes", own_size, "bytes")
    unused = "not used for the KV cache: kv_cache_memory_bytes sets its size" if own_size else None
    told.put("gpu_memory_fraction", fraction(same("gpu_memory_utilization")), note=unused)
    dtype = text(same("cache_dtype"), 100)
    told.put("kv_cache_dtype", dtype if dtype != "None" else None)
    told.put("enable_prefix_caching", switch(same("enable_prefix_caching")))
    tokens = least("kv_cache_size_tokens")
    if tokens is not None:
        note = "by the engine's own count: for requests of max_model_len tokens"
        told.put("kv_cache_tokens", tokens, "tokens", f"{note}; {each}" if each else note)
    else:
        told.put_unknown(
            "kv_cache_tokens",
            "this vLLM does not tell it (kv_cache_size_tokens), and kv_blocks times block_size is it"
            " only where all layers keep the same cache",
            "tokens",
        )
    return told.facts


def _speculative(exposition: Exposition, release: str | None) -> dict[str, Fact]:
    """The counters of speculation exist when it is on. Their absence proves that it is off only in releases
    that are known to print them always, and only beside the other metrics."""
    told = Told("/metrics")
    if exposition.labels_of("vllm", _SPECULATION):
        positions = {labels.get("position") for labels in exposition.labels_of("vllm", _POSITIONS)}
        value: Any = {"num_speculative_tokens": len(positions)} if positions else True
        told.put("speculative", value, note="speculation is on; its other settings are not told here")
    elif exposition.labels_of("vllm", "vllm:num_requests_running"):
        if in_range(release, names()["vllm"]["speculation_always_told"]):
            told.put_none("speculative", "no counters of speculation among the metrics")
        else:
            told.put_unknown(
                "speculative",
                f"whether vLLM {release or 'of this version'} would tell of speculation is not known",
            )
    return told.facts


def _server_info(info: Mapping[str, Any]) -> dict[str, Fact]:
    """The resolved configuration (`VLLM_SERVER_DEV_MODE=1`). Only named fields are taken: the rest may hold
    secrets."""
    config = mapping(info.get("vllm_config"))
    if not config:
        return {}
    told = Told("/server_info")
    model, cache = mapping(config.get("model_config")), mapping(config.get("cache_config"))
    scheduler, parallel = mapping(config.get("scheduler_config")), mapping(config.get("parallel_config"))
    for name in ("model", "tokenizer", "revision", "quantization", "tokenizer_mode", "generation_config"):
        told.put(name, text(model.get(name)))
    if model.get("quantization", "") is None:
        told.put_none("quantization", "as resolved from the model's own files")
    if model.get("hf_overrides") == {}:
        told.put_none("hf_overrides")
    else:
        told.put("hf_overrides", mapping(model.get("hf_overrides")) or None)
    told.put("dtype", (text(model.get("dtype"), 100) or "").removeprefix("torch.") or None)
    told.put("max_model_len", count(model.get("max_model_len")), "tokens")
    told.put("disable_sliding_window", switch(model.get("disable_sliding_window")))
    told.put("enforce_eager", switch(model.get("enforce_eager")))
    told.put("max_num_seqs", count(scheduler.get("max_num_seqs")), "requests")
    told.put("max_num_batched_tokens", count(scheduler.get("max_num_batched_tokens")), "tokens")
    told.put("enable_chunked_prefill", switch(scheduler.get("enable_chunked_prefill")))
    told.put("stream_interval", count(scheduler.get("stream_interval")))
    told.put("tensor_parallel_size", count(parallel.get("tensor_parallel_size")), "GPUs")
    told.put("pipeline_parallel_size", count(parallel.get("pipeline_parallel_size")), "GPUs")
    told.put("data_parallel_size", count(parallel.get("data_parallel_size")))
    told.put("kv_cache_dtype", text(cache.get("cache_dtype"), 100))
    told.put("performance_mode", text(config.get("performance_mode"), 100))
    # "cuda" is also what AMD's GPUs are called here: only the CPU is told apart.
    told.put("accelerator", "none" if mapping(config.get("device_config")).get("device") == "cpu" else None)
    told.put("enable_prefix_caching", switch(cache.get("enable_prefix_caching")))
    if "speculative_config" in config:
        speculative = mapping(config["speculative_config"])
        fields = ("method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max")
        kept = {name: text(value) or count(value) for name in fields if (value := speculative.get(name))}
        kept = {name: value for name, value in kept.items() if value is not None}
        if config["speculative_config"] is None:
            told.put_none("speculative")
        elif kept:
            told.put("speculative", kept)
    allow_long = mapping(info.get("vllm_env")).get("VLLM_ALLOW_LONG_MAX_MODEL_LEN")
    told.put("allow_long_max_model_len", switch(allow_long))
    return told.facts
