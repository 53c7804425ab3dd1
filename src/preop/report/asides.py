"""What is said beside a finding: who waived it, how old its evidence is, whether the baseline has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from preop.deployment.types import Contradiction
from preop.evidence import Record, Strength
from preop.facts import Note
from preop.findings import Finding, Outcome
from preop.report.headline import parsed
from preop.report.plain import plain
from preop.report.types import Report
from preop.report.words import OUTCOMES, UI
from preop.text import Language

__all__ = ["age", "age_s", "asides", "evidence_age", "shared", "waived_by"]

T = TypeVar("T", Contradiction, Note)


def asides(
    report: Report, pitfall: str, deployment: str, finding: Finding, language: Language
) -> list[tuple[str, str]]:
    """Each aside with its kind: waiver, enough, known, new, others, measured."""
    said = []
    if finding.waiver is not None:
        said.append(("waiver", waived_by(finding, language)))
    if report.is_enough(pitfall, finding):
        said.append(("enough", UI["enough"].in_(language)))
    if finding.in_baseline is not None and finding.outcome.badness >= Outcome.WAIVED.badness:
        kind = "known" if finding.in_baseline else "new"
        said.append((kind, UI[kind].in_(language)))
    others = _in_its_shadow(report, pitfall, finding, language)
    if others is not None:
        said.append(("others", others))
    measured = evidence_age(report, pitfall, deployment, finding, language)
    if measured is not None:
        said.append(("measured", measured))
    return said


def _in_its_shadow(report: Report, pitfall: str, finding: Finding, language: Language) -> str | None:
    """What keeps the gate shut behind a finding that speaks for its pitfall, is worse, and does not: the
    baseline has it as well, or a waiver covers it."""
    result = next((each for each in report.results if each.pitfall == pitfall), None)
    if result is None or finding is not result.worst or report.blocks(pitfall, finding):
        return None
    blocking = [(name, each) for name, each in result.by_deployment.items() if report.blocks(pitfall, each)]
    if not blocking:
        return None
    name, first = blocking[0]
    more = f" +{len(blocking) - 1}" if len(blocking) > 1 else ""
    summary = plain(first.summary.in_(language), 200)
    said = f"[{plain(name, 40)}{more}] {OUTCOMES[first.outcome].in_(language)}: {summary}"
    return f"{said} ({UI['new'].in_(language)})" if first.in_baseline is False else said


def shared(said: Iterable[tuple[str, Sequence[T]]]) -> list[tuple[T, list[str]]]:
    """What deployments have to say, each thing once with the names of those that say it; its place is that of
    the first. What one says twice stands twice."""
    found: dict[tuple[str, int], tuple[T, list[str]]] = {}
    for name, things in said:
        times: Counter[str] = Counter()
        for each in things:
            key = f"{each.message}\0{each.suggestion}" if isinstance(each, Note) else repr(each)
            found.setdefault((key, times[key]), (each, []))[1].append(name)
            times[key] += 1
    return list(found.values())


def waived_by(finding: Finding, language: Language) -> str:
    """Whose risk it is, until when, why, and what it would be without the waiver."""
    if finding.waiver is None:
        return ""
    owner, reason, expires = (
        plain(text, limit)
        for text, limit in (
            (finding.waiver.owner, 80),
            (finding.waiver.reason, 300),
            (finding.waiver.expires, 40),
        )
    )
    else_ = OUTCOMES[finding.waived].in_(language) if finding.waived is not None else None
    if language == "zh":
        return f"{owner} 豁免至 {expires}：{reason}" + (f"；若无豁免：{else_}" if else_ else "")
    return f"waived by {owner} until {expires}: {reason}" + (f"; without it: {else_}" if else_ else "")


def evidence_age(
    report: Report, pitfall: str, deployment: str, finding: Finding, language: Language
) -> str | None:
    """`measured 3 days ago, on 2026-10-31`; None where no measurement decided."""
    record = report.evidence_for(pitfall, deployment)
    if finding.strength is not Strength.MEASURED or record is None:
        return None
    old, taken = age(record, report.started_at, language), parsed(record.taken_at)
    if old is None or taken is None:
        return None
    day = taken.strftime("%Y-%m-%d")
    return f"测量于 {day}，距今 {old}" if language == "zh" else f"measured {old} ago, on {day}"


def age_s(record: Record, now: str) -> int | None:
    """Seconds from when a record was taken until `now` (ISO 8601), 0 for one of this check itself."""
    taken, then = parsed(record.taken_at), parsed(now)
    return None if taken is None or then is None else max(0, int((then - taken).total_seconds()))


def age(record: Record, now: str, language: Language) -> str | None:
    """How old a record was at `now`, in its largest unit."""
    seconds = age_s(record, now)
    if seconds is None:
        return None
    for size, one, many, zh in (
        (86400, "day", "days", "天"),
        (3600, "hour", "hours", "小时"),
        (60, "minute", "minutes", "分钟"),
    ):
        if seconds >= size:
            count = seconds // size
            return f"{count} {zh}" if language == "zh" else f"{count} {one if count == 1 else many}"
    return "不到 1 分钟" if language == "zh" else "less than a minute"
