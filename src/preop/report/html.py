"""The check as one HTML file: no script, no network, for screen and paper."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from preop.deployment.types import Deployment
from preop.errors import UsageError
from preop.evidence import Load, Strength
from preop.facts import Fact
from preop.findings import Finding, Item, Outcome, PitfallResult
from preop.report.asides import age, asides
from preop.report.headline import engine_of, hardware_of, model_of, moment, said_of_all, speaker
from preop.report.plain import amount, plain, shown
from preop.report.types import Report
from preop.report.words import (
    ADVICE,
    CHARTS_NEED,
    EXIT,
    OUTCOMES,
    SET_BY,
    STRENGTHS,
    UI,
    VERDICTS,
    gate_line,
)
from preop.text import Language, Text

__all__ = ["render_html"]


_OTHERS = 24
"""Deployments that a card and the page show in full; the JSON document has all."""


def render_html(report: Report, language: Language) -> str:
    """One self-contained page. Charts are left out, and the page says so, where their library is missing.

    Raises UsageError where jinja2 is not installed.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise UsageError("the HTML report needs jinja2: pip install 'preop[report]'") from error
    page: str = templates().get_template("report.html").render(_page(report, language))
    return page


@cache
def templates() -> Any:
    """The pages' templates: whatever text they print is made plain and escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("preop.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    # Only preop's own marks pass as they are: the drawings (their words are preop's, see `charts`), and the
    # colon, whose space would else be trimmed.
    environment.filters["own"] = Markup
    return environment


def _finalize(value: Any) -> Any:
    """Each text that the page prints is made plain first, whoever wrote it; autoescape follows."""
    if hasattr(value, "__html__") or not isinstance(value, str):
        return value
    return plain(value)


def _page(report: Report, language: Language) -> dict[str, Any]:
    def say(text: Text | None) -> str | None:
        return text.in_(language) if text is not None else None

    drawings, charts_missing = _drawings(report, language)
    return {
        "colon": "：" if language == "zh" else ": ",
        "language": "zh-CN" if language == "zh" else "en",
        "ui": {key: text.in_(language) for key, text in UI.items()},
        "report": report,
        "verdict": say(VERDICTS[report.verdict]),
        "gloss": ""
        if language == "en"
        else VERDICTS[report.verdict].zh.removeprefix(report.verdict.value).strip(),
        "tone": report.verdict.value.lower(),
        "advice": say(ADVICE[report.verdict]),
        "exit": say(EXIT[report.verdict]),
        "counts": [
            {"tone": _tone(outcome), "word": say(OUTCOMES[outcome]), "count": count}
            for outcome, count in report.counts.items()
        ],
        "occasion": _occasion(report, language),
        "cards": _cards(report, language, drawings),
        "deployments": [_deployment(deployment, language) for deployment in report.deployments[:_OTHERS]],
        "more_deployments": max(len(report.deployments) - _OTHERS, 0),
        "remarks": [remark.in_(language) for remark in report.remarks],
        "resolved": [
            f"{each.pitfall} {each.deployment}: {each.summary.in_(language)}"
            for each in (report.baseline.resolved if report.baseline else ())
        ],
        "charts_missing": say(CHARTS_NEED) if charts_missing else None,
        "moment": moment(report.started_at),
        "took": shown(round(report.took_s, 2), "s"),
    }


def _tone(outcome: Outcome) -> str:
    return "na" if outcome is Outcome.NOT_APPLICABLE else outcome.value.lower()


def _occasion(report: Report, language: Language) -> str:
    """What the gate is for, and what it asks for where that is not everything."""
    occasion = [report.occasion.in_(language)] if report.occasion else []
    if report.not_required:
        occasion.append(f"{UI['requires'].in_(language)} {' '.join(sorted(report.required)) or '—'}")
    return " · ".join(occasion)


def _cards(
    report: Report, language: Language, drawings: dict[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Worst first; what the gate does not ask for and does not fail stands under a heading of its own."""
    cards = [_card(result, report, language, drawings) for result in report.worst_first]
    first = next((at for at, each in enumerate(report.worst_first) if report.is_aside(each)), None)
    if first is not None:
        cards[first]["part"] = gate_line(report.gate, language)
    return cards


