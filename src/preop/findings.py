"""Findings and the verdict: what the judges say, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from preop.evidence import Strength
from preop.text import Text

__all__ = ["Finding", "Item", "Outcome", "PitfallResult", "Verdict", "decide", "worst"]


class Outcome(StrEnum):
    """What can be said of one pitfall."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNPROVEN = "UNPROVEN"
    NOT_APPLICABLE = "N/A"
    ERROR = "ERROR"
    WAIVED = "WAIVED"

    @property
    def badness(self) -> int:
        """Higher is worse: what is open, then what is unclear, then what is shut."""
        return _BADNESS[self]


_BADNESS = {
    Outcome.NOT_APPLICABLE: 0,
    Outcome.PASS: 1,
    Outcome.WAIVED: 2,
    Outcome.UNPROVEN: 3,
    Outcome.ERROR: 4,
    Outcome.FAIL: 5,
}


class Verdict(StrEnum):
    """What to do with the deployment."""

    GO = "GO"
    NO_GO = "NO-GO"
    HOLD = "HOLD"

    @property
    def exit_code(self) -> int:
        """0 GO, 1 NO-GO, 3 HOLD (2 is a usage error)."""
        return {Verdict.GO: 0, Verdict.NO_GO: 1, Verdict.HOLD: 3}[self]


class Item(msgspec.Struct, frozen=True):
    """One piece of evidence as it is shown: a number with its unit and where it came from."""

    name: str
    value: Any
    unit: str | None = None
    source: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """One pitfall judged for one deployment.

    `needs` says exactly what would prove it (a flag, a file, an endpoint): required for UNPROVEN.
    `remedy` is the change that shuts it: required for FAIL. `strength` is that of the evidence that
    decided, null where none did. `where` is the place in the user's own file, if there is one.
    """

    outcome: Outcome
    summary: Text
    strength: Strength | None = None
    evidence: tuple[Item, ...] = ()
    needs: Text | None = None
    remedy: Text | None = None
    where: str | None = None


class PitfallResult(msgspec.Struct, frozen=True):
    """One pitfall over all deployments; the worst of them speaks for it."""

    pitfall: str
    by_deployment: dict[str, Finding]

    @property
    def worst(self) -> Finding:
        """The finding of the deployment that is worst off (the first of equals)."""
        return worst(self.by_deployment.values())

    @property
    def outcome(self) -> Outcome:
        """The outcome of the worst deployment."""
        return self.worst.outcome


def worst(findings: Iterable[Finding]) -> Finding:
    """The finding with the worst outcome, the first of equals."""
    return max(findings, key=lambda finding: finding.outcome.badness)


def decide(results: Iterable[PitfallResult], required: frozenset[str]) -> Verdict:
    """GO, NO-GO or HOLD.

    Any FAIL is NO-GO. GO needs every required pitfall to be PASS, N/A or WAIVED. All else is HOLD.
    """
    results = list(results)
    if any(result.outcome is Outcome.FAIL for result in results):
        return Verdict.NO_GO
    judged = {result.pitfall: result.outcome for result in results}
    shut = {Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.WAIVED}
    if all(judged.get(pitfall) in shut for pitfall in required):
        return Verdict.GO
    return Verdict.HOLD
