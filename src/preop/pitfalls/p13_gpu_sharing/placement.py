"""Which GPUs a deployment uses, as far as its files say."""

from __future__ import annotations

from dataclasses import dataclass

from preop.deployment.types import Deployment
from preop.pitfalls.readings import whole

__all__ = ["ALL", "Placement", "kinds", "placement"]

ALL = frozenset({"*"})
"""Stands for every GPU of the machine."""

_USES_ALL_VISIBLE = ("llama.cpp",)


@dataclass(frozen=True)
class Placement:
    """`visible`: device ids that the deployment may use, `ALL`, or None where the files do not say.

    `certain`: names of GPUs that it surely uses. An engine that uses fewer GPUs than it sees takes the
    first ones: those have the same name in two deployments that see the same devices, whatever they are.
    """

    visible: frozenset[str] | None
    certain: frozenset[str] = frozenset()
    exact: bool = False
    """`certain` is all that it uses."""

    @property
    def named(self) -> bool:
        """The devices are named one by one."""
        return self.visible is not None and self.visible != ALL

    def may_meet(self, other: Placement) -> bool:
        """False only where both name their devices, in the same way, and none is common."""
        if self.visible is None or other.visible is None or ALL in (self.visible, other.visible):
            return True
        if kinds(self) != kinds(other):
            return True
        return not self.visible.isdisjoint(other.visible)

    def surely_meets(self, other: Placement) -> bool:
        """Some GPU is surely used by both."""
        return not self.certain.isdisjoint(other.certain)


def kinds(where: Placement) -> frozenset[str]:
    """How its devices are named: by index, by the UUID of a GPU, by MIG instance."""
    return frozenset(_kind(device) for device in where.visible or ())


def placement(deployment: Deployment) -> Placement:
    """Where `deployment` runs: from `gpu_ids`, `gpu_count` ("all") and the parallel sizes."""
    visible = _visible(deployment)
    if visible is None:
        return Placement(None)
    needed, exact = _needed(deployment)
    takes_all = deployment.engine in _USES_ALL_VISIBLE
    if visible == ALL:
        return Placement(visible, _first(needed, "all"), exact and not takes_all)
    if takes_all or needed >= len(visible):
        return Placement(visible, frozenset(f"GPU {device}" for device in visible), True)
    return Placement(visible, _first(needed, ",".join(sorted(visible))), exact)


def _first(needed: int, of: str) -> frozenset[str]:
    """The first `needed` GPUs of those that are seen."""
    return frozenset(f"GPU #{n + 1} of {of}" for n in range(min(needed, 64)))


def _visible(deployment: Deployment) -> frozenset[str] | None:
    ids = deployment.fact("gpu_ids").value
    if isinstance(ids, str):
        ids = [part.strip() for part in ids.split(",")]
    if isinstance(ids, list | tuple) and ids:
        names = frozenset(str(device) for device in ids)
        return ALL if names == {"all"} else names
    if deployment.fact("gpu_count").value in ("all", -1):
        return ALL
    return None


def _needed(deployment: Deployment) -> tuple[int, bool]:
    """GPUs that the engine uses at least, and whether these are all (an unknown size is 1 or more)."""
    total, exact = 1, True
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
        size = whole(deployment.fact(name))
        total *= size or 1
        exact = exact and size is not None
    return total, exact


def _kind(device: str) -> str:
    """An index, a GPU's UUID, or a MIG instance: two names of different kinds may mean the same device."""
    return "index" if device.isdigit() else device.split("-", 1)[0].lower()
