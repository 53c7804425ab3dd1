"""P07: more requests run at once than the latency objective bears."""

from __future__ import annotations

from preop.evidence import Strength
from preop.pitfalls.p07_batch_cap.judge import judge
from preop.pitfalls.types import Pitfall
from preop.text import Text

PITFALL = Pitfall(
    id="P07",
    slug="batch-cap",
    label=Text("batch cap", "批上限"),
    title=Text("Batch cap beyond the latency knee", "并发上限越过延迟拐点"),
    group="scheduling",
    item=Text(
        "The batch cap (max_num_seqs) stands before the bend of the p99 curve",
        "max_num_seqs 设在 p99 拐点之前，宁可吞吐少也要保 p99",
    ),
    least=Strength.MEASURED,
    judge=judge,
    needs=("load",),
    facts=("max_num_seqs",),
)
