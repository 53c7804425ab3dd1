"""Judge P07.

No fact alone decides where the latency of this model on this machine bends, so a cap is judged by a
concurrency curve only. A cap that nobody set is named as such: it was chosen by the engine for the size of
the GPU, not for an objective; but whether it is beyond the bend is still not known, so it is UNPROVEN.

With a curve: levels above the cap only queue and say nothing about it. A level at or below the cap where the
p99 (or even the p50) exceeds the objective is a FAIL where a lower level was measured and does not; otherwise
the objective or the machine may be wrong, not the cap. PASS needs every level within the objective and one
of them at the cap or above. A null p99 proves nothing good.
"""

from __future__ import annotations

from preop.evidence import Level, Load, Percentiles, Strength
from preop.findings import Finding, Item
from preop.pitfalls.objective import Searched, searched
from preop.pitfalls.readings import (
    batch_cap,
    cap_flag,
    engine_name,
    grouped,
    hides_flags,
    load_run,
    no_p99,
    whole_cap,
)
from preop.pitfalls.say import failed, item, passed, place, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_OBJECTIVES = {"TTFT": "P04.ttft_p99_ms", "TPOT": "P04.tpot_p99_ms"}


def judge(case: Case) -> Finding:
    """FAIL where a measured level within the cap breaks the objective, PASS where the whole cap holds it."""
    load = case.payload(Load)
    search = searched(case)
    if search is not None:
        return _judge_search(case, search)
    levels = sorted((x for x in load.levels if x.valid), key=lambda x: x.concurrency) if load else []
    evidence = [item("max_num_seqs", case.fact("max_num_seqs"))]
    if not levels:
        return _not_measured(case, evidence)
    assert load is not None
    evidence.extend(threshold_item(case.thresholds, key) for key in _OBJECTIVES.values())
    evidence.append(Item("prompt tokens", load.prompt_tokens, "tokens", load.url))
    evidence.append(Item("output tokens", load.output_tokens, "tokens", load.url))
    for level in levels:
        evidence.extend(_measured(level, load.url))
    cap = whole_cap(case)
    if cap is None:
        return unproven(
            Text("measured, but the cap itself is not known", "已实测，但并发上限本身未知"),
            needs=Text(
                f"{cap_flag(case)} N in the command (or --gpu and --engine-version for the default)",
                f"在启动命令中写明 {cap_flag(case)} N（若用默认值，则需 --gpu 与 --engine-version）",
            ),
            strength=Strength.MEASURED,
            evidence=evidence,
        )
    within = [level for level in levels if level.concurrency <= cap]
    broken = next(((level, why) for level in within if (why := _broken(case, level))), None)
    if broken is not None:
        return _breaks(case, cap, within, *broken, evidence)
    return _holds(case, cap, levels, evidence)


def _judge_search(case: Case, search: Searched) -> Finding:
    """What a search for the user's own objective says of the cap."""
    fact, flag, slo, limits = case.fact("max_num_seqs"), cap_flag(case), search.slo, search.limits
    evidence = [item("max_num_seqs", fact), *search.evidence]
    if search.outcome == "kept":
        return passed(
            Text(
                f"cap {search.cap}: {limits.en} kept with all of it in use",
                f"上限 {search.cap}：全部用满时仍满足 {limits.zh}",
            ),
            Strength.MEASURED,
            evidence=evidence,
            where=place(fact),
        )
    if search.outcome == "broken" and slo.concurrency and search.cap is not None:
        best = slo.concurrency // (search.cap // (batch_cap(case) or search.cap))
        return failed(
            Text(
                f"cap {grouped(search.cap)}, but {limits.en} breaks at {slo.breaks_at}",
                f"上限 {grouped(search.cap)}，但并发 {slo.breaks_at} 时已不满足 {limits.zh}",
            ),
            Strength.MEASURED,
            remedy=Text(
                f"{flag} {max(1, best)}: the highest that keeps it, found by search",
                f"{flag} {max(1, best)}：搜索得到的满足目标的最高值",
            ),
            evidence=evidence,
            where=place(fact),
        )
    if search.cap is None:
        summary = Text("measured, but the cap itself is not known", "已实测，但并发上限本身未知")
    elif slo.concurrency == 0:
        summary = Text("no cap keeps it: one request alone breaks it", "任何上限都不满足：单个请求已超出目标")
    else:
        summary = Text(f"the search did not settle it up to {search.cap}", f"搜索到 {search.cap} 仍无定论")
    return unproven(
        summary,
        needs=Text(
            f"{flag} N in the command, and the search again: --measure load --endpoint URL",
            f"在启动命令中写明 {flag} N，并重新搜索：--measure load --endpoint URL",
        ),
        strength=Strength.MEASURED,
        evidence=evidence,
        where=place(fact),
    )


