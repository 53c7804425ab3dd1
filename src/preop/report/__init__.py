"""Show a finished check: terminal, HTML, JSON, Markdown, JUnit, SARIF."""

from __future__ import annotations

import os
import shutil
import sys

from preop.evidence import Record
from preop.report import record as _record
from preop.report import terminal as _terminal
from preop.report.approval import Approval, render_approval
from preop.report.documents import MeasureOutcome, document, measure_document, to_json
from preop.report.html import render_html
from preop.report.junit import render_junit
from preop.report.markdown import render_markdown
from preop.report.measurement import render_measurement
from preop.report.sarif import render_sarif
from preop.report.types import Report
from preop.text import Language

__all__ = [
    "Approval",
    "Report",
    "document",
    "measure_document",
    "render_approval",
    "render_html",
    "render_junit",
    "render_markdown",
    "render_measurement",
    "render_record",
    "render_sarif",
    "render_terminal",
    "to_json",
]

_WIDEST = 120
"""Longer lines are hard to read, however wide the window is."""


def render_terminal(
    report: Report, language: Language, *, to_file: bool = False, verbose: bool = False
) -> str:
    """The check as text for where it goes: the window's width, colours only where a person looks."""
    return _terminal.render_terminal(
        report, language=language, width=_width(), colour=_colour(to_file), verbose=verbose
    )


def render_record(record: Record, outcome: MeasureOutcome, language: Language) -> str:
    """One measurement as text, as wide as the window."""
    return _record.render_record(record, outcome, language, width=_width())


def _width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)


def _colour(to_file: bool) -> bool:
    """As https://no-color.org asks: not into files and pipes, nor where NO_COLOR is set."""
    if to_file or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()
