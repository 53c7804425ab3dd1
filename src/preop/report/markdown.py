"""The checklist in Markdown, its boxes ticked from evidence."""

from __future__ import annotations

import re

from preop.findings import Outcome, PitfallResult
from preop.report.asides import asides
from preop.report.headline import headline, moment, said_of_all, speaker
from preop.report.plain import plain, shown
from preop.report.types import Report
from preop.report.words import ADVICE, GROUPS, OUTCOMES, STRENGTHS, UI, VERDICTS, aside
from preop.text import Language

__all__ = ["escape", "render_markdown"]

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
    for deployment in report.deployments:
        name = f"**{escape(deployment.name, 40)}**{colon}" if several else ""
        lines.append(f"- {name}{escape(headline(deployment, language))}")
    when = escape(moment(report.started_at), 40)
    lines.append(f"- {ui['gate']}{colon}{escape(report.gate, 40)} · {when} · preop {report.preop_version}")
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
    lines = [f"- {escape(remark.in_(language), 400)}" for remark in report.remarks]
    for deployment in report.deployments:
        name = f"\\[{escape(deployment.name, 40)}\\] " if len(report.deployments) > 1 else ""
        for each in deployment.contradictions:
            declared = escape(shown(each.declared.value, each.declared.unit, 80))
            running = escape(shown(each.running.value, each.running.unit, 80))
            declared += f" ({escape(each.declared.source, 80)})"
            running += f" ({escape(each.running.source, 80)})"
            said = f"{escape(each.name, 60)} {ui['declared']} {declared}, {ui['running']} {running}"
            lines.append(f"- {name}**{ui['contradiction']}**{colon}{said}")
        for note in deployment.notes:
            suggestion = f" → {escape(note.suggestion, 120)}" if note.suggestion else ""
            where = f" · {escape(note.where, 120)}" if note.where else ""
            lines.append(f"- {name}{escape(note.message, 240)}{suggestion}{where}")
    return lines
