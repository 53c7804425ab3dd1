"""The check in a terminal: one screen, worst first."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from preop.deployment.types import Deployment
from preop.findings import Outcome, PitfallResult, Verdict
from preop.report.asides import age_s, asides
from preop.report.headline import headline, said_of_all, speaker
from preop.report.plain import plain, shown
from preop.report.types import Report
from preop.report.words import COUNTED, EXIT, MARKS, STRENGTHS, UI, VERDICTS, gate_line
from preop.report.wrap import cells, end_that_fits, wrap
from preop.text import Language

if TYPE_CHECKING:
    from rich.text import Text as Line

__all__ = ["render_terminal"]

_STYLES = {
    Outcome.FAIL: "bold red",
    Outcome.ERROR: "bold magenta",
    Outcome.UNPROVEN: "yellow",
    Outcome.WAIVED: "cyan",
    Outcome.PASS: "green",
    Outcome.NOT_APPLICABLE: "dim",
}
_VERDICT_STYLES = {
    Verdict.GO: "bold white on green",
    Verdict.NO_GO: "bold white on red",
    Verdict.HOLD: "bold black on yellow",
}
_NARROWEST = 40
_WIDEST_LABEL = 20
_DEPLOYMENTS = 8
"""Deployments that are named at the head, and whose notes are shown."""
_FRESH_S = 60
"""Evidence younger than this was taken by the run itself."""
_NOTES = 8
"""Notes of one deployment that are shown; the JSON document has all."""


def render_terminal(
    report: Report, *, language: Language, width: int, colour: bool, verbose: bool = False
) -> str:
    """The report as text, no line wider than `width` cells (40 at least); ANSI colours only if `colour`.

    What an unproven pitfall needs is one line, cut where it is longer, unless `verbose`.
    """
    page = _Page(max(width, _NARROWEST), language, report, verbose)
    page.head(report)
    aside = False
    for result in report.worst_first:
        if not aside and page.is_aside(result):
            aside = True
            page.heading(gate_line(plain(report.gate, 20), language))
        page.result(result)
    page.history(report)
    for deployment in report.deployments[:_DEPLOYMENTS]:
        page.remarks(deployment, named=len(report.deployments) > 1)
    page.foot(report)
    return _printed(page.lines, colour)


class _Page:
    def __init__(self, width: int, language: Language, report: Report, verbose: bool) -> None:
        self.width = width
        self.language: Language = language
        self.lines: list[Line] = []
        self.verbose = verbose
        self.report = report
        self.cut = False
        self._indent = max(cells(text.in_(language)) for text in MARKS.values()) + 1
        self._labels = {
            pitfall: plain(about.label.in_(language), 80) for pitfall, about in report.about.items()
        }
        self._column = min(max(map(cells, self._labels.values())), _WIDEST_LABEL)

    def head(self, report: Report) -> None:
        gate = f"{self._ui('gate')}: {plain(report.gate, 20)}"
        several = len(report.deployments) > 1
        for position, deployment in enumerate(report.deployments[:_DEPLOYMENTS]):
            name = f"{plain(deployment.name, 40)}: " if several else ""
            spans = [(name, "bold"), (headline(deployment, self.language), "")]
            self._flow(spans, end=gate if position == 0 else "")
        more = len(report.deployments) - _DEPLOYMENTS
        if more > 0:
            self._flow([(f"+{more} {self._ui('more_deployments')}", "dim")])
        self._blank()
        counts = " · ".join(
            f"{count} {COUNTED[outcome].in_(self.language)}" for outcome, count in report.counts.items()
        )
        verdict = f" {VERDICTS[report.verdict].in_(self.language)} "
        self._flow([("  " + counts, "")], lead=(verdict, _VERDICT_STYLES[report.verdict]), gap=2)
        self._blank()

    def is_aside(self, result: PitfallResult) -> bool:
        """Whether the gate does not ask for it, and it blocks nothing."""
        findings = result.by_deployment.values()
        return result.pitfall not in self.report.required and not any(
            self.report.blocks(result.pitfall, each) for each in findings
        )

    def heading(self, text: str) -> None:
        """A line between two parts of the list."""
        self._blank()
        self._flow([(text + self._colon.rstrip(), "dim")])

    def history(self, report: Report) -> None:
        """What was resolved since the baseline, and what must be said of waivers and of files not read."""
        baseline = report.baseline
        if baseline is not None:
            self._blank()
            said = f"{plain(baseline.name, 80)} ({plain(baseline.detail, 40)})"
            self._flow([(f"{self._ui('baseline')}{self._colon}{said}", "")])
            for each in baseline.resolved[:_NOTES]:
                what = f"{each.pitfall} {plain(each.deployment, 40)}{self._colon}"
                lead = (f"{self._ui('resolved')}{self._colon}", "green")
                self._flow([(what + plain(each.summary.in_(self.language), 200), "")], lead=lead)
        if report.remarks:
            self._blank()
        for remark in report.remarks[:_NOTES]:
            self._flow(
                [(self._ui("note") + self._colon, "bold"), (plain(remark.in_(self.language), 400), "")]
            )
        if len(report.remarks) > _NOTES:
            self._flow([(f"+{len(report.remarks) - _NOTES} {self._ui('more_in_json')}", "dim")])

    def result(self, result: PitfallResult) -> None:
        name, finding = speaker(result)
        is_enough = not self.is_aside(result) and all(
            each.is_shut(None) or self.report.is_enough(result.pitfall, each)
            for each in result.by_deployment.values()
        )
        shown_as = Outcome.PASS if is_enough and result.outcome is Outcome.UNPROVEN else result.outcome
        outcome = MARKS[shown_as].in_(self.language)
        open_ = result.outcome.badness >= Outcome.UNPROVEN.badness
        label = self._labels[result.pitfall]
        space = " " * max(self._column - cells(label), 0)
        spans = [(f"{result.pitfall} {label}{space}  ", "bold" if open_ else "")]
        if not said_of_all(result):
            others = sum(each.outcome is finding.outcome for each in result.by_deployment.values()) - 1
            spans.append((f"[{plain(name, 40)}{f' +{others}' if others else ''}] ", "cyan"))
        spans.append((plain(finding.summary.in_(self.language), 300), ""))
        gap = self._indent - cells(outcome)
        strength = STRENGTHS[finding.strength].in_(self.language) if finding.strength else ""
        self._flow(
            spans,
            lead=(outcome, _STYLES[shown_as]),
            gap=gap,
            end=plain(finding.where or "", 200) or strength,
            end_must=result.outcome is Outcome.FAIL,
        )
        for kind, said in asides(self.report, result.pitfall, name, finding, self.language):
            if kind != "measured" or self._is_old(result.pitfall, name):
                self._flow([(said, "dim")], at=self._indent)
        if finding.remedy is not None and result.outcome is Outcome.FAIL:
            self._labelled("fix", finding.remedy.in_(self.language))
        if finding.needs is not None and shown_as in (Outcome.UNPROVEN, Outcome.ERROR):
            self._labelled("needs", finding.needs.in_(self.language), short=not self.verbose)

    def _is_old(self, pitfall: str, deployment: str) -> bool:
        """Whether the evidence is of an earlier run."""
        record = self.report.evidence_for(pitfall, deployment)
        return record is not None and (age_s(record, self.report.started_at) or 0) >= _FRESH_S

    def remarks(self, deployment: Deployment, *, named: bool) -> None:
        prefix = f"[{plain(deployment.name, 40)}] " if named else ""
        if deployment.contradictions or deployment.notes:
            self._blank()
        for each in deployment.contradictions:
            declared = (
                f"{shown(each.declared.value, each.declared.unit, 80)} ({plain(each.declared.source, 80)})"
            )
            running = f"{shown(each.running.value, each.running.unit, 80)} ({plain(each.running.source, 80)})"
            said = (
                f"{plain(each.name, 60)} {self._ui('declared')} {declared}, {self._ui('running')} {running}"
            )
            label = self._ui("contradiction")
            self._flow([(prefix, "cyan"), (label + self._colon, "bold red"), (said, "")])
        for note in deployment.notes[:_NOTES]:
            said = plain(note.message, 240)
            if note.suggestion:
                said += f" → {plain(note.suggestion, 120)}"
            spans = [(prefix, "cyan"), (self._ui("note") + self._colon, "bold"), (said, "")]
            self._flow(spans, end=plain(note.where or "", 200))
        if len(deployment.notes) > _NOTES:
            self._flow([(f"+{len(deployment.notes) - _NOTES} {self._ui('more_in_json')}", "dim")])

    def foot(self, report: Report) -> None:
        self._blank()
        if report.verdict is not Verdict.GO:
            self._flow(
                [(f"{self._ui('explain')}{self._colon}preop explain {report.worst_first[0].pitfall}", "")]
            )
        kept = self._ui("not_kept")
        if report.run_path is not None:
            kept = f"{self._ui('kept')} {plain(report.run_path, 300)}"
        self._flow([(kept, "dim")])
        if self.cut:
            self._flow([(self._ui("cut"), "dim")])
        self._flow([(EXIT[report.verdict].in_(self.language), "dim")])

    @property
    def _colon(self) -> str:
        return "：" if self.language == "zh" else ": "

    def _ui(self, key: str) -> str:
        return UI[key].in_(self.language)

    def _blank(self) -> None:
        from rich.text import Text as Line

        self.lines.append(Line())

    def _labelled(self, label: str, text: str, *, short: bool = False) -> None:
        lead = (self._ui(label) + self._colon, "bold")
        text = plain(text, 400)
        room = self.width - self._indent - cells(lead[0])
        if short and len(wrap(text, room)) > 1:
            start, end = wrap(text, room - 2)[0]
            text, self.cut = text[start:end].rstrip(",;:，；：") + " …", True
        self._flow([(text, "")], lead=lead, at=self._indent)

    def _flow(
        self,
        spans: list[tuple[str, str]],
        *,
        lead: tuple[str, str] = ("", ""),
        gap: int = 0,
        at: int = 0,
        end: str = "",
        end_must: bool = True,
    ) -> None:
        """`lead` at column `at`, then `spans` wrapped to its right; `end` at the right edge.

        Where `end` does not fit it takes a line of its own if it `end_must`, else it is left out.
        """
        from rich.text import Text as Line

        body = Line.assemble(*spans)
        indent = at + cells(lead[0]) + gap
        cuts = wrap(body.plain, self.width - indent)
        for number, (start, stop) in enumerate(cuts or [(0, 0)]):
            line = Line.assemble(" " * at, lead, " " * gap) if number == 0 else Line(" " * indent)
            self.lines.append(line.append_text(body[start:stop]))
        if end:
            end = end_that_fits(end, self.width - indent)
            room = self.width - cells(self.lines[-1].plain) - cells(end)
            if room < 2 and not end_must:
                return
            if room < 2:
                room = self.width - cells(end)
                self.lines.append(Line())
            self.lines[-1].append(" " * room).append(end, style="dim")


def _printed(lines: list[Line], colour: bool) -> str:
    """The lines as text. Styles are laid over text that is plain already: no markup is ever parsed."""
    if not colour:
        return "".join(f"{line.plain.rstrip()}\n" for line in lines)
    from rich.console import Console

    out = StringIO()
    widest = max(cells(line.plain) for line in lines)
    console = Console(
        file=out, force_terminal=True, color_system="standard", width=widest + 1, legacy_windows=False
    )
    for line in lines:
        console.print(line, no_wrap=True, overflow="ignore", crop=False, highlight=False, emoji=False)
    return out.getvalue()
