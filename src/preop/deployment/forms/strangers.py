"""Containers that start no engine that preop knows, and yet have to be spoken of."""

from __future__ import annotations

import re

from preop.deployment.command import Found
from preop.facts import Note

__all__ = ["stranger"]


def stranger(what: str, found: Found) -> tuple[Note, ...]:
    """One that may be an engine, and no command says so; and one that takes a GPU for something preop does
    not know. Those that only watch the GPU do not count. `what` names it: `service chat`."""
    from preop.engines.images import engine_by_name
    from preop.engines.tables import label

    image = found.image.head if found.image else ""
    engine = engine_by_name(image)
    if engine is not None and (not found.tokens or found.tokens[0].head.startswith("-")):
        text = f"{what} is not judged: its image may be one of {label(engine)}, and no command says so"
        return (Note("other", text),)
    if found.gpus is None or re.search(r"exporter|dcgm|nvitop|nvidia-smi", image):
        return ()
    text = f"{what} takes a GPU too, and preop does not know what it runs"
    return (Note("other-tenant", text, str(found.gpus.origin) if found.gpus.origin else None),)
