"""P03: weight-only quantization where it does not make anything faster."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p03_weight_only_quantization.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

PITFALL = Pitfall(
    id="P03",
    slug="weight-only-quantization",
    label=Text("weight-only quant", "仅权重量化"),
    title=Text("Weight-only quantization that does not pay", "仅权重量化没有收益"),
    group="quantization",
    item=Text(
        "Weight-only quantization is used where it pays: a large model at a medium batch",
        "weight-only 量化用在大模型 + 中等 batch（不是小模型小 batch）",
    ),
    least=Strength.COMPUTED,
    judge=judge,
)
