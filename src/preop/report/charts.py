"""Charts as SVG, made by Altair and vl-convert without JavaScript.

Colours are the page's CSS variables, so that one drawing reads on light, on dark and on paper. The words on
a chart are preop's own: no text of a server or a file is drawn.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from preop.evidence import Comparison, Level, Load, Percentiles, Streaming
from preop.report.plain import shown
from preop.text import Language, Text
from preop.thresholds import Thresholds

__all__ = ["Figure", "figures"]

# Stand-ins that become CSS variables once Vega has drawn.
_COLOURS = {
    "ink": "#010203",
    "muted": "#010204",
    "rule": "#010205",
    "card": "#010206",
    "series-a": "#010207",
    "series-b": "#010208",
    "limit": "#010209",
}
_WIDTH, _HEIGHT = 330, 190
_MOST_REQUESTS = 12

_WORDS = {
    "ttft": Text("Time to first token", "首 token 延迟（TTFT）"),
    "tpot": Text("Time per output token", "每个输出 token 的时间（TPOT）"),
    "concurrency": Text("concurrent requests", "并发请求数"),
    "ms": Text("ms", "毫秒"),
    "voided": Text("voided level", "作废的档位"),
    "limit": Text("limit for p99", "p99 上限"),
    "ratio": Text("Time per token, A over B", "每 token 耗时：A 比 B"),
    "times": Text("times", "倍"),
    "even": Text("as fast", "一样快"),
    "stream": Text("How the answers arrived", "响应到达的过程"),
    "waiting": Text("waiting for the first text", "等待首个文本"),
    "arriving": Text("text arriving", "文本陆续到达"),
    "since": Text("ms since the request", "请求发出后的毫秒数"),
    "request": Text("request", "请求"),
}


class Figure(msgspec.Struct, frozen=True):
    """One drawing: `svg` is safe markup; `legend` pairs a mark's class with its words."""

    title: str
    svg: str
    alt: str
    legend: tuple[tuple[str, str], ...]


def figures(payload: object, thresholds: Thresholds, language: Language) -> list[Figure]:
    """The drawings of one record's payload; none where it has nothing to draw.

    Raises ImportError where the chart libraries are not installed.
    """
    if isinstance(payload, Load):
        terms = payload.slo.terms if payload.slo is not None else {}
        limits = {name: terms.get(f"{name}_p99") for name in ("ttft", "tpot")}
        if not terms:
            limits = {name: thresholds[f"P04.{name}_p99_ms"] for name in limits}
        drawn = (
            _latency(payload, "ttft", limits["ttft"], language),
            _latency(payload, "tpot", limits["tpot"], language),
        )
        return [figure for figure in drawn if figure is not None]
    if isinstance(payload, Comparison):
        figure = _ratios(payload, language)
        return [figure] if figure is not None else []
    if isinstance(payload, Streaming):
        figure = _timeline(payload, language)
        return [figure] if figure is not None else []
    return []


