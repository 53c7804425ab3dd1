"""P08: speculative decoding where the batch is too large for it to pay."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p08_speculative_decoding.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

PITFALL = Pitfall(
    id="P08",
    slug="speculative-decoding",
    label=Text("speculation", "投机解码"),
    title=Text("Speculative decoding at large batch", "大 batch 下使用投机解码"),
    group="scheduling",
    item=Text(
        "Speculative decoding is on only where batches are small",
        "投机解码只在小 batch 场景开，大 batch 关掉",
    ),
    least=Strength.MEASURED,
    judge=judge,
    facts=("speculative",),
)
