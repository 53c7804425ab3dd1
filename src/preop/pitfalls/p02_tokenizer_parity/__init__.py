"""P02: the engine's token ids are not those of the training side."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p02_tokenizer_parity.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

PITFALL = Pitfall(
    id="P02",
    slug="tokenizer-parity",
    label=Text("tokenizer", "分词一致"),
    title=Text("Tokenizer differs from training", "分词与训练时不一致"),
    group="quantization",
    item=Text(
        "The tokenizer is exactly that of training (fast or slow, padding side, special tokens)",
        "tokenizer 与训练时完全一致（fast/slow、padding 方向、special token）",
    ),
    least=Strength.MEASURED,
    judge=judge,
    needs=("tokens",),
    facts=("tokenizer", "tokenizer_mode", "chat_template"),
)