def _latency(load: Load, quantity: str, limit: float | None, language: Language) -> Figure | None:
    """p50 and p99 against concurrency; voided levels stand apart, hollow and unjoined."""
    rows = [row for level in load.levels if level.concurrency > 0 for row in _points(level, quantity)]
    if not rows:
        return None
    import altair as alt

    levels = sorted({int(row["concurrency"]) for row in rows})
    domain = [levels[0], levels[-1]] if len(levels) > 1 else [levels[0] * 0.5, levels[0] * 2]
    x = alt.X(
        "concurrency:Q",
        scale=alt.Scale(type="log", base=2, domain=domain, nice=False),
        axis=alt.Axis(
            values=_ticks(levels), format=",d", title=_WORDS["concurrency"].in_(language), grid=False
        ),
    )
    scale = alt.Scale(zero=True, nice=True)
    axis = alt.Axis(title=_WORDS["ms"].in_(language), tickCount=5)
    y = alt.Y("ms:Q", scale=scale, axis=axis)
    colour = alt.Color(
        "share:N",
        scale=alt.Scale(domain=["p50", "p99"], range=[_COLOURS["series-a"], _COLOURS["series-b"]]),
        legend=None,
    )
    shape = alt.Shape(
        "share:N", scale=alt.Scale(domain=["p50", "p99"], range=["circle", "square"]), legend=None
    )
    valid = alt.InlineData(values=[row for row in rows if row["valid"]])
    voided = alt.InlineData(values=[row for row in rows if not row["valid"]])
    ceiling = alt.InlineData(values=[{"limit": limit}] if limit is not None else [])
    chart = alt.layer(
        alt.Chart(ceiling)
        .mark_rule(color=_COLOURS["limit"], strokeDash=[5, 4], strokeWidth=1.5)
        .encode(y=alt.Y("limit:Q", scale=scale, axis=axis)),
        alt.Chart(valid).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        alt.Chart(valid)
        .mark_point(filled=True, size=52, opacity=1)
        .encode(x=x, y=y, color=colour, shape=shape),
        alt.Chart(voided)
        .mark_point(filled=False, size=52, opacity=1, strokeWidth=1.6)
        .encode(x=x, y=y, color=colour, shape=shape),
    )
    legend = [("a", "p50"), ("b", "p99")]
    if limit is not None:
        legend.append(("limit", f"{_WORDS['limit'].in_(language)} {shown(limit, 'ms')}"))
    if any(not row["valid"] for row in rows):
        legend.append(("hollow", _WORDS["voided"].in_(language)))
    title = _WORDS[quantity].in_(language)
    said = "; ".join(
        f"{row['share']} {shown(row['ms'], 'ms')} @ {row['concurrency']}" for row in rows if row["valid"]
    )
    return Figure(title, _svg(chart, _HEIGHT), f"{title}: {said}", tuple(legend))


def _ratios(comparison: Comparison, language: Language) -> Figure | None:
    """Time per token of A over that of B at each level, with its interval; at 1 both are as fast."""
    rows = [
        {"concurrency": pair.concurrency, "ratio": pair.ratio, "low": pair.low, "high": pair.high}
        for pair in comparison.pairs
        if _finite(pair.ratio) and _finite(pair.low) and _finite(pair.high)
    ]
    if not rows:
        return None
    import altair as alt

    levels = [pair.concurrency for pair in comparison.pairs if pair.ratio is not None]
    domain = [levels[0], levels[-1]] if len(levels) > 1 else [levels[0] * 0.5, levels[0] * 2]
    axis = alt.Axis(values=_ticks(levels), format=",d", title=_WORDS["concurrency"].in_(language), grid=False)
    x = alt.X("concurrency:Q", scale=alt.Scale(type="log", base=2, domain=domain, nice=False), axis=axis)
    scale = alt.Scale(zero=False, nice=True)
    y_axis = alt.Axis(title=_WORDS["times"].in_(language), tickCount=5)
    data, even = alt.InlineData(values=rows), alt.InlineData(values=[{"even": 1.0}])
    chart = alt.layer(
        alt.Chart(even)
        .mark_rule(color=_COLOURS["limit"], strokeDash=[5, 4], strokeWidth=1.5)
        .encode(y=alt.Y("even:Q", scale=scale, axis=y_axis)),
        alt.Chart(data)
        .mark_rule(color=_COLOURS["series-a"], strokeWidth=2, opacity=0.5)
        .encode(x=x, y=alt.Y("low:Q", scale=scale, axis=y_axis), y2="high:Q"),
        alt.Chart(data).mark_line(color=_COLOURS["series-a"], strokeWidth=2).encode(x=x, y="ratio:Q"),
        alt.Chart(data)
        .mark_point(color=_COLOURS["series-a"], filled=True, size=52, opacity=1)
        .encode(x=x, y="ratio:Q"),
    )
    title = _WORDS["ratio"].in_(language)
    said = "; ".join(f"{row['ratio']:.3f} @ {row['concurrency']}" for row in rows)
    legend = (("a", "A / B"), ("limit", _WORDS["even"].in_(language)))
    return Figure(title, _svg(chart, _HEIGHT), f"{title}: {said}", legend)


