"""What TGI's and TensorRT-LLM's flags make of a fact, where it is more than one flag's value."""

from __future__ import annotations

from typing import Any

import msgspec

from preop.facts import Fact, unknown

__all__ = ["refine_tensorrt", "refine_tgi"]


def refine_tgi(found: dict[str, Fact]) -> None:
    """`--speculate N`: by the model's own heads where it has them, else by n-grams; 0 is none."""
    fact = found["speculative"]
    if fact.is_known and isinstance(fact.value, int):
        value = {"method": "heads of the model, else n-gram", "num_speculative_tokens": fact.value}
        found["speculative"] = msgspec.structs.replace(fact, value=value if fact.value else None)


_SPECULATIVE = {
    "decoding_type": "method",
    "speculative_model": "model",
    "speculative_model_dir": "model",
    "max_draft_len": "num_speculative_tokens",
    "num_nextn_predict_layers": "num_speculative_tokens",
}


def refine_tensorrt(found: dict[str, Fact]) -> None:
    """Objects of the YAML file in the words of the vocabulary."""
    speculative = found["speculative"]
    if isinstance(speculative.value, dict):
        value: dict[str, Any] = {}
        for key, item in speculative.value.items():
            value.setdefault(_SPECULATIVE.get(str(key), str(key)), item)
        found["speculative"] = msgspec.structs.replace(speculative, value=value)
    quantization = found["quantization"]
    if isinstance(quantization.value, dict):
        scheme = quantization.value.get("quant_algo")
        if isinstance(scheme, str):
            found["quantization"] = msgspec.structs.replace(quantization, value=scheme.lower())
        else:
            found["quantization"] = unknown("quant_config names no quant_algo", origin=quantization.origin)
