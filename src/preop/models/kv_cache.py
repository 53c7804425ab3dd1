"""Bytes of KV cache, by formula.

Per layer and rank: heads on this rank x (key size + value size) x bytes of an element; MLA keeps one latent
that tensor parallelism does not divide. A sliding layer keeps at most its window, a chunked one its chunk.
What an engine allocates is more: whole blocks, tokens in flight, padding of unequal layers. State of
recurrent layers is not counted. The formula was held against figures printed by vLLM, SGLang, TensorRT-LLM
and llama.cpp (tests/data/models/kv_ground_truth.jsonl).
"""

from __future__ import annotations

import msgspec

from preop.models.types import LayerGroup, Model

__all__ = ["KVBytes", "kv_bytes", "kv_bytes_per_token"]

_ELEMENT = {
    "float32": 4.0, "f32": 4.0,
    "float16": 2.0, "f16": 2.0, "half": 2.0, "bfloat16": 2.0, "bf16": 2.0,
    "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "fp8_inc": 1.0, "float8_e4m3fn": 1.0, "float8_e5m2": 1.0,
    # llama.cpp: blocks of 32 elements with their scales.
    "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip
_PER_HEAD = {
    "int8_per_token_head": (1.0, 4.0),
    "fp8_per_token_head": (1.0, 4.0),
    "int4_per_token_head": (0.5, 4.0),
}
"""vLLM: bytes of an element, and of the scale that each token and head carries."""
_BLOCKS_OF_32 = frozenset({"q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"})
_FP8_DS_MLA = 656.0
"""vLLM and SGLang, DeepSeek V3.2: 512 fp8 + 16 bytes of scales + 64 bf16 rotary values."""


class KVBytes(msgspec.Struct, frozen=True):
    """What a token costs on one rank."""

    growing: float
    """Bytes that each token adds for as long as the request grows."""
    capped: tuple[tuple[float, int], ...] = ()
    """(bytes of a token, tokens kept) for each kind of sliding or chunked layer."""
    recurrent_layers: int = 0
    """Layers that keep a state of fixed size instead, not counted here."""

    @property
    def first_token(self) -> float:
        """Bytes of a token while no window is full: the most that one costs."""
        return self.growing + sum(size for size, _ in self.capped)

    @property
    def most_capped(self) -> float:
        """Bytes that the windows hold once all are full."""
        return sum(size * kept for size, kept in self.capped)

    def at(self, tokens: int) -> float:
        """Bytes of one request of `tokens` tokens."""
        return self.growing * tokens + sum(size * min(kept, tokens) for size, kept in self.capped)


def kv_bytes_per_token(
    model: Model, *, kv_dtype: str | None = None, kv_dtype_v: str | None = None, tensor_parallel: int = 1
) -> KVBytes | None:
    """Bytes per token on one rank, or None where the layout, the type or the split over ranks is not known.

    `kv_dtype` as an engine names it; None and "auto" mean the model's own dtype. `kv_dtype_v`: of the values,
    where the engine tells them apart (llama.cpp). `tensor_parallel` must divide the KV heads, or be a
    multiple of them: each rank then keeps one head (vLLM, SGLang).
    """
    keys = _normal(kv_dtype, model)
    values = _normal(kv_dtype_v, model) if kv_dtype_v is not None else keys
    if model.layers is None or keys is None or values is None or tensor_parallel < 1:
        return None
    growing, recurrent = 0.0, 0
    capped: dict[int, float] = {}
    for group in model.layers:
        if group.kind == "recurrent":
            recurrent += group.count
        if group.kind in ("recurrent", "none"):
            continue
        size = _layer(group, keys, values, tensor_parallel)
        if size is None:
            return None
        if group.window is None:
            growing += size * group.count
        else:
            capped[group.window] = capped.get(group.window, 0.0) + size * group.count
    return KVBytes(growing, tuple((size, kept) for kept, size in sorted(capped.items())), recurrent)


def kv_bytes(
    model: Model,
    tokens: int,
    *,
    kv_dtype: str | None = None,
    kv_dtype_v: str | None = None,
    tensor_parallel: int = 1,
) -> float | None:
    """Bytes on one rank of one request of `tokens` tokens, sliding layers capped at their window."""
    per_token = kv_bytes_per_token(
        model, kv_dtype=kv_dtype, kv_dtype_v=kv_dtype_v, tensor_parallel=tensor_parallel
    )
    return None if per_token is None or tokens < 0 else per_token.at(tokens)


def _normal(dtype: str | None, model: Model) -> str | None:
    dtype = (dtype or "auto").lower().removeprefix("torch.")
    return model.dtype if dtype == "auto" else dtype


def _layer(group: LayerGroup, keys: str, values: str, tensor_parallel: int) -> float | None:
    """Bytes of one token in one layer on one rank."""
    if group.kind == "mla":
        if keys == "fp8_ds_mla":
            return _FP8_DS_MLA if group.key_dim == 576 else None
        return _side(group.key_dim, keys)
    heads, ranks = group.kv_heads, tensor_parallel
    if max(heads, ranks) % min(heads, ranks):
        return None  # engines refuse such a split
    key, value = _side(group.key_dim, keys), _side(group.value_dim, values)
    return None if key is None or value is None else max(1, heads // ranks) * (key + value)


def _side(size: int, dtype: str) -> float | None:
    """Bytes of the keys, or the values, of one head."""
    if dtype in _PER_HEAD:
        element, scale = _PER_HEAD[dtype]
        return size * element + scale
    if dtype == "nvfp4":
        return size / 2 + size / 16 if size % 16 == 0 else None
    if dtype in _BLOCKS_OF_32 and size % 32:
        return None
    return size * _ELEMENT[dtype] if dtype in _ELEMENT else None
