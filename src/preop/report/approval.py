"""One page for whoever approves a change: what changes, what is proven, what is accepted, the way back."""

from __future__ import annotations

from typing import Any

import msgspec

from preop.errors import UsageError
from preop.findings import Outcome, PitfallResult
from preop.report.asides import asides, waived_by
from preop.report.cost import cost_of
from preop.report.headline import headline, moment, speaker
from preop.report.html import templates
from preop.report.plain import shown
from preop.report.types import Change, Report
from preop.report.words import ADVICE, APPROVAL, OUTCOMES, STRENGTHS, UI, VERDICTS, gate_line
from preop.text import Language

__all__ = ["Approval", "render_approval"]

_CHANGES = 30
_DEPLOYMENTS = 12


class Approval(msgspec.Struct, frozen=True):
    """What the page says that nothing measures."""

    service: str | None = None
    change: str | None = None
    rollback: str | None = None
    gpu_hour: float | None = None
    currency: str = "USD"


def render_approval(report: Report, language: Language, approval: Approval) -> str:
    """One self-contained page that prints on A4. Raises UsageError where jinja2 is not installed."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise UsageError("the approval page needs jinja2: pip install 'preop[report]'") from error
    page: str = templates().get_template("approval.html").render(_page(report, language, approval))
    return page


def _page(report: Report, language: Language, approval: Approval) -> dict[str, Any]:
    changes = report.baseline.changes if report.baseline else ()
    return {
        "colon": "：" if language == "zh" else ": ",
        "language": "zh-CN" if language == "zh" else "en",
        "ui": {key: text.in_(language) for key, text in (*UI.items(), *APPROVAL.items())},
        "report": report,
        "approval": approval,
        "tone": report.verdict.value.lower(),
        "verdict": VERDICTS[report.verdict].in_(language),
        "advice": ADVICE[report.verdict].in_(language),
        "moment": moment(report.started_at),
        "deployments": [
            {"name": each.name, "what": headline(each, language)}
            for each in report.deployments[:_DEPLOYMENTS]
        ],
        "more_deployments": max(len(report.deployments) - _DEPLOYMENTS, 0),
        "changes": [_change(change) for change in changes[:_CHANGES]],
        "more_changes": max(len(changes) - _CHANGES, 0),
        "rows": _rows(report, language),
        "occasion": report.occasion.in_(language) if report.occasion else None,
        "accepted": _accepted(report, language),
        "rollback": _rollback(report, approval, language),
        "costs": _costs(report, approval, language),
        "remarks": [remark.in_(language) for remark in report.remarks],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "deployment": change.deployment,
        "fact": change.fact,
        "before": shown(change.before.value, change.before.unit, 80) if change.before else None,
        "after": shown(change.after.value, change.after.unit, 80) if change.after else None,
        "where": change.after.source if change.after else None,
    }


def _rows(report: Report, language: Language) -> list[dict[str, Any]]:
    """One line for each pitfall, in order; what the gate does not ask for and does not fail stands below."""
    asked = [each for each in report.results if not report.is_aside(each)]
    rest = [each for each in report.results if report.is_aside(each)]
    rows = [_row(report, result, language) for result in (*asked, *rest)]
    if rest:
        rows[len(asked)]["part"] = gate_line(report.gate, language)
    return rows


def _row(report: Report, result: PitfallResult, language: Language) -> dict[str, Any]:
    pitfall = result.pitfall
    name, finding = speaker(result)
    others = sum(each.outcome is finding.outcome for each in result.by_deployment.values()) - 1
    said = dict(asides(report, pitfall, name, finding, language))
    said.pop("waiver", None)  # it stands among the risks accepted
    if finding.strength is not None and "measured" not in said:
        said["strength"] = STRENGTHS[finding.strength].in_(language)
    return {
        "part": None,
        "pitfall": pitfall,
        "label": report.about[pitfall].label.in_(language),
        "tone": "na" if finding.outcome is Outcome.NOT_APPLICABLE else finding.outcome.value.lower(),
        "outcome": OUTCOMES[finding.outcome].in_(language),
        "name": name if len(report.deployments) > 1 else None,
        "others": others,
        "summary": finding.summary.in_(language),
        "asides": list(said.values()),
        "where": finding.where,
    }


def _accepted(report: Report, language: Language) -> list[dict[str, str]]:
    return [
        {
            "pitfall": result.pitfall,
            "label": report.about[result.pitfall].label.in_(language),
            "deployment": name,
            "said": waived_by(finding, language),
        }
        for result in report.results
        for name, finding in result.by_deployment.items()
        if finding.outcome is Outcome.WAIVED
    ]


def _rollback(report: Report, approval: Approval, language: Language) -> list[str]:
    """The team's own words, and what ran before as far as the baseline tells."""
    said = [approval.rollback] if approval.rollback else []
    baseline = report.baseline
    if baseline is not None and baseline.kind == "git":
        commit = baseline.detail[:12]
        said.append(APPROVAL["to_commit"].in_(language).format(commit=commit))
    to_image = APPROVAL["to_image"].in_(language)
    said += [
        to_image.format(deployment=change.deployment, image=change.before.value)
        for change in (baseline.changes if baseline is not None else ())
        if change.fact == "image" and change.before is not None
    ]
    return said or [APPROVAL["no_rollback"].in_(language)]


def _costs(report: Report, approval: Approval, language: Language) -> list[str]:
    if approval.gpu_hour is None:
        return [APPROVAL["no_price"].in_(language)]
    said = []
    for deployment in report.deployments:
        cost = cost_of(report, deployment.name, approval.gpu_hour, approval.currency)
        if cost is not None:
            said.append(APPROVAL["cost_line"].in_(language).format(**msgspec.structs.asdict(cost)))
    return said or [APPROVAL["no_cost"].in_(language)]
