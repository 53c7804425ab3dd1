"""A declared value that the running engine denies is a finding by itself, whatever a judge says."""

from __future__ import annotations

from functools import cache

import msgspec

from preop.deployment.types import Contradiction
from preop.evidence import Strength
from preop.facts import Fact
from preop.findings import Finding, Item, Outcome
from preop.pitfalls.clip import clip
from preop.pitfalls.types import Case, Pitfall
from preop.text import Text

__all__ = ["apply", "owner"]

_KEEPER = "P12"
"""Takes what no pitfall owns: the stack that runs is not the declared one."""


def apply(pitfall: Pitfall, case: Case, finding: Finding) -> Finding:
    """`finding`, made FAIL where a fact of this pitfall is contradicted by the running engine.

    A finding that is FAIL already keeps its own words and gets the contradiction as further evidence.
    """
    own = [c for c in case.deployment.contradictions if owner(c.name) == pitfall.id]
    if not own:
        return finding
    evidence = tuple(part for contradiction in own for part in _items(contradiction))
    if finding.outcome is Outcome.FAIL:
        remedy = finding.remedy or _remedy(own)
        return msgspec.structs.replace(
            finding,
            evidence=(*finding.evidence, *evidence),
            remedy=Text(f"{remedy.en}; {_remedy(own).en}", f"{remedy.zh}；{_remedy(own).zh}"),
        )
    first, rest = own[0], len(own) - 1
    declared, running = clip(first.declared.value), clip(first.running.value)
    more = f" (+{rest})" if rest else ""
    return Finding(
        outcome=Outcome.FAIL,
        summary=Text(
            f"{first.name}: declared {declared}, the engine runs {running}{more}",
            f"{first.name}：声明为 {declared}，引擎实际为 {running}{more}",
        ),
        strength=Strength.MEASURED,
        evidence=(*evidence, *finding.evidence),
        needs=finding.needs,
        remedy=_remedy(own),
        where=_where(first.declared),
    )


@cache
def owner(fact: str) -> str:
    """Id of the pitfall that a contradicted fact fails: the one that lists it, else P12."""
    from preop.pitfalls import all_pitfalls

    return next((pitfall.id for pitfall in all_pitfalls() if fact in pitfall.facts), _KEEPER)


def _items(contradiction: Contradiction) -> tuple[Item, Item]:
    name = contradiction.name
    return (
        _item(f"{name}, declared", contradiction.declared),
        _item(f"{name}, running", contradiction.running),
    )


def _item(name: str, fact: Fact) -> Item:
    return Item(name=name, value=fact.value, unit=fact.unit, source=fact.source)


def _remedy(contradictions: list[Contradiction]) -> Text:
    names = ", ".join(contradiction.name for contradiction in contradictions)
    places = ", ".join(dict.fromkeys(c.declared.source for c in contradictions))
    return Text(
        f"bring {names} in line: restart the engine with what {places} declares, or declare what runs",
        f"让 {names} 一致：按 {places} 的声明重启引擎，或把声明改成实际运行的值",
    )


def _where(fact: Fact) -> str | None:
    return fact.origin.where if fact.origin is not None and fact.origin.kind == "file" else None
