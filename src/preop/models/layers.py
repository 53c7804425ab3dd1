"""Which cache each layer keeps, from a config.json in any of its dialects.

Names and rules as engines read them: transformers' configuration classes, and vLLM's
`model_arch_config_convertor` for the order of the keys. A layout that no rule here covers is None: a wrong
layout is off by up to 70 times, so it is never guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from preop.models.fields import Fields
from preop.models.types import LayerGroup

__all__ = ["attention_heads_of", "layer_count", "layer_groups"]

_MOST_LAYERS = 10_000
_KV_HEADS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
_HEADS = ("num_attention_heads", "n_head", "n_heads")

_KINDS = {
    "full_attention": "full", "attention": "full", "global": "full", "global_attention": "full",
    "sliding_attention": "sliding", "local": "sliding", "sliding_window_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "recurrent", "mamba": "recurrent", "mamba2": "recurrent", "recurrent": "recurrent",
    "conv": "recurrent", "short_conv": "recurrent",
    "moe": "none", "mlp": "none",
}  # fmt: skip
_PATTERN = {"M": "recurrent", "*": "full", "E": "none", "-": "none"}
"""Nemotron-H's `hybrid_override_pattern`."""

_RECURRENT_TYPES = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", "xlstm"})
_ENCODERS = frozenset({"bert", "roberta", "xlm-roberta", "distilbert", "modernbert", "nomic_bert",
"electra", "deberta",
                       "deberta-v2", "mpnet", "albert", "camembert", "eurobert", "new"})  # fmt: skip
