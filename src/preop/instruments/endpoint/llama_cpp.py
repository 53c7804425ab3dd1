"""llama.cpp's server: /props, /slots, and the `meta` of /v1/models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from preop.facts import Fact
from preop.instruments.endpoint.models import base_models
from preop.instruments.endpoint.told import Told, count, mapping, rows, switch, text

__all__ = ["facts", "is_props", "version"]

_LONGEST_TEMPLATE = 1_000_000


def is_props(answer: object) -> bool:
    """Whether this is llama.cpp's /props: three of its own fields together."""
    return {"default_generation_settings", "total_slots", "build_info"} <= mapping(answer).keys()


def version(props: object) -> str | None:
    """`b11549` of `b11549-0123abc`; None for a build without a number (`b0-unknown`)."""
    found = re.match(r"b([1-9]\d{0,7})(?!\d)", text(mapping(props).get("build_info"), 200) or "")
    return f"b{found[1]}" if found else None


def facts(jsons: Mapping[str, Any]) -> dict[str, Fact]:
    """All that it tells, by canonical name."""
    found: dict[str, Fact] = {}
    found |= _listing(jsons.get("/v1/models"))
    found |= _slots(jsons.get("/slots"))
    found |= _props(mapping(jsons.get("/props")))
    return found


def _props(props: Mapping[str, Any]) -> dict[str, Fact]:
    if not props:
        return {}
    told = Told("/props")
    build = version(props)
    if build:
        told.put("engine_version", build, note=f"build {text(props.get('build_info'), 200)}")
    else:
        told.put_unknown("engine_version", "the build has no number")
    told.put("model", text(props.get("model_path")))
    told.put("max_num_seqs", count(props.get("total_slots")), "requests")
    told.put("chat_template", text(props.get("chat_template"), _LONGEST_TEMPLATE))
    told.put("enable_metrics", switch(props.get("endpoint_metrics")))
    context = count(mapping(props.get("default_generation_settings")).get("n_ctx"))
    told.put("max_model_len", context, "tokens", "the context of one slot")
    for name in ("context_size", "kv_cache_tokens"):
        told.put_unknown(
            name, "the engine tells a slot's context, not whether slots share one KV cache", "tokens"
        )
    return told.facts


def _slots(answer: object) -> dict[str, Fact]:
    """Speculation is read here: /props says "none" even where it is on (seen in build 11549)."""
    told = Told("/slots")
    slots = rows(answer)
    on = {switch(slot.get("speculative")) for slot in slots}
    if True in on:
        told.put("speculative", True, note="speculation is on; its settings are not told")
    elif on == {False}:
        told.put_none("speculative")
    lengths = {length for slot in slots if (length := count(slot.get("n_ctx")))}
    if len(lengths) == 1:
        told.put("max_model_len", lengths.pop(), "tokens", "the context of one slot")
    told.put("max_num_seqs", len(slots) or None, "requests")
    return told.facts


def _listing(answer: object) -> dict[str, Fact]:
    told = Told("/v1/models")
    entries = base_models(answer)
    if len(entries) == 1:
        meta = mapping(entries[0].get("meta"))
        told.put("max_model_len", count(meta.get("n_ctx")), "tokens", "the context of one slot")
        told.put(
            "native_context",
            count(meta.get("n_ctx_train")),
            "tokens",
            "YaRN options change what the engine reports here: the model's own file is the proof",
        )
    return told.facts
