"""How judges read facts: what a value says, what is surely not set, and what stays unknown."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from preop.errors import InputError
from preop.evidence import P99_SAMPLES, Level
from preop.facts import Fact
from preop.findings import Item
from preop.pitfalls.accelerator import UNSUPPORTED, vendor
from preop.pitfalls.clip import clip
from preop.pitfalls.say import item, place
from preop.pitfalls.types import Case
from preop.text import Text

if TYPE_CHECKING:
    from preop.models.gpus import Gpu

__all__ = [
    "ENGINE_NAMES",
    "NOT_QUANTIZED",
    "Weights",
    "batch_cap",
    "cap_flag",
    "engine_name",
    "gpu_memory",
    "gpu_of",
    "grouped",
    "hides_flags",
    "is_nothing",
    "kv_quantization",
    "length_flag",
    "levels_up_to",
    "load_run",
    "no_p99",
    "not_set",
    "number",
    "ranks_of",
    "release",
    "truth",
    "version_name",
    "weights",
    "whole",
    "whole_cap",
    "without_figures",
]

ENGINE_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "llama.cpp": "llama.cpp", "tgi": "TGI"}
_CAP_FLAGS = {
    "vllm": "--max-num-seqs",
    "sglang": "--max-running-requests",
    "llama.cpp": "--parallel",
    "tgi": "--max-concurrent-requests",
}
_LENGTH_FLAGS = {
    "vllm": "--max-model-len",
    "sglang": "--context-length",
    "llama.cpp": "--ctx-size",
    "tgi": "--max-total-tokens",
}
_FULL_WIDTH = {
    "auto",
    "bf16",
    "bfloat16",
    "f16",
    "fp16",
    "float16",
    "half",
    "f32",
    "fp32",
    "float32",
    "float",
}
_COMMAND = {"argument", "file", "environment", "default"}
"""Origins that only a command which was read can give."""
_NOTHING = {"", "none", "null", "off", "unquant", "false"}


def engine_name(case: Case) -> str:
    """The engine as people write it."""
    return ENGINE_NAMES.get(case.deployment.engine, "the engine")


def cap_flag(case: Case) -> str:
    """The flag that sets how many requests run at once, in this engine's own words."""
    return _CAP_FLAGS.get(case.deployment.engine, "the engine's cap on running requests")


def length_flag(case: Case) -> str:
    """The flag that sets the longest request, in this engine's own words."""
    return _LENGTH_FLAGS.get(case.deployment.engine, "the engine's context length")


def grouped(value: float) -> str:
    """A whole number with its thousands parted, as it is shown; a short power from a thousand million on."""
    return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3g}"


def number(fact: Fact) -> float | None:
    """The fact's value where it is a finite number."""
    value = fact.value
    if not fact.is_known or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def whole(fact: Fact) -> int | None:
    """The fact's value where it is a whole number above zero (engines use 0 and -1 for "decide yourself")."""
    value = number(fact)
    return int(value) if value is not None and value > 0 and value == int(value) else None


def truth(fact: Fact) -> bool | None:
    """Whether a switch is on; None where that is unknown."""
    if not fact.is_known:
        return None
    if isinstance(fact.value, str):
        return fact.value.strip().lower() not in _NOTHING | {"0", "no"}
    return bool(fact.value)


def is_nothing(value: Any) -> bool:
    """Whether a value says "none": null, empty, `none`, or a list of such."""
    if value is None or value is False:
        return True
    if isinstance(value, str):
        return value.strip().lower() in _NOTHING
    if isinstance(value, list | tuple):
        return all(is_nothing(one) for one in value)
    return isinstance(value, dict) and not value


def hides_flags(case: Case) -> bool:
    """Whether flags or environment may exist that cannot be seen."""
    return any(note.kind == "hidden" for note in case.deployment.notes)


def not_set(case: Case, name: str) -> bool:
    """Whether nobody set this fact, for certain: the whole command was seen and it is not there.

    For facts whose default is "none" in every version, so that the version need not be stated.
    """
    wanted = case.fact(name)
    if wanted.set_by in ("user", "engine"):
        return is_nothing(wanted.value)
    if _asked_in_other_words(case, name):
        return False
    if wanted.is_known:
        return is_nothing(wanted.value)
    seen = any(fact.origin and fact.origin.kind in _COMMAND for fact in case.deployment.facts.values())
    return seen and wanted.origin is None and not hides_flags(case)


