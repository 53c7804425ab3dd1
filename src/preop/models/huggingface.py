"""Models as Hugging Face folders: config.json and what lies beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from preop.errors import InputError
from preop.facts import Origin
from preop.models.fields import Fields, read_json
from preop.models.layers import attention_heads_of, layer_groups
from preop.models.parameters import is_dense, parameters_of
from preop.models.quantization import BESIDE_CONFIG, quantization_of
from preop.models.safetensors import Weights, weights_in
from preop.models.types import LayerGroup, Model, Quantization, Rope

__all__ = ["parse_config", "read_folder"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "merges.txt",
"vocab.txt",
                    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                    "chat_template.jinja", "chat_template.json")  # fmt: skip
_NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
                 "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len")  # fmt: skip
"""vLLM 0.32 takes the smallest of those that are there; `model_max_length` (Cohere) overrules."""
_ABSURD_CONTEXT = 10**9
"""Tokenizers write 1e30 for "no limit"."""
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
_GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForSpeechSeq2Seq", "ForVision2Seq")
_DOES_NOT = ("ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "ForQuestionAnswering",
             "ForMultipleChoice", "RewardModel", "ForRewardModel", "ForImageClassification",
             "Model")  # fmt: skip
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok",
            "moe_intermediate_size", "ffn_config", "moe_layer_freq")  # fmt: skip
_SENTENCE_FILES = ("modules.json", "config_sentence_transformers.json", "1_Pooling")

_CLASS_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
                    "max_position_embeddings": 131072},
}  # fmt: skip
"""What transformers fills in where the published configs of a family leave it out (transformers 5)."""


def read_folder(folder: Path, *, name: str | None = None, complete: bool = True) -> Model:
    """The model in a folder with a config.json. Raises InputError where the files cannot be read.

    `complete`: all files of the model are here, so that one that is missing says something.
    """
    config = read_json(folder / "config.json")
    notes: list[str] = []

    def beside(file: str) -> dict[str, Any] | None:
        if not (folder / file).is_file():
            return None
        try:
            return read_json(folder / file)
        except InputError as error:
            notes.append(str(error))
            return None

    quantizers = {file: found for file in BESIDE_CONFIG if (found := beside(file)) is not None}
    unread = [file for file in BESIDE_CONFIG if (folder / file).exists() and file not in quantizers]
    tokenizer = beside("tokenizer_config.json") or {}
    files = tuple(file for file in _TOKENIZER_FILES if (folder / file).is_file())
    template: bool | None = bool(tokenizer.get("chat_template")) or any(
        "chat_template" in file for file in files
    )
    if not template and not files:
        template = None
    return parse_config(
        config,
        name=name or folder.name or str(folder),
        origin=Origin("model", str(folder / "config.json")),
        beside=quantizers,
        tokenizer_config=tokenizer,
        complete=complete and not unread,
        weights=weights_in(folder, notes),
        is_sentence_model=any((folder / file).exists() for file in _SENTENCE_FILES),
        tokenizer_files=files,
        has_chat_template=template,
        path=str(folder),
        notes=notes,
    )


def parse_config(
    config: Mapping[str, Any],
    *,
    name: str,
    origin: Origin,
    beside: Mapping[str, Mapping[str, Any]] | None = None,
    tokenizer_config: Mapping[str, Any] | None = None,
    whole: bool = True,
    complete: bool = True,
    weights: Weights | None = None,
    parameters: int | None = None,
    is_sentence_model: bool = False,
    tokenizer_files: tuple[str, ...] = (),
    has_chat_template: bool | None = None,
    path: str | None = None,
    notes: list[str] | None = None,
) -> Model:
    """A `Model` from the content of a config.json.

    `beside`: other files that tell the quantization, by name. `whole`: config.json is all there;
    `complete`: so are the files beside it. Only then does a missing `quantization_config` mean "not
    quantized". `parameters`: as the source states them. A wrong value makes its own field None, with a note.
    """
    notes = [] if notes is None else notes
    inner = _text_config(config, notes)
    top = Fields(config, notes)
    model_type = inner.text("model_type") or ""
    for key, value in _CLASS_DEFAULTS.get(model_type, {}).items():
        if key not in inner:
            inner.data = {**inner.data, key: value}
            notes.append(
                f"config.json: {key} is not stated; {value} is what transformers takes for {model_type}"
            )
    quantization, told = quantization_of(config, beside or {}, notes)
    quantization_known = told and ((whole and complete) or quantization is not None)
    dtype = _dtype(inner) or _dtype(top)
    layers = layer_groups(inner, model_type)
    heads = attention_heads_of(inner)
    parameters = parameters or _parameters(
        inner, model_type, layers, heads, quantization, quantization_known, weights, notes
    )
    size = weights.size if weights else None
    if (
        size is None
        and parameters is not None
        and quantization is None
        and quantization_known
        and dtype in _BYTES
    ):
        size = parameters * _BYTES[dtype]
        notes.append(
            f"weight bytes are {parameters} parameters of {_BYTES[dtype]} bytes ({dtype}), not a file size"
        )
    return Model(
        name=name,
        origin=origin,
        architecture=_architecture(top, inner),
        parameters=parameters,
        weight_bytes=size,
        dtype=dtype,
        quantization=quantization,
        quantization_known=quantization_known,
        layers=layers,
        native_context=_context(inner, Fields(tokenizer_config or {}, notes, "tokenizer_config.json")),
        rope=_rope(inner, whole),
        attention_heads=heads,
        hidden_size=inner.integer("hidden_size", "n_embd", "d_model"),
        vocabulary_size=inner.integer("vocab_size", "padded_vocab_size"),
        is_generative=False if is_sentence_model else _generative(_architecture(top, inner)),
        tokenizer_files=tokenizer_files,
        has_chat_template=has_chat_template,
        path=path,
        notes=tuple(notes),
        is_mixture=_mixture(inner, model_type, whole),
    )


def _text_config(config: Mapping[str, Any], notes: list[str]) -> Fields:
    """The language model's part: nested in multimodal configs, with the top level behind it."""
    for key in _NESTED:
        nested = config.get(key)
        if isinstance(nested, dict) and key == "thinker_config":
            nested = nested.get("text_config")
        if isinstance(nested, dict) and nested:
            # A model_type at the top names the wrapper, so it never stands in for the inner one.
            outer = {k: v for k, v in config.items() if not isinstance(v, dict) and k != "model_type"}
            stated = {k: v for k, v in nested.items() if v is not None}
            return Fields({**nested, **outer, **stated}, notes, f"config.json: {key}")
    return Fields(config, notes)


