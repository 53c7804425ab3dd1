"""The few words that all judges share: a Finding of each outcome, and an Item out of a Fact."""

from __future__ import annotations

from collections.abc import Iterable

from preop.evidence import Strength
from preop.facts import Fact
from preop.findings import Finding, Item, Outcome
from preop.text import Text
from preop.thresholds import THRESHOLDS, Thresholds

__all__ = ["failed", "item", "not_applicable", "passed", "place", "threshold_item", "unproven"]


def item(name: str, fact: Fact) -> Item:
    """A fact as it is shown. An unknown one is shown as null, with the reason as its source."""
    return Item(name=name, value=fact.value, unit=fact.unit, source=fact.source)


def threshold_item(thresholds: Thresholds, key: str) -> Item:
    """A threshold as it is shown."""
    return Item(
        name=f"threshold {key}",
        value=thresholds[key],
        unit=THRESHOLDS[key].unit,
        source=thresholds.source(key),
    )


def place(*facts: Fact) -> str | None:
    """`file:line:column` of the first of `facts` that stands in the user's own file, if any does."""
    return next((f.origin.where for f in facts if f.origin is not None and f.origin.kind == "file"), None)


def passed(
    summary: Text, strength: Strength, *, evidence: Iterable[Item] = (), where: str | None = None
) -> Finding:
    """The pitfall is shut, by evidence of that strength."""
    return Finding(
        outcome=Outcome.PASS, summary=summary, strength=strength, evidence=tuple(evidence), where=where
    )


def failed(
    summary: Text,
    strength: Strength,
    *,
    remedy: Text,
    evidence: Iterable[Item],
    needs: Text | None = None,
    where: str | None = None,
) -> Finding:
    """The pitfall is open, and `remedy` shuts it."""
    return Finding(
        outcome=Outcome.FAIL,
        summary=summary,
        strength=strength,
        evidence=tuple(evidence),
        needs=needs,
        remedy=remedy,
        where=where,
    )


def unproven(
    summary: Text,
    *,
    needs: Text,
    strength: Strength | None = None,
    evidence: Iterable[Item] = (),
    remedy: Text | None = None,
    where: str | None = None,
    holds: Strength | None = None,
) -> Finding:
    """Nothing decides; `needs` is exactly what would. `strength` is that of what is shown, if any; `holds`
    that at which the pitfall is shut all the same."""
    return Finding(
        outcome=Outcome.UNPROVEN,
        summary=summary,
        strength=strength,
        evidence=tuple(evidence),
        needs=needs,
        remedy=remedy,
        where=where,
        holds=holds,
    )


def not_applicable(
    summary: Text, strength: Strength, *, evidence: Iterable[Item] = (), where: str | None = None
) -> Finding:
    """The pitfall cannot occur here, and the evidence for that is of that strength."""
    return Finding(
        outcome=Outcome.NOT_APPLICABLE,
        summary=summary,
        strength=strength,
        evidence=tuple(evidence),
        where=where,
    )
