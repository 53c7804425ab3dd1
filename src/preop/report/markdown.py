"""The checklist in Markdown, its boxes ticked from evidence."""

from __future__ import annotations

import re

from preop.findings import Outcome, PitfallResult
from preop.report.asides import asides, shared
from preop.report.headline import count_by_engine, headline, moment, said_of_all, speaker
from preop.report.plain import plain, shown
from preop.report.types import Report
from preop.report.words import ADVICE, GROUPS, OUTCOMES, STRENGTHS, UI, VERDICTS, aside
from preop.text import Language

__all__ = ["escape", "render_markdown"]

_DEPLOYMENTS = 12
"""Deployments up to which each has a line; more are counted by engine."""
_NOTES = 20
"""Notes and the like that are shown; the JSON document has all."""
_TICKED = {Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.WAIVED}
_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$^]|(?<![^\W_])_|_(?![^\W_])")
_LINKS = re.compile(r"(?i)(?<=[a-z]):(?=//)|(?<=\bwww)\.")
_MENTION = re.compile(r"(?<![\w/.])@(?=\w)")


def escape(text: str, limit: int = 400) -> str:
    """`text` as Markdown that shows it and does nothing else: no markup, HTML, link, mention or formula."""
    safe = _SPECIAL.sub(lambda found: "\\" + found.group(), plain(text, limit))
    # A bare address would become a link, and `@name` calls people on the sites that show checklists.
    safe = _LINKS.sub(lambda found: "\\" + found.group(), safe)
    return _MENTION.sub("@\u2060", safe)


def render_markdown(report: Report, language: Language) -> str:
    """The checklist of fifteen items: verdict on top, then each box with its outcome and what decided.

    A box is ticked for PASS, N/A and WAIVED, and for nothing else.
    """
    colon = "：" if language == "zh" else ": "
    ui = {key: text.in_(language) for key, text in UI.items()}
    counts = " · ".join(f"{count} {OUTCOMES[each].in_(language)}" for each, count in report.counts.items())
    lines = [
        f"# {ui['checklist']}",
        "",
        f"**{VERDICTS[report.verdict].in_(language)}** · {counts}",
        "",
        ADVICE[report.verdict].in_(language),
        "",
    ]
    several = len(report.deployments) > 1
    if len(report.deployments) > _DEPLOYMENTS:
        lines.append(f"- {escape(count_by_engine(report.deployments, language))}")
    for deployment in report.deployments if len(report.deployments) <= _DEPLOYMENTS else ():
        name = f"**{escape(deployment.name, 40)}**{colon}" if several else ""
        lines.append(f"- {name}{escape(headline(deployment, language))}")
    when = escape(moment(report.started_at), 40)
    lines.append(f"- {ui['gate']}{colon}{escape(report.gate, 40)} · {when} · preop {report.preop_version}")
    if report.not_required:
        occasion = f"{report.occasion.in_(language)} · " if report.occasion else ""
        lines.append(f"- {occasion}{ui['requires']} {' '.join(sorted(report.required)) or '—'}")
    if report.baseline is not None:
        baseline = f"{escape(report.baseline.name, 80)} ({escape(report.baseline.detail, 40)})"
        lines.append(f"- {ui['baseline']}{colon}{baseline}")
    lines += ["", ui["unticked"]]
    by_pitfall = {result.pitfall: result for result in report.results}
    for group, heading in GROUPS.items():
        lines += ["", f"## {heading.in_(language)}", ""]
        for pitfall, about in report.about.items():
            if about.group == group:
                lines += _item(by_pitfall[pitfall], report, language, colon)
    remarks = _remarks(report, language, colon)
    if remarks:
        lines += ["", f"## {ui['notes']}", "", *remarks]
    if report.run_path is not None:
        lines += ["", f"{ui['kept']} {escape(report.run_path)}"]
    return "\n".join(lines) + "\n"


def _item(result: PitfallResult, report: Report, language: Language, colon: str) -> list[str]:
    name, finding = speaker(result)
    box = "x" if result.outcome in _TICKED else " "
    optional = "" if result.pitfall in report.required else aside(UI["optional"].in_(language), language)
    said = escape(finding.summary.in_(language), 300)
    if not said_of_all(result):
        said = f"\\[{escape(name, 40)}\\] {said}"
    if finding.strength is not None:
        said += aside(STRENGTHS[finding.strength].in_(language), language)
    if finding.where:
        said += f" · {escape(finding.where, 120)}"
    lines = [
        f"- [{box}] {report.about[result.pitfall].item.in_(language)} — {result.pitfall}{optional}",
        f"  - **{OUTCOMES[result.outcome].in_(language)}**{colon}{said}",
    ]
    lines += [f"  - {escape(text)}" for _, text in asides(report, result.pitfall, name, finding, language)]
    if finding.remedy is not None and result.outcome is Outcome.FAIL:
        lines.append(f"  - {UI['fix'].in_(language)}{colon}{escape(finding.remedy.in_(language))}")
    if finding.needs is not None and result.outcome in (Outcome.UNPROVEN, Outcome.ERROR):
        lines.append(f"  - {UI['needs'].in_(language)}{colon}{escape(finding.needs.in_(language))}")
    return lines


def _remarks(report: Report, language: Language, colon: str) -> list[str]:
    ui = {key: text.in_(language) for key, text in UI.items()}
    lines = [f"- {escape(remark.in_(language), 400)}" for remark in report.remarks[:_NOTES]]
    resolved = report.baseline.resolved if report.baseline is not None else ()
    lines += [
        f"- {ui['resolved']}{colon}{each.pitfall} {escape(each.deployment, 40)}{colon}"
        f"{escape(each.summary.in_(language), 240)}"
        for each in resolved[:_NOTES]
    ]
    contradictions = shared((each.name, each.contradictions) for each in report.deployments)
    for contradiction, names in contradictions[:_NOTES]:
        declared, running = (
            f"{escape(shown(fact.value, fact.unit, 80))} ({escape(fact.source, 80)})"
            for fact in (contradiction.declared, contradiction.running)
        )
        said = f"{escape(contradiction.name, 60)} {ui['declared']} {declared}, {ui['running']} {running}"
        lines.append(f"- {_names(names, report)}**{ui['contradiction']}**{colon}{said}")
    notes = shared((each.name, each.notes) for each in report.deployments)
    for note, names in notes[:_NOTES]:
        suggestion = f" → {escape(note.suggestion, 120)}" if note.suggestion else ""
        where = f" · {escape(note.where, 120)}" if note.where else ""
        lines.append(f"- {_names(names, report)}{escape(note.message, 240)}{suggestion}{where}")
    more = sum(max(len(each) - _NOTES, 0) for each in (report.remarks, resolved, contradictions, notes))
    if more:
        lines.append(f"- +{more} {ui['more_in_json']}")
    return lines


def _names(names: list[str], report: Report) -> str:
    if len(report.deployments) == 1:
        return ""
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"\\[{escape(names[0], 40)}{more}\\] "
