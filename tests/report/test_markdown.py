"""The checklist: boxes ticked from evidence, and hostile text that stays text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from preop.findings import Outcome
from preop.report.markdown import escape, render_markdown
from preop.report.plain import plain
from preop.text import Language

from . import samples

SAMPLES = [samples.no_go, samples.hold, samples.go, samples.hostile]
RENDERER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HARMLESS = {
    "text", "strong_open", "strong_close", "inline", "paragraph_open", "paragraph_close", "heading_open",
    "heading_close", "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close",
}  # fmt: skip


def kinds(markdown: str) -> set[str]:
    tokens = RENDERER.parse(markdown)
    return {each.type for token in tokens for each in [token, *(token.children or [])]}


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_checklist_is_headings_boxes_and_text(sample: Any, language: Language) -> None:
    markdown = render_markdown(sample(), language)
    assert kinds(markdown) <= HARMLESS
    headings = [line for line in markdown.splitlines() if line.startswith("#")]
    assert len(headings) in (5, 6), "the title, four groups, and notes where there are any"
    markdown.encode("utf-8")


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_boxes_are_ticked_by_evidence_alone(sample: Any, language: Language) -> None:
    report = sample()
    boxes = re.findall(r"^- \[([ x])\] .* — (P\d\d)", render_markdown(report, language), re.MULTILINE)
    shut = {Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.WAIVED}
    assert boxes == [("x" if result.outcome in shut else " ", result.pitfall) for result in report.results], (
        "fifteen, in the checklist's order"
    )


def test_what_a_checklist_says() -> None:
    english, chinese = render_markdown(samples.no_go(), "en"), render_markdown(samples.no_go(), "zh")
    assert "**NO-GO** · 3 FAIL · 9 UNPROVEN · 1 PASS · 2 N/A" in english
    assert "  - **FAIL**: \\[chat\\] 131,072 tokens asked, 32,768 native, no RoPE scaling" in english
    assert "  - fix: --max-model-len 32768" in english
    assert "  - needs: --endpoint URL" in english
    assert "docker-compose.yml:14:9" in english
    assert "## 监控与运维" in chinese and "**NO-GO 不可上线**" in chinese
    assert "- [ ] 流式输出用 SSE 不用 polling — P14" in chinese


@given(st.text())
@settings(max_examples=150, deadline=None)
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    rendered = RENDERER.parse(f"x: {escape(text)} .")
    assert {token.type for token in rendered} <= {"paragraph_open", "inline", "paragraph_close"}
    (inline,) = (token for token in rendered if token.type == "inline")
    assert {child.type for child in inline.children or []} <= {"text", "text_special"}
    shown = "".join(child.content for child in inline.children or []).replace("\u2060", "")
    assert shown == f"x: {plain(text)} ."


@pytest.mark.parametrize(
    "text",
    [
        "<b>x</b>", "[a](http://x)", "![a](x)", "`a`", "**a**", "_a_ __b__", "a|b", "~~a~~", "&amp;",
        "\\*a\\*",
        "<http://x.test>", "[a]: http://x", "$a$", "<!-- a -->", "# a", "\\", "a\\", "***", "*_`<[",
    ],
)  # fmt: skip
def test_markup_is_text(text: str) -> None:
    (inline,) = (token for token in RENDERER.parse(f"x: {escape(text)} .") if token.type == "inline")
    assert "".join(child.content for child in inline.children or []) == f"x: {text} ."


def test_addresses_and_mentions_are_broken_and_digests_are_not() -> None:
    assert escape("http://evil.test www.evil.test") == "http\\://evil.test www\\.evil.test"
    assert escape("@everyone") == "@\u2060everyone"
    assert (
        escape("vllm:v0.32.0@sha256:ab max_num_seqs a.yml:1:2")
        == "vllm:v0.32.0@sha256:ab max_num_seqs a.yml:1:2"
    )
