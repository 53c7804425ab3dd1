"""P11: an engine upgrade without a regression run."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p11_engine_upgrade.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

__all__ = ["PITFALL"]

PITFALL = Pitfall(
    id="P11",
    slug="engine-upgrade",
    label=Text("engine upgrade", "引擎升级"),
    title=Text("Engine upgraded without regression tests", "跨版本升级引擎没跑回归"),
    group="operations",
    item=Text(
        "An engine upgrade goes through a full regression and a staged rollout",
        "引擎升级走灰度 + 完整回归测试",
    ),
    least=Strength.MEASURED,
    judge=judge,
)
