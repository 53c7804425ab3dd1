"""What a finished check hands over to be shown."""

from __future__ import annotations

import msgspec

from preop.deployment.types import Deployment
from preop.evidence import Record
from preop.findings import Outcome, PitfallResult, Verdict
from preop.text import Text
from preop.thresholds import Thresholds

__all__ = ["Report"]


class About(msgspec.Struct, frozen=True):
    """What a report must know of a pitfall besides how it was judged."""

    label: Text
    """Its subject in a word or two."""
    title: Text
    """What goes wrong, as a heading."""
    group: str
    """Its group in the checklist, a key of `words.GROUPS`."""
    item: Text
    """The box to tick in the checklist."""
    reads: tuple[str, ...] = ()
    """The instruments whose evidence it reads, so that the age of that can be shown."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One finished check.

    `results` holds every pitfall of `about`, in order, each judged for at least one deployment (ValueError
    otherwise: a report that left one out would pass it by absence).
    """

    preop_version: str
    verdict: Verdict
    gate: str
    required: frozenset[str]
    """Pitfalls that the gate asks for."""
    deployments: tuple[Deployment, ...]
    results: tuple[PitfallResult, ...]
    about: dict[str, About]
    """Every pitfall there is, by id and in order."""
    records: tuple[Record, ...] = ()
    """All valid evidence, newest last."""
    started_at: str
    """UTC, ISO 8601."""
    took_s: float
    run_path: str | None = None
    """The run's folder; None when nothing was kept."""
    thresholds: Thresholds = msgspec.field(default_factory=Thresholds)

    def __post_init__(self) -> None:
        if [result.pitfall for result in self.results] != list(self.about):
            raise ValueError(f"a report needs all of {', '.join(self.about)}, in order")
        if not all(result.by_deployment for result in self.results):
            raise ValueError("each pitfall needs a finding for at least one deployment")

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
        instruments = self.about[pitfall].reads
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
