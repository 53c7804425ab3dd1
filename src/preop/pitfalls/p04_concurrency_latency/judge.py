"""Judge of P04: is latency known at the concurrency of production, and is it what was promised?

The concurrency of production is the engine's own cap (per data parallel replica times the replicas). A
curve needs `P04.levels` complete levels, 1 among them, and must reach that cap. A level is complete when it
is valid, carries p50 and p99 of TTFT and TPOT, and fewer than 1 in 100 of its requests failed: with more,
the p99 of all requests lies among the failed ones and is no number.

FAIL needs an objective that one request alone meets and that breaks within the cap: exactly the pitfall.
Where a search for the user's own objective was made, its answer decides instead: proved up to the cap is
PASS, broken within it beyond doubt is FAIL.

Where even one request misses an objective that nobody set (the default of preop), that says nothing about
the user's own objective: UNPROVEN. Where the user set it in preop.toml, missing it anywhere is FAIL.
"""

from __future__ import annotations

from dataclasses import dataclass

from preop.evidence import P99_SAMPLES, Level, Load, Percentiles, Strength
from preop.findings import Finding, Item
from preop.pitfalls.clip import clip
from preop.pitfalls.objective import Searched, searched
from preop.pitfalls.readings import ENGINE_NAMES, batch_cap, cap_flag, load_run, no_p99, whole_cap
from preop.pitfalls.say import failed, item, not_applicable, passed, place, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text
from preop.thresholds import THRESHOLDS

__all__ = ["judge"]


@dataclass(frozen=True)
class _Objective:
    """One latency with its limit: `limit` in ms, `by_user` when it stands in preop.toml."""

    field: str
    name: str
    key: str
    limit: float
    by_user: bool

    def of(self, level: Level) -> Percentiles:
        percentiles: Percentiles = getattr(level, self.field)
        return percentiles

    def p99(self, level: Level) -> float:
        return self.of(level).p99 or 0.0

    def broken_at(self, level: Level) -> bool:
        return self.p99(level) > self.limit


def judge(case: Case) -> Finding:
    """P04 for one deployment."""
    model = case.deployment.model
    if model is not None and model.is_generative is False:
        return not_applicable(
            Text("not generative: it has no latency per output token", "非生成式模型，没有逐词延迟"),
            Strength.DECLARED,
            evidence=[Item("model", model.name, source=str(model.origin))],
        )
    load = case.payload(Load)
    if load is None:
        return _not_measured(case)
    search = searched(case)
    if search is not None:
        return _judge_search(case, search)
    levels = sorted(load.levels, key=lambda level: level.concurrency)
    complete = [level for level in levels if _complete(level)]
    lacking = _lacking(case, levels, complete)
    if lacking is not None:
        summary, needs = lacking
        return unproven(
            summary, needs=needs, strength=Strength.MEASURED, evidence=_curve(levels, load, _objectives(case))
        )
    return _judge_curve(case, load, complete)


def _judge_search(case: Case, search: Searched) -> Finding:
    cap_fact, slo, limits = case.fact("max_num_seqs"), search.slo, search.limits
    evidence = [item("max_num_seqs", cap_fact), *search.evidence]
    if search.outcome == "kept":
        return passed(
            Text(
                f"{limits.en}: kept up to the cap of {search.cap}",
                f"{limits.zh}：直到上限 {search.cap} 都满足",
            ),
            Strength.MEASURED,
            evidence=evidence,
        )
    if search.outcome == "broken" and slo.concurrency == 0:
        return failed(
            Text(f"one request alone breaks {limits.en}", f"单个请求就不满足 {limits.zh}"),
            Strength.MEASURED,
            remedy=Text(
                "a faster engine for this model (hardware, quantization, parallelism), or another objective",
                "为该模型换更快的引擎配置（硬件、量化、并行），或修改目标",
            ),
            evidence=evidence,
            where=place(cap_fact),
        )
    if search.outcome == "broken":
        return failed(
            Text(
                f"{limits.en}: broken from {slo.breaks_at} on, the cap is {search.cap}",
                f"{limits.zh}：从并发 {slo.breaks_at} 起不满足，上限为 {search.cap}",
            ),
            Strength.MEASURED,
            remedy=Text(
                f"{cap_flag(case)} {slo.concurrency} and replicas for the rest, or promise less",
                f"{cap_flag(case)} {slo.concurrency}，其余流量加副本；或降低承诺",
            ),
            evidence=evidence,
            where=place(cap_fact),
        )
    return _open_search(case, search, evidence)