def _breaks(case: Case, cap: int, within: list[Level], at: Level, why: str, evidence: list[Item]) -> Finding:
    where = place(case.fact("max_num_seqs"))
    if any(level.concurrency > at.concurrency and _held(case, level) for level in within):
        return unproven(
            Text(
                f"not repeatable: at {at.concurrency} {why}, above it holds",
                f"不可重复：并发 {at.concurrency} 时 {why}，更高并发却达标",
            ),
            needs=Text(
                f"{load_run(cap)} again, nothing else running on the engine",
                f"重新 {load_run(cap)}，且引擎上没有其他负载",
            ),
            strength=Strength.MEASURED,
            evidence=evidence,
            where=where,
        )
    if at is within[0]:
        alone = at.concurrency == 1
        return unproven(
            Text(f"one request alone already exceeds the SLO: {why}", f"单请求已超出 SLO：{why}")
            if alone
            else Text(
                f"at {at.concurrency} {why}; no lower level measured",
                f"并发 {at.concurrency} 时 {why}；没有测过更低的并发",
            ),
            needs=Text(
                "your own objective ([thresholds.P04] in preop.toml) and --measure load --endpoint URL again",
                "在 preop.toml 的 [thresholds.P04] 中写明自己的目标，然后重新 --measure load --endpoint URL",
            )
            if alone
            else Text(load_run(cap), load_run(cap)),
            strength=Strength.MEASURED,
            evidence=evidence,
            where=where,
        )
    held = [
        level.concurrency for level in within if level.concurrency < at.concurrency and _held(case, level)
    ]
    flag, replicas = cap_flag(case), cap // (batch_cap(case) or cap)
    best = max(held, default=0) // replicas
    if best:
        remedy = Text(
            f"{flag} {best}: the highest measured level within the objective",
            f"{flag} {best}：已测量且满足目标的最高并发",
        )
    else:
        remedy = Text(
            f"{flag} lower; measure more levels below {at.concurrency} (--concurrency) for one that holds",
            f"调低 {flag}；再用 --concurrency 在 {at.concurrency} 以下多测几级，找出满足目标的最高值",
        )
    if "preop.toml" not in (
        case.thresholds.source("P04.ttft_p99_ms"),
        case.thresholds.source("P04.tpot_p99_ms"),
    ):
        remedy = Text(
            f"{remedy.en}; or state your own objective: [thresholds.P04] in preop.toml",
            f"{remedy.zh}；或在 preop.toml 的 [thresholds.P04] 写明自己的目标",
        )
    return failed(
        Text(
            f"cap {grouped(cap)}, but at {at.concurrency} {why}",
            f"上限 {grouped(cap)}，但并发 {at.concurrency} 时 {why}",
        ),
        Strength.MEASURED,
        remedy=remedy,
        evidence=evidence,
        where=where,
    )


