"""JUnit: Jenkins' own schema takes it, and what is red is what keeps the verdict from GO."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import junitparser
import msgspec
import pytest
import xmlschema

from preop.findings import Outcome, Verdict
from preop.report import render_junit
from preop.report.types import Report
from preop.text import Text

from .samples import SAMPLES

XSD = xmlschema.XMLSchema(str(Path(__file__).parents[1] / "data" / "schemas" / "junit-10.xsd"))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_jenkins_takes_it(name: str, language: str) -> None:
    report = SAMPLES[name]()
    text = render_junit(report, language)  # type: ignore[arg-type]  # "en" and "zh" are all there are
    XSD.validate(ElementTree.ElementTree(ElementTree.fromstring(text)))
    suites = junitparser.JUnitXml.fromstring(text.encode("utf-8"))
    cases = [case for suite in suites for case in suite]
    assert len(cases) == 15 * len(report.deployments)


def red(report: Report) -> set[tuple[str, str]]:
    root = ElementTree.fromstring(render_junit(report, "en"))
    return {
        (suite.get("name", ""), case.get("name", "")[:3])
        for suite in root.iter("testsuite")
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    }


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_page_and_the_exit_code_say_the_same(name: str) -> None:
    report = SAMPLES[name]()
    assert bool(red(report)) is (report.verdict is not Verdict.GO)
    failing = {
        (deployment, result.pitfall)
        for result in report.results
        for deployment, finding in result.by_deployment.items()
        if finding.outcome is Outcome.FAIL
    }
    if name != "hostile":
        assert failing <= red(report)


def test_a_verdict_that_no_pitfall_holds_back_is_red_all_the_same() -> None:
    go = SAMPLES["go"]()
    unread = Text("not judged: b.yml: not valid YAML", "未判定：b.yml：不是有效的 YAML")
    held = msgspec.structs.replace(go, verdict=Verdict.HOLD, remarks=(unread,))
    assert red(go) == set() and red(held) == {("preop", "ver")}
    text = render_junit(held, "en")
    XSD.validate(ElementTree.ElementTree(ElementTree.fromstring(text)))
    assert "not judged: b.yml" in text
    told = msgspec.structs.replace(go, remarks=(unread,))
    assert red(told) == set() and "not judged: b.yml" in render_junit(told, "en")
