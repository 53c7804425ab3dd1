"""Findings and the verdict: what the judges say, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from preop.evidence import Strength
from preop.gates import Gate
from preop.text import Text

__all__ = ["Finding", "Item", "Outcome", "PitfallResult", "Verdict", "Waiver", "decide", "worst"]


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


class Waiver(msgspec.Struct, frozen=True):
    """A person's acceptance of one pitfall until a day."""

    owner: str
    reason: str
    expires: str
    """The last day on which it counts, ISO 8601: 2026-12-31."""
    where: str
    """Its place in the waivers' file."""


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
    holds: Strength | None = None
    """Of an UNPROVEN pitfall: the strength at which it is shut all the same. `declared`: the files are in
    order, and what is missing is a measurement."""
    waiver: Waiver | None = None
    """Of a WAIVED pitfall: who accepted it, and until when."""
    waived: Outcome | None = None
    """Of a WAIVED pitfall: what it would be without the waiver."""
    in_baseline: bool | None = None
    """Whether the baseline has the same finding; None where there is no baseline."""

    def is_shut(self, least: Strength | None) -> bool:
        """Whether it stands in nobody's way: shut, waived, or shut at `least`, the strength that a gate is
        content with (None: the pitfall's own)."""
        if self.outcome in (Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.WAIVED):
            return True
        return (
            self.outcome is Outcome.UNPROVEN
            and least is not None
            and self.holds is not None
            and self.holds.rank >= least.rank
        )


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
    """The finding with the worst outcome; of equals what is new since the baseline, then the first."""
    return max(findings, key=lambda finding: (finding.outcome.badness, finding.in_baseline is not True))


def decide(results: Iterable[PitfallResult], gate: Gate) -> Verdict:
    """GO, NO-GO or HOLD.

    Any FAIL is NO-GO, required or not. GO needs every required pitfall to be shut for every deployment. All
    else is HOLD. What the baseline has as well stands in nobody's way.
    """
    results = list(results)
    findings = [
        (result.pitfall, finding)
        for result in results
        for finding in result.by_deployment.values()
        if not finding.in_baseline
    ]
    if any(finding.outcome is Outcome.FAIL for _, finding in findings):
        return Verdict.NO_GO
    is_open = any(
        pitfall in gate.required and not finding.is_shut(gate.required[pitfall])
        for pitfall, finding in findings
    )
    all_judged = gate.required.keys() <= {result.pitfall for result in results if result.by_deployment}
    return Verdict.GO if all_judged and not is_open else Verdict.HOLD