def _open_search(case: Case, search: Searched, evidence: list[Item]) -> Finding:
    """The search left it open."""
    flag = cap_flag(case)
    needs = (
        Text(
            f"the serve command with {flag}: preop check --endpoint URL --measure load -- COMMAND",
            f"带 {flag} 的启动命令：preop check --endpoint URL --measure load -- 启动命令",
        )
        if search.cap is None
        else Text(
            "the search again, nothing else running, and a longer --budget: --measure load --endpoint URL",
            "在没有其他负载时重新搜索，并加大 --budget：--measure load --endpoint URL",
        )
    )
    known = search.slo.concurrency
    if search.cap is None:
        said = Text(
            f"{search.limits.en} kept up to {known}; the cap is not known",
            f"{known} 并发以内满足 {search.limits.zh}；不知道并发上限",
        )
    else:
        said = Text(
            f"not settled up to the cap of {search.cap}: {clip(search.slo.why, 60)}",
            f"到上限 {search.cap} 为止未有定论：{clip(search.slo.why, 60)}",
        )
    return unproven(
        said,
        needs=needs,
        strength=Strength.MEASURED,
        evidence=evidence,
        where=place(case.fact("max_num_seqs")),
    )


def _not_measured(case: Case) -> Finding:
    command = load_run(whole_cap(case))
    return unproven(
        Text("latency under concurrency not measured", "没有测过并发下的延迟"),
        needs=Text(command, command),
        evidence=[item("max_num_seqs", case.fact("max_num_seqs"))],
    )


def _complete(level: Level) -> bool:
    known = (level.ttft_ms.p50, level.ttft_ms.p99, level.tpot_ms.p50, level.tpot_ms.p99)
    return (
        level.valid
        and level.requests > 0
        and level.errors * 100 < level.requests
        and all(value is not None for value in known)
    )


def _lacking(case: Case, levels: list[Level], complete: list[Level]) -> tuple[Text, Text] | None:
    """What the curve lacks to be one: summary and needs."""
    wanted = int(case.thresholds["P04.levels"])
    if len(complete) >= wanted and complete[0].concurrency == 1:
        return None
    command = load_run(whole_cap(case))
    valid = [level for level in levels if level.valid]
    if not valid:
        why = next((level.voided_because for level in levels if level.voided_because), None)
        return (
            Text(
                f"no valid level: {clip(why or 'none was measured', 46)}",
                f"没有有效的并发档：{clip(why or '一档也没测到', 46)}",
            ),
            Text(f"{command}, from a machine that keeps up", f"换一台跟得上的机器再跑：{command}"),
        )
    failing = next((level for level in valid if level.errors * 100 >= max(level.requests, 1)), None)
    if failing is not None:
        return (
            Text(
                f"{failing.errors} of {failing.requests} requests failed at level {failing.concurrency}",
                f"{failing.concurrency} 并发时 {failing.requests} 个请求失败 {failing.errors} 个",
            ),
            Text(f"an endpoint that answers at every level: {command}", f"每一档都能应答的端点：{command}"),
        )
    blind = next((level for level in valid if not _complete(level)), None)
    if blind is not None:
        return (
            no_p99(blind),
            Text(
                f"{P99_SAMPLES} requests at each level, their tokens stated (usage): {command}",
                f"每档 {P99_SAMPLES} 个请求，并写明 token 数（usage）：{command}",
            ),
        )
    if complete[0].concurrency != 1:
        return (
            Text(
                f"no valid level of 1: the lowest is {complete[0].concurrency}",
                f"缺少并发 1 这一档，最低是 {complete[0].concurrency}",
            ),
            Text(command, command),
        )
    return (
        Text(f"{len(complete)} of {wanted} levels measured", f"只测了 {len(complete)} 档，需要 {wanted} 档"),
        Text(command, command),
    )


