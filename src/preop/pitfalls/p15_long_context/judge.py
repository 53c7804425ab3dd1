"""Judge P15.

What facts fail: a length beyond the model's own that no RoPE scaling covers (with or without the engine's
own check switched off), a model whose every layer slides over a window shorter than the length, and a switch
that drops tokens without telling the client (llama.cpp's context shift drops the oldest while it generates,
SGLang's auto-truncation cuts the request). The last two fail because what the checklist warns of, forgetting
in silence, is then what the engine was told to do at the limit; without them it refuses, which is honest.

What facts never fail: native hybrids of full and sliding layers; scaling that covers the length; llama.cpp's
slots that share one pool, which that engine cuts to the trained length; whatever may be set out of sight.
Nothing passes by facts: whether text far back is still found has to be measured. A length within the native
window, or within what its RoPE scaling reaches, holds as far as files can tell.
"""

from __future__ import annotations

from typing import Any

from preop.evidence import Strength
from preop.findings import Finding, Item
from preop.pitfalls.clip import clip
from preop.pitfalls.length import (
    Native,
    Scaling,
    Served,
    native_of,
    overridden_native,
    overrides_of,
    scaling_of,
    served_of,
    touches_windows,
    window_of,
)
from preop.pitfalls.readings import (
    batch_cap,
    engine_name,
    grouped,
    hides_flags,
    length_flag,
    not_set,
    release,
    truth,
    version_name,
)
from preop.pitfalls.say import failed, item, place, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_YARN_RAISES_NOTHING = (0, 32, 0)
"""The first release read in which YaRN no longer raises vLLM's own limit (vllm pull request 56446)."""
_ALLOW_LONG = {"vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"}


def judge(case: Case) -> Finding:
    """FAIL where facts show the context is faked, else UNPROVEN with what facts say of it."""
    native = native_of(case)
    overrides = overrides_of(case)
    served = served_of(case, native, overrides)
    evidence = [item("max_model_len", served.fact)]
    if native is not None:
        evidence.append(Item("native context", native.tokens, "tokens", native.source))
    finding = None
    if native is not None and served.tokens is not None:
        finding = _beyond_native(case, native, served, overrides, evidence)
    finding = finding or _all_layers_slide(case, served, overrides, evidence)
    if finding is not None and finding.remedy is not None:
        return finding
    return _drops_in_silence(case, evidence) or finding or _within(case, native, served, evidence)


def _beyond_native(
    case: Case, native: Native, served: Served, overrides: dict[str, Any] | None, evidence: list[Item]
) -> Finding | None:
    """None where the length is within the model's own."""
    asked = served.tokens
    assert asked is not None
    if asked <= native.tokens:
        return None
    scaling = scaling_of(case, native, overrides)
    names = ("hf_overrides", "rope_scaling", "allow_long_max_model_len", "override_kv")
    told = [
        item(name, case.fact(name)) for name in names if case.fact(name).is_known and case.fact(name).value
    ]
    evidence = [*evidence, *told]
    where = place(served.fact, case.fact("allow_long_max_model_len"), case.fact("hf_overrides"))
    pair = f"{grouped(asked)} asked, {grouped(native.tokens)} native"
    pair_zh = f"要求 {grouped(asked)}，原生 {grouped(native.tokens)}"
    if not scaling.is_known:
        return unproven(
            Text(f"{pair}; RoPE scaling not visible", f"{pair_zh}；看不到 RoPE scaling 设置"),
            needs=Text(
                "the whole command with every flag visible, and the model's files (--model-path DIR)",
                "完整可见的启动命令，以及模型文件（--model-path DIR）",
            ),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=where,
        )
    if not native.bounds_positions:
        return unproven(
            Text(f"{pair}; it has no positions that end", f"{pair_zh}；该模型没有位置编码上限"),
            needs=_needles(asked),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=where,
        )
    if not native.is_sure:
        return unproven(
            Text(f"{pair} by the tokenizer's limit", f"{pair_zh}（来自 tokenizer 自身的限制）"),
            needs=_needles(asked),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=where,
        )
    if scaling.reach is None or asked <= scaling.reach:
        return _scaled(case, native, asked, scaling, overrides or {}, evidence, where)
    if _shares_one_pool(case, served, native):
        return unproven(
            Text(
                f"pool of {grouped(asked)} shared by slots, {grouped(native.tokens)} native",
                f"各槽位共享 {grouped(asked)}，原生 {grouped(native.tokens)}",
            ),
            needs=Text(
                "--endpoint URL (the engine reports one slot's context), or --no-kv-unified in the command",
                "--endpoint URL：由运行中的引擎报告单个槽位的上下文，或在命令中写明 --no-kv-unified",
            ),
            strength=Strength.DECLARED,
            evidence=evidence,
            where=where,
        )
    return _unscaled(case, native, asked, scaling, evidence, where)


