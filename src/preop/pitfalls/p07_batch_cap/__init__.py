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
    least=Strength.MEASURED,
    judge=judge,
    needs=("load",),
    facts=("max_num_seqs",),
)
