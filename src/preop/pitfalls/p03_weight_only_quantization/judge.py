"""Judge P03.

Two witnesses: the checklist's table (up to 3B a loss at any batch, from 7B on a gain) and the roofline of
this model on this GPU at the batch cap. FAIL only where both say it gains nothing, PASS only where both say
it pays; wherever they disagree or one is silent it is UNPROVEN and both are shown. The roofline is taken
with empty contexts and with the longest ones that memory holds: reading the KV cache takes time that
quantized weights do not save. It is a ceiling; below the least gain of the table it counts as none.
A measurement of both, in turns (`--unquantized URL_B`), outweighs them.

The batch is the cap that the user set: a cap left to the engine is no plan to run at it, so it fails nothing.
The table is about GPU kernels that turn weights back into 16 bits. It is not applied to CPUs, where the
memory traffic saved is what a token costs, and fails nothing in llama.cpp, whose kernels multiply in 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from preop.evidence import Pair, Strength
from preop.findings import Finding, Item
from preop.models.types import Model
from preop.pitfalls.accelerator import cpu
from preop.pitfalls.clip import clip
from preop.pitfalls.compared import Compared, compared
from preop.pitfalls.length import native_of, overrides_of, served_of
from preop.pitfalls.readings import (
    NOT_QUANTIZED,
    Weights,
    batch_cap,
    cap_flag,
    gpu_memory,
    gpu_of,
    grouped,
    ranks_of,
    weights,
    without_figures,
)
from preop.pitfalls.say import failed, item, not_applicable, passed, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

if TYPE_CHECKING:
    from preop.models.gpus import Gpu

__all__ = ["judge"]


@dataclass(frozen=True)
class _Roofline:
    """Speed-up over 16-bit weights at the batch cap: 1 is none."""

    least: float
    most: float
    evidence: tuple[Item, ...]
    is_sure: bool
    """False: a figure of the GPU is not verified, so it does not decide."""


def judge(case: Case) -> Finding:
    """FAIL where table and roofline agree on no gain, PASS where both see one, N/A where not weight-only."""
    stored = weights(case)
    evidence = list(stored.evidence)
    if stored.quantized is False:
        return not_applicable(
            NOT_QUANTIZED,
            Strength.DECLARED,
            evidence=evidence,
        )
    told = compared(case, "quantization")
    if stored.quantized and told is not None and told.outcome != "open" and told.at is not None:
        return _measured(told, told.at, stored, [*evidence, *told.evidence])
    on_cpu = cpu(case)
    if stored.quantized and on_cpu is not None:
        return not_applicable(
            Text("on a CPU: less memory traffic is what pays", "在 CPU 上运行：减少访存即有收益"),
            Strength.DECLARED,
            evidence=[*evidence, item("runs on", on_cpu)],
        )
    if stored.quantized is None:
        return unproven(
            Text("whether the weights are quantized is not known", "无法确定权重是否被量化"),
            needs=Text("--model-path DIR (the model's own files)", "--model-path DIR（模型自身的文件）"),
            evidence=evidence,
        )
    if stored.weight_only is False:
        return _activations_too(case, stored, evidence)
    if stored.weight_only is None:
        return unproven(
            Text(
                f"{stored.method}: activations' bits not stated",
                f"{stored.method}：未说明激活是否保持 16 位",
            ),
            needs=_before_and_after(),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=stored.where,
        )
    return _weight_only(case, stored, evidence)


def _measured(told: Compared, at: Pair, stored: Weights, evidence: list[Item]) -> Finding:
    """A measurement against the unquantized model outweighs table and roofline."""
    ratio = at.ratio or 1.0
    if told.outcome == "slower":
        return failed(
            Text(
                f"{stored.method}: {ratio:.2f}x the time per token at {at.concurrency}, measured",
                f"{stored.method}：并发 {at.concurrency} 时每个 token 耗时是未量化的 {ratio:.2f} 倍（实测）",
            ),
            Strength.MEASURED,
            remedy=Text(
                "serve the 16-bit weights, or quantize activations too (W8A8, fp8)",
                "部署 16 位权重，或权重与激活一起量化（W8A8、fp8）",
            ),
            evidence=evidence,
            where=stored.where,
        )
    return passed(
        Text(
            f"{stored.method}: {1 / ratio:.2f}x as fast at {at.concurrency}, measured against 16 bits",
            f"{stored.method}：并发 {at.concurrency} 时速度是 16 位的 {1 / ratio:.2f} 倍（实测）",
        ),
        Strength.MEASURED,
        evidence=evidence,
        where=stored.where,
    )


def _weight_only(case: Case, stored: Weights, evidence: list[Item]) -> Finding:
    model, cap = case.deployment.model, batch_cap(case)
    size = model.parameters if model is not None else None
    gpu = gpu_of(case)
    figures = gpu is not None and gpu.bandwidth_gb_s is not None and gpu.fp16_tflops is not None
    variants = f"--gpu {gpu.id}" if gpu is not None else "--gpu NAME"
    other = without_figures(case)
    missing = [
        option
        for option, known in (
            (Text("--model-path DIR", "--model-path DIR"), size is not None and stored.bits is not None),
            (Text(f"{cap_flag(case)} N in the command", f"在命令中写明 {cap_flag(case)} N"), cap is not None),
            (Text(variants, variants), figures or other is not None),
        )
        if not known
    ]
    small, large = (
        case.thresholds["P03.small_model_parameters"],
        case.thresholds["P03.large_model_parameters"],
    )
    evidence = [
        *evidence,
        item("max_num_seqs", case.fact("max_num_seqs")),
        item("gpu", case.fact("gpu")),
        *([item("accelerator", case.fact("accelerator"))] if other else []),
        threshold_item(case.thresholds, "P03.small_model_parameters"),
        threshold_item(case.thresholds, "P03.large_model_parameters"),
        threshold_item(case.thresholds, "P03.least_gain"),
    ]
    if model is not None and size is not None:
        evidence.append(Item("parameters", size, "parameters", str(model.origin)))
    loses, gains = size is not None and size < small, size is not None and size >= large
    roofline = _roofline(case, model, stored.bits, cap) if model is not None and cap is not None else None
    if roofline is not None:
        evidence.extend(roofline.evidence)
    says = "no gain" if loses else "a gain" if gains else "nothing"
    says_zh = "无收益" if loses else "有收益" if gains else "未提及"
    name = f"{_billions(size)} {stored.method}" if size is not None else str(stored.method)
    on = f" (unsupported: {other})" if other else ""
    on_zh = f"（preop 尚不支持 {other}）" if other else ""
    if roofline is None or cap is None:
        return unproven(
            Text(
                f"{name}: table says {says}; no roofline{on}",
                f"{name}：清单表格认为{says_zh}；缺少 roofline{on_zh}",
            ),
            needs=_before_and_after(missing),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=stored.where,
        )
    least = case.thresholds["P03.least_gain"]
    by = f"{roofline.most if loses else roofline.least:.2f}x"
    # Kernels of llama.cpp multiply in 8 bits: the table is about others.
    decides = roofline.is_sure and case.deployment.engine != "llama.cpp"
    planned = case.fact("max_num_seqs").set_by == "user"
    if loses and roofline.most < least and planned and decides:
        return failed(
            Text(
                f"{name} at {grouped(cap)}: no gain by table and roofline ({by})",
                f"{name}，并发 {grouped(cap)}：表格与 roofline（{by}）都认为无收益",
            ),
            Strength.COMPUTED,
            remedy=Text(
                f"serve the 16-bit weights, quantize activations too (W8A8, fp8), or lower {cap_flag(case)}",
                f"部署 16 位权重，或权重与激活一起量化（W8A8、fp8）；或降低 {cap_flag(case)}",
            ),
            evidence=evidence,
            where=stored.where,
        )
    if gains and roofline.least >= least and decides:
        return passed(
            Text(
                f"{name} at {grouped(cap)}: pays by table and roofline ({by})",
                f"{name}，并发 {grouped(cap)}：表格与 roofline（{by}）都认为有收益",
            ),
            Strength.COMPUTED,
            evidence=evidence,
            where=stored.where,
        )
    return unproven(
        Text(
            f"{name} at {grouped(cap)}: table says {says}, roofline {by}",
            f"{name}，并发 {grouped(cap)}：表格认为{says_zh}，roofline 为 {by}",
        ),
        needs=_before_and_after(),
        strength=Strength.COMPUTED,
        evidence=evidence,
        where=stored.where,
    )


def _roofline(case: Case, model: Model, bits: float | None, cap: int) -> _Roofline | None:
    """None where the GPU, its figures, or the model's shape are not known."""
    from preop.models.kv_cache import kv_bytes_per_token
    from preop.models.roofline import weight_only_gain

    gpu = gpu_of(case)
    served = served_of(case, native_of(case), overrides_of(case))
    token = kv_bytes_per_token(model)
    if gpu is None or bits is None or served.tokens is None or token is None:
        return None
    _, memory = gpu_memory(gpu)
    longest = served.tokens
    if memory is not None and token.growing > 0:
        # However long requests may be, their cache cannot be larger than the memory that holds it.
        longest = min(longest, int(memory * (ranks_of(case) or 1) / (token.growing * cap)))
    found = []
    for context in (0, longest):
        gain = weight_only_gain(model, gpu, bits, cap, context)
        if gain is None:
            return None
        found.append((context, gain))
    unverified = {"bandwidth_gb_s", "fp16_tflops"} & set(gpu.not_verified)
    source = f"roofline of {gpu.name}" + (
        f", {' and '.join(sorted(unverified))} not verified" if unverified else ""
    )
    items = tuple(
        Item(f"roofline gain at batch {cap}, context {context}", round(gain, 3), "times", source)
        for context, gain in found
    )
    gains = [gain for _, gain in found]
    return _Roofline(min(gains), max(gains), items, not unverified)


