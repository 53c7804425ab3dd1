"""Parameters counted from a config.json, for dense decoders whose shapes the config states whole.

Every matrix and norm of the published modelling code of each family is counted; other families are None.
"""

from __future__ import annotations

from preop.models.fields import Fields
from preop.models.layers import attention_heads_of

__all__ = ["is_dense", "parameters_of"]

_TIED_BY_DEFAULT = {"llama": False, "mistral": False, "qwen2": False, "qwen3": False, "phi3": False,
                    "gemma": True, "gemma2": True, "gemma3_text": True}  # fmt: skip
"""Families counted here, and whether the output shares the embedding where the config does not say."""
_NORMS = {"gemma2": 4, "gemma3_text": 4}
"""Norms of hidden size in a layer, where not two."""


def is_dense(model_type: str) -> bool:
    """Whether the family is one whose weights all take part in every token."""
    return model_type in _TIED_BY_DEFAULT


def parameters_of(
    fields: Fields, model_type: str, heads: int | None, kv_heads: int, head_dim: int
) -> int | None:
    """Number of parameters, tied embeddings counted once. None outside the families counted here."""
    if model_type not in _TIED_BY_DEFAULT:
        return None
    hidden, inner = fields.integer("hidden_size"), fields.integer("intermediate_size")
    layers, vocabulary = fields.integer("num_hidden_layers"), fields.integer("vocab_size")
    heads = heads or attention_heads_of(fields)
    if hidden is None or inner is None or layers is None or vocabulary is None or heads is None:
        return None
    tied = fields.boolean("tie_word_embeddings")
    if tied is None and "tie_word_embeddings" in fields:
        return None
    queries, keys = heads * head_dim, kv_heads * head_dim
    layer = 2 * hidden * queries + 2 * hidden * keys  # q and o, k and v
    layer += 3 * hidden * inner  # gate, up, down
    layer += _NORMS.get(model_type, 2) * hidden
    if model_type == "qwen2":
        layer += queries + 2 * keys  # q, k and v carry a bias
    elif fields.boolean("attention_bias"):
        layer += queries + 2 * keys + hidden  # o too
    if fields.boolean("mlp_bias"):
        layer += 2 * inner + hidden
    if model_type in ("qwen3", "gemma3_text"):
        layer += 2 * head_dim  # norms of q and k
    embedding = vocabulary * hidden
    shared = _TIED_BY_DEFAULT[model_type] if tied is None else tied
    return layers * layer + embedding * (1 if shared else 2) + hidden