def _scaled(
    case: Case,
    native: Native,
    asked: int,
    scaling: Scaling,
    overrides: dict[str, Any],
    evidence: list[Item],
    where: str | None,
) -> Finding:
    """The length is covered by RoPE scaling, as far as its own numbers say."""
    reach = grouped(scaling.reach) if scaling.reach is not None else None
    evidence = [*evidence, Item("RoPE scaling", scaling.type, None, scaling.source)]
    if scaling.reach is not None:
        evidence.append(Item("RoPE scaling reaches", scaling.reach, "tokens", scaling.source))
    raised = overrides.get("max_position_embeddings")
    limit = raised if isinstance(raised, int) and raised > 0 else native.tokens
    add = Text(
        f'"max_position_embeddings": {asked} beside YaRN in --hf-overrides, or {length_flag(case)} {limit}',
        f'--hf-overrides 的 YaRN 旁加上 "max_position_embeddings": {asked}，或 {length_flag(case)} {limit}',
    )
    version = release(case)
    refused = case.deployment.engine == "vllm" and scaling.is_yarn and asked > limit
    allowed = truth(case.fact("allow_long_max_model_len"))
    if allowed is None and not_set(case, "allow_long_max_model_len"):
        allowed = False
    if refused and allowed is False and version is not None and version >= _YARN_RAISES_NOTHING:
        return failed(
            Text(
                f"{clip(version_name(case))} refuses {grouped(asked)}: YaRN keeps the limit {grouped(limit)}",
                f"{version_name(case)} 会拒绝 {grouped(asked)}：YaRN 不再提高其上限 {grouped(limit)}",
            ),
            Strength.DECLARED,
            remedy=add,
            evidence=[*evidence, item("engine_version", case.fact("engine_version"))],
            where=where,
        )
    kind = clip(scaling.type, 16)
    by = f"{kind} scaling" if reach is None else f"{kind} scaling to {reach}"
    by_zh = f"{kind} 扩展" if reach is None else f"{kind} 扩展到 {reach}"
    return unproven(
        Text(
            f"{grouped(asked)} by {by}: not measured",
            f"{grouped(asked)} 依靠 {by_zh}：尚未做 needle 测试",
        ),
        needs=_needles(asked),
        strength=Strength.DECLARED,
        evidence=evidence,
        remedy=add if refused and version is None else None,
        where=where,
        holds=Strength.DECLARED
        if scaling.reach is not None and not (refused and allowed is not True)
        else None,
    )


def _unscaled(
    case: Case, native: Native, asked: int, scaling: Scaling, evidence: list[Item], where: str | None
) -> Finding:
    """The length is beyond what the positions reach, for certain."""
    variable = _ALLOW_LONG.get(case.deployment.engine)
    forced = bool(truth(case.fact("allow_long_max_model_len")))
    pair = f"{grouped(asked)} asked, {grouped(native.tokens)} native"
    pair_zh = f"要求 {grouped(asked)}，原生 {grouped(native.tokens)}"
    if scaling.reach is not None and scaling.reach > native.tokens:
        evidence = [*evidence, Item("RoPE scaling reaches", scaling.reach, "tokens", scaling.source)]
        summary = Text(
            f"{pair}, scaled to {grouped(scaling.reach)} only",
            f"{pair_zh}，RoPE scaling 只到 {grouped(scaling.reach)}",
        )
    elif forced:
        summary = Text(f"{pair}, the engine's check is off", f"{pair_zh}，引擎的检查被关闭")
    else:
        summary = Text(f"{pair}, no RoPE scaling", f"{pair_zh}，未设 RoPE scaling")
    limit = scaling.reach or native.tokens
    if case.deployment.engine == "llama.cpp":
        slots = batch_cap(case) or 1
        fix = f"--ctx-size {limit * slots} ({slots} x {limit})"
        fix_zh = f"--ctx-size {limit * slots}（{slots} × {limit}）"
    else:
        fix = fix_zh = f"{length_flag(case)} {limit}"
    if forced and variable:
        fix, fix_zh = f"{fix} and unset {variable}", f"{fix_zh}，并取消 {variable}"
    return failed(
        summary,
        Strength.DECLARED,
        remedy=Text(
            f"{fix}; for longer texts {_how_to_scale(case, asked)}, if the model's makers support that",
            f"{fix_zh}；若确需更长，{_how_to_scale(case, asked)}（需模型作者支持）",
        ),
        evidence=evidence,
        where=where,
    )


def _how_to_scale(case: Case, asked: int) -> str:
    if case.deployment.engine == "vllm":
        rope = '"rope_parameters": {"rope_type": "yarn", ...}'
        return f"--hf-overrides '{{{rope}, \"max_position_embeddings\": {asked}}}'"
    if case.deployment.engine == "sglang":
        return '--json-model-override-args \'{"rope_scaling": {"rope_type": "yarn", ...}}\''
    if case.deployment.engine == "llama.cpp":
        return "--rope-scaling yarn --yarn-orig-ctx N --rope-scale F"
    return "RoPE scaling"


