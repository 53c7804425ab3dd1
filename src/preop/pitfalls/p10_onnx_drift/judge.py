"""Judge of P10: was the ONNX export held against the model it came from?

Engines that run the original weights cannot have the pitfall, unless the user hands over an ONNX file all
the same. Where ONNX is or may be in use the answer is UNPROVEN: this release compares no exports.
"""

from __future__ import annotations

from preop.evidence import Strength
from preop.findings import Finding, Item
from preop.pitfalls.say import item, not_applicable, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_NO_ONNX = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "tgi": "TGI",
    "tensorrt-llm": "TensorRT-LLM",
}
"""Engines that read the weights themselves (safetensors, GGUF), never an ONNX graph."""


def judge(case: Case) -> Finding:
    """P10 for one deployment."""
    engine = case.deployment.engine
    file = _onnx_file(case)
    if file is None and engine in _NO_ONNX:
        return not_applicable(
            Text(
                f"{_NO_ONNX[engine]} runs the weights themselves, no ONNX graph",
                f"{_NO_ONNX[engine]} 直接加载权重，不经过 ONNX",
            ),
            Strength.DECLARED,
            evidence=[Item("engine", engine, source=case.deployment.source)],
        )
    tolerances = [threshold_item(case.thresholds, key) for key in ("P10.rtol", "P10.atol")]
    if file is None:
        return unproven(
            Text("not known whether this engine runs an ONNX export", "不清楚这个引擎是否运行 ONNX 导出"),
            needs=Text(
                "an engine that preop knows, or the export itself: --onnx FILE (comparing it comes with a "
                "later release)",
                "preop 认识的引擎，或导出文件本身：--onnx FILE（比对功能在后续版本提供）",
            ),
            evidence=[Item("engine", engine, source=case.deployment.source), *tolerances],
        )
    tolerance = ", ".join(f"{name}={case.thresholds[f'P10.{name}']:g}" for name in ("rtol", "atol"))
    return unproven(
        Text("ONNX in use, never held against its model", "用到了 ONNX，但没有和原模型比对"),
        needs=Text(
            "the export and its model on the same inputs, which this release cannot compare; by hand: "
            f"several shapes through both, numpy.testing.assert_allclose({tolerance}) for fp32, "
            "NaN and Inf in the same places",
            "同一组输入分别跑导出模型和原模型，本版 preop 还不能比对；人工：多种 shape 各跑一遍，"
            f"fp32 用 numpy.testing.assert_allclose({tolerance})，NaN 和 Inf 的位置也要一致",
        ),
        evidence=[file, *tolerances],
    )


def _onnx_file(case: Case) -> Item | None:
    if case.inputs.onnx is not None:
        return Item("ONNX export", case.inputs.onnx, source="--onnx")
    for name in ("model", "weights_path"):
        fact = case.fact(name)
        if isinstance(fact.value, str) and fact.value.lower().rstrip("/").endswith((".onnx", ".ort")):
            return item("ONNX export", fact)
    return None
