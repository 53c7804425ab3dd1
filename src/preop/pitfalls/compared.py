"""What a paired comparison (A B B A) says of the deployment up to its batch cap, for P03 and P08."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from preop.evidence import Comparison, Pair
from preop.findings import Item
from preop.pitfalls.readings import whole_cap
from preop.pitfalls.types import Case

__all__ = ["Compared", "compared"]


@dataclass(frozen=True)
class Compared:
    """A is the deployment, B the same without what is asked about."""

    comparison: Comparison
    cap: int | None
    outcome: Literal["faster", "slower", "open"]
    """faster: at every level up to the cap, beyond doubt; slower: at a level within it, beyond doubt."""
    at: Pair | None
    """The level that decided: the one that covers the cap, or the first slower one."""

    @property
    def evidence(self) -> list[Item]:
        """Ratio and interval of each level, and what speculation did there."""
        source = f"load, A {self.comparison.url_a}, B {self.comparison.url_b}, in turns"
        items = []
        for pair in self.comparison.pairs:
            bounds = (
                "" if pair.low is None or pair.high is None else f", 95 % {pair.low:.3f} to {pair.high:.3f}"
            )
            name = f"time per token at {pair.concurrency}, A over B"
            shown = None if pair.ratio is None else round(pair.ratio, 3)
            items.append(Item(name, shown, "times", f"{source}{bounds}"))
            told = pair.a.server.speculation if pair.a is not None and pair.a.server is not None else None
            if told is not None and told.acceptance is not None:
                share = round(told.acceptance, 3)
                items.append(
                    Item(f"acceptance at {pair.concurrency}", share, "of drafted tokens", told.source)
                )
        even = self.comparison.break_even
        items.append(Item("break-even", even.concurrency, "concurrent requests", even.why or source))
        return items


def compared(case: Case, about: Literal["speculation", "quantization"]) -> Compared | None:
    """The newest comparison about that; None where there is none."""
    found = next(
        (
            record.payload
            for record in reversed(case.records)
            if isinstance(record.payload, Comparison) and record.payload.about == about
        ),
        None,
    )
    if found is None:
        return None
    cap = whole_cap(case)
    pairs = sorted(
        (pair for pair in found.pairs if pair.low is not None and pair.high is not None),
        key=lambda pair: pair.concurrency,
    )
    within = [pair for pair in pairs if cap is None or pair.concurrency <= cap]
    slower = next((pair for pair in within if pair.low is not None and pair.low > 1), None)
    if slower is not None:
        return Compared(found, cap, "slower", slower)
    covers = next((pair for pair in pairs if cap is not None and pair.concurrency >= cap), None)
    if covers is not None and all(pair.high is not None and pair.high < 1 for pair in [*within, covers]):
        return Compared(found, cap, "faster", covers)
    return Compared(found, cap, "open", None)
