"""What a pitfall is made of, and what its judge is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from preop.deployment.types import Deployment
from preop.evidence import Payload, Record, Strength
from preop.facts import Fact
from preop.findings import Finding
from preop.inputs import Inputs
from preop.text import Text
from preop.thresholds import Thresholds

__all__ = ["Case", "Pitfall"]

P = TypeVar("P", bound=Payload)


@dataclass(frozen=True)
class Case:
    """All that a judge may look at: one deployment, those beside it, the evidence, the thresholds."""

    deployment: Deployment
    siblings: Sequence[Deployment] = ()
    """All deployments of this check, this one included."""
    records: Sequence[Record] = ()
    """Valid evidence about this deployment, newest last."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    inputs: Inputs = field(default_factory=Inputs)
    """What the user handed over besides the deployment; paths, never read by a judge."""

    def fact(self, name: str) -> Fact:
        """A fact of the deployment by its canonical name; unknown where nothing states it."""
        return self.deployment.fact(name)

    def record(self, instrument: str) -> Record | None:
        """The newest record of that instrument, failed ones included."""
        return next((r for r in reversed(self.records) if r.instrument == instrument), None)

    def payload(self, kind: type[P]) -> P | None:
        """The newest payload of that type."""
        return next((r.payload for r in reversed(self.records) if isinstance(r.payload, kind)), None)


@dataclass(frozen=True)
class Pitfall:
    """One of the fifteen: its folder holds this definition, its judge and its two pages.

    `judge` is pure: no I/O, no clock, the same case gives the same finding. It may not say PASS on
    evidence weaker than `least`. `needs` names the instruments whose evidence it reads. `facts` names
    the facts that belong to it: one that the running engine contradicts fails this pitfall.
    """

    id: str
    slug: str
    label: Text
    """Its subject in a word or two, for a narrow column."""
    title: Text
    """What goes wrong, as a heading."""
    group: Literal["quantization", "scheduling", "operations", "design"]
    item: Text
    """The box to tick in the checklist: what is true when the pitfall is shut."""
    least: Strength
    judge: Callable[[Case], Finding]
    needs: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
