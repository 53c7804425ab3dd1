"""How a model's weights are stored, from what its files say (never from its name).

Fields as the quantizers write them: transformers' `quantization_config`, compressed-tensors' `config_groups`,
NVIDIA Model Optimizer's `hf_quant_config.json`, and the older `quantize_config.json` (AutoGPTQ) and
`quant_config.json` (AutoAWQ).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from preop.models.fields import Fields
from preop.models.types import Quantization

__all__ = ["BESIDE_CONFIG", "quantization_of"]

BESIDE_CONFIG = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""Files next to config.json that tell the quantization."""

_WEIGHT_ONLY = frozenset(
    {"awq", "awq_marlin", "gptq", "gptq_marlin", "marlin", "aqlm", "hqq", "quip", "vptq", "higgs", "spqr",
     "bitblas", "gptq_bitblas", "exl2", "exl3", "eetq", "fp_quant_weight_only"}
)  # fmt: skip
"""Formats in which only the weights are stored in few bits and the activations are never touched."""

_MODELOPT: dict[str, tuple[float | None, bool | None]] = {
    "FP8": (8, False), "FP8_PER_CHANNEL_PER_TOKEN": (8, False), "FP8_PB_WO": (8, True), "MXFP8": (8, False),
    "NVFP4": (4, False), "NVFP4_AWQ": (4, False), "W4A16_NVFP4": (4, True), "W4A16_AWQ": (4, True),
    "W4A8_AWQ": (4, False), "W4A8_MXFP4_FP8": (4, False), "W8A16": (8, True), "INT8_SQ": (8, False),
    "W8A8_SQ_PER_CHANNEL": (8, False), "MXFP4": (4, None), "MIXED_PRECISION": (None, None),
}  # fmt: skip


def quantization_of(
    config: Mapping[str, Any], beside: Mapping[str, Mapping[str, Any]], notes: list[str]
) -> tuple[Quantization | None, bool]:
    """The quantization and whether it is known.

    `beside`: those of `BESIDE_CONFIG` that are there, by file name. (None, True): the files are whole and
    tell of none. (None, False): they tell of one, but not in a way that can be read.
    """
    for holder in (config, config.get("text_config"), config.get("llm_config")):
        if not isinstance(holder, Mapping):
            continue
        for key in ("quantization_config", "compression_config"):
            found = holder.get(key)
            if found is None or found == {}:
                continue
            if not isinstance(found, dict):
                notes.append(f"config.json: {key} is not an object, so the quantization is unknown")
                return None, False
            return _from_config(Fields(found, notes, f"config.json: {key}"), key, beside), True
    if modelopt := beside.get("hf_quant_config.json"):
        told = modelopt.get("quantization")
        told = told if isinstance(told, dict) else modelopt
        return _modelopt(Fields(told, notes, "hf_quant_config.json")), True
    if gptq := beside.get("quantize_config.json"):
        return Quantization("gptq", _bits(Fields(gptq, notes, "quantize_config.json")), True), True
    if awq := beside.get("quant_config.json"):
        return Quantization("awq", _bits(Fields(awq, notes, "quant_config.json")), True), True
    return None, True


def _bits(fields: Fields) -> float | None:
    return fields.integer("bits", "w_bit", "weight_bits", "nbits", "num_bits", "wbits", low=1, high=16)