def _activations_too(case: Case, stored: Weights, evidence: list[Item]) -> Finding:
    """Weights and activations quantized. A GPU without fp8 arithmetic runs fp8 weight-only (Marlin)."""
    gpu, name = gpu_of(case), clip(case.fact("gpu").value)
    if gpu is not None and "fp8" in str(stored.method).lower() and not _multiplies_in_fp8(gpu):
        return unproven(
            Text(
                f"{name}: no fp8 peak known, may run weight-only",
                f"{name}：无 fp8 算力数据，可能按仅权重量化运行",
            ),
            needs=_before_and_after(),
            strength=Strength.DECLARED,
            evidence=[*evidence, item("gpu", case.fact("gpu"))],
            where=stored.where,
        )
    return not_applicable(
        Text(f"{stored.method}: activations are quantized too", f"{stored.method}：激活也被量化"),
        Strength.DECLARED,
        evidence=evidence,
    )


def _multiplies_in_fp8(gpu: Gpu) -> bool:
    """Whether the sheet has an fp8 peak for it, or for one of the variants that its name fits."""
    from preop.models.gpus import find_gpu

    variants = (find_gpu(variant) for variant in gpu.id.split(" or "))
    return any(variant is not None and variant.fp8_tflops is not None for variant in variants)


def _before_and_after(missing: Sequence[Text] = ()) -> Text:
    lacking = f"{'; '.join(each.en for each in missing)}; or " if missing else ""
    lacking_zh = f"{'；'.join(each.zh for each in missing)}；或" if missing else ""
    return Text(
        f"{lacking}its 16-bit original running beside: --endpoint URL --unquantized URL_B",
        f"{lacking_zh}另起 16 位原模型进行对比：--endpoint URL --unquantized URL_B",
    )


def _billions(size: int) -> str:
    return f"{size / 1e9:.1f}B"
