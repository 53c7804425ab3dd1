"""Judge P08.

Speculation pays or costs by batch, model, length and acceptance; public break-evens run from 2 to over 200
concurrent requests. So no fact fails it and none passes it: with speculation on it is UNPROVEN until the
same prompts were measured with it on and off, in turns, and the checklist's break-even is shown as the prior
it is. Slower beyond doubt at a level within the batch cap is FAIL, faster at every level up to it is PASS.
Certainly off is N/A.
"""

from __future__ import annotations

from typing import Any

from preop.evidence import Strength
from preop.findings import Finding, Item
from preop.pitfalls.compared import Compared, compared
from preop.pitfalls.readings import batch_cap, cap_flag, engine_name, grouped, levels_up_to, not_set, release
from preop.pitfalls.say import failed, item, not_applicable, passed, place, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_SCHEDULE = "num_speculative_tokens_per_batch_size"
_DEAD = ("disable_by_batch_size", "speculative_disable_by_batch_size")
"""Read by vLLM's V0 engine only, not from 0.10.0 on, and later removed (vllm pull request 35060)."""


def judge(case: Case) -> Finding:
    """N/A where speculation is off for certain; else what a comparison measured, or UNPROVEN."""
    speculative = case.fact("speculative")
    if not_set(case, "speculative"):
        return not_applicable(
            Text("no speculative decoding", "未启用投机解码"),
            Strength.DECLARED,
            evidence=[item("speculative", speculative)],
        )
    if not speculative.is_known:
        return unproven(
            Text("whether speculation is on is not known", "无法确定是否启用投机解码"),
            needs=Text(
                "the whole command with every flag visible, and --engine-version where it is not stated",
                "完整可见的启动命令；若未注明版本，还需 --engine-version",
            ),
            evidence=[item("speculative", speculative)],
        )
    if speculative.value == 0:
        return not_applicable(
            Text("speculative decoding is off", "投机解码已关闭"),
            Strength.DECLARED,
            evidence=[item("speculative", speculative)],
        )
    cap = batch_cap(case)
    evidence = [
        item("speculative", speculative),
        item("max_num_seqs", case.fact("max_num_seqs")),
        threshold_item(case.thresholds, "P08.break_even"),
        threshold_item(case.thresholds, "P08.safe"),
        *_options(case, speculative.value, cap),
    ]
    told = compared(case, "speculation")
    if told is not None:
        return _measured(case, told, [*evidence, *told.evidence])
    return unproven(
        _summary(case, cap),
        needs=Text(
            "the same model without speculation, running beside: --endpoint URL --without-speculation URL_B "
            f"--concurrency {levels_up_to(cap)}",
            "另起一个不开投机解码的同一模型：--endpoint URL --without-speculation URL_B "
            f"--concurrency {levels_up_to(cap)}",
        ),
        strength=Strength.DECLARED,
        evidence=evidence,
        remedy=_remedy(case),
        where=place(speculative),
    )


def _measured(case: Case, told: Compared, evidence: list[Item]) -> Finding:
    where, even = place(case.fact("speculative")), told.comparison.break_even.concurrency
    if told.comparison.b_speculates:
        return unproven(
            Text("both engines of the comparison speculate", "对比的两个引擎都开启了投机解码"),
            needs=Text(
                "engine B without speculation: --without-speculation URL_B",
                "引擎 B 须关闭投机解码：--without-speculation URL_B",
            ),
            strength=Strength.MEASURED,
            evidence=evidence,
            where=where,
        )
    at = told.at
    if told.outcome == "slower" and at is not None and at.ratio is not None:
        return failed(
            Text(
                f"speculation costs {at.ratio - 1:.0%} a token at {at.concurrency} concurrent",
                f"并发 {at.concurrency} 时投机解码使每个 token 慢 {at.ratio - 1:.0%}",
            ),
            Strength.MEASURED,
            remedy=_remedy(case, even),
            evidence=evidence,
            where=where,
        )
    if told.outcome == "faster" and at is not None and at.ratio is not None:
        return passed(
            Text(
                f"speculation pays up to the cap of {told.cap}: {1 / at.ratio:.2f}x at {at.concurrency}",
                f"直到上限 {told.cap} 投机解码都有收益：并发 {at.concurrency} 时 {1 / at.ratio:.2f} 倍",
            ),
            Strength.MEASURED,
            evidence=evidence,
            where=where,
        )
    return unproven(
        Text(
            "compared, but not settled up to the batch cap",
            "已对比，但到并发上限为止未有定论",
        ),
        needs=Text(
            f"levels up to the cap: --without-speculation URL_B --concurrency {levels_up_to(told.cap)}",
            f"测到并发上限：--without-speculation URL_B --concurrency {levels_up_to(told.cap)}",
        ),
        strength=Strength.MEASURED,
        evidence=evidence,
        remedy=_remedy(case),
        where=where,
    )


