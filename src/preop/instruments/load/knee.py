"""Where throughput stops following concurrency: two straight lines with one bend.

A description of the curve, no verdict: published definitions differ by a factor of 13 on one public curve,
and with a batch cap the bend lies at the cap whatever the latency is there. The objective decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from preop.evidence import Knee, Level

__all__ = ["knee"]

METHOD = "two straight lines fitted to tokens/s over concurrency"
_LEAST_LEVELS = 4
_FLAT = 0.25
"""The slope after the bend is at most this share of the slope before it."""


def knee(levels: Sequence[Level]) -> Knee:
    """The knee of the valid levels."""
    points = sorted(
        {
            level.concurrency: level.output_tokens_per_s
            for level in levels
            if level.valid and level.output_tokens_per_s
        }.items()
    )
    if len(points) < _LEAST_LEVELS:
        return Knee(
            None, f"none: {len(points)} valid levels with a throughput, at least {_LEAST_LEVELS} needed"
        )
    fits = [
        (error, before, after, points[index][0])
        for index in range(1, len(points) - 1)
        for error, before, after in [_fit(points, points[index][0])]
    ]
    _, before, after, at = min(fits)
    if before <= 0 or after > _FLAT * before:
        return Knee(None, f"none: at no level does the slope fall to {_FLAT:g} of what it was; {METHOD}")
    return Knee(at, f"{METHOD}; the slope falls from {before:,.3g} to {after:,.3g} tokens/s per request")


def _fit(points: Sequence[tuple[int, float]], bend: int) -> tuple[float, float, float]:
    """Least squares of y = c + a min(x, bend) + b max(0, x - bend): (squared error, a, b)."""
    rows = [(float(min(x, bend)), float(max(0, x - bend)), y) for x, y in points]
    n = len(rows)
    mean_u, mean_v, mean_y = (sum(row[i] for row in rows) / n for i in range(3))
    uu = vv = uv = uy = vy = 0.0
    for u, v, y in rows:
        du, dv, dy = u - mean_u, v - mean_v, y - mean_y
        uu, vv, uv = uu + du * du, vv + dv * dv, uv + du * dv
        uy, vy = uy + du * dy, vy + dv * dy
    scale = uu * vv - uv * uv  # above 0: one level lies below the bend and one above it
    a, b = (uy * vv - vy * uv) / scale, (vy * uu - uy * uv) / scale
    error = sum((y - mean_y - a * (u - mean_u) - b * (v - mean_v)) ** 2 for u, v, y in rows)
    return error, a, b
