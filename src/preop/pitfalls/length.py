"""The length that will be served, and how far the model's positions reach, from facts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from preop.facts import Fact
from preop.pitfalls.readings import batch_cap, is_nothing, not_set, truth, whole
from preop.pitfalls.types import Case

__all__ = [
    "Native",
    "Scaling",
    "Served",
    "native_of",
    "overridden_native",
    "overrides_of",
    "scaling_of",
    "served_of",
    "touches_windows",
    "window_of",
]

_ALREADY_SCALED = {"llama3", "longrope", "su"}
"""Types whose `max_position_embeddings` is the length after scaling (vLLM 0.32.0 config/model.py)."""
_NO_SCALING = {"", "none", "default", "mrope", "proportional"}
_WITHOUT_POSITIONS = {
    "FalconMambaForCausalLM",
    "JambaForCausalLM",
    "Mamba2ForCausalLM",
    "MambaForCausalLM",
    "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM",
}
"""Architectures without position embeddings (vLLM 0.32.0: nemotron_h.py, jamba.py, mamba.py, mamba2.py build
none): the length in their config.json is a preset, and their makers serve more (Nemotron 3: 262,144 in the
file, 1M in its guide with VLLM_ALLOW_LONG_MAX_MODEL_LEN=1)."""
_YARN = {"yarn", "deepseek_yarn", "telechat3-yarn"}
_WINDOW_KEYS = {
    "sliding_window",
    "use_sliding_window",
    "layer_types",
    "max_window_layers",
    "sliding_window_pattern",
}


@dataclass(frozen=True)
class Native:
    """Tokens the weights were trained for, and who says so."""

    tokens: int
    source: str
    is_sure: bool = True
    """False: a tokenizer's own limit lowered it, which only vLLM heeds."""
    bounds_positions: bool = True
    """False: the model has no positions that could end."""


@dataclass(frozen=True)
class Served:
    """The longest request that will be served: `tokens` None where that is not known."""

    tokens: int | None
    is_own: bool
    """Nobody set it: the engine takes the model's own."""
    fact: Fact


@dataclass(frozen=True)
class Scaling:
    """RoPE scaling in force. `reach` None: it scales, but how far is not stated."""

    type: str
    reach: int | None
    source: str
    is_known: bool = True
    """False: scaling may be set where it cannot be seen."""

    @property
    def is_yarn(self) -> bool:
        """YaRN under any of its names."""
        return self.type in _YARN


def native_of(case: Case) -> Native | None:
    """From the model's files or the catalog, else what the running engine reports."""
    model = case.deployment.model
    if model is not None and model.native_context is not None:
        lowered = any("model_max_length" in note for note in model.notes)
        is_sure = case.deployment.engine == "vllm" or not lowered
        bounds = model.architecture not in _WITHOUT_POSITIONS
        return Native(model.native_context, f"{model.name}: {model.origin}", is_sure, bounds)
    reported = case.fact("native_context")
    tokens = whole(reported)
    return Native(tokens, reported.source) if tokens is not None else None


def overrides_of(case: Case) -> dict[str, Any] | None:
    """What changes the model's config.json on the command line, flat. None: it cannot be seen or read."""
    fact = case.fact("hf_overrides")
    if case.deployment.engine not in ("vllm", "sglang"):
        return {}
    if not fact.is_known:
        return {} if not_set(case, "hf_overrides") else None
    found = _as_object(fact.value)
    if found is None:
        return {} if is_nothing(fact.value) else None
    nested = [
        found[key]
        for key in ("text_config", "language_config", "llm_config")
        if isinstance(found.get(key), dict)
    ]
    return {key: value for part in (*nested, found) for key, value in part.items()}


def served_of(case: Case, native: Native | None, overrides: dict[str, Any] | None) -> Served:
    """`max_model_len` where somebody set it; the model's own length where nobody did."""
    fact = case.fact("max_model_len")
    tokens = whole(fact)
    if tokens is not None:
        return Served(tokens, fact.set_by in ("default", "model"), fact)
    if case.deployment.engine == "llama.cpp":
        return _slot_of_own(case, native)
    if not not_set(case, "max_model_len") or overrides is None:
        return Served(None, False, fact)
    raised = overrides.get("max_position_embeddings")
    if isinstance(raised, int) and not isinstance(raised, bool) and raised > 0:
        return Served(raised, True, fact)
    return Served(native.tokens if native else None, True, fact)