def _shares_one_pool(case: Case, served: Served, native: Native) -> bool:
    """llama.cpp cuts a slot to the trained length; the size of a shared pool is no slot's length."""
    if case.deployment.engine != "llama.cpp" or served.fact.set_by == "engine":
        return False
    lifted = overridden_native(case)
    if lifted is not None and lifted > native.tokens:
        return False
    if batch_cap(case) == 1 or truth(case.fact("kv_unified")) is False:
        return False
    # Slots share by default only where their number was left to the engine.
    return not (case.fact("max_num_seqs").set_by == "user" and not_set(case, "kv_unified"))


def _all_layers_slide(
    case: Case, served: Served, overrides: dict[str, Any] | None, evidence: list[Item]
) -> Finding | None:
    """None where some layer sees the whole text, or the window holds all of it."""
    window = window_of(case)
    if window is None or served.tokens is None or served.tokens <= window:
        return None
    model = case.deployment.model
    assert model is not None
    evidence = [*evidence, Item("window of every layer", window, "tokens", f"{model.name}: {model.origin}")]
    summary = Text(
        f"every layer sees only the last {grouped(window)} of {grouped(served.tokens)}",
        f"所有层都只看最后 {grouped(window)} 个 token（共 {grouped(served.tokens)}）",
    )
    where = place(served.fact)
    certain = case.deployment.engine == "vllm" and overrides is not None and not touches_windows(overrides)
    if certain:
        return failed(
            summary,
            Strength.DECLARED,
            remedy=Text(
                f"{length_flag(case)} {window}, or a model with full-attention layers",
                f"{length_flag(case)} {window}，或换用含全注意力层的模型",
            ),
            evidence=evidence,
            where=where,
        )
    return unproven(
        Text(
            f"all layers slide over {grouped(window)}; {engine_name(case)} may not apply it",
            f"所有层窗口为 {grouped(window)}；{engine_name(case)} 是否生效未知",
        ),
        needs=_needles(served.tokens),
        strength=Strength.DECLARED,
        evidence=evidence,
        where=where,
    )


def _drops_in_silence(case: Case, evidence: list[Item]) -> Finding | None:
    """Switches by which the engine drops tokens at the limit and answers as if nothing had happened."""
    shift, cut = case.fact("context_shift"), case.fact("auto_truncate")
    if truth(shift) and case.deployment.engine == "llama.cpp":
        return failed(
            Text("context shift drops the oldest tokens in silence", "context shift 会悄悄丢弃最早的 token"),
            Strength.DECLARED,
            remedy=Text(
                "--no-context-shift: the engine then stops at the limit and says so",
                "--no-context-shift：到达上限时引擎会停止并说明",
            ),
            evidence=[*evidence, item("context_shift", shift)],
            where=place(shift),
        )
    if truth(cut) and case.deployment.engine == "sglang":
        return failed(
            Text("over-long requests are cut in silence", "超长请求会被悄悄截断"),
            Strength.DECLARED,
            remedy=Text(
                "drop --allow-auto-truncate: the engine then refuses what does not fit",
                "去掉 --allow-auto-truncate：引擎会拒绝放不下的请求",
            ),
            evidence=[*evidence, item("auto_truncate", cut)],
            where=place(cut),
        )
    return None


def _within(case: Case, native: Native | None, served: Served, evidence: list[Item]) -> Finding:
    """Facts show nothing wrong; that text far back is found is still to be measured."""
    where = place(served.fact)
    if native is None:
        return unproven(
            Text("the model's native context is not known", "模型的原生上下文长度未知"),
            needs=Text("--model-path DIR (the model's own files)", "--model-path DIR（模型自身的文件）"),
            evidence=evidence,
            where=where,
        )
    if served.tokens is None:
        return unproven(
            Text(
                f"served length not known, {grouped(native.tokens)} native",
                f"部署长度未知，原生 {grouped(native.tokens)}",
            ),
            needs=Text(
                f"{length_flag(case)} N in the command, or --endpoint URL (the engine reports it)",
                f"在命令中写明 {length_flag(case)} N，或 --endpoint URL（由引擎报告）",
            ),
            evidence=evidence,
            where=where,
        )
    if served.is_own:
        summary = Text(
            f"the model's own {grouped(served.tokens)}: needles not measured",
            f"使用模型自身的 {grouped(served.tokens)}：尚未做 needle 测试",
        )
    else:
        summary = Text(
            f"{grouped(served.tokens)} within native {grouped(native.tokens)}: not measured",
            f"{grouped(served.tokens)} 在原生 {grouped(native.tokens)} 之内：未实测",
        )
    return unproven(
        summary,
        needs=_needles(served.tokens),
        strength=Strength.DECLARED,
        evidence=evidence,
        where=where,
        holds=Strength.DECLARED if native.is_sure and not hides_flags(case) else None,
    )


def _needles(tokens: int) -> Text:
    return Text(
        f"--endpoint URL and a needle test up to {grouped(tokens)} tokens at every depth, "
        "which this version of preop does not make yet",
        f"--endpoint URL，并做直到 {grouped(tokens)} token、各深度的 needle 测试（本版本 preop 尚不提供）",
    )
