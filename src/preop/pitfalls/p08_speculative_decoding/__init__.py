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
    least=Strength.MEASURED,
    judge=judge,
    facts=("speculative",),
)
