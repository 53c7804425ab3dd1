"""When load on an engine that others use ends by itself: `[measure.limits]` in preop.toml."""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = ["LoadLimits"]

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class LoadLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of the kill switch (`watch`)."""

    errors: Share = 0.5
    """Share of the last 20 requests that may fail."""
    others: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1
    """Requests of others that may run or wait in an engine whose queue is not empty. A queue of our own hurts
    nobody: how long it gets is what is measured."""
    kv_usage: Share = 1.0
    """Share of the KV cache that may be in use while others are served."""
    preemptions: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 1.0
    """Requests a second that the engine may preempt while others are served: each is computed anew. preop's
    own choice, as all of these: an engine that is large enough preempts none."""
    seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 1.5
    """How long others may be hurt."""
