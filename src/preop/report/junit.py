"""The check as JUnit XML, for the test page of a CI server.

One suite for each deployment, one case for each pitfall. A case is red exactly where it keeps the verdict
from GO, so that the page and the exit code say the same:

- FAIL: `failure`, type FAIL. Not proven though the gate asks for it: `failure`, type UNPROVEN. A measurement
  that the gate waits for and that broke: `error`.
- PASS, and what is proven well enough for this gate: passed.
- All else is `skipped`, and says why: N/A, waived (by whom, until when), not required by this gate, in the
  baseline already.

Where every pitfall is shut and the verdict is held back all the same (a file that could not be read), a case
of its own, `verdict`, is red.

The elements are those of the Jenkins schema junit-10.xsd (the xUnit plugin refuses a file with any other). It
has no `file` or `line` on a case: the place stands in the case's text, and the suite names its file.
"""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from preop.deployment.types import Deployment
from preop.findings import Finding, Outcome, Verdict
from preop.report.asides import waived_by
from preop.report.headline import headline, parsed
from preop.report.places import file_of
from preop.report.plain import plain, shown
from preop.report.types import Report
from preop.report.words import EXIT, OUTCOMES, STRENGTHS, UI
from preop.text import Language

__all__ = ["render_junit"]

_LONGEST = 2_000


def render_junit(report: Report, language: Language) -> str:
    """One `testsuites` document."""
    top = Xml.Element("testsuites", {"name": "preop", "time": f"{max(report.took_s, 0.0):.3f}"})
    classes = _classes([deployment.name for deployment in report.deployments])
    for deployment in report.deployments:
        top.append(_Suite(report, deployment, classes[deployment.name], language).element())
    is_red = any(suite.findall(f"testcase/{tag}") for suite in top for tag in ("failure", "error"))
    held = report.verdict is not Verdict.GO and not is_red
    if held or report.remarks:
        top.insert(0, _verdict(report, language, held=held))
    for count in ("tests", "failures", "errors"):
        top.set(count, str(sum(int(suite.get(count, "0")) for suite in top)))
    Xml.indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(top, encoding="unicode")}\n'


def _verdict(report: Report, language: Language, *, held: bool) -> Xml.Element:
    """A suite of one case for what belongs to no pitfall: a file that could not be read holds the verdict
    back where every pitfall is shut."""
    counts = {"tests": "1", "failures": str(int(held)), "errors": "0", "skipped": "0"}
    suite = Xml.Element("testsuite", {"name": "preop", **counts})
    case = Xml.SubElement(suite, "testcase", {"classname": "preop", "name": "verdict", "time": "0"})
    said = "\n".join(plain(remark.in_(language), _LONGEST) for remark in report.remarks)
    if held:
        attributes = {"type": report.verdict.value, "message": EXIT[report.verdict].in_(language)}
        Xml.SubElement(case, "failure", attributes).text = said
    else:
        Xml.SubElement(case, "system-out").text = said
    return suite


def _classes(names: list[str]) -> dict[str, str]:
    """A class name for each deployment: without dots, at which Jenkins would cut it into packages."""
    cut = {name: plain(name, 120).replace(".", "_") for name in names}
    return cut if len(set(cut.values())) == len(cut) else {name: plain(name, 120) for name in names}


class _Suite:
    def __init__(self, report: Report, deployment: Deployment, classname: str, language: Language) -> None:
        self.report = report
        self.deployment = deployment
        self.classname = classname
        self.language: Language = language

    def element(self) -> Xml.Element:
        report = self.report
        suite = Xml.Element("testsuite", {"name": plain(self.deployment.name, 200)})
        began = parsed(report.started_at)
        if began is not None:
            suite.set("timestamp", began.strftime("%Y-%m-%dT%H:%M:%S"))
        file = file_of(self.deployment.source)
        if file is not None:
            suite.set("file", plain(file, 1_000))
        properties = Xml.SubElement(suite, "properties")
        for name, value in {
            "verdict": report.verdict.value,
            "gate": report.gate,
            "required": " ".join(sorted(report.required)),
            "deployment": headline(self.deployment, self.language),
            "preop": report.preop_version,
            "run": report.run_path or "",
        }.items():
            Xml.SubElement(properties, "property", {"name": name, "value": plain(value, 1_000)})
        for result in report.results:
            finding = result.by_deployment.get(self.deployment.name)
            if finding is not None:
                suite.append(self._case(result.pitfall, finding))
        counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        suite.set("tests", str(len(suite.findall("testcase"))))
        for count, tag in counts.items():
            suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
        return suite

    def _case(self, pitfall: str, finding: Finding) -> Xml.Element:
        label = self.report.about[pitfall].label.in_(self.language)
        name = plain(f"{pitfall} {label}", 120)
        case = Xml.Element("testcase", {"classname": f"preop.{self.classname}", "name": name, "time": "0"})
        if self.report.blocks(pitfall, finding):
            tag = "error" if finding.outcome is Outcome.ERROR else "failure"
            attributes = {"type": finding.outcome.value, "message": self._summary(finding)}
            Xml.SubElement(case, tag, attributes).text = self._told(pitfall, finding)
            return case
        why = self._why_skipped(pitfall, finding)
        if why is not None:
            attributes = {"type": finding.outcome.value, "message": plain(why, _LONGEST)}
            Xml.SubElement(case, "skipped", attributes)
        Xml.SubElement(case, "system-out").text = self._told(pitfall, finding)
        return case

    def _why_skipped(self, pitfall: str, finding: Finding) -> str | None:
        """None for a case that is passed."""
        said = f"{OUTCOMES[finding.outcome].in_(self.language)}: {finding.summary.in_(self.language)}"
        if finding.outcome is Outcome.WAIVED:
            return f"{waived_by(finding, self.language)} · {said}"
        if finding.outcome is Outcome.PASS or self.report.is_enough(pitfall, finding):
            return None
        if finding.outcome is Outcome.NOT_APPLICABLE:
            return said
        if finding.in_baseline:
            return f"{UI['known'].in_(self.language)} · {said}"
        return f"{UI['optional'].in_(self.language)} ({plain(self.report.gate, 40)}) · {said}"

    def _summary(self, finding: Finding) -> str:
        return plain(finding.summary.in_(self.language), _LONGEST)

    def _told(self, pitfall: str, finding: Finding) -> str:
        """The finding in lines."""
        colon = "：" if self.language == "zh" else ": "
        ui = {key: UI[key].in_(self.language) for key in ("where", "fix", "needs", "strength", "explain")}
        rows: list[tuple[str, str]] = [(OUTCOMES[finding.outcome].in_(self.language), self._summary(finding))]
        if finding.in_baseline is not None and finding.outcome.badness >= Outcome.WAIVED.badness:
            known = UI["known" if finding.in_baseline else "new"].in_(self.language)
            rows.append((UI["baseline"].in_(self.language), known))
        if finding.where:
            rows.append((ui["where"], finding.where))
        if finding.remedy is not None:
            rows.append((ui["fix"], finding.remedy.in_(self.language)))
        if finding.needs is not None:
            rows.append((ui["needs"], finding.needs.in_(self.language)))
        if finding.strength is not None:
            rows.append((ui["strength"], STRENGTHS[finding.strength].in_(self.language)))
        rows += [
            (f"- {item.name}", f"{shown(item.value, item.unit)} [{item.source or '—'}]")
            for item in finding.evidence
        ]
        rows.append((ui["explain"], f"preop explain {pitfall}"))
        return "\n".join(f"{plain(name, 200)}{colon}{plain(value, _LONGEST)}" for name, value in rows)
