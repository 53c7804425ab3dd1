"""What will run: launches as readers find them, deployments as judges see them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preop.facts import Fact, Note, Origin, Word, unknown
from preop.models.types import Model

__all__ = ["Contradiction", "Deployment", "GpuRequest", "Launch", "MountedText"]


class GpuRequest(msgspec.Struct, frozen=True):
    """The accelerators that a launch asks its platform for."""

    vendor: Literal["nvidia", "amd", "intel", "google", "habana", "apple", "none", "unknown"]
    count: int | None = None
    """None: all of the machine's, or not stated."""
    ids: tuple[str, ...] | None = None
    """Device ids where they are named; None: not named."""
    origin: Origin | None = None


class MountedText(msgspec.Struct, frozen=True):
    """A text of the user's files that a container sees as a file of its own."""

    text: str
    file: str
    """The file that holds it."""
    line: int = 1
    column: int = 1
    """Where it begins there."""


class Launch(msgspec.Struct, frozen=True):
    """A command that starts an engine, as one reader found it, before any engine knowledge is applied."""

    name: str
    source: str
    """File name, `command line`, or URL."""
    words: tuple[Word, ...]
    environment: dict[str, Word] = {}
    image: Word | None = None
    gpus: GpuRequest | None = None
    hidden: tuple[str, ...] = ()
    """Reasons why flags or environment may exist that cannot be seen (an env_file that is not there)."""
    hidden_environment: tuple[str, ...] = ()
    """Reasons why environment variables, and no flags, may exist that cannot be seen."""
    texts: dict[str, MountedText] = {}
    """Texts that the engine's container sees as files, by their path inside."""
    mounts: dict[str, str] = {}
    """Folders and files of this machine that the engine's container sees, by their path inside."""
    facts: dict[str, Fact] = {}
    """What the form states besides the command, by canonical name: role, replicas, gpu_allocation."""


class Contradiction(msgspec.Struct, frozen=True):
    """A declared value that the running engine denies."""

    name: str
    declared: Fact
    running: Fact


class Deployment(msgspec.Struct, frozen=True):
    """One engine process to be judged. `facts` uses the canonical names of `preop.engines.vocabulary`."""

    name: str
    engine: str
    """vllm, sglang, llama.cpp, tgi, ... or "unknown"."""
    source: str
    facts: dict[str, Fact]
    model: Model | None = None
    notes: tuple[Note, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    endpoint: str | None = None
    own_name: str = ""
    """Its name in its own file: the same whatever else is checked beside it."""
    flags: dict[str, Any] = {}
    """All flags of its command as they were given, by their long names, and its environment by name; also
    those that are no fact."""
    unseen_flags: tuple[str, ...] = ()
    """The names of flags and variables that are given a value which cannot be seen."""

    def fact(self, name: str) -> Fact:
        """The fact of that name; unknown where nothing states it."""
        return self.facts.get(name) or unknown("not stated")
