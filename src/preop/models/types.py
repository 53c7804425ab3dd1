"""What is known of a model, from its own files: shapes, bytes, context, quantization."""

from __future__ import annotations

from typing import Literal

import msgspec

from preop.facts import Origin

__all__ = ["LayerGroup", "LayerKind", "Model", "Quantization", "Rope"]

LayerKind = Literal["full", "sliding", "chunked", "mla", "recurrent", "none"]


class LayerGroup(msgspec.Struct, frozen=True):
    """Layers that keep the same cache: `count` of them. Sizes are elements, not bytes."""

    kind: LayerKind
    count: int
    kv_heads: int = 0
    key_dim: int = 0
    """Per head; for MLA kv_lora_rank + qk_rope_head_dim, kept once (value_dim 0, kv_heads 1)."""
    value_dim: int = 0
    window: int | None = None
    """Tokens that a sliding or chunked layer keeps."""


class Quantization(msgspec.Struct, frozen=True):
    """How the weights are stored."""

    method: str
    """As its format calls it: awq, gptq, fp8, compressed-tensors, bitsandbytes, gguf Q4_K_M, ..."""
    bits: float | None
    """Per weight, without scales; None where the files do not say."""
    weight_only: bool | None
    """Activations stay in 16 bits; None where the files do not say."""


class Rope(msgspec.Struct, frozen=True):
    """Scaling of rotary positions, `type` "default" where there is none."""

    type: str
    factor: float | None = None
    original_context: int | None = None


class Model(msgspec.Struct, frozen=True):
    """One model. None means that its files do not tell; `notes` then says why."""

    name: str
    origin: Origin
    architecture: str | None = None
    parameters: int | None = None
    weight_bytes: int | None = None
    dtype: str | None = None
    """Of activations and of the KV cache unless told otherwise: bfloat16, float16, float32."""
    quantization: Quantization | None = None
    """None is "not quantized" only where `quantization_known`."""
    quantization_known: bool = False
    layers: tuple[LayerGroup, ...] | None = None
    """None: a layout that preop does not know."""
    native_context: int | None = None
    """Tokens the weights were trained for, before scaling by an engine."""
    rope: Rope | None = None
    attention_heads: int | None = None
    hidden_size: int | None = None
    vocabulary_size: int | None = None
    is_generative: bool | None = None
    """False for embedders and rerankers."""
    tokenizer_files: tuple[str, ...] = ()
    has_chat_template: bool | None = None
    path: str | None = None
    """Where its files are, if they are here."""
    notes: tuple[str, ...] = ()
    is_mixture: bool | None = None
    """Mixture of experts: a token passes through some of the weights only."""