def _card(
    result: PitfallResult, report: Report, language: Language, drawings: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    name, finding = speaker(result)
    shared = said_of_all(result)
    others = [] if shared else [each for each in result.by_deployment.items() if each[0] != name]
    others.sort(key=lambda each: -each[1].outcome.badness)
    return {
        "part": None,
        "pitfall": result.pitfall,
        "label": report.about[result.pitfall].label.in_(language),
        "title": report.about[result.pitfall].title.in_(language),
        "required": result.pitfall in report.required,
        "speaker": None if shared else name,
        **_finding(result.pitfall, name, finding, report, language),
        "others": [
            {"name": other, **_finding(result.pitfall, other, each, report, language)}
            for other, each in others[:_OTHERS]
        ],
        "more": max(len(others) - _OTHERS, 0),
        "drawings": drawings.get(result.pitfall, []),
    }


def _finding(pitfall: str, name: str, finding: Finding, report: Report, language: Language) -> dict[str, Any]:
    record = report.evidence_for(pitfall, name)
    measured = finding.strength is Strength.MEASURED and record is not None
    return {
        "outcome": OUTCOMES[finding.outcome].in_(language),
        "tone": _tone(finding.outcome),
        "summary": finding.summary.in_(language),
        "strength": STRENGTHS[finding.strength].in_(language) if finding.strength else None,
        "evidence": _evidence(finding.evidence),
        "needs": finding.needs.in_(language) if finding.needs else None,
        "remedy": finding.remedy.in_(language) if finding.remedy else None,
        "where": finding.where,
        "taken_at": moment(record.taken_at) if measured and record else None,
        "age": age(record, report.started_at, language) if measured and record else None,
        "asides": [
            said for kind, said in asides(report, pitfall, name, finding, language) if kind != "measured"
        ],
    }


def _evidence(items: tuple[Item, ...]) -> list[dict[str, Any]]:
    """The items as rows; amounts of memory also as bars to one scale, where there are two or more."""
    sizes = [_gib(item) for item in items]
    largest = max((size for size in sizes if size is not None), default=0.0)
    several = sum(size is not None for size in sizes) > 1 and largest > 0
    return [
        {
            "name": item.name,
            "amount": amount(item.value, item.unit),
            "is_text": isinstance(item.value, str) and len(item.value) > _LONGEST_NUMBER,
            "source": item.source or "—",
            "bar": f"{size / largest:.1%}"
            if several and size is not None and size >= largest * _SEEN
            else None,
        }
        for item, size in zip(items, sizes, strict=True)
    ]


_LONGEST_NUMBER = 24
"""Characters up to which a value stands in the column of numbers, at its right edge."""

_SEEN = 0.005
"""Share of the largest below which a bar would be a speck."""


def _gib(item: Item) -> float | None:
    value, unit = item.value, (item.unit or "").split(",")[0]
    scale = {"GiB": 1.0, "MiB": 2**-10, "bytes": 2**-30}.get(unit)
    if scale is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value * scale if math.isfinite(value) and value >= 0 else None


_DRAWN_IN = {"load": "P04", "streaming": "P14"}
"""The pitfall in whose card an instrument's drawings stand."""


def _drawings(report: Report, language: Language) -> tuple[dict[str, list[dict[str, Any]]], bool]:
    """The newest drawing of each instrument and deployment, by pitfall; whether the library is missing."""
    from preop.report.charts import figures

    newest = {(record.instrument, record.deployment): record for record in report.records if record.payload}
    drawings: dict[str, list[dict[str, Any]]] = {}
    missing = False
    for (instrument, deployment), record in newest.items():
        pitfall = _DRAWN_IN.get(instrument)
        if pitfall is None:
            continue
        try:
            drawn = figures(record.payload, report.thresholds, language)
        except ImportError:
            missing, drawn = True, []
        levels = _levels(record.payload) if isinstance(record.payload, Load) else []
        if drawn or levels:
            name = deployment if len(report.deployments) > 1 else None
            drawings.setdefault(pitfall, []).append({"deployment": name, "figures": drawn, "levels": levels})
    return drawings, missing


def _levels(load: Load) -> list[dict[str, Any]]:
    def digits(value: float | None, decimals: int) -> str:
        return "—" if value is None or not math.isfinite(value) else f"{value:,.{decimals}f}"

    return [
        {
            "concurrency": shown(level.concurrency),
            "requests": shown(level.requests),
            "errors": shown(level.errors),
            "cells": [
                digits(level.ttft_ms.p50, 0),
                digits(level.ttft_ms.p99, 0),
                digits(level.tpot_ms.p50, 1),
                digits(level.tpot_ms.p99, 1),
                digits(level.output_tokens_per_s, 1),
            ],
            "voided": None if level.valid else (level.voided_because or "—"),
        }
        for level in load.levels
    ]


def _deployment(deployment: Deployment, language: Language) -> dict[str, Any]:
    known = {name: fact for name, fact in sorted(deployment.facts.items()) if fact.is_known}
    unknown = {name: fact for name, fact in sorted(deployment.facts.items()) if not fact.is_known}
    return {
        "name": deployment.name,
        "engine": engine_of(deployment, language),
        "model": model_of(deployment, language),
        "hardware": hardware_of(deployment, language),
        "source": deployment.source,
        "endpoint": deployment.endpoint,
        "facts": [_fact(name, fact, language) for name, fact in {**known, **unknown}.items()],
        "notes": deployment.notes,
        "contradictions": [
            {
                "name": each.name,
                "declared": _fact("", each.declared, language),
                "running": _fact("", each.running, language),
            }
            for each in deployment.contradictions
        ],
    }


def _fact(name: str, fact: Fact, language: Language) -> dict[str, Any]:
    return {
        "name": name,
        "value": shown(fact.value, fact.unit, 200) if fact.is_known else UI["unknown_facts"].in_(language),
        "known": fact.is_known,
        "set_by": SET_BY[fact.set_by].in_(language),
        "source": fact.source,
        "note": fact.note if fact.origin else None,
    }
