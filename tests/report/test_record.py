"""What `preop measure NAME` prints."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
import pytest

from preop.evidence import Live, Load, Route, Tokens
from preop.facts import Origin, known, unknown
from preop.report import render_record, to_json
from preop.report.documents import measure_document
from preop.report.record import render_record as render
from preop.text import Language

from . import samples
from .test_document import LIVE, TOKENS, record

HOSTILE_LIVE = Live(
    samples.HOSTILE,
    samples.HOSTILE,
    {samples.HOSTILE: known(samples.HOSTILE, "engine", Origin("route", samples.HOSTILE)), "x": unknown("?")},
    {samples.HOSTILE: float("nan")},
    [Route(samples.HOSTILE, None, samples.HOSTILE)],
)


@pytest.mark.parametrize(
    "payload",
    [LIVE, samples.LOAD, samples.STREAMING, TOKENS, HOSTILE_LIVE, samples.hostile().records[0].payload],
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_fits_and_steers_nothing(payload: Any, language: Language) -> None:
    text = render(record(payload), "measured", language, width=80)
    assert not {unicodedata.category(c) for c in text if c != "\n"} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    for line in text.splitlines():
        assert sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line) <= 80


def test_a_curve_as_a_table() -> None:
    lines = render(record(samples.LOAD), "measured", "en").splitlines()
    assert lines[0] == "tokens · demo · measured"
    assert " ".join(lines[1].split()) == "n requests errors TTFT p50 p99 ms TPOT p50 p99 ms tokens/s"
    assert lines[5].split()[:8] == ["8", "960", "0", "260", "740", "33.0", "61.0", "242.4"]
    assert lines[5].endswith(" " + "█" * 12)  # the most tokens a second of all valid levels
    assert lines[-1] == "    voided: the load generator used 0.93 of its core"


def test_a_percentile_that_the_sample_cannot_carry_is_explained() -> None:
    level = msgspec.structs.replace(samples.LOAD.levels[0], ttft_ms=type(samples.LOAD.levels[0].ttft_ms)(5.0))
    text = render(record(Load("u", None, 1, 1, [level])), "measured", "zh")
    assert "样本不足" in text


def test_differences_show_where_ids_part() -> None:
    text = render(record(TOKENS), "fail", "en")
    assert "texts compared: 2, differences: 1" in text and "first at position 0: [1, 2] ↔ [2]" in text
    many = Tokens(
        "r", "c", 60, [msgspec.structs.replace(TOKENS.differences[0]) for _ in range(50)], ["no pad"]
    )
    text = render(record(many), "fail", "en")
    assert "+30 more in the JSON document" in text and "not compared: no pad" in text


def test_what_failed_says_why() -> None:
    assert "connection refused" in render_record(record(None, "connection refused"), "not-proven", "zh")


def test_json_text_is_one_object_that_steers_nothing() -> None:
    text = to_json(measure_document(record(HOSTILE_LIVE), "measured"))
    assert msgspec.json.decode(text.encode())["url"].startswith("<script>")
    assert not {unicodedata.category(c) for c in text if c != "\n"} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
