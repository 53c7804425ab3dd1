"""What follows from one deployment is worked out once, however many others it is held against."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from preop.deployment.types import Deployment

__all__ = ["once"]

T = TypeVar("T")
_MOST = 20_000


def once(function: Callable[[Deployment], T]) -> Callable[[Deployment], T]:
    """`function`, which must be pure, with its answers kept by the deployment's identity."""
    kept: dict[int, tuple[Deployment, T]] = {}

    @wraps(function)
    def cached(deployment: Deployment) -> T:
        found = kept.get(id(deployment))
        if found is not None and found[0] is deployment:
            return found[1]
        if len(kept) >= _MOST:
            kept.clear()
        answer = function(deployment)
        kept[id(deployment)] = (deployment, answer)  # held, so that its identity is not given away
        return answer

    return cached
