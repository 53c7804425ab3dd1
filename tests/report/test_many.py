"""Several hundred deployments: people get one screen, machines get all of them."""

from __future__ import annotations

import msgspec
import pytest

from preop.findings import Finding
from preop.report import Approval, document, render_approval, render_html, render_markdown
from preop.report.terminal import render_terminal
from preop.report.types import Report
from preop.text import Language

from . import samples

MANY = 312


@pytest.fixture(scope="module")
def report() -> Report:
    """The NO-GO sample's two services over and over; every tenth is started by another engine."""
    base = samples.no_go()
    deployments = []
    judged: dict[str, dict[str, Finding]] = {result.pitfall: {} for result in base.results}
    for number in range(MANY):
        like = base.deployments[number % 2]
        name = f"{like.name}-{number:03}"
        engine = "sglang" if number % 10 == 0 else "vllm"
        deployments.append(msgspec.structs.replace(like, name=name, engine=engine))
        for result in base.results:
            judged[result.pitfall][name] = result.by_deployment[like.name]
    results = tuple(
        msgspec.structs.replace(result, by_deployment=judged[result.pitfall]) for result in base.results
    )
    return msgspec.structs.replace(base, deployments=tuple(deployments), results=results)


def test_a_terminal_stays_one_screen(report: Report) -> None:
    screen = render_terminal(report, language="en", width=80, colour=False)
    few = render_terminal(samples.no_go(), language="en", width=80, colour=False)
    assert screen.startswith("312 deployments: 280 vllm, 32 sglang")
    assert len(screen.splitlines()) <= len(few.splitlines()) + 3
    assert "[chat-000, chat-002, chat-004 +153]" in screen, "the worst by name, the rest counted"
    assert screen.count("--max-model-length is no flag") == 1, "what all say stands once"
    assert "[chat-000 +155] note" in screen


def test_a_checklist_and_the_pages_are_bounded(report: Report) -> None:
    assert len(render_markdown(report, "en").splitlines()) < 90
    assert "312 deployments: 280 vllm" in render_markdown(report, "en")
    assert len(render_html(report, "en")) < 400_000
    assert "+300 more deployments" in render_approval(report, "en", Approval())


def test_the_document_has_all(report: Report) -> None:
    read = document(report, "en")
    assert len(read["deployments"]) == MANY
    assert all(len(finding["by_deployment"]) == MANY for finding in read["findings"])


@pytest.mark.parametrize(
    ("language", "said"), [("en", "not required by gate deploy"), ("zh", "关卡 deploy 不要求")]
)
def test_what_the_gate_does_not_ask_for_stands_apart(language: Language, said: str) -> None:
    report = samples.no_go()
    assert report.not_required == ["P03", "P06", "P08", "P09", "P10", "P11", "P12"]
    for shown in (
        render_terminal(report, language=language, width=80, colour=False),
        render_html(report, language),
        render_approval(report, language, Approval()),
    ):
        below = shown[shown.index(said) :]
        assert all(pitfall in below for pitfall in ("P03", "P06", "P08", "P09", "P10", "P11"))
        assert not any(pitfall in below for pitfall in ("P02", "P04", "P14")), "these the gate asks for"
    asked = "P01 P02 P04 P05 P07 P13 P14 P15"
    assert asked in render_terminal(report, language=language, width=80, colour=False)
    assert asked in render_markdown(report, language) and asked in render_html(report, language)
