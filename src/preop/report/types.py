"""What a finished check hands over to be shown."""

from __future__ import annotations

from typing import Literal

import msgspec

from preop.deployment.types import Deployment
from preop.evidence import Record, Strength
from preop.facts import Fact
from preop.findings import Finding, Outcome, PitfallResult, Verdict
from preop.gates import GATES
from preop.text import Text
from preop.thresholds import Thresholds

__all__ = ["About", "Baseline", "Change", "Report", "Resolved"]


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


class Change(msgspec.Struct, frozen=True):
    """One fact that somebody set otherwise than in the baseline, or a whole deployment that came or went."""

    deployment: str
    fact: str | None
    """Null: the deployment itself."""
    before: Fact | None
    """Null: it was not set, or not there."""
    after: Fact | None


class Resolved(msgspec.Struct, frozen=True):
    """A finding of the baseline that is no more."""

    pitfall: str
    deployment: str
    summary: Text


class Baseline(msgspec.Struct, frozen=True):
    """What the check is held against: findings that it has as well are not new."""

    name: str
    """As it was asked for: `origin/main`, or a run."""
    kind: Literal["git", "run"]
    detail: str
    """The commit, or the run's time."""
    changes: tuple[Change, ...] = ()
    resolved: tuple[Resolved, ...] = ()


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
    baseline: Baseline | None = None
    """None: the check stands for itself."""
    remarks: tuple[Text, ...] = ()
    """What a reader must know that belongs to no pitfall: a waiver that expires soon."""

    def __post_init__(self) -> None:
        if [result.pitfall for result in self.results] != list(self.about):
            raise ValueError(f"a report needs all of {', '.join(self.about)}, in order")
        if not all(result.by_deployment for result in self.results):
            raise ValueError("each pitfall needs a finding for at least one deployment")

    @property
    def worst_first(self) -> tuple[PitfallResult, ...]:
        """The results: what the gate asks for or what fails, then the rest; in each what blocks first, then
        by badness, and by number among equals."""

        def rank(result: PitfallResult) -> tuple[bool, bool, int, bool, str]:
            optional, beside = result.pitfall not in self.required, not self._in_the_way(result)
            return self.is_aside(result), beside, -result.outcome.badness, optional, result.pitfall

        return tuple(sorted(self.results, key=rank))

    @property
    def not_required(self) -> list[str]:
        """The pitfalls that the gate does not ask for, in order."""
        return [pitfall for pitfall in self.about if pitfall not in self.required]

    @property
    def occasion(self) -> Text | None:
        """What the gate is for; None for a gate that this version does not know."""
        gate = GATES.get(self.gate)
        return gate.title if gate else None

    def is_enough(self, pitfall: str, finding: Finding) -> bool:
        """Whether it is not proven, and shut well enough for this gate all the same."""
        shut = finding.is_shut(self._least(pitfall))
        return finding.outcome is Outcome.UNPROVEN and pitfall in self.required and shut

    def blocks(self, pitfall: str, finding: Finding) -> bool:
        """Whether this finding keeps the verdict from GO, as `findings.decide` decides it."""
        if finding.in_baseline:
            return False
        if finding.outcome is Outcome.FAIL:
            return True
        return pitfall in self.required and not finding.is_shut(self._least(pitfall))

    def is_aside(self, result: PitfallResult) -> bool:
        """Whether the gate does not ask for it, and it blocks nothing."""
        return result.pitfall not in self.required and not self._in_the_way(result)

    def _in_the_way(self, result: PitfallResult) -> bool:
        return any(self.blocks(result.pitfall, each) for each in result.by_deployment.values())

    def _least(self, pitfall: str) -> Strength | None:
        gate = GATES.get(self.gate)
        return gate.required.get(pitfall) if gate else None

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