def _architecture(top: Fields, inner: Fields) -> str | None:
    for fields in (top, inner):
        listed = fields.items("architectures")
        if listed and isinstance(listed[0], str):
            return listed[0]
    return None


def _generative(architecture: str | None) -> bool | None:
    if architecture is None:
        return None
    if any(part in architecture for part in _GENERATES):
        return True
    return False if architecture.endswith(_DOES_NOT) else None


def _mixture(fields: Fields, model_type: str, whole: bool) -> bool | None:
    experts = [fields.data[key] for key in _EXPERTS if key in fields]
    if any(value not in (0, 1, []) for value in experts):
        return True
    return False if whole or is_dense(model_type) else None


def _dtype(fields: Fields) -> str | None:
    dtype = fields.text("dtype", "torch_dtype")
    dtype = dtype.removeprefix("torch.") if dtype else None
    return (
        {"half": "float16", "float": "float32"}.get(dtype, dtype)
        if dtype in (*_BYTES, "half", "float")
        else None
    )


def _context(fields: Fields, tokenizer: Fields) -> int | None:
    """Tokens that the released model says it takes; scaling that the release itself states is in it."""
    stated = [
        value
        for key in _CONTEXT_KEYS
        if key in fields and (value := fields.integer(key, high=_ABSURD_CONTEXT))
    ]
    if "model_max_length" in fields:
        stated = [value] if (value := fields.integer("model_max_length", high=_ABSURD_CONTEXT)) else []
    limit = tokenizer.data.get("model_max_length")
    if stated and isinstance(limit, int | float) and not isinstance(limit, bool) and 0 < limit < min(stated):
        tokenizer.notes.append(
            f"tokenizer_config.json: model_max_length {limit:.0f} is below config.json's {min(stated)}"
        )
        stated.append(int(limit))
    return min(stated) if stated and min(stated) > 0 else None


def _rope(fields: Fields, whole: bool) -> Rope | None:
    """Scaling as the config states it; with parameters for each kind of layer, those of full attention."""
    scaling = fields.object("rope_parameters", "rope_scaling")
    if scaling is None:
        broken = fields.first(("rope_parameters", "rope_scaling")) is not None
        return Rope("default") if whole and not broken else None
    nested = [value for value in scaling.data.values() if isinstance(value, dict)]
    if nested and not scaling.first(("rope_type", "type")):
        scaling = scaling.object("full_attention") or Fields(nested[0], scaling.notes, scaling.where)
    kind, old = scaling.text("rope_type"), scaling.text("type")
    if kind and old and kind != old and {kind, old} not in ({"default", "mrope"}, {"su", "longrope"}):
        scaling.notes.append(
            f"{scaling.where}: type {old[:40]} and rope_type {kind[:40]} contradict each other"
        )
    kind = kind or old or "default"
    kind = {"su": "longrope", "mrope": "default"}.get(kind, kind)[:40]
    original = scaling.integer("original_max_position_embeddings")
    original = original or fields.integer("original_max_position_embeddings")
    return Rope(kind, scaling.number("factor"), original)


def _parameters(
    fields: Fields,
    model_type: str,
    layers: tuple[LayerGroup, ...] | None,
    heads: int | None,
    quantization: Quantization | None,
    quantization_known: bool,
    weights: Weights | None,
    notes: list[str],
) -> int | None:
    """Counted in the weight files where each stored number is a parameter, else from the config's shapes."""
    if weights and weights.elements and quantization is None and quantization_known:
        return weights.elements
    cached = [group for group in layers or () if group.kind in ("full", "sliding")]
    if layers and len(cached) == len(layers) and len({(g.kv_heads, g.key_dim) for g in cached}) == 1:
        counted = parameters_of(fields, model_type, heads, cached[0].kv_heads, cached[0].key_dim)
        if counted is not None:
            return counted
    notes.append(
        f"the number of parameters is unknown: neither stated nor counted for {model_type or 'this family'}"
    )
    return None
