"""Which deployment of the baseline each one of a check was: by its file and name, or, where that is gone, by
what tells it apart although it was renamed or moved."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from preop.deployment.types import Deployment
from preop.report.places import file_of

__all__ = ["Key", "keyed", "pairs"]

Key = tuple[str, str, int]
"""File as seen from the current folder, the name in it, and which of that name it is there."""


def keyed(deployments: Sequence[Deployment]) -> dict[Key, Deployment]:
    """Each by its file, however the path to it was written, and its name there."""
    found: dict[Key, Deployment] = {}
    for each in deployments:
        file, name, number = _file(each), _name(each), 1
        while (file, name, number) in found:
            number += 1
        found[file, name, number] = each
    return found


def pairs(here: Mapping[Key, Deployment], there: Mapping[Key, Deployment]) -> dict[Key, Key]:
    """The key in `there` of each of `here` that was there already.

    What is gone is the same as what is new only where both are the one candidate of their kind: the same
    flags, else the same name in a file of the same name, else the same model in the same file, else the same
    name alone.
    """
    found = {at: at for at in here if at in there}
    for trait in _TRAITS:
        taken = set(found.values())
        new = {at: each for at, each in here.items() if at not in found}
        gone = {at: each for at, each in there.items() if at not in taken}
        found.update(_alone(new, gone, trait))
    return found


def _alone(
    new: Mapping[Key, Deployment], gone: Mapping[Key, Deployment], trait: Callable[[Deployment], Hashable]
) -> Iterator[tuple[Key, Key]]:
    """Each new one and each gone one that are alone on their side with a trait."""
    sides: list[dict[Hashable, list[Key]]] = [{}, {}]
    for side, deployments in zip(sides, (new, gone), strict=True):
        for at, each in deployments.items():
            side.setdefault((each.engine, trait(each)), []).append(at)
    for kind, now in sides[0].items():
        was = sides[1].get(kind, [])
        if len(now) == len(was) == 1:
            yield now[0], was[0]


def _flags(deployment: Deployment) -> Hashable:
    told = {name: fact.value for name, fact in deployment.facts.items() if fact.set_by == "user"}
    return repr(sorted(told.items()))


def _name(deployment: Deployment) -> str:
    return deployment.own_name or deployment.name


def _file(deployment: Deployment) -> str:
    file = file_of(deployment.source)
    if file is None:
        return deployment.source
    try:  # a run may have been given the path in full, and a commit never is
        return os.path.relpath(os.path.realpath(file), os.path.realpath(os.curdir))
    except (OSError, ValueError):  # a NUL: only a name then
        return file


_TRAITS: tuple[Callable[[Deployment], Hashable], ...] = (
    lambda each: (_name(each), _flags(each)),
    _flags,
    lambda each: (_name(each), os.path.basename(_file(each))),  # noqa: PTH119 a text, no path of this machine
    lambda each: (_file(each), repr(each.fact("model").value)),
    _name,
)