def _from_config(fields: Fields, key: str, beside: Mapping[str, Mapping[str, Any]]) -> Quantization:
    method = (fields.text("quant_method") or "").lower().replace("_", "-")
    if "quant_algo" in fields and (
        method in ("", "modelopt", "modelopt-fp4") or fields.data.get("moe_quant_algo")
    ):
        return _modelopt(fields)
    if method == "compressed-tensors" or (
        not method and ("config_groups" in fields or key == "compression_config")
    ):
        return _compressed_tensors(fields)
    plain = method.replace("-", "_")
    if plain in _WEIGHT_ONLY or plain in ("hqq", "bitnet"):
        bits = _bits(fields)
        if bits is None and (params := fields.object("quant_config", "weight_quant_params")):
            bits = _bits(params.object("weight_quant_params") or params)
        return Quantization(plain, bits, True if plain in _WEIGHT_ONLY else None)
    if method in ("auto-round", "intel/auto-round", "inc"):
        activations = fields.integer("act_bits", low=1, high=32)
        return Quantization("auto-round", _bits(fields), activations is None or activations >= 16)
    if method in ("fp8", "fbgemm-fp8"):
        activations_too = method == "fbgemm-fp8" or fields.text("activation_scheme") in ("dynamic", "static")
        return Quantization(plain, 8, False if activations_too else None)
    if method == "bitsandbytes" or (not method and fields.first(("load_in_4bit", "load_in_8bit"))):
        if fields.boolean("load_in_4bit", "_load_in_4bit"):
            return Quantization("bitsandbytes", 4, True)
        # LLM.int8() multiplies int8 activations with int8 weights.
        return (
            Quantization("bitsandbytes", 8, False)
            if fields.boolean("load_in_8bit", "_load_in_8bit")
            else (Quantization("bitsandbytes", None, None))
        )
    if method == "mxfp4":
        return Quantization("mxfp4", 4, None)  # the engine and the GPU decide what the activations become
    if method == "torchao":
        return _torchao(fields)
    if method == "quanto":
        return _quanto(fields)
    if method == "quark":
        return _quark(fields)
    if not method:
        fields.notes.append(f"{fields.where}: no quant_method, so the kind of quantization is unknown")
    return Quantization(plain or "unknown", _bits(fields), None)


def _modelopt(fields: Fields) -> Quantization:
    algorithm = (fields.text("quant_algo") or "").upper()
    bits, weight_only = _MODELOPT.get(algorithm, (None, None))
    if algorithm not in _MODELOPT:
        fields.notes.append(
            f"{fields.where}: quant_algo {algorithm[:40] or 'missing'} is not one that preop knows"
        )
    return Quantization(f"modelopt {algorithm}".strip()[:60], bits, weight_only)


def _compressed_tensors(fields: Fields) -> Quantization:
    """Weight-only where no group quantizes its input activations to fewer than 16 bits."""
    groups = fields.object("config_groups")
    bits: set[float | None] = set()
    weight_only: bool | None = True
    for name in groups.data if groups else ():
        group = groups.object(name) if groups else None
        weights = group.object("weights") if group else None
        if group is None or weights is None:
            weight_only = None if weight_only else weight_only
            continue
        bits.add(weights.integer("num_bits", low=1, high=32))
        activations = group.object("input_activations")
        if activations is not None:
            activation_bits = activations.integer("num_bits", low=1, high=32)
            if activation_bits is None:
                weight_only = None if weight_only else weight_only
            elif activation_bits < 16:
                weight_only = False
    if not bits:
        return Quantization("compressed-tensors", None, None)
    if len(bits) > 1:
        fields.notes.append(f"{fields.where}: its groups have different widths, so there is no single width")
    return Quantization("compressed-tensors", bits.pop() if len(bits) == 1 else None, weight_only)


def _torchao(fields: Fields) -> Quantization:
    told = fields.data.get("quant_type")
    text = str(told)[:2000]
    width = re.search(r"(?:int|uint|float|fp)[_x]?(\d{1,2})", text, re.IGNORECASE)
    lowered = text.lower().replace("_", "")
    weight_only = True if "weightonly" in lowered else False if "dynamic" in lowered else None
    if "weightonly" in lowered and "dynamic" in lowered:
        weight_only = None
    return Quantization(
        "torchao", float(width[1]) if width and 1 <= int(width[1]) <= 16 else None, weight_only
    )


def _quanto(fields: Fields) -> Quantization:
    width = re.search(r"(\d{1,2})$", fields.text("weights") or "")
    return Quantization("quanto", float(width[1]) if width else None, "activations" not in fields)


def _quark(fields: Fields) -> Quantization:
    overall = fields.object("global_quant_config")
    weight = overall.object("weight") if overall else None
    width = re.search(r"(?:int|fp)(\d{1,2})", (weight.text("dtype") or "") if weight else "")
    weight_only = None if overall is None or weight is None else "input_tensors" not in overall
    return Quantization("quark", float(width[1]) if width else None, weight_only)
