"""What is new since the baseline, what is gone, and what was changed.

A finding is new where its outcome got worse: the same pitfall of the same deployment was not as bad in the
baseline. Of two that fail, a measured one is the same failure (numbers of two measurements always differ);
one from files is the same where it says the same or rests on the same values, whatever its wording, language
or line. What was renamed or moved is still the same deployment (`baseline.pairs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from preop.baseline.pairs import Key, keyed, pairs
from preop.deployment.types import Deployment
from preop.evidence import Strength
from preop.facts import Fact, Origin, known
from preop.findings import Finding, Outcome, PitfallResult
from preop.report.types import Baseline, Change, Resolved

__all__ = ["Base", "compare"]


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
    here, before_them = keyed(deployments), keyed(base.deployments)
    became = {was: now for now, was in pairs(here, before_them).items()}
    was_called = {now: was for was, now in became.items()}
    there = {became.get(at, at): each for at, each in before_them.items()}
    then = {result.pitfall: result.by_deployment for result in base.results}
    names = {deployment.name: at for at, deployment in here.items()}
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
    changes = [*_deployments(there, here), *_renamed(was_called, here), *_facts(there, here)]
    return marked, Baseline(base.name, base.kind, base.detail, tuple(changes), tuple(resolved))


def _open(finding: Finding) -> Outcome:
    """What it would be without a waiver."""
    return finding.waived or finding.outcome


def _covers(was: Finding, now: Finding) -> bool:
    if _open(now) is not Outcome.FAIL:
        return _open(was).badness >= _open(now).badness
    if _open(was) is not Outcome.FAIL:
        return False
    if was.strength is Strength.MEASURED and now.strength is Strength.MEASURED:
        return True
    says_the_same = was.summary.en == now.summary.en or was.summary.zh == now.summary.zh
    return says_the_same or (bool(now.evidence) and _values(was) == _values(now))


def _values(finding: Finding) -> list[str]:
    """What it rests on, without where each was read."""
    items = ((each.name, each.value, each.unit) for each in finding.evidence)
    return sorted(repr(msgspec.to_builtins(each, enc_hook=str, str_keys=True)) for each in items)


def _resolved(
    result: PitfallResult,
    before: Mapping[str, Finding],
    there: Mapping[Key, Deployment],
    here: Mapping[Key, Deployment],
) -> list[Resolved]:
    """Fails of the baseline that are none any more."""
    found = []
    for at, deployment in there.items():
        was = before.get(deployment.name)
        if was is None or _open(was) is not Outcome.FAIL:
            continue
        now = result.by_deployment.get(here[at].name) if at in here else None
        if now is None or _open(now) is not Outcome.FAIL:
            found.append(Resolved(result.pitfall, deployment.name, was.summary))
    return found


def _deployments(there: Mapping[Key, Deployment], here: Mapping[Key, Deployment]) -> list[Change]:
    gone = [Change(there[at].name, None, there[at].fact("model"), None) for at in there if at not in here]
    new = [Change(here[at].name, None, None, here[at].fact("model")) for at in here if at not in there]
    return gone + new


def _renamed(was_called: Mapping[Key, Key], here: Mapping[Key, Deployment]) -> list[Change]:
    return [
        Change(here[at].name, name, *(known(each, "user", Origin("file", each)) for each in (then, now)))
        for at, was in was_called.items()
        for name, then, now in zip(("file", "name"), was[:2], at[:2], strict=True)
        if then != now
    ]


def _facts(there: Mapping[Key, Deployment], here: Mapping[Key, Deployment]) -> list[Change]:
    """The facts that somebody set, where they were set otherwise."""
    changes = []
    for at, deployment in here.items():
        if at not in there:
            continue
        before, after = _set(there[at]), _set(deployment)
        for name in sorted(before.keys() | after.keys()):
            one, other = before.get(name), after.get(name)
            if one is None or other is None or one.value != other.value:
                changes.append(Change(deployment.name, name, one, other))
    return changes


def _set(deployment: Deployment) -> dict[str, Fact]:
    return {name: fact for name, fact in deployment.facts.items() if fact.set_by == "user"}
