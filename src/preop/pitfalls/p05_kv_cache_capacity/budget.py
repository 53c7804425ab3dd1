"""The two sides of P05 by formula: memory left for the KV cache, and what the promised requests need.

Both sides are bounds, so that a formula that leaves things out cannot mislead: a FAIL holds the least that
one request needs against the most that can be left, a PASS the most that all need against the least.
"""

from __future__ import annotations

from dataclasses import dataclass

from preop.findings import Item
from preop.models.kv_cache import KVBytes, kv_bytes_per_token
from preop.models.types import Model
from preop.pitfalls.readings import gpu_memory, gpu_of, is_nothing, not_set, number, ranks_of, whole
from preop.pitfalls.say import item
from preop.pitfalls.types import Case

__all__ = ["GIB", "Budget", "Demand", "budget_of", "demand_of", "gib"]

GIB = float(1 << 30)


@dataclass(frozen=True)
class Budget:
    """Bytes for the KV cache of one engine process, over all its GPUs."""

    most: float
    least: float | None
    """None: something that takes memory is not known, so no lower bound can be given."""
    weights: float
    """Bytes of weights that were taken off (0 where they may lie elsewhere or are not known)."""
    evidence: tuple[Item, ...]


@dataclass(frozen=True)
class Demand:
    """Bytes that requests need, over all GPUs of one engine process."""

    floor: KVBytes
    """One token at the least: heads divided without loss, the narrowest type that may be in force."""
    ceiling: float | None
    """Bytes of one token at the most, windows never full. None: layers that keep a state, or an odd split."""
    source: str


def gib(size: float) -> str:
    """Bytes as they are shown."""
    return f"{size / GIB:,.1f} GiB" if size < 1e6 * GIB else f"{size / GIB:.3g} GiB"


def budget_of(case: Case) -> Budget | None:
    """None where the GPU, its memory or the number of GPUs is not known."""
    name, gpu, ranks = case.fact("gpu"), gpu_of(case), ranks_of(case)
    if gpu is None or ranks is None:
        return None
    low, high = gpu_memory(gpu)
    if high is None:
        return None
    evidence = [Item("GPU memory", round((low or high) / GIB, 2), "GiB", f"{gpu.source} ({name.source})")]
    fixed = case.fact("kv_cache_memory_bytes")
    if (size := whole(fixed)) is not None:
        return Budget(
            float(size * ranks), float(size * ranks), 0.0, (*evidence, item("kv_cache_memory_bytes", fixed))
        )
    fraction = case.fact("gpu_memory_fraction")
    share = number(fraction)
    share = share if share is not None and 0 < share <= 1 else None
    if share is not None:
        evidence.append(item("gpu_memory_fraction", fraction))
    weights = _weights(case)
    if weights:
        assert case.deployment.model is not None
        evidence.append(Item("weights", round(weights / GIB, 2), "GiB", str(case.deployment.model.origin)))
    most = high * ranks * (share or 1.0) - weights
    # vLLM's fraction is of all memory; SGLang's of what happens to be free, so it gives no lower bound.
    least = None
    stated = low is not None and share is not None and weights > 0
    if case.deployment.engine == "vllm" and stated and not_set(case, "speculative"):
        assert low is not None
        assert share is not None
        least = ranks * (low * share - case.thresholds["P05.other_gib"] * GIB) - weights
    return Budget(most, least, weights, tuple(evidence))


def demand_of(case: Case) -> Demand | None:
    """None where the model's layers or the type of the cache are not known."""
    model = case.deployment.model
    ranks = whole(case.fact("tensor_parallel_size")) or 1
    if model is None:
        return None
    kind = _cache_type(case)
    if kind is None:
        return None
    # "auto" may follow a scheme inside a quantized checkpoint: then it can be as narrow as fp8.
    narrow = (
        "fp8" if kind == "auto" and (model.quantization is not None or not model.quantization_known) else kind
    )
    floor = _per_token(model, narrow, 1)
    wide = _per_token(model, kind, ranks)
    if floor is None:
        return None
    staged = whole(case.fact("pipeline_parallel_size")) or 1
    ceiling = None
    if wide is not None and not wide.recurrent_layers and staged == 1:
        ceiling = wide.first_token * ranks
    return Demand(floor, ceiling, f"formula over {model.name}: {model.origin}, KV type {kind}")


def _per_token(model: Model, kind: str, ranks: int) -> KVBytes | None:
    return kv_bytes_per_token(model, kv_dtype=None if kind == "auto" else kind, tensor_parallel=ranks)


def _cache_type(case: Case) -> str | None:
    fact = case.fact("kv_cache_dtype")
    if fact.is_known:
        return "auto" if is_nothing(fact.value) else str(fact.value).lower()
    return "auto" if not_set(case, "kv_cache_dtype") else None


def _weights(case: Case) -> float:
    """Bytes of weights that surely lie on the GPUs; 0 where they may not."""
    model = case.deployment.model
    if model is None or model.weight_bytes is None:
        return 0.0
    offload = case.fact("weight_offload")
    kept_off = number(offload)
    surely_here = kept_off <= 0 if kept_off is not None else not_set(case, "weight_offload")
    flag = case.fact("quantization")
    # Quantized while loading: smaller on the GPU than in the file.
    shrunk = model.quantization is None and not not_set(case, "quantization")
    shrunk = shrunk or (model.quantization is None and flag.is_known and not is_nothing(flag.value))
    return float(model.weight_bytes) if surely_here and not shrunk else 0.0