def _holds(case: Case, cap: int, levels: list[Level], evidence: list[Item]) -> Finding:
    where = place(case.fact("max_num_seqs"))
    top = levels[-1].concurrency
    reached = [level for level in levels if level.concurrency >= cap]
    proven = [level for level in levels if level.concurrency <= cap or level is reached[0]]
    unclear = next((level for level in proven if not _held(case, level)), None)
    if not reached:
        return unproven(
            Text(
                f"measured up to {top} only, the cap is {grouped(cap)}",
                f"只测到并发 {top}，上限为 {grouped(cap)}",
            ),
            needs=Text(load_run(cap), load_run(cap)),
            strength=Strength.MEASURED,
            evidence=evidence,
            remedy=Text(f"or {cap_flag(case)} {top}", f"或 {cap_flag(case)} {top}"),
            where=where,
        )
    if unclear is not None:
        if unclear.concurrency > cap:
            summary = Text(
                f"cap {grouped(cap)} not measured itself; {unclear.concurrency} queues",
                f"未测量上限 {grouped(cap)} 本身；并发 {unclear.concurrency} 已在排队",
            )
        elif unclear.errors:
            summary = Text(
                f"{unclear.errors} of {unclear.requests} requests failed at level {unclear.concurrency}",
                f"{unclear.concurrency} 并发时 {unclear.requests} 个请求失败 {unclear.errors} 个",
            )
        else:
            summary = no_p99(unclear)
        return unproven(
            summary,
            needs=Text(
                f"{load_run(cap)}, every request answered, with usage",
                f"{load_run(cap)}，每个请求都要成功并带 usage",
            ),
            strength=Strength.MEASURED,
            evidence=evidence,
            where=where,
        )
    return passed(
        Text(
            f"p99 within the objective up to the cap of {grouped(cap)}",
            f"直到上限 {grouped(cap)}，p99 都在目标之内",
        ),
        Strength.MEASURED,
        evidence=evidence,
        where=where,
    )


def _not_measured(case: Case, evidence: list[Item]) -> Finding:
    fact, flag = case.fact("max_num_seqs"), cap_flag(case)
    cap = batch_cap(case)
    if fact.set_by == "user" and cap is not None:
        summary = Text(
            f"cap {grouped(cap)}: no latency curve behind it", f"上限 {grouped(cap)}：没有延迟曲线支撑"
        )
    elif cap is not None and fact.set_by == "default":
        summary = Text(
            f"cap left at {engine_name(case)}'s default of {grouped(cap)}",
            f"上限未设置，沿用 {engine_name(case)} 默认值 {grouped(cap)}",
        )
    elif cap is not None:
        summary = Text(
            f"cap {grouped(cap)}, by the engine's word: no curve",
            f"引擎报告上限 {grouped(cap)}：没有延迟曲线",
        )
    elif fact.origin is not None or hides_flags(case):
        summary = Text("the cap may be set where preop cannot see it", "上限可能设在看不到的地方")
    else:
        summary = Text("cap not set: it depends on engine and GPU", "上限未设置：取决于引擎版本与 GPU")
    return unproven(
        summary,
        needs=Text(
            f"{load_run(cap)}: p99 at each level",
            f"{load_run(cap)}：直到上限的各级 p99",
        ),
        strength=Strength.DECLARED if fact.is_known else None,
        evidence=evidence,
        remedy=Text(
            f"set {flag} N to the highest concurrency whose p99 stays within your SLO",
            f"把 {flag} N 设为 p99 仍满足 SLO 的最高并发",
        ),
        where=place(fact),
    )


def _quantities(level: Level) -> tuple[tuple[str, Percentiles], ...]:
    return (("TTFT", level.ttft_ms), ("TPOT", level.tpot_ms))


def _broken(case: Case, level: Level) -> str | None:
    """The first quantity whose p99, or where there is none whose p50, exceeds its objective."""
    for name, seen in _quantities(level):
        limit = case.thresholds[_OBJECTIVES[name]]
        for which, value in (("p99", seen.p99), ("p50", seen.p50)):
            if value is not None and value > limit:
                return f"{name} {which} {grouped(value)} > {grouped(limit)} ms"
    return None


def _held(case: Case, level: Level) -> bool:
    """Whether every p99 is there and within its objective."""
    return level.errors == 0 and all(
        seen.p99 is not None and seen.p99 <= case.thresholds[_OBJECTIVES[name]]
        for name, seen in _quantities(level)
    )


def _measured(level: Level, url: str) -> list[Item]:
    source = f"load at {level.concurrency}, {level.requests} requests, {level.errors} errors, {url}"
    return [
        Item(f"{name} {which} at {level.concurrency}", value, "ms", source)
        for name, seen in _quantities(level)
        for which, value in (("p50", seen.p50), ("p99", seen.p99))
        if value is not None
    ]
