"""One measurement in a terminal: what `preop measure NAME` prints."""

from __future__ import annotations

from collections.abc import Iterator

from preop.evidence import Comparison, Live, Load, Payload, Record, Streaming, Tokens
from preop.report.documents import MeasureOutcome
from preop.report.load import comparison_lines, load_lines
from preop.report.plain import plain, shown
from preop.report.wrap import wrap
from preop.text import Language, Text

__all__ = ["render_record"]

_OUTCOMES: dict[MeasureOutcome, Text] = {
    "measured": Text("measured", "已测量"),
    "pass": Text("pass", "通过"),
    "fail": Text("fail", "不通过"),
    "not-proven": Text("not proven", "未证实"),
}
_WORDS = {
    "compared": Text("texts compared", "对比文本数"),
    "differences": Text("differences", "不一致"),
    "at": Text("first at position", "首个差异位置"),
    "fix": Text("fix", "修复"),
    "not_compared": Text("not compared", "未对比"),
    "engine": Text("engine", "引擎"),
    "more": Text("more in the JSON document", "条见 JSON 文档"),
    "events": Text("events with text", "个含文本的事件"),
    "reads": Text("reads", "次读取"),
}
_MOST = 20
"""Rows of one kind that are shown; the JSON document has all."""


def render_record(record: Record, outcome: MeasureOutcome, language: Language, *, width: int = 80) -> str:
    """The record as text, no line wider than `width` cells (40 at least)."""
    said = _OUTCOMES[outcome].in_(language)
    rows = [f"{plain(record.instrument, 40)} · {plain(record.deployment, 40)} · {said}"]
    if record.payload is not None:
        rows += _payload(record.payload, language)
    if record.error is not None:
        rows.append(plain(record.error, 400))
    lines: list[str] = []
    for row in rows:
        indent = len(row) - len(row.lstrip(" "))
        body = row[indent:]
        cuts = wrap(body, max(width, 40) - indent) or [(0, 0)]
        lines += [" " * indent + body[start:end] for start, end in cuts]
    return "\n".join(lines) + "\n"


def _payload(payload: Payload, language: Language) -> Iterator[str]:
    if isinstance(payload, Load):
        yield from load_lines(payload, language)
    elif isinstance(payload, Comparison):
        yield from comparison_lines(payload, language)
    elif isinstance(payload, Streaming):
        yield from _streaming(payload, language)
    elif isinstance(payload, Tokens):
        yield from _tokens(payload, language)
    else:
        yield from _live(payload, language)


def _streaming(streaming: Streaming, language: Language) -> Iterator[str]:
    yield f"{streaming.verdict}: {plain(streaming.why, 300)}"
    for request in streaming.requests[:_MOST]:
        if request.error is not None:
            yield f"  {plain(request.error, 300)}"
            continue
        events = f"{request.content_events:,} {_WORDS['events'].in_(language)}"
        reads = f"{request.reads:,} {_WORDS['reads'].in_(language)}"
        span = f"{shown(request.first_content_ms)} – {shown(request.last_content_ms, 'ms')}"
        yield f"  {events}, {reads}, {span}"
    yield from _rest(len(streaming.requests), language)


def _tokens(tokens: Tokens, language: Language) -> Iterator[str]:
    yield f"{plain(tokens.reference, 120)} ↔ {plain(tokens.candidate, 120)}"
    compared, differences = _WORDS["compared"].in_(language), _WORDS["differences"].in_(language)
    yield f"{compared}: {tokens.compared:,}, {differences}: {len(tokens.differences):,}"
    for each in tokens.differences[:_MOST]:
        yield f"  {plain(each.cause, 120)}: {plain(repr(each.text), 120)}"
        ids = f"{_ids(each.reference_ids, each.position)} ↔ {_ids(each.candidate_ids, each.position)}"
        yield f"    {_WORDS['at'].in_(language)} {each.position}: {ids}"
        if each.fix:
            yield f"    {_WORDS['fix'].in_(language)}: {plain(each.fix, 300)}"
    yield from _rest(len(tokens.differences), language)
    for sentence in tokens.not_compared:
        yield f"{_WORDS['not_compared'].in_(language)}: {plain(sentence, 300)}"


def _ids(ids: list[int], position: int) -> str:
    """A few ids from just before the first that differs."""
    start = max(0, position - 2)
    some = ", ".join(map(str, ids[start : start + 6]))
    before = "…, " if start else ""
    return f"[{before}{some}{', …' if start + 6 < len(ids) else ''}]"


def _live(live: Live, language: Language) -> Iterator[str]:
    yield f"{_WORDS['engine'].in_(language)}: {plain(live.engine, 40)} · {plain(live.url, 120)}"
    for name in sorted(live.facts):
        fact = live.facts[name]
        value = shown(fact.value, fact.unit, 120) if fact.is_known else "?"
        yield f"  {plain(name, 60)}: {value} ({plain(fact.source, 120)})"
    for name in sorted(live.metrics):
        yield f"  {plain(name, 60)}: {shown(live.metrics[name])}"
    for route in live.routes:
        status = str(route.status) if route.status is not None else "—"
        yield f"  {plain(route.path, 80)}: {status}{' ' + plain(route.note, 200) if route.note else ''}"


def _rest(count: int, language: Language) -> Iterator[str]:
    if count > _MOST:
        yield f"  +{count - _MOST:,} {_WORDS['more'].in_(language)}"
