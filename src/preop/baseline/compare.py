"""What is new since the baseline, what is gone, and what was changed.

A finding is the baseline's own where the same pitfall of the same deployment (by its name and its file) was
as bad there. Of two that fail, both must say the same: another number is another finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from preop.deployment.types import Deployment
from preop.facts import Fact
from preop.findings import Finding, Outcome, PitfallResult
from preop.report.types import Baseline, Change, Resolved

__all__ = ["Base", "compare"]

Key = tuple[str, str]


@dataclass(frozen=True)
class Base:
    """An earlier state: its deployments, and what was found of them."""

    name: str
    kind: Literal["git", "run"]
    detail: str
    deployments: Sequence[Deployment]
    results: Sequence[PitfallResult]


def compare(
    results: Sequence[PitfallResult], deployments: Sequence[Deployment], base: Base
) -> tuple[list[PitfallResult], Baseline]:
    """The results, each finding marked as the baseline's own or new; and what became of the rest."""
    here = {_key(deployment): deployment for deployment in deployments}
    there = {_key(deployment): deployment for deployment in base.deployments}
    then = {result.pitfall: result.by_deployment for result in base.results}
    names = {deployment.name: _key(deployment) for deployment in deployments}
    marked = []
    resolved: list[Resolved] = []
    for result in results:
        before = then.get(result.pitfall, {})
        findings = {}
        for name, finding in result.by_deployment.items():
            earlier = there.get(names[name])
            was = before.get(earlier.name) if earlier is not None else None
            is_known = was is not None and _covers(was, finding)
            findings[name] = msgspec.structs.replace(finding, in_baseline=is_known)
        marked.append(msgspec.structs.replace(result, by_deployment=findings))
        resolved += _resolved(result, before, there, here)
    changes = [*_deployments(there, here), *_facts(there, here)]
    return marked, Baseline(base.name, base.kind, base.detail, tuple(changes), tuple(resolved))


def _key(deployment: Deployment) -> Key:
    return deployment.source, deployment.own_name or deployment.name


def _open(finding: Finding) -> Outcome:
    """What it would be without a waiver."""
    return finding.waived or finding.outcome


def _covers(was: Finding, now: Finding) -> bool:
    if _open(now) is Outcome.FAIL:
        return _open(was) is Outcome.FAIL and was.summary.en == now.summary.en
    return _open(was).badness >= _open(now).badness


def _resolved(
    result: PitfallResult,
    before: Mapping[str, Finding],
    there: Mapping[Key, Deployment],
    here: Mapping[Key, Deployment],
) -> list[Resolved]:
    """Fails of the baseline that are none any more."""
    found = []
    for key, deployment in there.items():
        was = before.get(deployment.name)
        if was is None or _open(was) is not Outcome.FAIL:
            continue
        now = result.by_deployment.get(here[key].name) if key in here else None
        if now is None or _open(now) is not Outcome.FAIL:
            found.append(Resolved(result.pitfall, deployment.name, was.summary))
    return found


def _deployments(there: Mapping[Key, Deployment], here: Mapping[Key, Deployment]) -> list[Change]:
    gone = [Change(there[key].name, None, there[key].fact("model"), None) for key in there if key not in here]
    new = [Change(here[key].name, None, None, here[key].fact("model")) for key in here if key not in there]
    return gone + new


def _facts(there: Mapping[Key, Deployment], here: Mapping[Key, Deployment]) -> list[Change]:
    """The facts that somebody set, where they were set otherwise."""
    changes = []
    for key, deployment in here.items():
        if key not in there:
            continue
        before, after = _set(there[key]), _set(deployment)
        for name in sorted(before.keys() | after.keys()):
            one, other = before.get(name), after.get(name)
            if one is None or other is None or one.value != other.value:
                changes.append(Change(deployment.name, name, one, other))
    return changes


def _set(deployment: Deployment) -> dict[str, Fact]:
    return {name: fact for name, fact in deployment.facts.items() if fact.set_by == "user"}
