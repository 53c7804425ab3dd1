"""P01: quantized, and nobody compared its answers with those of the model before."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p01_quantization_quality.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

PITFALL = Pitfall(
    id="P01",
    slug="quantization-quality",
    label=Text("business eval", "业务评测"),
    title=Text("Quantized without a business evaluation", "量化后未做业务评测"),
    group="quantization",
    item=Text(
        "The quantized model was held against the original on real business prompts, not only on MMLU",
        "量化前后跑了业务评测集（不只 MMLU）",
    ),
    least=Strength.MEASURED,
    judge=judge,
    facts=("quantization", "kv_cache_dtype", "kv_cache_dtype_v"),
)
