"""P05: the KV cache is too small for the requests it is promised to hold."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p05_kv_cache_capacity.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

PITFALL = Pitfall(
    id="P05",
    slug="kv-cache-capacity",
    label=Text("KV cache", "KV 缓存"),
    title=Text("KV cache too small for long conversations", "KV cache 容量不足"),
    group="scheduling",
    item=Text(
        "The KV cache is sized for the long tail of business prompts, with 50 % headroom",
        "KV cache 按业务长尾 prompt 算，留 50% 余量",
    ),
    least=Strength.COMPUTED,
    judge=judge,
    facts=("context_size", "kv_cache_memory_bytes", "gpu_memory_fraction"),
)
