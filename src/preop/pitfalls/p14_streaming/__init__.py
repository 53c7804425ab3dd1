"""P14: streaming faked by polling, or buffered on the way."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p14_streaming.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

__all__ = ["PITFALL"]

PITFALL = Pitfall(
    id="P14",
    slug="streaming",
    label=Text("streaming", "流式输出"),
    title=Text("Streaming by polling instead of SSE", "流式响应没用 SSE 而是轮询"),
    group="design",
    item=Text("Streaming is done by SSE, not by polling", "流式输出用 SSE 不用 polling"),
    least=Strength.MEASURED,
    judge=judge,
    needs=("streaming",),
    facts=("stream_interval",),
)