def _judge_curve(case: Case, load: Load, complete: list[Level]) -> Finding:
    cap_fact, cap = case.fact("max_num_seqs"), whole_cap(case)
    first, last = complete[0], complete[-1]
    objectives = _objectives(case)
    evidence = [
        item("max_num_seqs", cap_fact),
        *(threshold_item(case.thresholds, objective.key) for objective in objectives),
        *_curve(complete, load, objectives),
    ]
    within = [level for level in complete if cap is not None and level.concurrency <= cap]
    for objective in objectives:
        broken = next((level for level in within if objective.broken_at(level)), None)
        if broken is not None and (objective.by_user or not objective.broken_at(first)):
            return failed(
                _said(objective, first, broken, Text("over", "超过")),
                Strength.MEASURED,
                remedy=_remedy(case, objectives, within, cap),
                evidence=evidence,
                where=place(cap_fact),
            )

    def open_(summary: Text, needs: Text) -> Finding:
        return unproven(
            summary, needs=needs, strength=Strength.MEASURED, evidence=evidence, where=place(cap_fact)
        )

    for objective in objectives:
        if objective.broken_at(first):
            return open_(
                Text(
                    f"one request alone: p99 {objective.name} {_ms(objective.p99(first))}, "
                    f"default objective {_ms(objective.limit)}",
                    f"单请求 p99 {objective.name} 已是 {_ms(objective.p99(first))}，"
                    f"默认目标 {_ms(objective.limit)}",
                ),
                Text(
                    f"your own objective: {objective.key.split('.')[1]} under [thresholds.P04] in preop.toml",
                    f"您自己的目标：在 preop.toml 的 [thresholds.P04] 里写 {objective.key.split('.')[1]}",
                ),
            )
    if cap is None:
        flag = cap_flag(case)
        return open_(
            Text(
                f"curve to {last.concurrency} concurrent, but the engine's cap is not known",
                f"曲线测到 {last.concurrency} 并发，但不知道引擎的并发上限",
            ),
            Text(
                f"the serve command with {flag}: preop check --endpoint URL --measure load -- COMMAND",
                f"带 {flag} 的启动命令：preop check --endpoint URL --measure load -- 启动命令",
            ),
        )
    at_cap = next((level for level in complete if level.concurrency >= cap), None)
    if at_cap is None or any(objective.broken_at(at_cap) for objective in objectives):
        reached = within[-1]
        return open_(
            Text(
                f"objectives kept to {reached.concurrency} concurrent; the cap lets {cap} run",
                f"到 {reached.concurrency} 并发都达标，但上限允许 {cap} 个同时运行",
            ),
            Text(f"the level of the cap: {load_run(cap)}", f"测到上限那一档：{load_run(cap)}"),
        )
    tpot = objectives[0]
    return passed(_said(tpot, first, at_cap, Text("within", "满足")), Strength.MEASURED, evidence=evidence)


def _said(objective: _Objective, first: Level, other: Level, word: Text) -> Text:
    """`p99 TPOT 180 ms at 32, 25 ms alone: over 50 ms`."""
    high, low, limit = _ms(objective.p99(other)), _ms(objective.p99(first)), _ms(objective.limit)
    return Text(
        f"p99 {objective.name} {high} at {other.concurrency}, {low} alone: {word.en} {limit}",
        f"{other.concurrency} 并发 p99 {objective.name} {high}，单请求 {low}，{word.zh} {limit}",
    )


def _remedy(case: Case, objectives: list[_Objective], within: list[Level], cap: int | None) -> Text:
    flag = cap_flag(case)
    kept = 0
    for level in within:
        if any(objective.broken_at(level) for objective in objectives):
            break
        kept = level.concurrency
    replicas = (cap or 1) // (batch_cap(case) or 1)
    if case.deployment.engine not in ENGINE_NAMES or kept < replicas:
        return Text(
            f"promise the p99 measured at {cap} concurrent, or add replicas so that each holds fewer",
            f"对外承诺以 {cap} 并发实测的 p99 为准，或加副本让每个副本承担更少的并发",
        )
    return Text(
        f"{flag} {kept // replicas} (the last level that keeps the objective) and replicas for the rest; "
        f"or promise the p99 measured at {cap}",
        f"{flag} {kept // replicas}（最后一个达标的档位），其余流量加副本；"
        f"或者把承诺改成 {cap} 并发实测的 p99",
    )


def _objectives(case: Case) -> list[_Objective]:
    keys = (("tpot_ms", "TPOT", "P04.tpot_p99_ms"), ("ttft_ms", "TTFT", "P04.ttft_p99_ms"))
    return [
        _Objective(
            field, name, key, case.thresholds[key], case.thresholds.source(key) != THRESHOLDS[key].source
        )
        for field, name, key in keys
    ]


def _curve(levels: list[Level], load: Load, objectives: list[_Objective]) -> list[Item]:
    items = []
    for level in levels:
        source = f"load, {level.requests} requests, {load.url}"
        for objective in objectives:
            percentiles = objective.of(level)
            for name, value in (("p50", percentiles.p50), ("p99", percentiles.p99)):
                items.append(
                    Item(f"{objective.name} {name} at {level.concurrency}", value, unit="ms", source=source)
                )
    return items


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"
