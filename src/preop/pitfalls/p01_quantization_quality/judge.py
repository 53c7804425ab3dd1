"""Judge P01.

Facts alone can only shut this pitfall by N/A: the model's own files were read, they say "not quantized",
no flag quantizes, and the KV cache keeps 16 bits. A quantized or unknown model is UNPROVEN until the answers
of both models to the same real prompts are held against each other; nothing here measures that yet.
"""

from __future__ import annotations

from preop.evidence import Strength
from preop.findings import Finding, Item
from preop.pitfalls.adapters import adapters_shown, for_each_adapter
from preop.pitfalls.readings import NOT_QUANTIZED, kv_quantization, weights
from preop.pitfalls.say import item, not_applicable, place, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_MARKS = (
    "awq",
    "gptq",
    "int4",
    "int8",
    "fp8",
    "fp4",
    "mxfp4",
    "nvfp4",
    "w4a16",
    "w8a8",
    "bnb",
    "gguf",
    "q4_",
    "q8_",
)


def judge(case: Case) -> Finding:
    """UNPROVEN where anything is or may be quantized, N/A where nothing is."""
    stored = weights(case)
    kv, kv_type, kv_shown = kv_quantization(case)
    evidence = [*stored.evidence, *kv_shown, *adapters_shown(case)]
    if stored.quantized is False and kv == "no":
        return not_applicable(
            NOT_QUANTIZED,
            Strength.DECLARED,
            evidence=evidence,
        )
    prompts = f"{case.thresholds['P01.prompts']:.0f}"
    evidence.append(threshold_item(case.thresholds, "P01.prompts"))
    if stored.quantized:
        summary = Text(
            f"weights in {stored.method}: answers not compared", f"权重为 {stored.method}：尚未对比回答质量"
        )
        return unproven(
            summary,
            needs=for_each_adapter(case, _comparison(prompts)),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=stored.where,
        )
    if kv == "yes":
        return unproven(
            Text(f"KV cache in {kv_type}: answers not compared", f"KV cache 为 {kv_type}：尚未对比回答质量"),
            needs=for_each_adapter(case, _comparison(prompts)),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=place(case.fact("kv_cache_dtype"), case.fact("kv_cache_dtype_v")),
        )
    evidence.extend(_name_that_sounds_quantized(case))
    if stored.quantized is False:
        return unproven(
            Text("whether the KV cache is quantized is not known", "无法确定 KV cache 是否被量化"),
            needs=Text(
                "the whole command: every flag visible (the KV cache type is hidden or not stated)",
                "完整的启动命令：KV cache 类型被隐藏或未说明，需让所有参数可见",
            ),
            evidence=evidence,
        )
    return unproven(
        Text("whether the weights are quantized is not known", "无法确定权重是否被量化"),
        needs=Text(
            f"--model-path DIR (the model's own files); where they are quantized also --reference URL and "
            f"--prompts FILE ({prompts} real prompts)",
            f"--model-path DIR（模型自身的文件）；若已量化，还需 --reference URL 与 --prompts FILE"
            f"（{prompts} 条真实 prompt）",
        ),
        evidence=evidence,
    )


def _comparison(prompts: str) -> Text:
    return Text(
        f"--reference URL (the model before quantization) and --prompts FILE ({prompts} real prompts), for a "
        "comparison of both models' answers, which this version of preop does not make yet",
        f"--reference URL（量化前的模型）与 --prompts FILE（{prompts} 条真实 prompt），"
        "用于对比两个模型的回答（本版本 preop 尚不提供）",
    )


def _name_that_sounds_quantized(case: Case) -> list[Item]:
    """A name proves nothing, but a reader will wonder: show it as what it is."""
    items = []
    for name in ("model", "served_model_name"):
        fact = case.fact(name)
        if fact.is_known and any(mark in str(fact.value).lower() for mark in _MARKS):
            shown = item(name, fact)
            items.append(Item(f"{name} (a name, no evidence)", shown.value, None, shown.source))
    return items
