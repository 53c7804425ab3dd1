"""What the readers of files share: a file, what it starts, and what a form is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from preop.deployment.options import ReadOptions
from preop.facts import Fact, Note

if TYPE_CHECKING:
    from preop.deployment.command import Found
    from preop.deployment.yaml_nodes import Map, Node

__all__ = ["Context", "File", "Form", "Reading", "Started"]

_REFERRED_TO = re.compile(
    r"^\s*(-\s+)?kind:\s*[\"']?(ConfigMap|Secret|(Cluster)?ServingRuntime|LLMInferenceServiceConfig|\w*List"
    r"|HorizontalPodAutoscaler|ScaledObject|ResourceClaim(Template)?)\b",
    re.MULTILINE,
)


@dataclass(frozen=True)
class File:
    """One text that may start engines: a file, or standard input."""

    name: str
    """As it is shown: the path as given, or `standard input`."""
    text: str
    path: Path | None = None
    """None: standard input."""

    @cached_property
    def may_be_referred_to(self) -> bool:
        """Whether it holds objects that others refer to."""
        return bool(_REFERRED_TO.search(self.text))

    @property
    def folder(self) -> Path | None:
        """Where its relative paths begin; None where that cannot be seen."""
        return self.path.parent if self.path is not None else None

    @cached_property
    def documents(self) -> tuple[Node, ...]:
        """Its YAML documents, empty ones left out. Raises `InputError` where it is no YAML."""
        from preop.deployment.yaml_nodes import load

        return tuple(load(self.text, self.name))

    @property
    def mappings(self) -> tuple[Map, ...]:
        """Those documents that are mappings. Raises `InputError` where it is no YAML."""
        from preop.deployment.yaml_nodes import Map

        return tuple(document for document in self.documents if isinstance(document, Map))


@dataclass(frozen=True, eq=False)
class Context:
    """What a reader may look at besides its own file."""

    options: ReadOptions
    files: Sequence[File] = ()
    """All files of this check, the reader's own included: a ConfigMap may stand in another one."""


@dataclass(frozen=True)
class Started:
    """One process or container that a file starts."""

    name: str
    """As the file names it; the deployment takes it unless the command has a name of its own."""
    source: str
    """For messages: `compose.yml: service chat`."""
    commands: Sequence[Found]
    """The commands that its shell runs; of these, one at most starts an engine."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """What the form itself states, by canonical name: role, replicas, gpu_allocation, lora_modules. A flag
    that the user set wins over it."""
    notes: tuple[Note, ...] = ()
    otherwise: tuple[Note, ...] = ()
    """Said of every deployment of the file, where this starts no engine that preop knows."""
    copies: int = 1
    """Engines of their own on the same GPUs of one machine: each is a deployment."""


@dataclass(frozen=True)
class Reading:
    """What a file starts."""

    started: Sequence[Started] = ()
    shared: Sequence[Note] = ()
    """Said of every deployment of the file."""
    once: Sequence[Note] = ()
    """Said of its first: what is parked, and why."""
    silent: str = ""
    """Why nothing is to be judged, where no engine starts: `it holds a Service and a ConfigMap`."""
    parts: Sequence[Path] = ()
    """Other files that it took in: no deployments of their own where they are given too."""
    bases: Sequence[Path] = ()
    """Other files that it took something from: no deployments of their own where a search met them."""
    unread: Sequence[str] = ()
    """What runs containers and is not judged: in a searched folder it keeps the verdict from GO."""


@dataclass(frozen=True)
class Form:
    """One way to write down what runs: its reader."""

    name: str
    """With its article: `a docker compose file`."""
    reads: Callable[[File], bool]
    """Whether the file is of this form, by its name or its text. Never raises."""
    read: Callable[[File, Context], Reading]
    """Raises `InputError` with one sentence (what, where, what was expected)."""
