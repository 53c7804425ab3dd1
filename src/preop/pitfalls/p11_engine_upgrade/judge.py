"""Judge of P11: was the new engine version held against the old one?

That needs evidence of both versions, which this release does not compare: UNPROVEN. One thing is certain
from the files alone: a flag that the stated version no longer has stops the engine at its start, so the
upgrade was not even tried: FAIL. Where the version is not stated, or is another than the one whose flags
were read, the flag may still exist: UNPROVEN.
"""

from __future__ import annotations

from preop.evidence import Strength
from preop.facts import Fact, Note
from preop.findings import Finding, Item
from preop.pitfalls.clip import clip
from preop.pitfalls.readings import version_name
from preop.pitfalls.say import failed, item, place, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]


def judge(case: Case) -> Finding:
    """P11 for one deployment."""
    version = case.fact("engine_version")
    removed = [note for note in case.deployment.notes if note.kind == "removed-flag"]
    evidence = [
        item("engine_version", version),
        *(
            Item("removed flag", note.message, source=note.where or case.deployment.source)
            for note in removed
        ),
    ]
    if case.inputs.reference is not None:
        evidence.append(Item("reference", case.inputs.reference, source="--reference"))
    first = removed[0] if removed else None
    flag = clip(first.message.split()[0], 28) if first is not None else ""
    if first is not None and _read_with(first, version):
        more = f" (+{len(removed) - 1})" if len(removed) > 1 else ""
        return failed(
            Text(
                f"{flag}{more} is gone: {clip(version_name(case), 24)} cannot start",
                f"{flag}{more} 已被移除，{clip(version_name(case), 24)} 无法启动",
            ),
            Strength.DECLARED,
            remedy=_remedy([note.suggestion or note.message for note in removed]),
            evidence=evidence,
            where=first.where,
        )
    if first is not None:
        return unproven(
            Text(
                f"{flag} is gone in a newer version; yours is not known",
                f"新版已移除 {flag}，而您的版本不明",
            ),
            needs=Text(
                "--engine-version X, one whose flags preop knows, and the regression run of that version "
                "against the one before",
                "--engine-version X（preop 认识其参数的版本），以及该版本与旧版本的回归对比",
            ),
            evidence=evidence,
            where=first.where,
        )
    name = clip(version_name(case), 24) if version.is_known else None
    return unproven(
        Text(
            f"{name or 'this version'} not held against the version before",
            f"{name or '当前版本'} 没有和上一个版本对比过",
        ),
        needs=Text(
            "the same load, quality and token runs on the old and on the new version, which this release "
            "cannot hold against each other yet; keep both now: preop check --endpoint URL --measure all "
            "--runs FOLDER, once on each version" + ("" if name else ", with --engine-version X"),
            "新旧两个版本各跑一遍相同的负载、质量和分词测量，本版 preop 还不能自动对比；现在先各存一份："
            "preop check --endpoint URL --measure all --runs FOLDER"
            + ("" if name else "，并加 --engine-version X"),
        ),
        evidence=evidence,
        where=place(version),
    )


def _read_with(note: Note, version: Fact) -> bool:
    """Whether the note speaks of the stated version."""
    stated = str(version.value).removeprefix("v").partition("+")[0]
    return version.is_known and note.version == stated


def _remedy(changes: list[str]) -> Text:
    listed = "; ".join(dict.fromkeys(changes))
    return Text(
        f"{listed}; then run the old and the new version side by side before traffic moves",
        f"{listed}；然后在切流量之前把新旧版本并排跑一遍回归",
    )
