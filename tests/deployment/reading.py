"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment


def read_command(*argv: str, **options: Any) -> Deployment:
    """The deployment of the command after `--`."""
    (deployment,) = read_targets([], argv, ReadOptions(**options))
    return deployment


def read_file(path: Path, **options: Any) -> list[Deployment]:
    """The deployments of one file."""
    return read_targets([str(path)], None, ReadOptions(**options))


def read_compose(folder: Path, text: str, **options: Any) -> list[Deployment]:
    """The deployments of a compose file with that text."""
    path = folder / "compose.yml"
    path.write_text(text, encoding="utf-8")
    return read_file(path, **options)


def set_facts(deployment: Deployment, names: Sequence[str]) -> dict[str, Any]:
    """Values of those facts that the user set; None where the user did not."""
    facts = {name: deployment.fact(name) for name in names}
    return {name: fact.value if fact.set_by == "user" else None for name, fact in facts.items()}


def said(deployment: Deployment) -> str:
    """All notes in one text."""
    return "\n".join(note.message for note in deployment.notes)
