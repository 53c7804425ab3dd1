"""A measurement as a page."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from preop.evidence import BreakEven, Comparison, Pair, Record, SloAnswer, Strength
from preop.report import render_measurement
from preop.text import Language
from preop.thresholds import Thresholds

from . import samples


def record(payload: Any, name: str = "chat") -> Record:
    return Record(
        "preop.record/1", "load", name, Strength.MEASURED, "2026-12-01T10:00:00+00:00", 12.5, {}, {}, payload
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_curve_is_drawn_with_the_limits_that_were_asked_for(language: Language) -> None:
    slo = SloAnswer(8, True, "8 keeps it, 9 breaks it", {"tpot_p99": 61.5}, 9, "tpot_p99")
    page = render_measurement(
        record(msgspec.structs.replace(samples.LOAD, slo=slo)), "measured", Thresholds(), language
    )
    assert page.count("<figure") == 2 and "tpot_p99 ≤ 61.5 ms" in page
    assert "61.5" in page.partition("<figure")[2].partition("<pre")[0]
    assert "500 ms" not in page  # no limit was asked for TTFT
    assert " 8       960       0" in page  # the table keeps its columns


def test_a_comparison_is_drawn_with_its_intervals() -> None:
    pairs = [Pair(1, 0.8, 0.79, 0.82), Pair(8, 1.1, 1.05, 1.2), Pair(16, None, None, None)]
    payload = Comparison("http://a", "http://b", "m", "m", pairs, BreakEven(4.0, 16))
    page = render_measurement(record(payload), "measured", Thresholds(), "en")
    assert page.count("<figure") == 1 and "0.800 @ 1; 1.100 @ 8" in page


@pytest.mark.parametrize("payload", [samples.LOAD, samples.STREAMING, None])
def test_hostile_text_stays_text(payload: Any) -> None:
    page = render_measurement(
        record(payload, "<script>alert(1)</script>\x1b[31m"), "measured", Thresholds(), "en"
    )
    assert "<script" not in page and "\x1b" not in page