def _points(level: Level, quantity: str) -> list[dict[str, Any]]:
    percentiles: Percentiles = level.ttft_ms if quantity == "ttft" else level.tpot_ms
    return [
        {"concurrency": level.concurrency, "share": share, "ms": value, "valid": level.valid}
        for share, value in (("p50", percentiles.p50), ("p99", percentiles.p99))
        if value is not None and math.isfinite(value)
    ]


def _ticks(levels: list[int]) -> list[int]:
    """The levels themselves, thinned where they would stand on each other (closer than 1:1.3)."""
    ticks: list[int] = []
    for level in levels:
        if not ticks or level >= ticks[-1] * 1.3:
            ticks.append(level)
    return ticks


def _timeline(streaming: Streaming, language: Language) -> Figure | None:
    rows = [
        {"request": number, "first": request.first_content_ms, "last": request.last_content_ms}
        for number, request in enumerate(streaming.requests[:_MOST_REQUESTS], 1)
        if _finite(request.first_content_ms) and _finite(request.last_content_ms)
    ]
    if not rows:
        return None
    import altair as alt

    data = alt.InlineData(values=[{**row, "start": 0} for row in rows])
    y = alt.Y(
        "request:O",
        axis=alt.Axis(title=_WORDS["request"].in_(language), labelAngle=0, ticks=False, domain=False),
        scale=alt.Scale(paddingInner=0.35),
    )
    axis = alt.Axis(title=_WORDS["since"].in_(language), tickCount=5, grid=True)
    base = alt.Chart(data)
    chart = alt.layer(
        base.mark_bar(height=3, color=_COLOURS["muted"]).encode(
            y=y, x=alt.X("start:Q", axis=axis), x2="first:Q"
        ),
        base.mark_bar(height=13, color=_COLOURS["series-a"]).encode(
            y=y, x=alt.X("first:Q", axis=axis), x2="last:Q"
        ),
        # A buffered answer has no length: its tick still shows when it came.
        base.mark_tick(color=_COLOURS["series-a"], thickness=3, height=13).encode(
            y=y, x=alt.X("first:Q", axis=axis)
        ),
    )
    title = _WORDS["stream"].in_(language)
    said = "; ".join(f"{row['request']}: {shown(row['first'])} – {shown(row['last'], 'ms')}" for row in rows)
    legend = (("wait", _WORDS["waiting"].in_(language)), ("a", _WORDS["arriving"].in_(language)))
    return Figure(title, _svg(chart, 24 * len(rows) + 12), f"{title}: {said}", legend)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _svg(chart: Any, height: int) -> str:
    import vl_convert

    spec = chart.properties(width=_WIDTH, height=height).to_dict()
    text = {"labelColor": _COLOURS["muted"], "titleColor": _COLOURS["muted"]}
    sizes = {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelPadding": 6}
    lines = {"gridColor": _COLOURS["rule"], "domainColor": _COLOURS["rule"], "tickColor": _COLOURS["rule"]}
    spec["config"] = {
        "background": None,
        "view": {"stroke": None},
        "font": "sans-serif",
        "axis": {**text, **sizes, **lines, "titlePadding": 8, "labelFlush": False},
        "axisY": {"minExtent": 40},
    }
    return _themed(vl_convert.vegalite_to_svg(spec))


def _themed(svg: str) -> str:
    """The drawing with the page's colours, as wide as its place, and with no ids to clash with another's."""
    for name, stand_in in _COLOURS.items():
        svg = svg.replace(f'"{stand_in}"', f'"var(--{name})"')
    svg = re.sub(r' font-family="[^"]*"', "", svg)
    svg = re.sub(r' clip-path="[^"]*"|<defs>.*?</defs>', "", svg, flags=re.DOTALL)
    return re.sub(
        r'<svg [^>]*?width="[\d.]+" height="[\d.]+" (viewBox="[^"]*")>',
        r'<svg xmlns="http://www.w3.org/2000/svg" \1 aria-hidden="true">',
        svg,
        count=1,
    )
