"""Models as GGUF files: the facts in their metadata and tensor table.

Layouts as llama.cpp reads them: KV heads and head sizes are per layer, a layer with no KV heads keeps no
cache, and which layers slide is either in the file or fixed in llama.cpp for that architecture.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from preop.errors import InputError
from preop.facts import Origin
from preop.models.fields import Fields
from preop.models.gguf import ArrayShape, Header, read_header
from preop.models.types import LayerGroup, LayerKind, Model, Quantization, Rope

__all__ = ["read_gguf"]

_FILE_TYPES: dict[int, tuple[str, float]] = {
    0: ("F32", 32), 1: ("F16", 16), 2: ("Q4_0", 4), 3: ("Q4_1", 4), 7: ("Q8_0", 8), 8: ("Q5_0", 5),
    9: ("Q5_1", 5),
    10: ("Q2_K", 2), 11: ("Q3_K_S", 3), 12: ("Q3_K_M", 3), 13: ("Q3_K_L", 3), 14: ("Q4_K_S", 4),
    15: ("Q4_K_M", 4),
    16: ("Q5_K_S", 5), 17: ("Q5_K_M", 5), 18: ("Q6_K", 6), 19: ("IQ2_XXS", 2), 20: ("IQ2_XS", 2),
    21: ("Q2_K_S", 2),
    22: ("IQ3_XS", 3), 23: ("IQ3_XXS", 3), 24: ("IQ1_S", 1), 25: ("IQ4_NL", 4), 26: ("IQ3_S", 3),
    27: ("IQ3_M", 3),
    28: ("IQ2_S", 2), 29: ("IQ2_M", 2), 30: ("IQ4_XS", 4), 31: ("IQ1_M", 1), 32: ("BF16", 16),
    36: ("TQ1_0", 1.58),
    37: ("TQ2_0", 1.58), 38: ("MXFP4_MOE", 4), 39: ("NVFP4", 4), 40: ("Q1_0", 1),
}  # fmt: skip
"""`general.file_type`: llama.cpp's llama_ftype, and the bits of its main tensor type without scales."""
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}

