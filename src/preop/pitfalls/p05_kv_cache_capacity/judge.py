"""Judge P05.

FAIL only on what is certain: not even one request of the promised length fits the most memory that can be
left, by formula, or by the running engine's own word (SGLang; a vLLM that runs has checked it itself). PASS
where the batch cap times the longest request fits whole: that is already the worst case, so the engine's own
count needs no headroom on top, while the formula, which leaves padding and fragmentation out, has to clear
the checklist's headroom as well. All between depends on how long real requests are: UNPROVEN, numbers shown.

llama.cpp allocates the cache when it starts, so it cannot run out while every slot owns its context; what is
longer than a slot is refused, which is pitfall 15's business.
"""

from __future__ import annotations

from preop.evidence import Strength
from preop.findings import Finding, Item
from preop.pitfalls.length import Served, native_of, overrides_of, served_of
from preop.pitfalls.p05_kv_cache_capacity.budget import GIB, Budget, Demand, budget_of, demand_of, gib
from preop.pitfalls.readings import batch_cap, cap_flag, grouped, length_flag, truth, whole, without_figures
from preop.pitfalls.say import failed, item, not_applicable, passed, place, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_KEEPS_SIZE = {
    "architectures",
    "max_position_embeddings",
    "model_type",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
}
"""Keys of hf_overrides that change neither weights nor KV cache."""


def judge(case: Case) -> Finding:
    """FAIL where one request cannot fit, PASS where all of them always do, N/A for what generates nothing."""
    model = case.deployment.model
    if model is not None and model.is_generative is False:
        return not_applicable(
            Text("an embedder or reranker: it keeps no KV cache", "嵌入或重排模型：不保留 KV cache"),
            Strength.DECLARED,
            evidence=[Item("architecture", model.architecture, None, str(model.origin))],
        )
    overrides = overrides_of(case)
    served = served_of(case, native_of(case), overrides)
    cap = batch_cap(case)
    evidence = [
        item("max_model_len", served.fact)
        if not served.is_own
        else Item(
            "max_model_len", served.tokens, "tokens", "the model's own length, where nobody sets another"
        ),
        item("max_num_seqs", case.fact("max_num_seqs")),
    ]
    if case.deployment.engine == "llama.cpp":
        return _allocated_at_start(case, served, cap, evidence)
    capacity = whole(case.fact("kv_cache_tokens"))
    if capacity is not None and served.tokens is not None:
        return _by_the_engine(case, served.tokens, cap, capacity, evidence)
    if overrides is None or not overrides.keys() <= _KEEPS_SIZE:
        return _reshaped(case, evidence)
    return _by_formula(case, served, cap, evidence)


def _reshaped(case: Case, evidence: list[Item]) -> Finding:
    """The command may serve other shapes than the model's files say: {"num_hidden_layers": 2} in a trial."""
    overrides = case.fact("hf_overrides")
    return unproven(
        Text("hf_overrides may change the model's size", "hf_overrides 可能改变了模型的大小"),
        needs=Text(
            "--endpoint URL (the engine says what it holds)", "--endpoint URL：由运行中的引擎报告容量"
        ),
        evidence=[*evidence, item("hf_overrides", overrides)],
        where=place(overrides),
    )


