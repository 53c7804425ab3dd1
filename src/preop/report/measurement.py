"""One measurement as an HTML page: its drawings, and below them what the terminal shows."""

from __future__ import annotations

from preop.errors import UsageError
from preop.evidence import Load, Record
from preop.report.charts import figures
from preop.report.documents import MeasureOutcome
from preop.report.headline import moment
from preop.report.load import slo_line
from preop.report.record import render_record
from preop.report.words import CHARTS_NEED
from preop.text import Language
from preop.thresholds import Thresholds

__all__ = ["render_measurement"]

_WIDTH = 100


def render_measurement(
    record: Record, outcome: MeasureOutcome, thresholds: Thresholds, language: Language
) -> str:
    """One self-contained page. Raises UsageError where jinja2 is not installed."""
    try:
        from markupsafe import escape

        from preop.report.html import templates

        template = templates().get_template("measurement.html")
    except ImportError as error:
        raise UsageError("the HTML page needs jinja2: pip install 'preop[report]'") from error
    missing = None
    try:
        drawn = figures(record.payload, thresholds, language)
    except ImportError:
        drawn, missing = [], CHARTS_NEED.in_(language)
    slo = record.payload.slo if isinstance(record.payload, Load) else None
    page: str = template.render(
        language="zh-CN" if language == "zh" else "en",
        title=f"{record.instrument} · {record.deployment}",
        where=f"{moment(record.taken_at)} · {record.took_s:,.1f} s",
        said=[slo_line(slo, language)] if slo is not None and slo.terms else [],
        figures=drawn,
        missing=missing,
        # Already plain; escaped here, since what makes text plain on a page would take its columns away.
        text=escape(render_record(record, outcome, language, width=_WIDTH)),
    )
    return page
