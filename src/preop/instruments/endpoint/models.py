"""`GET /v1/models`: the list that every OpenAI-compatible server has."""

from __future__ import annotations

from typing import Any

from preop.evidence import Live
from preop.facts import Fact
from preop.instruments.endpoint.told import Told, count, rows, text

__all__ = ["base_models", "facts", "models_of"]


def base_models(listing: object) -> list[dict[str, Any]]:
    """The entries that are models: an adapter (LoRA) names its parent and is left out."""
    entries = rows(listing.get("data")) if isinstance(listing, dict) else []
    return [entry for entry in entries if text(entry.get("id")) and not entry.get("parent")]


def facts(listing: object, engine: str) -> dict[str, Fact]:
    """Names and longest request. `model` is what the engine loaded; with several it is unknown."""
    told = Told("/v1/models")
    entries = base_models(listing)
    ids = [name for entry in entries if (name := text(entry.get("id")))]
    if ids:
        told.put("served_model_name", ids[0] if len(ids) == 1 else ids)
    roots = {root for entry in entries if (root := text(entry.get("root")))}
    if engine == "vllm":  # SGLang's `root` is the served name again
        if len(roots) == 1:
            told.put("model", roots.pop())
        elif roots:
            told.put_unknown("model", f"the endpoint lists {len(roots)} models")
    if engine in ("vllm", "sglang"):
        lengths = {length for entry in entries if (length := count(entry.get("max_model_len")))}
        if len(lengths) == 1:
            told.put("max_model_len", lengths.pop(), "tokens")
        elif lengths:
            told.put_unknown("max_model_len", "the endpoint lists models of different lengths", "tokens")
    return told.facts


def models_of(live: Live) -> list[str]:
    """The names that a request may give as `model`, in the endpoint's order; empty where it lists none."""
    fact = live.facts.get("served_model_name")
    if fact is None or not fact.is_known:
        return []
    return [fact.value] if isinstance(fact.value, str) else [str(name) for name in fact.value]
