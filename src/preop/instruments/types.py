"""What an instrument is: it measures one thing of one deployment and returns a typed payload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from preop.deployment.types import Deployment
from preop.evidence import Payload
from preop.inputs import Inputs
from preop.text import Text

__all__ = ["MOST_CONCURRENT", "Access", "Instrument", "Job", "Progress"]

MOST_CONCURRENT = 10_000
"""Requests in flight at once that one client process is asked for, at the most."""

Progress = Callable[[str], None]
"""Takes one short line that says how far an instrument is. It replaces the line before."""


@dataclass(frozen=True)
class Access:
    """How to reach an endpoint. The key is never shown, logged or stored."""

    url: str
    """Base URL without `/v1`, e.g. http://127.0.0.1:8000."""
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    verify_tls: bool | str = True
    """False, or a CA bundle's path."""


@dataclass(frozen=True)
class Job:
    """What an instrument is given to work on."""

    deployment: Deployment
    access: Access | None
    inputs: Inputs = field(default_factory=Inputs)
    progress: Progress = lambda line: None
    partial: Callable[[Payload], None] = lambda payload: None
    """Takes what has been measured so far, each time it is more."""
    options: dict[str, object] = field(default_factory=dict)
    """The instrument's own options (`concurrency`, `requests`, ...), by the names of its flags."""


@dataclass(frozen=True)
class Instrument:
    """One measurement. Independent instruments run side by side; those that put load on an engine run
    alone, one after another, so that they do not measure each other."""

    name: str
    puts_load: bool
    run: Callable[[Job], Payload]
    """Raises `InstrumentError` with one sentence when it cannot measure."""
    missing: Callable[[Job], Text | None]
    """What must be given before it can run (a flag, a file), or None when it can."""
    depends_on: tuple[str, ...]
    """The facts that its evidence belongs to: the fingerprint is made of them."""
    reads: tuple[str, ...] = ()
    """The inputs whose content it belongs to, by the names of `Inputs`."""
    at_endpoint: bool = False
    """It belongs to the way to the engine as well: a proxy in between has a say."""
