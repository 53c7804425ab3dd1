"""Judge P02.

Only token ids decide. No difference among those compared is a PASS only where everything that the
instrument set out to compare was compared: what was left out (a chat template, the training side's own
tokenizer) is where real differences hide, so it keeps the pitfall UNPROVEN and is named.
"""

from __future__ import annotations

from preop.evidence import Strength, TokenDifference, Tokens
from preop.findings import Finding, Item
from preop.pitfalls.adapters import adapter_names, adapters_shown, for_each_adapter
from preop.pitfalls.clip import clip
from preop.pitfalls.readings import is_nothing
from preop.pitfalls.say import failed, item, passed, place, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_SHOWN = 5
"""Differences that are shown one by one; the count says how many there are."""
_IDS = 8
"""Token ids that are shown of each side, from the first that differs."""


def judge(case: Case) -> Finding:
    """FAIL on a difference, PASS where all was compared and equal and no adapter is loaded, else UNPROVEN."""
    tokens = case.payload(Tokens)
    if tokens is not None and tokens.differences:
        return _differs(case, tokens)
    if tokens is None or tokens.compared <= 0:
        return _not_compared(case, tokens)
    source = f"{tokens.candidate} against {tokens.reference}"
    evidence = [
        Item("texts with equal token ids", tokens.compared, "texts", source),
        *_left_out(tokens),
        *adapters_shown(case),
    ]
    if tokens.not_compared:
        return unproven(
            Text(
                f"{tokens.compared} texts equal; {len(tokens.not_compared)} parts not compared",
                f"{tokens.compared} 条文本一致；{len(tokens.not_compared)} 项未能比较",
            ),
            needs=_rest(case, tokens),
            strength=Strength.MEASURED,
            evidence=evidence,
        )
    adapters = adapter_names(case)
    if adapters:
        return _base_only(tokens, adapters, evidence)
    return passed(
        Text(f"token ids equal on {tokens.compared} texts", f"{tokens.compared} 条文本的 token id 一致"),
        Strength.MEASURED,
        evidence=evidence,
    )


def _base_only(tokens: Tokens, adapters: list[str], evidence: list[Item]) -> Finding:
    """The base model's ids are equal; an adapter is a model of its own, and may bring tokens of its own."""
    count, named = len(adapters), clip(", ".join(adapters), 200)
    return unproven(
        Text(
            f"{tokens.compared} texts equal; {count} adapters not compared",
            f"{tokens.compared} 条文本一致；{count} 个适配器未比较",
        ),
        needs=Text(
            f"the same for each adapter ({named}) against the tokenizer that it was trained with, which this "
            "release does not do; by hand: the tokenize route with the adapter's name as the model",
            f"每个适配器（{named}）也要与其训练时的分词器做同样的比较，本版本尚不提供；"
            "人工：以适配器名作为 model 请求 tokenize 接口",
        ),
        strength=Strength.MEASURED,
        evidence=evidence,
    )


def _rest(case: Case, tokens: Tokens) -> Text:
    """What would compare the rest: the training side's tokenizer if it was not given, and a later preop."""
    left = "; ".join(tokens.not_compared)
    if case.inputs.tokenizer is None:
        return Text(
            "--measure tokens --endpoint URL --tokenizer PATH (the training side's), and a comparison of "
            f"what this release leaves out ({left})",
            "--measure tokens --endpoint URL --tokenizer PATH（训练侧的分词器），以及对本版本未比较部分的比较"
            f"（{left}）",
        )
    return Text(
        f"a comparison of what this release leaves out ({left}); by hand: render the same conversation with "
        "both chat templates",
        f"对本版本未比较部分的比较（{left}）；人工：用两边的对话模板渲染同一段对话并比较",
    )


def _differs(case: Case, tokens: Tokens) -> Finding:
    first = tokens.differences[0]
    count = len(tokens.differences)
    others = f" (+{count - 1} more)" if count > 1 else ""
    others_zh = f"（另有 {count - 1} 处）" if count > 1 else ""
    source = f"{tokens.candidate} against {tokens.reference}"
    evidence = [
        Item("texts compared", tokens.compared, "texts", source),
        Item("texts that differ", count, "texts", source),
    ]
    evidence.extend(_shown(difference, source) for difference in tokens.differences[:_SHOWN])
    evidence.extend(_left_out(tokens))
    fix = first.fix or "serve the tokenizer files that the model was trained with, and measure again"
    fix_zh = first.fix or "改用训练时的 tokenizer 文件部署，然后重新测量"
    return failed(
        Text(
            f"token ids differ at {first.position}: {clip(first.cause)}{others}",
            f"第 {first.position} 个 token 起不一致：{clip(first.cause)}{others_zh}",
        ),
        Strength.MEASURED,
        remedy=Text(fix, fix_zh),
        evidence=evidence,
        where=place(case.fact("tokenizer"), case.fact("tokenizer_mode"), case.fact("chat_template")),
    )


def _not_compared(case: Case, tokens: Tokens | None) -> Finding:
    model, tokenizer = case.fact("model"), case.fact("tokenizer")
    evidence = [
        item(name, case.fact(name))
        for name in ("tokenizer", "tokenizer_mode", "chat_template")
        if case.fact(name).set_by == "user" and not is_nothing(case.fact(name).value)
    ]
    evidence.extend(adapters_shown(case))
    if tokens is not None:
        evidence.extend(_left_out(tokens))
    other = tokenizer.set_by == "user" and not is_nothing(tokenizer.value) and tokenizer.value != model.value
    if other:
        summary = Text(
            "another tokenizer than the model's; ids not compared",
            "使用了模型之外的 tokenizer，尚未比较 token id",
        )
    else:
        summary = Text("token ids not compared with the training side", "尚未与训练侧比较 token id")
    return unproven(
        summary,
        needs=for_each_adapter(
            case,
            Text(
                "--measure tokens --endpoint URL --tokenizer PATH (the training side's tokenizer)",
                "--measure tokens --endpoint URL --tokenizer PATH（训练侧的分词器）",
            ),
        ),
        strength=Strength.DECLARED if evidence else None,
        evidence=evidence,
        where=place(tokenizer) if other else None,
    )


def _shown(difference: TokenDifference, source: str) -> Item:
    at = difference.position
    return Item(
        f"difference: {difference.cause}",
        {
            "text": difference.text,
            "position": at,
            "reference ids from there": difference.reference_ids[at : at + _IDS],
            "engine ids from there": difference.candidate_ids[at : at + _IDS],
        },
        None,
        source,
    )


def _left_out(tokens: Tokens) -> list[Item]:
    return [Item("not compared", sentence, None, tokens.candidate) for sentence in tokens.not_compared]