"""Read the whole text at once and keep no cache."""
_ALL_SLIDING = frozenset({"mistral", "mixtral", "phi3", "phimoe", "starcoder2", "ministral"})
"""Where `sliding_window` is set and nothing else, every layer slides."""
_WINDOW_SWITCH = frozenset({"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "mimo"})
"""`sliding_window` counts only with `use_sliding_window`; layers from `max_window_layers` on then slide."""
_EVERY_NTH_FULL = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
"""Layer i is full where (i + 1) divides by N, for configs that state neither a pattern nor layer_types."""
_STATES_KV_HEADS = frozenset({"mistral", "mixtral", "ministral", "qwen2", "qwen2_moe", "qwen3",
"qwen3_moe", "gemma",
                              "gemma2", "gemma3_text", "gpt_oss", "starcoder2", "cohere2",
                              "smollm3"})  # fmt: skip
"""Where the key is missing, these do not fall back to one KV head for each query head."""
_STATES_HEAD_DIM = frozenset({"qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "gpt_oss"})
"""Where the key is missing, these do not fall back to hidden_size over heads."""
_STATES_WINDOW = frozenset({"mistral", "ministral"})
"""Where the key is missing (not null), transformers takes a window of 4096."""
_NEVER_PLAIN = frozenset({"gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "falcon_h1", "zamba",
"zamba2", "mllama",
                          "mllama_text_model", "longcat_flash", "whisper", "t5", "bart",
                          "recurrent_gemma"})  # fmt: skip
"""Families whose layers differ in ways that only their own keys (or their code) tell."""

_TELLTALE = re.compile(
    r"mamba|ssm|linear_(?!bias)|conv_kernel|conv_l|kv_lora|compress|indexer|index_|sparse_att|chunk_size$|window|hybrid|"
    r"cross_attention_layers|kv_shared|_pattern|recurren|rwkv|lightning|block_config|attn_type|layer_freq_attn"
)
"""Keys that change the layout of a family that preop does not know."""
_HARMLESS = frozenset(
    {"chunk_size_feed_forward", "use_sliding_window", "max_window_layers", "num_kv_shared_layers"}
)


class _Unknown(Exception):
    """The layout cannot be told; the message says why."""


def layer_count(fields: Fields) -> int | None:
    """Number of layers."""
    count = fields.integer("num_hidden_layers", "n_layer", "num_layers", "n_layers", high=_MOST_LAYERS)
    if count is not None or fields.first(("num_hidden_layers", "n_layer", "num_layers", "n_layers")):
        return count
    for key in ("layers_block_type", "layer_types", "block_configs"):
        listed = fields.items(key)
        if listed and len(listed) <= _MOST_LAYERS:
            return len(listed)
    pattern = fields.text("hybrid_override_pattern")
    return len(pattern) if pattern and len(pattern) <= _MOST_LAYERS else None


def attention_heads_of(fields: Fields) -> int | None:
    """Query heads."""
    return fields.integer(*_HEADS, high=100_000)


def layer_groups(fields: Fields, model_type: str) -> tuple[LayerGroup, ...] | None:
    """The layers, grouped by the cache they keep, in elements. None, with a note, where it is not known."""
    try:
        count = layer_count(fields)
        if count is None:
            raise _Unknown("the number of layers is not stated")
        layers = _layout(fields, model_type, count)
    except _Unknown as reason:
        fields.notes.append(f"{fields.where}: the layout of the KV cache is unknown: {reason}")
        return None
    shared = fields.integer("num_kv_shared_layers", low=0, high=count) or 0
    if shared:  # the last layers read the cache of earlier ones
        layers = [*layers[: count - shared], *[LayerGroup("none", 1)] * shared]
    grouped: Counter[LayerGroup] = Counter(layers)
    return tuple(
        LayerGroup(g.kind, n, g.kv_heads, g.key_dim, g.value_dim, g.window) for g, n in grouped.items()
    )


def _layout(fields: Fields, model_type: str, count: int) -> list[LayerGroup]:
    if model_type in _RECURRENT_TYPES:
        return [LayerGroup("recurrent", 1)] * count
    if model_type in _ENCODERS:
        return [LayerGroup("none", 1)] * count
    if fields.boolean("is_encoder_decoder"):
        raise _Unknown("an encoder-decoder keeps a second cache for what the encoder saw")
    if "block_configs" in fields:
        return _block_configs(fields, count)
    if "kv_lora_rank" in fields:
        return _latent(fields, count)
    if "hybrid_layer_pattern" in fields:
        return _mimo_v2(fields, count)
    kinds = _kinds(fields, model_type, count)
    if "layer_types" not in fields and model_type in _NEVER_PLAIN:
        raise _Unknown(f"{model_type} without layer_types")
    full = _attention(fields, "full", model_type=model_type)
    table: dict[str, LayerGroup] = {
        "full": full, "none": LayerGroup("none", 1), "recurrent": LayerGroup("recurrent", 1)
    }  # fmt: skip
    if "sliding" in kinds:
        table["sliding"] = _attention(
            fields, "sliding", _window(fields, "sliding_window", "local_attention_window")
        )
    if "chunked" in kinds:
        table["chunked"] = _attention(fields, "chunked", _window(fields, "attention_chunk_size"))
    if "full" in kinds and ("global_head_dim" in fields or "num_global_key_value_heads" in fields):
        heads = fields.integer("num_global_key_value_heads") or full.kv_heads
        dim = fields.integer("global_head_dim") or full.key_dim
        table["full"] = LayerGroup("full", 1, heads, dim, dim)
    return [table[kind] for kind in kinds]


def _kinds(fields: Fields, model_type: str, count: int) -> list[str]:
    """What each layer is, in order."""
    if (listed := fields.items("layer_types", "layers_block_type")) is not None:
        return _listed(listed, count)
    if (pattern := fields.text("hybrid_override_pattern")) is not None:
        if len(pattern) != count or set(pattern) - set(_PATTERN):
            raise _Unknown(f"hybrid_override_pattern does not name {count} layers by M, *, E and -")
        return [_PATTERN[letter] for letter in pattern]
    if (interval := fields.integer("full_attention_interval")) is not None:
        return _every_nth(interval, count, "recurrent")
    if (period := fields.integer("attn_layer_period")) is not None:
        offset = fields.integer("attn_layer_offset", low=0)
        if offset is None:
            raise _Unknown("attn_layer_period without attn_layer_offset")
        return ["full" if i % period == offset else "recurrent" for i in range(count)]
    if (indices := fields.items("attn_layer_indices")) is not None:
        return ["full" if i in indices else "recurrent" for i in range(count)]
    if (flags := fields.items("attn_type_list")) is not None:  # MiniMax: 1 softmax, 0 linear
        if len(flags) != count or any(flag not in (0, 1) for flag in flags):
            raise _Unknown(f"attn_type_list is not a list of {count} zeros and ones")
        return ["full" if flag else "recurrent" for flag in flags]
    if "attention_chunk_size" in fields:
        return _chunked(fields, model_type, count)
    return _windowed(fields, model_type, count)


def _listed(listed: Sequence[object], count: int) -> list[str]:
    if len(listed) < count:
        raise _Unknown(f"{len(listed)} layer types for {count} layers")
    kinds = [_KINDS.get(kind, "") if isinstance(kind, str) else "" for kind in listed[:count]]
    if "" in kinds:
        raise _Unknown(f"the layer type {str(listed[kinds.index('')])[:60]!r} is not one that preop knows")
    return kinds


def _chunked(fields: Fields, model_type: str, count: int) -> list[str]:
    """Llama 4: layers without rotary positions see everything, the others a chunk."""
    if not model_type.startswith("llama4"):
        raise _Unknown("attention_chunk_size in a family that preop does not know")
    rotary = fields.items("no_rope_layers")
    if rotary:
        if len(rotary) != count or any(flag not in (0, 1) for flag in rotary):
            raise _Unknown(f"no_rope_layers is not a list of {count} zeros and ones")
        return ["chunked" if flag else "full" for flag in rotary]
    return _every_nth(fields.integer("no_rope_layer_interval") or 4, count, "chunked")


def _windowed(fields: Fields, model_type: str, count: int) -> list[str]:
    window = fields.data.get("sliding_window")
    switch = fields.boolean("use_sliding_window")
    if "use_sliding_window" in fields and switch is None:
        raise _Unknown("use_sliding_window is neither true nor false")
    on = window not in (None, 0) and switch is not False
    if model_type in _WINDOW_SWITCH or switch is not None:
        if not (on and switch):
            return _plain(fields, model_type, count)
        first = fields.integer("max_window_layers", low=0)
        if first is None:
            raise _Unknown("use_sliding_window without max_window_layers")
        return ["sliding" if i >= first else "full" for i in range(count)]
    if "sliding_window_pattern" in fields or "_sliding_window_pattern" in fields:
        nth = fields.integer("sliding_window_pattern", "_sliding_window_pattern")
        if nth is None:
            raise _Unknown("sliding_window_pattern is not a number of layers")
        return _every_nth(nth, count, "sliding") if on else _plain(fields, model_type, count)
    if model_type in _EVERY_NTH_FULL:
        if not on:
            raise _Unknown(f"{model_type} without sliding_window")
        return _every_nth(_EVERY_NTH_FULL[model_type], count, "sliding")
    if not on:
        if model_type in _STATES_WINDOW and "sliding_window" not in fields.data:
            raise _Unknown(f"sliding_window is not stated, which {model_type} does not leave out")
        return _plain(fields, model_type, count)
    if model_type in _ALL_SLIDING:
        return ["sliding"] * count
    raise _Unknown(f"which layers of {model_type or 'this family'} slide is not stated")


def _plain(fields: Fields, model_type: str, count: int) -> list[str]:
    """Full attention everywhere, unless a key hints at something else."""
    telling = sorted(
        key
        for key, value in fields.data.items()
        if value
        and key not in _HARMLESS
        and not (key == "sliding_window" and "use_sliding_window" in fields.data)
        and not (key == "sliding_window" and model_type in _WINDOW_SWITCH)
        and _TELLTALE.search(key)
    )
    if telling:
        raise _Unknown(
            f"{telling[0][:60]} is not a key that preop knows how to read for {model_type or 'this family'}"
        )
    return ["full"] * count


def _every_nth(nth: int, count: int, other: str) -> list[str]:
    return ["full" if (i + 1) % nth == 0 else other for i in range(count)]


def _window(fields: Fields, *keys: str) -> int:
    window = fields.integer(*keys)
    if window is None:
        raise _Unknown(f"{keys[0]} is not stated")
    return window


def _attention(fields: Fields, kind: str, window: int | None = None, *, model_type: str = "") -> LayerGroup:
    heads = attention_heads_of(fields)
    if fields.boolean("multi_query") and not fields.boolean("new_decoder_architecture"):
        kv_heads: int | None = 1  # Falcon 7B, GPT BigCode
    elif (nested := fields.object("attn_config")) and "kv_n_heads" in nested:
        kv_heads = nested.integer("kv_n_heads")  # DBRX
    elif fields.first(_KV_HEADS):
        kv_heads = fields.integer(*_KV_HEADS, high=100_000)
    elif model_type in _STATES_KV_HEADS:
        raise _Unknown(f"num_key_value_heads is not stated, which {model_type} does not leave out")
    else:
        kv_heads = heads
    if model_type in _STATES_HEAD_DIM and "head_dim" not in fields:
        raise _Unknown(f"head_dim is not stated, which {model_type} does not leave out")
    key_dim = _head_dim(fields, heads)
    value_dim = fields.integer("v_head_dim") if "v_head_dim" in fields else key_dim
    if kv_heads is None or key_dim is None or value_dim is None:
        raise _Unknown("the heads of the KV cache or their size are not stated")
    return LayerGroup("sliding" if kind == "sliding" else "chunked" if kind == "chunked" else "full", 1,
                      kv_heads, key_dim, value_dim, window)  # fmt: skip


def _head_dim(fields: Fields, heads: int | None) -> int | None:
    for key in ("head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels"):
        if fields.data.get(key):
            return fields.integer(key, high=100_000)
    hidden = fields.integer("hidden_size", "n_embd", "d_model")
    if heads is None or hidden is None:
        return None
    if hidden % heads:
        raise _Unknown(f"hidden_size {hidden} does not divide by {heads} heads and head_dim is not stated")
    return hidden // heads


def _latent(fields: Fields, count: int) -> list[LayerGroup]:
    """Multi-head latent attention: one latent and one rotary part for all heads (DeepSeek V2 and later)."""
    if telling := fields.first(("index_head_dim", "compress_ratios", "sparse_attention_config")):
        raise _Unknown(
            f"{telling}: sparse attention keeps an index besides the latent, and the engine decides its size"
        )
    rank, rotary = fields.integer("kv_lora_rank"), fields.integer("qk_rope_head_dim")
    if rank is None or rotary is None:
        raise _Unknown("kv_lora_rank or qk_rope_head_dim is not stated")
    latent = LayerGroup("mla", 1, 1, rank + rotary, 0)
    linear = fields.object("linear_attn_config")
    if linear is None:
        return [latent] * count
    full = linear.items("full_attn_layers")  # counted from 1
    if full is None or not all(isinstance(layer, int) and 1 <= layer <= count for layer in full):
        raise _Unknown("linear_attn_config does not say which layers are full")
    return [latent if i + 1 in full else LayerGroup("recurrent", 1) for i in range(count)]


def _mimo_v2(fields: Fields, count: int) -> list[LayerGroup]:
    """MiMo-V2: 0 is full, 1 sliding, with heads of their own."""
    pattern = fields.items("hybrid_layer_pattern")
    if pattern is None or len(pattern) != count or any(flag not in (0, 1) for flag in pattern):
        raise _Unknown(f"hybrid_layer_pattern is not a list of {count} zeros and ones")
    heads, key = fields.integer("swa_num_key_value_heads"), fields.integer("swa_head_dim")
    value, window = fields.integer("swa_v_head_dim"), _window(fields, "sliding_window_size", "sliding_window")
    if heads is None or key is None or value is None:
        raise _Unknown("the sliding layers' heads are not stated")
    full = _attention(fields, "full")
    return [LayerGroup("sliding", 1, heads, key, value, window) if flag else full for flag in pattern]


def _block_configs(fields: Fields, count: int) -> list[LayerGroup]:
    """Nemotron-NAS: each block has attention of its own, or none."""
    blocks = fields.items("block_configs") or []
    heads = attention_heads_of(fields)
    if len(blocks) != count or heads is None:
        raise _Unknown(f"{len(blocks)} block_configs for {count} layers, or no num_attention_heads")
    dim = _head_dim(fields, heads)
    per_block: Callable[[object], Fields | None] = lambda block: (  # noqa: E731
        Fields(block, fields.notes, fields.where).object("attention") if isinstance(block, dict) else None
    )
    layers = []
    for block in blocks:
        attention = per_block(block)
        if attention is None or dim is None:
            raise _Unknown("a block without attention settings")
        if attention.boolean("no_op") or attention.boolean("replace_with_linear"):
            layers.append(LayerGroup("none", 1))
            continue
        in_group = attention.integer("n_heads_in_group", high=heads)
        if in_group is None or heads % in_group:
            raise _Unknown("a block without n_heads_in_group")
        layers.append(LayerGroup("full", 1, heads // in_group, dim, dim))
    return layers
