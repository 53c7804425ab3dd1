"""What a finished check hands over to be shown."""

from __future__ import annotations

import msgspec

from preop.deployment.types import Deployment
from preop.evidence import Record
from preop.findings import Outcome, PitfallResult, Verdict
from preop.text import Text
from preop.thresholds import Thresholds

__all__ = ["Report"]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One finished check.

    `results` holds the fifteen pitfalls, P01 to P15 in order, each judged for at least one deployment
    (ValueError otherwise: a report that left one out would pass it by absence). `titles` names each.
    `reads` names the instruments whose evidence each pitfall reads, so that its age can be shown.
    """

    preop_version: str
    verdict: Verdict
    gate: str
    required: frozenset[str]
    """Pitfalls that the gate asks for."""
    deployments: tuple[Deployment, ...]
    results: tuple[PitfallResult, ...]
    titles: dict[str, Text]
    """What goes wrong in each, as a heading."""
    labels: dict[str, Text] = {}
    """Each one's subject in a word or two, for the narrow column of the terminal; its title where missing."""
    reads: dict[str, tuple[str, ...]] = {}
    records: tuple[Record, ...] = ()
    """All valid evidence, newest last."""
    started_at: str
    """UTC, ISO 8601."""
    took_s: float
    run_path: str | None = None
    """The run's folder; None when nothing was kept."""
    thresholds: Thresholds = msgspec.field(default_factory=Thresholds)

    def __post_init__(self) -> None:
        expected = [f"P{number:02d}" for number in range(1, 16)]
        if [result.pitfall for result in self.results] != expected:
            raise ValueError("a report needs the fifteen pitfalls, P01 to P15, in order")
        if not all(result.by_deployment for result in self.results):
            raise ValueError("each pitfall needs a finding for at least one deployment")
        missing = [pitfall for pitfall in expected if pitfall not in self.titles]
        if missing:
            raise ValueError(f"no title for {', '.join(missing)}")

    @property
    def worst_first(self) -> tuple[PitfallResult, ...]:
        """The results by badness, and by number among equals; what is required stands before what is not."""

        def rank(result: PitfallResult) -> tuple[int, bool, str]:
            return -result.outcome.badness, result.pitfall not in self.required, result.pitfall

        return tuple(sorted(self.results, key=rank))

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many pitfalls have each outcome, worst first, zeros left out."""
        outcomes = [result.outcome for result in self.results]
        return {
            outcome: outcomes.count(outcome)
            for outcome in sorted(Outcome, key=lambda outcome: -outcome.badness)
            if outcome in outcomes
        }

    def evidence_for(self, pitfall: str, deployment: str) -> Record | None:
        """The newest record with a payload that this pitfall reads of this deployment."""
        instruments = self.reads.get(pitfall, ())
        return next(
            (
                record
                for record in reversed(self.records)
                if record.instrument in instruments
                and record.deployment == deployment
                and record.payload is not None
            ),
            None,
        )