_EVERY_NTH_FULL = {"gemma2": 2, "gpt-oss": 2, "gemma3": 6, "gemma-embedding": 6, "cohere2": 4}
"""Layer i is full where (i + 1) divides by N; llama.cpp has this in its code, not in the file."""
_WINDOW_NOT_READ = frozenset(
    {"llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "mistral3", "smollm3", "phi3"}
)
"""llama.cpp gives these full attention whatever window the file states."""
_PARALLEL_STATE = frozenset({"falcon-h1"})
_ENCODERS = (
    "bert",
    "nomic-bert",
    "jina-bert",
    "t5encoder",
    "gemma-embedding",
    "modern-bert",
    "eurobert",
    "clip",
)
_MOST_LAYERS = 10_000
_SPLIT_NAME = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class _Unknown(Exception):
    """The layout cannot be told; the message says why."""


def read_gguf(path: str | Path) -> Model:
    """The model in a GGUF file. Raises InputError where it is not a whole GGUF file of version 2 or 3."""
    path = Path(path)
    header = read_header(path)
    metadata, notes = header.metadata, list[str]()
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise InputError(f"{path}: general.architecture is missing, so this is not a model")
    general = Fields(metadata, notes, path.name)
    own = Fields(
        {
            k.removeprefix(f"{architecture}."): v
            for k, v in metadata.items()
            if k.startswith(f"{architecture}.")
        },
        notes,
        f"{path.name}: {architecture}",
    )
    parameters, weight_bytes = _weights(path, header, notes)
    file_type, quantization, quantization_known = _quantization(general, header)
    tokens = metadata.get("tokenizer.ggml.tokens")
    return Model(
        name=path.stem,  # general.name is often left over from training
        origin=Origin("model", str(path)),
        architecture=architecture,
        parameters=parameters,
        weight_bytes=weight_bytes,
        # The KV cache of llama.cpp is f16 unless told otherwise, whatever the weights are.
        dtype=_DTYPES.get(file_type or "", "float16"),
        quantization=quantization,
        quantization_known=quantization_known,
        layers=_layers(own, architecture),
        native_context=own.integer("context_length", high=10**9),
        rope=_rope(own, header),
        attention_heads=own.integer("attention.head_count") if not _listed(own, "attention.head_count") else
        None, hidden_size=own.integer("embedding_length"),
        vocabulary_size=tokens.length if isinstance(tokens, ArrayShape)
        else len(tokens) if isinstance(tokens, list) else own.integer("vocab_size"),
        is_generative=_generative(own, architecture),
        has_chat_template=bool(metadata.get("tokenizer.chat_template")),
        path=str(path),
        notes=tuple(notes),
        is_mixture=bool(own.data.get("expert_count")),
    )  # fmt: skip


def _listed(own: Fields, key: str) -> bool:
    return isinstance(own.data.get(key), list)


def _weights(path: Path, header: Header, notes: list[str]) -> tuple[int | None, int | None]:
    """Parameters and bytes, over all files of a split model."""
    parts = header.metadata.get("split.count")
    headers = [header]
    if isinstance(parts, int) and parts > 1:
        match = _SPLIT_NAME.search(path.name)
        siblings = (
            [
                path.with_name(f"{path.name[: match.start()]}-{i:05d}-of-{match[2]}.gguf")
                for i in range(1, parts + 1)
            ]
            if match and int(match[2]) == parts <= 1000
            else []
        )
        if not siblings or not all(sibling.is_file() for sibling in siblings):
            notes.append(
                f"{path.name}: one of {parts} files, and not all of them are here, so the size is unknown"
            )
            return None, None
        headers = [header if sibling.name == path.name else read_header(sibling) for sibling in siblings]
    parameters = sum(tensor.elements for h in headers for tensor in h.tensors)
    return parameters or None, sum(h.file_size - h.data_offset for h in headers) or None


def _quantization(general: Fields, header: Header) -> tuple[str | None, Quantization | None, bool]:
    stated = general.integer("general.file_type", low=0)
    # From 1024 on the bit "guessed" is set: the writer did not know either.
    name, bits = (
        _FILE_TYPES.get(stated, (None, None)) if stated is not None and stated < 1024 else (None, None)
    )
    if name is None:  # the type that most of the weights have
        weight: Counter[str] = Counter()
        for tensor in header.tensors:
            weight[tensor.type] += tensor.elements
        if not weight:
            return None, None, False
        name = weight.most_common(1)[0][0]
        width = re.search(r"Q(\d)|FP(\d)", name)
        bits = {"F32": 32.0, "F16": 16.0, "BF16": 16.0}.get(name) or (
            float(next(g for g in width.groups() if g)) if width else None
        )
    if name in _DTYPES:
        return name, None, True
    # Whether activations stay in 16 bits is up to the engine's kernels: the file does not say.
    return name, Quantization(f"gguf {name}", bits, None), True


def _rope(own: Fields, header: Header) -> Rope | None:
    kind = own.text("rope.scaling.type")
    factor, original = own.number("rope.scaling.factor"), own.integer("rope.scaling.original_context_length")
    if kind in (None, "none") and any(tensor.name == "rope_freqs.weight" for tensor in header.tensors):
        return Rope("llama3", factor, original)  # Llama 3.1 carries its scaling as a tensor of factors
    if kind is None and "rope.scaling.type" in own:
        return None
    return Rope("default" if kind in (None, "none") else kind[:40], factor, original)


def _generative(own: Fields, architecture: str) -> bool:
    pooled = own.data.get("pooling_type")
    if architecture.startswith(_ENCODERS) or own.data.get("attention.causal") is False:
        return False
    return not (isinstance(pooled, int) and pooled > 0)


def _layers(own: Fields, architecture: str) -> tuple[LayerGroup, ...] | None:
    try:
        layers = _layout(own, architecture)
    except _Unknown as reason:
        own.notes.append(f"{own.where}: the layout of the KV cache is unknown: {reason}")
        return None
    grouped: Counter[LayerGroup] = Counter(layers)
    return tuple(
        LayerGroup(g.kind, n, g.kv_heads, g.key_dim, g.value_dim, g.window) for g, n in grouped.items()
    )


def _layout(own: Fields, architecture: str) -> list[LayerGroup]:
    count = own.integer("block_count", high=_MOST_LAYERS)
    if count is None:
        raise _Unknown("block_count is not stated")
    if architecture.startswith(_ENCODERS):
        return [LayerGroup("none", 1)] * count
    if architecture in _PARALLEL_STATE or any("indexer" in key for key in own.data):
        raise _Unknown(f"{architecture} keeps more than keys and values in a layer")
    drafts = own.integer("nextn_predict_layers", low=0, high=count) or 0
    if drafts:
        if architecture != "glm4moe":
            raise _Unknown("layers that predict further tokens are counted in")
        count -= drafts
    heads = _per_layer(own, "attention.head_count", count)
    kv_heads = (
        _per_layer(own, "attention.head_count_kv", count) if "attention.head_count_kv" in own else heads
    )
    state = any(key.startswith(("ssm.", "wkv.", "shortconv.", "kda.")) for key in own.data)
    recurrent = _recurrent(own, kv_heads, state, count)
    sliding = _sliding(own, architecture, count)
    window = own.integer("attention.sliding_window") if any(sliding) else None
    shared = own.integer("attention.shared_kv_layers", low=0, high=count) or 0
    layers: list[LayerGroup] = []
    for i in range(count):
        if i >= count - shared:
            layers.append(LayerGroup("none", 1))
        elif recurrent[i]:
            layers.append(LayerGroup("recurrent", 1))
        elif kv_heads[i] == 0:
            layers.append(LayerGroup("none", 1))
        elif "attention.kv_lora_rank" in own:
            layers.append(_latent(own, heads[i]))
        else:
            layers.append(_attention(own, heads[i], kv_heads[i], "sliding" if sliding[i] else "full", window))
    return layers


def _per_layer(own: Fields, key: str, count: int) -> list[int]:
    value = own.data.get(key)
    if isinstance(value, list):
        if len(value) < count or not all(type(v) is int and 0 <= v < 100_000 for v in value):
            raise _Unknown(f"{key} is not a list of {count} numbers")
        return value[:count]
    one = own.integer(key, low=0, high=100_000)
    if one is None:
        raise _Unknown(f"{key} is not stated")
    return [one] * count


def _recurrent(own: Fields, kv_heads: list[int], state: bool, count: int) -> list[bool]:
    if not state:
        return [False] * count
    if (interval := own.integer("full_attention_interval")) is not None:
        return [(i + 1) % interval != 0 for i in range(count)]
    if 0 not in kv_heads:
        raise _Unknown("which layers keep a state instead of keys and values is not stated")
    inner = own.data.get("feed_forward_length")  # Nemotron-H: a layer is attention, state, or feed-forward
    inner = inner if isinstance(inner, list) and len(inner) >= count and 0 in inner else [0] * count
    return [kv_heads[i] == 0 and inner[i] == 0 for i in range(count)]


def _sliding(own: Fields, architecture: str, count: int) -> list[bool]:
    window = own.data.get("attention.sliding_window")
    if not window:
        if "attention.chunk_size" in own or architecture == "llama4":
            raise _Unknown("attention in chunks")
        return [False] * count
    if architecture in _WINDOW_NOT_READ:
        own.notes.append(
            f"{own.where}: states a sliding window of {window}, which llama.cpp does not apply to it"
        )
        return [False] * count
    pattern: Any = own.data.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        if len(pattern) < count or not all(isinstance(flag, bool | int) for flag in pattern):
            raise _Unknown(f"attention.sliding_window_pattern is not a list of {count} flags")
        return [bool(flag) for flag in pattern[:count]]
    nth = (
        own.integer("attention.sliding_window_pattern")
        if pattern is not None
        else _EVERY_NTH_FULL.get(architecture)
    )
    if nth is None:
        raise _Unknown("which layers slide is not stated")
    return [(i + 1) % nth != 0 for i in range(count)]


def _latent(own: Fields, heads: int) -> LayerGroup:
    """With key_length_mla the latent alone is cached; files from before it cache keys and values whole."""
    key, value = own.integer("attention.key_length"), own.integer("attention.value_length")
    if key is None or value is None:
        raise _Unknown("attention.key_length or value_length is not stated")
    if "attention.key_length_mla" in own:
        return LayerGroup("mla", 1, 1, key, 0)
    return LayerGroup("full", 1, heads, key, value)


def _attention(own: Fields, heads: int, kv_heads: int, kind: LayerKind, window: int | None) -> LayerGroup:
    hidden = own.integer("embedding_length")
    fallback = hidden // heads if hidden and heads and hidden % heads == 0 else None
    sizes: list[int] = []
    for side in ("key", "value"):
        names = [f"attention.{side}_length_swa"] if kind == "sliding" else []
        size = next(
            (own.integer(name, high=100_000) for name in (*names, f"attention.{side}_length") if name in own),
            fallback,
        )
        if size is None:
            raise _Unknown(f"attention.{side}_length is not stated")
        sizes.append(size)
    if kind == "sliding" and window is None:
        raise _Unknown("attention.sliding_window is not a number of tokens")
    return LayerGroup(kind, 1, kv_heads, sizes[0], sizes[1], window if kind == "sliding" else None)