def _summary(case: Case, cap: int | None) -> Text:
    even, safe = case.thresholds["P08.break_even"], case.thresholds["P08.safe"]
    if cap is None:
        return Text(
            f"speculation on, batch cap unknown (break-even about {grouped(even)})",
            f"已开启投机解码，并发上限未知（盈亏平衡约 {grouped(even)}）",
        )
    if cap > even:
        return Text(
            f"speculation on, cap {grouped(cap)} > break-even about {grouped(even)}",
            f"已开启投机解码，上限 {grouped(cap)} 超过盈亏平衡点约 {grouped(even)}",
        )
    if cap > safe:
        return Text(
            f"speculation on, cap {grouped(cap)}: near the break-even ({grouped(even)})",
            f"已开启投机解码，上限 {grouped(cap)} 接近盈亏平衡点 {grouped(even)}",
        )
    return Text(
        f"speculation on, cap {grouped(cap)}: likely pays, not measured",
        f"已开启投机解码，上限 {grouped(cap)}：可能有收益，未实测",
    )


def _options(case: Case, value: Any, cap: int | None) -> list[Item]:
    """What the configuration itself says about large batches."""
    if case.deployment.engine != "vllm" or not isinstance(value, dict):
        return []
    items = []
    schedule = value.get(_SCHEDULE)
    if schedule:
        items.append(
            Item(_SCHEDULE, schedule, "(from batch, to batch, tokens)", case.fact("speculative").source)
        )
        replicas = case.fact("data_parallel_size").value
        if isinstance(replicas, int) and replicas > 1:
            items.append(
                Item(
                    "the schedule is ignored with data parallelism",
                    replicas,
                    "replicas",
                    "vLLM 0.32.0 config/vllm.py",
                )
            )
    version = release(case)
    if version is None or version >= (0, 10, 0):
        items.extend(
            Item(f"{key} does nothing from vLLM 0.10.0 on", value[key], "requests", "vLLM issue 25112")
            for key in _DEAD
            if key in value
        )
    return items


def _remedy(case: Case, break_even: float | None = None) -> Text:
    """`break_even`: where it was measured."""
    flag, safe = cap_flag(case), f"{case.thresholds['P08.safe']:.0f}"
    if break_even is not None and break_even >= 2:
        safe = f"{int(break_even)}"
    engine = case.deployment.engine
    if engine == "vllm":
        how = f'or let it shrink with the batch: "{_SCHEDULE}" in --speculative-config (measure that too)'
        how_zh = f'或让投机长度随 batch 收缩：在 --speculative-config 中设置 "{_SCHEDULE}"（同样需要实测）'
    elif engine == "sglang":
        how, how_zh = (
            "or drop --speculative-algorithm for batch traffic",
            "或对批量流量去掉 --speculative-algorithm",
        )
    elif engine == "llama.cpp":
        how, how_zh = "or --spec-type none for batch traffic", "或对批量流量使用 --spec-type none"
    else:
        how, how_zh = (
            f"or switch speculation off in {engine_name(case)}",
            f"或在 {engine_name(case)} 中关闭投机解码",
        )
    return Text(f"{flag} {safe} for interactive traffic, {how}", f"交互流量用 {flag} {safe}，{how_zh}")
