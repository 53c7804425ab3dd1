"""What an engine is there for, as far as its flags say it: task, part in disaggregated serving, adapters."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from preop.engines.fronts import KV_ROLE, TASK
from preop.engines.tables import label
from preop.facts import Fact, Origin, known, unknown

__all__ = ["role_facts"]

Look = Callable[[Sequence[str]], Fact]

_VLLM_TASKS = {
    "generate": "generate",
    "embed": "embed",
    "embedding": "embed",
    "score": "score",
    "classify": "classify",
    "reward": "reward",
    "transcription": "transcribe",
}
_POOLING = "a pooling model: what its own config says, it embeds, scores or classifies"
_KV_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode", "kv_both": "both"}
_SERVER_ROLES = {"context": "prefill", "generation": "decode"}


def role_facts(engine: str, look: Look, found: dict[str, Fact]) -> dict[str, Fact]:
    """`task`, `kv_role` and `lora_modules` of the vocabulary.

    `look` gives the fact of the first flag of several that is set; `found` has the facts of single flags.
    """
    facts = {"task": _task(engine, look)}
    if "kv_role" in found:
        facts["kv_role"] = _kv_role(engine, look, found["kv_role"])
    if "lora_modules" in found:
        facts["lora_modules"] = _lora(engine, found["lora_modules"])
    return facts


def _given(fact: Fact) -> bool:
    """Whether somebody set it, be it to what cannot be seen."""
    return fact.set_by == "user" or (not fact.is_known and fact.origin is not None)


# --- task


def _task(engine: str, look: Look) -> Fact:
    told = look([TASK])
    if _given(told):
        return told
    if engine == "tgi":
        return known("generate", "default", Origin("default", "TGI serves nothing else"))
    if engine in ("tei", "infinity"):
        origin = Origin("default", f"{label(engine)} generates nothing")
        return known("embed", "default", origin, note="it embeds, scores or classifies, as the model says")
    decided = {"vllm": _vllm_task, "sglang": _sglang_task, "llama.cpp": _llama_task}.get(engine)
    fact = decided(look) if decided else None
    return fact or unknown("no flag says what the engine serves: the model decides")


def _vllm_task(look: Look) -> Fact | None:
    """`--task` until 0.9, then `--runner` with `--convert`."""
    task, runner, convert = (look([name]) for name in ("task", "runner", "convert"))
    for fact in (task, runner, convert):
        if _given(fact) and not fact.is_known:
            return fact
    if _given(task):
        return _as(task, _VLLM_TASKS.get(str(task.value)))
    converted = _VLLM_TASKS.get(str(convert.value)) if _given(convert) else None
    if converted is not None:
        return _as(convert, converted)
    if _given(runner) and runner.value == "pooling":
        return msgspec.structs.replace(_as(runner, "embed"), note=_POOLING)
    return _as(runner, "generate") if _given(runner) and runner.value == "generate" else None


def _as(fact: Fact, value: str | None) -> Fact:
    if value is None:
        return unknown(f"{fact.value}: the model decides", origin=fact.origin)
    return msgspec.structs.replace(fact, value=value)


def _sglang_task(look: Look) -> Fact | None:
    fact = look(["is-embedding"])
    if not _given(fact):
        return None
    if not fact.is_known:
        return fact
    return msgspec.structs.replace(fact, value="embed", note=_POOLING) if fact.value else None


def _llama_task(look: Look) -> Fact | None:
    """`--reranking` sets embeddings and rank pooling; `--embeddings` with rank pooling is the same."""
    rank, embed, pooling = (look([name]) for name in ("reranking", "embeddings", "pooling"))
    for fact, value in ((rank, "score"), (embed, "embed")):
        if _given(fact) and not fact.is_known:
            return fact
        if _given(fact) and fact.value:
            is_rank = pooling.set_by == "user" and pooling.value == "rank"
            return _as(fact, "score" if is_rank else value)
    return None


# --- disaggregated serving


def _kv_role(engine: str, look: Look, fact: Fact) -> Fact:
    told = look([KV_ROLE])
    if _given(told):
        return told
    if not fact.is_known or fact.value is None:
        return fact
    if engine == "sglang":
        return msgspec.structs.replace(fact, value=None if fact.value == "null" else fact.value)
    if engine == "tensorrt-llm":
        role = _SERVER_ROLES.get(str(fact.value).lower())
    else:
        role = _KV_ROLES.get(str(fact.value.get("kv_role"))) if isinstance(fact.value, dict) else None
    if role is None:
        return unknown("its configuration names no role that preop knows", origin=fact.origin)
    return msgspec.structs.replace(fact, value=role)


# --- adapters


def _lora(engine: str, fact: Fact) -> Fact:
    """`name=path`, a path alone, or a JSON object, as each engine writes them."""
    if not fact.is_known or fact.value is None:
        return fact
    items = fact.value if isinstance(fact.value, list) else str(fact.value).split(",")
    adapters = [adapter for item in items if (adapter := _adapter(engine, item)) is not None]
    return msgspec.structs.replace(fact, value=adapters)


def _adapter(engine: str, item: Any) -> dict[str, str] | None:
    if isinstance(item, str) and item.lstrip().startswith("{"):
        try:
            item = json.loads(item)
        except (ValueError, RecursionError):
            return {"name": item, "path": item}
    if isinstance(item, dict):
        path = item.get("path") or item.get("lora_path") or ""
        return {"name": str(item.get("name") or item.get("lora_name") or path), "path": str(path)}
    text = str(item).strip()
    if not text:
        return None
    if engine == "llama.cpp":  # a path, which may have `=` in it; --lora-scaled has `:SCALE` behind it
        return {"name": text, "path": text}
    name, equals, path = text.partition("=")
    return {"name": name, "path": path if equals else name}