def _slot_of_own(case: Case, native: Native | None) -> Served:
    """llama.cpp without a context size, or with 0: the trained length, which separate slots divide."""
    fact, context = case.fact("max_model_len"), case.fact("context_size")
    own = context.value == 0 or (context.note or "").startswith("0:") or not_set(case, "context_size")
    slots, unified = batch_cap(case), truth(case.fact("kv_unified"))
    if native is None or not own or (slots != 1 and unified is None):
        return Served(None, False, fact)
    if slots == 1 or unified:
        return Served(native.tokens, True, fact)
    return Served(native.tokens // slots if slots else None, True, fact)


def scaling_of(case: Case, native: Native, overrides: dict[str, Any] | None) -> Scaling:
    """The scaling in force: the command's before the model's own."""
    flag = case.fact("rope_scaling")
    engine = case.deployment.engine
    if overrides is None or (
        not flag.is_known and not not_set(case, "rope_scaling") and _has_rope_flag(case)
    ):
        return Scaling("", None, "not visible", is_known=False)
    rope = _rope_in(overrides)
    if rope is not None:
        return _scaling(
            rope, native, case.fact("hf_overrides").source, raised=overrides.get("max_position_embeddings")
        )
    if flag.is_known and not is_nothing(flag.value):
        told = _as_object(flag.value)
        if told is not None:
            return _scaling(told, native, flag.source)
        # llama.cpp and TGI name a type here and the factor elsewhere.
        return Scaling(str(flag.value).lower(), None, flag.source)
    model = case.deployment.model
    explicitly_none = engine == "llama.cpp" and flag.set_by == "user" and flag.is_known
    if model is None or model.rope is None or explicitly_none:
        return Scaling("", native.tokens, native.source, is_known=explicitly_none)
    own = {
        "rope_type": model.rope.type,
        "factor": model.rope.factor,
        "original_max_position_embeddings": model.rope.original_context,
    }
    if "gemma3" in (model.architecture or "").lower():
        return Scaling(model.rope.type, native.tokens, native.source)
    return _scaling(own, native, native.source)


def window_of(case: Case) -> int | None:
    """The window of a model whose every layer slides; None where a layer sees further, or unknown."""
    model = case.deployment.model
    if model is None or not model.layers:
        return None
    attending = [group for group in model.layers if group.kind != "none"]
    windows = [group.window for group in attending if group.kind in ("sliding", "chunked")]
    if not windows or len(windows) < len(attending) or None in windows:
        return None
    return max(window for window in windows if window is not None)


def touches_windows(overrides: dict[str, Any]) -> bool:
    """Whether the command changes which layers slide."""
    return bool(_WINDOW_KEYS & overrides.keys())


def overridden_native(case: Case) -> int | None:
    """llama.cpp's `--override-kv ARCH.context_length=int:N`: N, which lifts the engine's own cap."""
    match = re.search(r"\.context_length=int:(\d{1,12})", str(case.fact("override_kv").value or ""))
    return int(match[1]) if match else None


def _has_rope_flag(case: Case) -> bool:
    """Whether the fact means anything for this engine: SGLang has no such flag, newer vLLM dropped it."""
    return case.deployment.engine in ("llama.cpp", "tgi") or "rope_scaling" in case.deployment.facts


def _as_object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _rope_in(overrides: dict[str, Any]) -> dict[str, Any] | None:
    """`rope_parameters` or `rope_scaling`, one level deeper where they are given for each kind of layer."""
    for key in ("rope_parameters", "rope_scaling"):
        found = overrides.get(key)
        if not isinstance(found, dict):
            continue
        nested = [part for part in found.values() if isinstance(part, dict)]
        if "factor" not in found and nested:
            return next((part for part in nested if "factor" in part), nested[0])
        return found
    return None


def _scaling(rope: dict[str, Any], native: Native, source: str, raised: Any = None) -> Scaling:
    kind = str(rope.get("rope_type") or rope.get("type") or "").lower()
    factor, original = _positive(rope.get("factor")), _positive(rope.get("original_max_position_embeddings"))
    if kind in _NO_SCALING:
        return Scaling("", native.tokens, source)
    if kind in _ALREADY_SCALED or kind in _YARN:
        if factor is None:
            # longrope carries lists instead of a factor: what the config says is the length after scaling.
            reach = max(native.tokens, int(_positive(raised) or 0)) if kind in _ALREADY_SCALED else None
            return Scaling(kind, reach, source)
        return Scaling(kind, max(native.tokens, round((original or native.tokens) * factor)), source)
    return Scaling(kind, round(native.tokens * factor) if factor is not None else None, source)


def _positive(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        return None
    return float(value)
