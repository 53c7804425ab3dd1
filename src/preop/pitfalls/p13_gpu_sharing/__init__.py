"""P13: several models on one GPU without MPS or quotas."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p13_gpu_sharing.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

__all__ = ["PITFALL"]

PITFALL = Pitfall(
    id="P13",
    slug="gpu-sharing",
    label=Text("GPU sharing", "GPU 共享"),
    title=Text("Models share a GPU without quotas", "多模型共享 GPU 没有配额"),
    group="operations",
    item=Text("Models that share a GPU have MPS or memory quotas", "多模型共享 GPU 用 MPS 或显存配额"),
    least=Strength.DECLARED,
    judge=judge,
    facts=("gpu_ids", "gpu_count"),
)
