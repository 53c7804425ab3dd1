"""P12: the software stack that runs is not the one that was locked."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p12_stack_lock.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

__all__ = ["PITFALL"]

PITFALL = Pitfall(
    id="P12",
    slug="stack-lock",
    label=Text("stack lock", "软件栈锁定"),
    title=Text("CUDA stack not the locked one", "CUDA 软件栈与锁定的不一致"),
    group="operations",
    item=Text(
        "The whole CUDA, cuDNN and driver stack is locked by an image", "用镜像锁定 CUDA/cuDNN 整套软件栈"
    ),
    least=Strength.MEASURED,
    judge=judge,
    facts=("engine_version", "image", "image_digest", "accelerator"),
)
