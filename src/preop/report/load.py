"""A load measurement in a terminal: the curve with bars, the objective's answer, the knee; pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from preop.evidence import Comparison, Knee, Level, Load, SloAnswer
from preop.report.plain import plain
from preop.report.wrap import cells
from preop.text import Language, Text

__all__ = ["comparison_lines", "load_lines", "slo_line"]

_WORDS = {
    "voided": Text("voided", "作废"),
    "small": Text("— : the sample is too small for that percentile", "—：样本不足以给出该分位数"),
    "objective": Text("objective", "目标"),
    "resolved": Text("resolved", "已确定"),
    "unresolved": Text("unresolved", "未确定"),
    "kept": Text("kept up to {} concurrent requests", "{} 个并发请求以内满足"),
    "kept_rate": Text("kept up to {} requests a second", "每秒 {} 个请求以内满足"),
    "none": Text("not kept by one request alone", "单个请求也不满足"),
    "unknown": Text("not known", "未知"),
    "degrades": Text("from {} on it is broken: {}", "从 {} 起不满足：{}"),
    "cap": Text(
        "as the batch cap (max_num_seqs), {} keeps every request inside it",
        "作为 batch 上限（max_num_seqs），{} 可使每个请求都满足目标",
    ),
    "knee": Text("knee", "拐点"),
    "note": Text("note", "说明"),
    "ended": Text("ended early", "提前结束"),
    "by": Text("measured by {}, not by preop; it cannot show:", "由 {} 测得，并非 preop 所测；它不能说明："),
    "break_even": Text("break-even", "盈亏平衡点"),
    "none_up_to": Text("none up to {}", "到 {} 为止没有"),
    "faster": Text("below 1, A is faster", "小于 1 表示 A 更快"),
}
_BAR = 12
_EIGHTHS = " ▏▎▍▌▋▊▉"


def load_lines(load: Load, language: Language) -> Iterator[str]:
    """The curve, one line a level."""
    if load.tool != "preop":
        yield _WORDS["by"].in_(language).format(plain(load.tool, 80))
        yield from (f"  {plain(said, 300)}" for said in load.cannot_show)
    closed = load.loop == "closed"
    head = [
        "n" if closed else "req/s",
        "requests",
        "errors",
        "TTFT p50",
        "p99 ms",
        "TPOT p50",
        "p99 ms",
        "tokens/s",
    ]
    rows = [_row(level, closed) for level in load.levels]
    widths = [max(cells(row[column]) for row in [head, *rows]) for column in range(len(head))]
    most = max((level.output_tokens_per_s or 0.0 for level in load.levels if level.valid), default=0.0)
    yield _table_line(head, widths)
    for row, level in zip(rows, load.levels, strict=True):
        yield f"{_table_line(row, widths)} {_bar(level, most)}".rstrip()
        if not level.valid:
            yield f"    {_WORDS['voided'].in_(language)}: {plain(level.voided_because or '—', 300)}"
        yield from (f"    {plain(warning, 300)}" for warning in level.warnings)
    if any("—" in row for row in rows):
        yield _WORDS["small"].in_(language)
    if load.stopped_because is not None:
        yield f"{_WORDS['ended'].in_(language)}: {plain(load.stopped_because, 300)}"
    if load.slo is not None and load.slo.terms:
        yield from _slo(load.slo, language)
    if load.knee is not None:
        yield _knee(load.knee, language)
    for note in load.notes:
        yield f"{_WORDS['note'].in_(language)}: {plain(note, 300)}"


def _row(level: Level, closed: bool) -> list[str]:
    return [
        f"{level.concurrency:,}" if closed else _fixed(level.offered_per_s, 1),
        f"{level.requests:,}",
        f"{level.errors:,}",
        _fixed(level.ttft_ms.p50, 0),
        _fixed(level.ttft_ms.p99, 0),
        _fixed(level.tpot_ms.p50, 1),
        _fixed(level.tpot_ms.p99, 1),
        _fixed(level.output_tokens_per_s, 1),
    ]


def _table_line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.rjust(size) for cell, size in zip(row, widths, strict=True))


def _bar(level: Level, most: float) -> str:
    """The level's tokens a second beside the highest."""
    rate = level.output_tokens_per_s
    if not level.valid or not rate or most <= 0 or not math.isfinite(rate):
        return ""
    eighths = max(1, round(rate / most * _BAR * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def slo_line(slo: SloAnswer, language: Language) -> str:
    """The objective and the level that keeps it, in one line."""
    terms = ", ".join(f"{plain(name, 20)} ≤ {limit:g} ms" for name, limit in slo.terms.items())
    if slo.rate_per_s is not None:
        found = _WORDS["kept_rate"].in_(language).format(f"{slo.rate_per_s:g}")
    elif slo.concurrency is None:
        found = _WORDS["unknown"].in_(language)
    elif slo.concurrency == 0:
        found = _WORDS["none"].in_(language)
    else:
        found = _WORDS["kept"].in_(language).format(f"{slo.concurrency:,}")
    sure = _WORDS["resolved" if slo.resolved else "unresolved"].in_(language)
    return f"{_WORDS['objective'].in_(language)} {terms}: {found} ({sure})"


def _slo(slo: SloAnswer, language: Language) -> Iterator[str]:
    yield slo_line(slo, language)
    yield f"  {plain(slo.why, 300)}"
    if slo.breaks_at is not None and slo.broken is not None:
        yield "  " + _WORDS["degrades"].in_(language).format(f"{slo.breaks_at:,}", plain(slo.broken, 200))
    if slo.concurrency and slo.resolved:
        yield "  " + _WORDS["cap"].in_(language).format(f"{slo.concurrency:,}")


def _knee(knee: Knee, language: Language) -> str:
    at = "—" if knee.concurrency is None else f"{knee.concurrency:,}"
    return f"{_WORDS['knee'].in_(language)}: {at} ({plain(knee.method, 300)})"


def comparison_lines(comparison: Comparison, language: Language) -> Iterator[str]:
    """One line a pair."""
    yield f"A {plain(comparison.url_a, 120)}"
    yield f"B {plain(comparison.url_b, 120)}"
    head = ["n", "TPOT A", "TPOT B ms", "A/B", "low", "high"]
    rows = [
        [
            f"{pair.concurrency:,}",
            _fixed(pair.a.tpot_ms.p50 if pair.a else None, 2),
            _fixed(pair.b.tpot_ms.p50 if pair.b else None, 2),
            _fixed(pair.ratio, 3),
            _fixed(pair.low, 3),
            _fixed(pair.high, 3),
        ]
        for pair in comparison.pairs
    ]
    widths = [max(cells(row[column]) for row in [head, *rows]) for column in range(len(head))]
    yield _table_line(head, widths)
    for row, pair in zip(rows, comparison.pairs, strict=True):
        yield _table_line(row, widths)
        if pair.voided_because is not None:
            yield f"    {_WORDS['voided'].in_(language)}: {plain(pair.voided_because, 300)}"
    yield f"A/B: {_WORDS['faster'].in_(language)}"
    even = comparison.break_even
    if even.concurrency is not None:
        at = f"{even.concurrency:,.1f}"
    else:
        at = _WORDS["none_up_to"].in_(language).format("—" if even.up_to is None else f"{even.up_to:,}")
    yield f"{_WORDS['break_even'].in_(language)}: {at}{f' ({plain(even.why, 300)})' if even.why else ''}"
    yield from (f"{_WORDS['note'].in_(language)}: {plain(note, 300)}" for note in comparison.notes)


def _fixed(value: float | None, decimals: int) -> str:
    return "—" if value is None or not math.isfinite(value) else f"{value:,.{decimals}f}"
