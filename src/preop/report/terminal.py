"""The check in a terminal: one screen, worst first."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING

from preop.findings import Outcome, PitfallResult, Verdict
from preop.report.asides import age_s, asides, shared
from preop.report.headline import count_by_engine, headline, said_of_all, speaker
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
"""Deployments up to which each has a line at the head; more are counted by engine."""
_NAMED = 3
"""Deployments that a pitfall names, where there are very many."""
_FRESH_S = 60
"""Evidence younger than this was taken by the run itself."""
_COMMAND = re.compile(r":(?=:[A-Za-z-]+[^:]*::)|#(?=#(\[|vso\[))")
"""`::stop-commands::x` steers GitHub Actions, `##vso[...]` Azure Pipelines, wherever a line is wrapped."""
_NOTES = 8
"""Notes and the like that are shown; the JSON document has all."""


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
        if not aside and report.is_aside(result):
            aside = True
            page.heading(gate_line(plain(report.gate, 20), language))
        page.result(result)
    page.history(report)
    page.remarks(report)
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
        if len(report.deployments) > _DEPLOYMENTS:
            self._flow([(count_by_engine(report.deployments, self.language), "")], end=gate)
        else:
            for position, deployment in enumerate(report.deployments):
                name = f"{plain(deployment.name, 40)}: " if several else ""
                spans = [(name, "bold"), (headline(deployment, self.language), "")]
                self._flow(spans, end=gate if position == 0 else "")
        self._blank()
        counts = " · ".join(
            f"{count} {COUNTED[outcome].in_(self.language)}" for outcome, count in report.counts.items()
        )
        verdict = f" {VERDICTS[report.verdict].in_(self.language)} "
        self._flow([("  " + counts, "")], lead=(verdict, _VERDICT_STYLES[report.verdict]), gap=2)
        if report.not_required:
            occasion = f"{report.occasion.in_(self.language)} · " if report.occasion else ""
            asked = " ".join(sorted(report.required)) or "—"
            self._flow([(f"{occasion}{self._ui('requires')} {asked}", "dim")])
        self._blank()

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
        is_enough = not self.report.is_aside(result) and all(
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
            spans.append((f"[{self._names(name, result)}] ", "cyan"))
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

    def _names(self, speaker: str, result: PitfallResult) -> str:
        """Who speaks and how many are as badly off; of very many deployments, a few of those by name."""
        alike = [name for name, each in result.by_deployment.items() if each.outcome is result.outcome]
        named = [speaker, *(name for name in alike if name != speaker)]
        named = named[: _NAMED if len(self.report.deployments) > _DEPLOYMENTS else 1]
        more = f" +{len(alike) - len(named)}" if len(alike) > len(named) else ""
        return ", ".join(plain(name, 40 if len(named) == 1 else 24) for name in named) + more

    def remarks(self, report: Report) -> None:
        """What the running engines deny, then the notes; what several deployments share stands once."""
        contradictions = shared((each.name, each.contradictions) for each in report.deployments)
        notes = shared((each.name, each.notes) for each in report.deployments)
        several = len(report.deployments) > 1
        if contradictions or notes:
            self._blank()
        for each, names in contradictions[:_NOTES]:
            declared, running = (
                f"{shown(fact.value, fact.unit, 80)} ({plain(fact.source, 80)})"
                for fact in (each.declared, each.running)
            )
            said = f"{plain(each.name, 60)} {self._ui('declared')} {declared}, "
            said += f"{self._ui('running')} {running}"
            lead = (self._ui("contradiction") + self._colon, "bold red")
            self._flow([(_prefix(names) if several else "", "cyan"), lead, (said, "")])
        for note, names in notes[:_NOTES]:
            said = plain(note.message, 240)
            if note.suggestion:
                said += f" → {plain(note.suggestion, 120)}"
            spans = [(_prefix(names) if several else "", "cyan"), (self._ui("note") + self._colon, "bold")]
            self._flow([*spans, (said, "")], end=plain(note.where or "", 200))
        more = max(len(contradictions) - _NOTES, 0) + max(len(notes) - _NOTES, 0)
        if more:
            self._flow([(f"+{more} {self._ui('more_in_json')}", "dim")])

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

        body = Line.assemble(*((_inert(text), style) for text, style in spans))
        end = _inert(end)
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


def _inert(text: str) -> str:
    """What would be a command to a CI server that reads its own log, written out."""
    return _COMMAND.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def _prefix(names: list[str]) -> str:
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"[{plain(names[0], 40)}{more}] "


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