def _by_the_engine(case: Case, length: int, cap: int | None, capacity: int, evidence: list[Item]) -> Finding:
    """Judge by the number of tokens that the running engine says it can hold."""
    evidence = [*evidence, item("kv_cache_tokens", case.fact("kv_cache_tokens"))]
    where = place(case.fact("max_model_len"), case.fact("max_num_seqs"))
    layers = case.deployment.model.layers if case.deployment.model is not None else None
    uniform = layers is not None and all(group.kind in ("full", "mla", "none") for group in layers)
    if capacity < length and case.deployment.engine == "sglang" and uniform:
        return failed(
            Text(
                f"one request of {grouped(length)} > {grouped(capacity)} tokens of KV",
                f"单个请求 {grouped(length)} 超过 KV 容量 {grouped(capacity)} token",
            ),
            Strength.COMPUTED,
            remedy=Text(
                f"{length_flag(case)} {capacity}, --kv-cache-dtype fp8_e5m2, or more GPUs (--tp-size)",
                f"{length_flag(case)} {capacity}、--kv-cache-dtype fp8_e5m2，或增加 GPU（--tp-size）",
            ),
            evidence=evidence,
            where=where,
        )
    replicas = whole(case.fact("data_parallel_size")) or 1
    if cap is not None and cap * length <= capacity and replicas == 1:
        return passed(
            Text(
                f"{grouped(cap)} x {grouped(length)} fits {grouped(capacity)} tokens",
                f"{grouped(cap)} × {grouped(length)} 放得进 {grouped(capacity)} token",
            ),
            Strength.COMPUTED,
            evidence=evidence,
            where=where,
        )
    fits = capacity / length
    whole_requests = f"{fits:.1f}" if fits < 1e6 else grouped(fits)
    return unproven(
        Text(
            f"{grouped(capacity)} tokens hold {whole_requests} of {_cap_text(cap)} full requests",
            f"{grouped(capacity)} token 只够 {whole_requests} 个满长请求，上限 {_cap_text(cap)}",
        ),
        needs=_lengths(case, cap),
        strength=Strength.COMPUTED,
        evidence=evidence,
        remedy=_smaller(case, capacity // length),
        where=where,
    )


def _by_formula(case: Case, served: Served, cap: int | None, evidence: list[Item]) -> Finding:
    budget, demand = budget_of(case), demand_of(case)
    where = place(case.fact("max_model_len"), case.fact("max_num_seqs"))
    if budget is None or demand is None or served.tokens is None:
        return _not_known(case, budget, demand, served, cap, evidence)
    length = served.tokens
    one = demand.floor.at(length)
    evidence = [
        *evidence,
        *budget.evidence,
        Item("KV cache of one full request", round(one / GIB, 3), "GiB, at least", demand.source),
        Item(
            "memory left for the KV cache",
            round(budget.most / GIB, 2),
            "GiB, at most",
            "formula: memory - weights",
        ),
    ]
    # SGLang starts all the same where only the model's own length does not fit, and refuses longer requests.
    promised = not (served.is_own and case.deployment.engine == "sglang" and budget.most > 0)
    if one > budget.most and promised:
        if budget.most > 0:
            summary = Text(
                f"one request of {grouped(length)} needs {gib(one)}, {gib(budget.most)} left",
                f"单个请求 {grouped(length)} 需 {gib(one)}，只剩 {gib(budget.most)}",
            )
        else:
            room = gib(budget.most + budget.weights)
            summary = Text(
                f"weights of {gib(budget.weights)} fill {room}: no KV cache",
                f"权重 {gib(budget.weights)} 已占满 {room}：没有 KV cache 的空间",
            )
        return failed(
            summary,
            Strength.COMPUTED,
            remedy=_one_that_fits(case, budget, demand),
            evidence=evidence,
            where=where,
        )
    sure = 0
    if cap is not None and demand.ceiling is not None and budget.least is not None:
        headroom = case.thresholds["P05.headroom"]
        most = demand.ceiling * length * cap
        sure = int(max(0.0, budget.least) // (demand.ceiling * length * headroom)) if most > 0 else 0
        evidence = [
            *evidence,
            Item("KV cache of all full requests", round(most / GIB, 2), "GiB, at most", demand.source),
            threshold_item(case.thresholds, "P05.headroom"),
            threshold_item(case.thresholds, "P05.other_gib"),
        ]
        if most * headroom <= budget.least:
            return passed(
                Text(
                    f"{grouped(cap)} x {grouped(length)} takes {gib(most)} of {gib(budget.least)}",
                    f"{grouped(cap)} × {grouped(length)} 需 {gib(most)}，剩余 {gib(budget.least)}",
                ),
                Strength.COMPUTED,
                evidence=evidence,
                where=where,
            )
    all_of_them = (
        f"{grouped(cap)} x {grouped(length)} needs {gib(one * cap)}" if cap else f"{gib(one)} a request"
    )
    all_of_them_zh = (
        f"{grouped(cap)} × {grouped(length)} 需 {gib(one * cap)}" if cap else f"每个请求 {gib(one)}"
    )
    return unproven(
        Text(f"{all_of_them}, {gib(budget.most)} left", f"{all_of_them_zh}，剩余 {gib(budget.most)}"),
        needs=_lengths(case, cap),
        strength=Strength.COMPUTED,
        evidence=evidence,
        remedy=_smaller(case, sure),
        where=where,
    )


def _allocated_at_start(case: Case, served: Served, cap: int | None, evidence: list[Item]) -> Finding:
    """llama.cpp: what runs has its cache already; what does not run may still be refused or shrunk."""
    pool = whole(case.fact("kv_cache_tokens")) or whole(case.fact("context_size"))
    slot = served.tokens
    evidence = [*evidence, item("context_size", case.fact("context_size"))]
    where = place(case.fact("context_size"), case.fact("max_num_seqs"))
    if served.fact.set_by != "engine" or slot is None:
        return unproven(
            Text("allocated when the engine starts: not seen running", "启动时才分配：尚未见其运行"),
            needs=Text(
                "--endpoint URL of the started engine: it says what one slot holds",
                "--endpoint URL：已启动的引擎会报告单个槽位的容量",
            ),
            strength=Strength.DECLARED if slot is not None else None,
            evidence=evidence,
            where=where,
        )
    separate = truth(case.fact("kv_unified")) is False or (
        pool is not None and cap is not None and cap * slot <= pool
    )
    if cap is not None and (cap == 1 or separate):
        return passed(
            Text(
                f"{grouped(cap)} slots own {grouped(slot)} tokens each, allocated",
                f"{grouped(cap)} 个槽位各有 {grouped(slot)} token，已分配",
            ),
            Strength.COMPUTED,
            evidence=evidence,
            where=where,
        )
    held = grouped(pool) if pool is not None else "an unknown pool"
    held_zh = grouped(pool) if pool is not None else "未知大小的缓存池"
    return unproven(
        Text(
            f"{_cap_text(cap)} slots of {grouped(slot)} share {held}",
            f"{_cap_text(cap)} 个槽位（各 {grouped(slot)}）共享 {held_zh}",
        ),
        needs=Text(
            "--no-kv-unified with --ctx-size in the command (a slot then owns its part), or --prompts FILE",
            "在命令中写明 --no-kv-unified 与 --ctx-size（每个槽位独占一份），或 --prompts FILE",
        ),
        strength=Strength.DECLARED,
        evidence=evidence,
        where=where,
    )


def _not_known(
    case: Case,
    budget: Budget | None,
    demand: Demand | None,
    served: Served,
    cap: int | None,
    evidence: list[Item],
) -> Finding:
    """Names each input that the formula lacks."""
    missing, missing_zh = [], []
    options: list[Text] = []
    other = without_figures(case)
    if budget is None:
        missing.append(f"memory (unsupported: {other})" if other else "GPU memory")
        missing_zh.append(f"内存（preop 尚不支持 {other}）" if other else "GPU 显存")
        gpu_helps = other is None and not case.fact("gpu").is_known
        options.append(
            Text("--gpu NAME (e.g. h100-80gb)", "--gpu NAME（如 h100-80gb）") if gpu_helps else _ASK_ENGINE
        )
    if demand is None:
        missing.append("KV size")
        missing_zh.append("每 token 的 KV 字节数")
        options.append(Text("--model-path DIR", "--model-path DIR"))
    if served.tokens is None:
        missing.append("length")
        missing_zh.append("部署长度")
        options.append(Text(f"{length_flag(case)} N in the command", f"在命令中写明 {length_flag(case)} N"))
    if cap is None:
        missing.append("batch cap")
        missing_zh.append("并发上限")
        options.append(Text(f"{cap_flag(case)} N in the command", f"在命令中写明 {cap_flag(case)} N"))
    if _ASK_ENGINE not in options:
        options.append(Text(f"or {_ASK_ENGINE.en}", f"或 {_ASK_ENGINE.zh}"))
    evidence = [*evidence, item("gpu", case.fact("gpu")), item("accelerator", case.fact("accelerator"))]
    return unproven(
        Text(f"not known: {', '.join(missing)}", f"未知：{'、'.join(missing_zh)}"),
        needs=Text("; ".join(each.en for each in options), "；".join(each.zh for each in options)),
        evidence=evidence,
        where=place(case.fact("max_model_len"), case.fact("max_num_seqs")),
    )


_ASK_ENGINE = Text(
    "--endpoint URL (the running engine says what it holds)",
    "--endpoint URL（由运行中的引擎报告它的容量）",
)


def _lengths(case: Case, cap: int | None) -> Text:
    """What decides between the bounds: how long real requests are."""
    stated = f"{cap_flag(case)} N in the command and " if cap is None else ""
    stated_zh = f"在命令中写明 {cap_flag(case)} N，以及 " if cap is None else ""
    return Text(
        f"{stated}--prompts FILE (how long real conversations are), "
        "which this version of preop does not weigh yet",
        f"{stated_zh}--prompts FILE（真实对话的长度分布，本版本 preop 尚不使用）",
    )


def _smaller(case: Case, fits: int) -> Text | None:
    """The cap at which even the worst case fits, where that is at least one."""
    if fits < 1:
        return None
    return Text(
        f"{cap_flag(case)} {fits} or a shorter {length_flag(case)} fits at any length",
        f"{cap_flag(case)} {fits} 或更短的 {length_flag(case)} 在任何长度下都放得下",
    )


def _one_that_fits(case: Case, budget: Budget, demand: Demand) -> Text:
    more = {"vllm": "--tensor-parallel-size", "sglang": "--tp-size", "tgi": "--num-shard"}
    gpus = more.get(case.deployment.engine, "tensor parallelism")
    left = budget.most - demand.floor.most_capped
    tokens = int(left // demand.floor.growing) // 256 * 256 if demand.floor.growing > 0 else 0
    if tokens < 256:
        return Text(f"more GPUs ({gpus}) or a smaller model", f"增加 GPU（{gpus}）或换更小的模型")
    return Text(
        f"{length_flag(case)} {tokens} at the most, or more GPUs ({gpus})",
        f"{length_flag(case)} 最多 {tokens}，或增加 GPU（{gpus}）",
    )


def _cap_text(cap: int | None) -> str:
    return grouped(cap) if cap is not None else "?"
