"""The page: self-contained, readable in light, dark and print, and hostile text is only text."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import UsageError
from preop.findings import Finding, Item, Outcome, PitfallResult
from preop.report.charts import figures
from preop.report.html import render_html
from preop.report.words import CHARTS_NEED
from preop.text import Language, Text
from preop.thresholds import Thresholds

from . import samples

SAMPLES = [samples.no_go, samples.hold, samples.go, samples.hostile]
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements and text of a page, as a parser that is not the template sees them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes <{self.open[-1:]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += f" {data}"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_is_whole_and_needs_nothing_from_outside(sample: Any, language: Language) -> None:
    html = render_html(sample(), language)
    page = Page(html)
    assert page.open == []
    assert {tag for tag, _ in page.tags} & {
        "script",
        "img",
        "iframe",
        "object",
        "form",
        "base",
        "image",
    } == set()
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("href", "src", "xlink:href", "action"):
            assert (attributes.get(name) or "#")[0] == "#" or attributes[name] == "data:,", (tag, attributes)
    assert "url(" not in html and "@import" not in html
    assert page.all("html")[0]["lang"] == ("zh-CN" if language == "zh" else "en")
    cards = [each["id"] for each in page.all("article") if each.get("id")]
    assert cards == [result.pitfall for result in sample().worst_first]
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert {each["href"] for each in page.all("a")} == {f"#{pitfall}" for pitfall in cards}
    html.encode("utf-8")


def test_the_verdict_comes_first_and_outcomes_have_word_and_shape() -> None:
    html = render_html(samples.no_go(), "en")
    page = Page(html)
    text = re.sub(r"\s+", " ", page.text)
    assert text.index("NO-GO", text.index("Deployment check", 20)) < text.index("P13")
    for pitfall, word, shape in (
        ("P13", "FAIL", "#i-fail"),
        ("P01", "UNPROVEN", "#i-unproven"),
        ("P05", "PASS", "#i-pass"),
    ):
        card = html[html.index(f'id="{pitfall}"') :]
        card = card[: card.index("</h3>")]
        assert f">{word}<" in card and shape in card
    assert "make the shares add up to 1.0 or less" in text
    assert "GET /v1/models" in text and "--max-model-len" in text
    assert "the default depends on the GPU" in text


def test_evidence_has_value_unit_source_strength_and_age() -> None:
    text = re.sub(r"\s+", " ", Page(render_html(samples.hold(), "en")).text)
    assert "p99 TTFT at 8 740 ms load, 960 requests" in text
    assert "strength: measured" in text
    assert "measured at 2026-11-03 08:40 UTC, age at this check 32 min" in text
    assert "the load generator used 0.93 of its core" in text
    chinese = Page(render_html(samples.hold(), "zh")).text
    assert "32 分钟" in chinese and "实测" in chinese


def test_memory_is_drawn_to_one_scale() -> None:
    bars = re.findall(r'<i style="width:([\d.]+)%"', render_html(samples.no_go(), "en"))
    assert bars == ["100.0", "6.5", "63.5", "27.6"], "79.65, 5.19, 50.56 and 22.00 GiB"


def test_hostile_text_is_only_text() -> None:
    html = render_html(samples.hostile(), "en")
    page = Page(html)
    assert "<script>alert(1)</script>" in page.text and "{{ 7*7 }}" in page.text and "&lt;" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2028\u2066-\u2069]", html)
    assert "\\x1b[31m" in page.text and "\\u202e" in page.text
    assert len(html) < 400_000, "10 kB strings are shortened"


@given(st.text(), st.text())
@settings(max_examples=20, deadline=None)
def test_no_text_becomes_an_element(text: str, other: str) -> None:
    said = Text(text, other)
    bad = Finding(
        Outcome.FAIL, said, evidence=(Item(text, other, text, other),), remedy=said, needs=said, where=other
    )

    def page(finding: Finding, name: str) -> Page:
        base = samples.go()
        results = (PitfallResult("P01", {name: finding}), *base.results[1:])
        deployment = msgspec.structs.replace(base.deployments[0], name=name, source=name)
        return Page(
            render_html(msgspec.structs.replace(base, results=results, deployments=(deployment,)), "en")
        )

    word = Text("a", "a")
    plain = Finding(
        Outcome.FAIL, word, evidence=(Item("a", "a", "a", "a"),), remedy=word, needs=word, where="a"
    )
    harmless = page(plain, "a")
    hostile = page(bad, text)
    assert {tag for tag, _ in hostile.tags} <= {tag for tag, _ in harmless.tags}
    assert hostile.open == []


def test_the_curve_has_its_percentiles_levels_and_limit() -> None:
    ttft, tpot = figures(samples.LOAD, Thresholds({"P04.ttft_p99_ms": 700}), "en")
    assert ttft.title == "Time to first token" and tpot.title == "Time per output token"
    assert "p99 740 ms @ 8" in ttft.alt and "p50 42 ms @ 1" in ttft.alt
    assert "2,400" not in ttft.alt, "a voided level is no result"
    assert ("limit", "limit for p99 700 ms") in ttft.legend and ("hollow", "voided level") in ttft.legend
    for figure in (ttft, tpot):
        marks = re.findall(r'<path aria-label="[^"]*" role="graphics-symbol"[^>]*>', figure.svg)
        filled = [mark for mark in marks if 'fill="var(' in mark]
        hollow = [mark for mark in marks if 'stroke="var(' in mark and 'fill="var(' not in mark]
        assert (len(filled), len(hollow)) >= (8, 2), "four valid levels, one voided, two percentiles each"
        assert "#0102" not in figure.svg and 'fill="white"' not in figure.svg and " id=" not in figure.svg


def test_no_chart_where_there_is_nothing_to_draw() -> None:
    report = samples.hostile()
    assert figures(report.records[1].payload, Thresholds(), "en") == []
    (ttft, tpot) = figures(report.records[0].payload, Thresholds(), "en")
    assert "NaN" not in ttft.svg + tpot.svg and "nan" not in ttft.svg + tpot.svg
    assert figures(None, Thresholds(), "en") == []


def test_the_timeline_shows_each_request() -> None:
    (timeline,) = figures(samples.STREAMING, Thresholds(), "zh")
    assert "1: 44 – 640 ms" in timeline.alt
    assert timeline.svg.count("var(--series-a)") >= 3


def test_without_the_chart_library_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    page = Page(render_html(samples.hold(), "en"))
    assert CHARTS_NEED.en in page.text and "pip install 'preop[report]'" in page.text
    assert not page.all("figure") and "2,400" in page.text, "the numbers are there all the same"
    assert CHARTS_NEED.en not in Page(render_html(samples.no_go(), "en")).text, (
        "nothing to draw, nothing to say"
    )


def test_without_the_template_library_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"pip install 'preop\[report\]'"):
        render_html(samples.go(), "en")


def palette(css: str, start: str) -> dict[str, str]:
    block = css[css.index(start) :]
    return dict(
        re.findall(
            r"--([a-z-]+): (#[0-9a-f]{3,6})", block[: block.index("--mono" if start == ":root" else "}\n}")]
        )
    )


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.1."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [":root", "@media (prefers-color-scheme: dark)", "@media print"])
def test_text_can_be_read_in_light_dark_and_print(scheme: str) -> None:
    css = files("preop.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    colours = palette(css, scheme)
    for text in ("ink", "muted", "fail", "error", "unproven", "waived", "pass", "na"):
        for ground in ("page", "card"):
            light, dark = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (scheme, text, ground)
    for drawn in ("series-a", "series-b", "limit"):
        light, dark = sorted((luminance(colours[drawn]), luminance(colours["card"])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, (scheme, drawn)
