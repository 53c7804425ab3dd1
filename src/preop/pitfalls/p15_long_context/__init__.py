"""P15: a context longer than the model's own, faked."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p15_long_context.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

PITFALL = Pitfall(
    id="P15",
    slug="long-context",
    label=Text("long context", "长上下文"),
    title=Text("Context beyond what the model reads", "上下文超出模型原生支持"),
    group="design",
    item=Text(
        "Long context is native (or properly scaled), not a sliding window",
        "长上下文用原生支持或正确的扩展，不用 sliding window 冒充",
    ),
    least=Strength.MEASURED,
    judge=judge,
    facts=("max_model_len", "rope_scaling", "hf_overrides", "context_shift"),
)