def _asked_in_other_words(case: Case, name: str) -> bool:
    """Whether the command has a flag that the table in use does not know, and that sounds like this fact.

    Another version may know it (`--rope-scaling`, `--speculative-model` of earlier vLLM).
    """
    stem = name.split("_")[0]
    odd = (
        note for note in case.deployment.notes if note.kind in ("unknown-flag", "removed-flag", "bad-value")
    )
    return any(stem in note.message.lower() for note in odd)


def batch_cap(case: Case) -> int | None:
    """How many requests run at once in one engine process, where that is known."""
    return whole(case.fact("max_num_seqs"))


def whole_cap(case: Case) -> int | None:
    """How many requests run at once over all data parallel replicas; None where that is not known.

    vLLM keeps its cap for each replica. SGLang shares it between the ranks of DP attention but keeps it for
    each plain replica (0.5.23: mem_cache/kv_cache_configurator.py), and no fact tells which of both it is.
    """
    cap, size = batch_cap(case), case.fact("data_parallel_size")
    replicas = whole(size)
    if replicas is None and not not_set(case, "data_parallel_size") and hides_flags(case):
        return None
    if cap is None or replicas in (None, 1):
        return cap
    return cap * replicas if replicas is not None and case.deployment.engine == "vllm" else None


_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.?post\d+)?(?:\+[A-Za-z0-9.]+)?")


def release(case: Case) -> tuple[int, int, int] | None:
    """The engine's version as numbers; None for what is no release (`0.1.dev1+g...`, `nightly`)."""
    fact = case.fact("engine_version")
    if not fact.is_known or not isinstance(fact.value, str):
        return None
    match = _RELEASE.fullmatch(fact.value.strip())
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def version_name(case: Case) -> str:
    """The engine with its version where one is stated."""
    fact = case.fact("engine_version")
    return f"{engine_name(case)} {fact.value}" if fact.is_known and fact.value else engine_name(case)


def gpu_of(case: Case) -> Gpu | None:
    """The GPU's row of the sheet; None where it is not stated, not in the sheet, or its name fits several."""
    from preop.models.gpus import find_gpu

    fact = case.fact("gpu")
    if not fact.is_known or not fact.value:
        return None
    # A name that fits several variants is written as all of them: what they have in common names them.
    variants = [variant.split() for variant in str(fact.value)[:200].split(" or ")]
    name = " ".join(word for word in variants[0] if all(word in other for other in variants))
    try:
        return find_gpu(name)
    except InputError:
        return None


def without_figures(case: Case) -> str | None:
    """The accelerator where it is of a kind that the GPU sheet has no rows for (TPU, Gaudi, Apple, a CPU)."""
    kind = vendor(case)
    if kind == "none":
        return "CPU"
    return UNSUPPORTED[kind][0] if kind in UNSUPPORTED and kind != "amd" else None


def levels_up_to(cap: int | None) -> str:
    """Levels of concurrency to measure, one request alone to the cap, three at the least: `1,4,16,64`."""
    top = cap or 64
    levels = {1, top} | {4**power for power in range(1, 7) if 4**power < top}
    if len(levels) < 3:
        levels |= {2, 4}
    return ",".join(str(level) for level in sorted(levels))


def load_run(cap: int | None) -> str:
    """The options of a load measurement that can decide: every level carries a p99, and time is allowed."""
    levels = levels_up_to(cap)
    return f"--measure load --endpoint URL --concurrency {levels} --requests {P99_SAMPLES} --budget 3600"


def no_p99(level: Level) -> Text:
    """Why a level has no p99 of TTFT or of TPOT."""
    if level.requests >= P99_SAMPLES:
        return Text(
            f"no TPOT at concurrency {level.concurrency}: few answers state their tokens",
            f"{level.concurrency} 并发没有 TPOT：写明 token 数的回答太少",
        )
    return Text(
        f"{level.requests} requests at concurrency {level.concurrency}: too few for a p99",
        f"{level.concurrency} 并发只有 {level.requests} 个请求，不足以得出 p99",
    )


def gpu_memory(gpu: Gpu) -> tuple[float | None, float | None]:
    """Bytes that an engine sees on it, at the least and at the most; None where nobody stated one."""
    seen = [gpu.memory_gb, gpu.memory_mib / 1024 if gpu.memory_mib else None, *(gpu.visible_gib or ())]
    most = max((one for one in seen if one is not None), default=None)
    least = gpu.total_gib
    gib = float(1 << 30)
    return (least * gib if least is not None else None), (most * gib if most is not None else None)


def ranks_of(case: Case) -> int | None:
    """GPUs of one engine process (one replica)."""
    ranks = 1
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        fact = case.fact(name)
        size = whole(fact)
        if size is None and not not_set(case, name):
            return None
        ranks *= size or 1
    return ranks


NOT_QUANTIZED = Text("not quantized: the model's own files say so", "未量化：模型自身文件已表明")
"""Own files: those read here, or the published config.json of exactly this name; the evidence says which."""


@dataclass(frozen=True)
class Weights:
    """Whether the weights are quantized, and who says so."""

    quantized: bool | None
    """None: nobody says."""
    evidence: tuple[Item, ...]
    method: str | None = None
    bits: float | None = None
    weight_only: bool | None = None
    """None: nobody says whether activations stay in 16 bits."""
    where: str | None = None


_WEIGHT_ONLY_METHODS: dict[str, float | None] = {
    "awq": 4,
    "awq_marlin": 4,
    "gptq": None,
    "gptq_marlin": None,
    "bitsandbytes": None,
    "hqq": None,
    "auto-round": None,
    "eetq": 8,
}
"""Methods that keep activations in 16 bits by definition, with their bits where these are fixed."""


def weights(case: Case) -> Weights:
    """Read the weights' quantization from the flag and the model's own files. A name is no evidence."""
    flag = case.fact("quantization")
    model = case.deployment.model
    asked = (
        clip(flag.value) if flag.is_known and not is_nothing(flag.value) and flag.value != "auto" else None
    )
    shown = (item("quantization", flag),) if flag.is_known else ()
    stored = model.quantization if model is not None else None
    if stored is not None:
        assert model is not None
        source = f"{model.name}: {model.origin}"
        evidence = (Item("weights", stored.method, None, source), *shown)
        return Weights(True, evidence, stored.method, stored.bits, stored.weight_only, place(flag))
    if asked is not None:
        method = asked.lower()
        only = True if method in _WEIGHT_ONLY_METHODS else None
        return Weights(True, shown, asked, _WEIGHT_ONLY_METHODS.get(method), only, place(flag))
    # The catalog holds the published files of a name; another revision of it may hold other files.
    other = model is not None and model.origin.kind == "catalog" and not not_set(case, "revision")
    read = model is not None and model.quantization_known and not other
    # llama.cpp serves the file as it is: no flag can quantize it further.
    plain = case.deployment.engine == "llama.cpp" or not_set(case, "quantization")
    if read and plain:
        assert model is not None
        evidence = (
            Item("weights", f"not quantized, {model.dtype or 'type not stated'}", None, str(model.origin)),
        )
        return Weights(False, (*evidence, *shown))
    return Weights(None, (item("quantization", flag),))


def kv_quantization(case: Case) -> tuple[Literal["yes", "no", "unknown"], str | None, tuple[Item, ...]]:
    """Whether the KV cache is stored in fewer than 16 bits, its type, and the facts that say so."""
    names = ["kv_cache_dtype"]
    if case.deployment.engine == "llama.cpp":
        names.append("kv_cache_dtype_v")
    unclear = False
    shown: list[Item] = []
    for name in names:
        fact = case.fact(name)
        if fact.is_known:
            shown.append(item(name, fact))
            text = str(fact.value).lower()
            if not is_nothing(fact.value) and text not in _FULL_WIDTH:
                return "yes", clip(fact.value), tuple(shown)
        elif not not_set(case, name):
            unclear = True
    return ("unknown" if unclear else "no"), None, tuple(shown)
