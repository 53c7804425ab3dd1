"""Facts: a value, its unit, where it came from, and who set it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["Fact", "Note", "Origin", "SetBy", "Word", "known", "unknown"]

SetBy = Literal["user", "default", "engine", "model", "unknown"]
"""Who set a value: the user; the default of this engine version; reported by the running engine;
read from the model's own files; nobody that preop can see."""


class Origin(msgspec.Struct, frozen=True):
    """Where a value was read.

    `kind` says how to read `where`: file ("compose.yml:14:9", line and column from 1), argument
    ("argument 5, --max-model-len", counted from the engine's command), environment ("VLLM_USE_V1"),
    route ("GET /v1/models"), default ("vLLM 0.32.0 default"), model ("config.json: sliding_window"),
    catalog (published model facts that ship with preop), option ("--gpu", an option of preop itself),
    formula.
    """

    kind: Literal[
        "file", "argument", "environment", "route", "default", "model", "catalog", "option", "formula"
    ]
    where: str

    def __str__(self) -> str:
        return self.where


class Fact(msgspec.Struct, frozen=True):
    """One thing known, or known to be unknown, about a deployment.

    `value` is a JSON value (null is a value only where `set_by` is not "unknown": "explicitly none").
    `note` says why an unknown is unknown, or what else a reader must know.
    """

    value: Any
    set_by: SetBy
    origin: Origin | None = None
    unit: str | None = None
    note: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is a value to judge by."""
        return self.set_by != "unknown"

    @property
    def source(self) -> str:
        """Where the value came from, in words."""
        return str(self.origin) if self.origin else (self.note or "not stated")


class Word(msgspec.Struct, frozen=True):
    """One word of a command line, or one environment value, with its place.

    `text` is None where the word cannot be seen (a shell variable without a value, a template, a
    secret store): what it might say is then unknown, never absent.
    """

    text: str | None
    origin: Origin
    note: str | None = None
    """Why the word cannot be seen: `$EXTRA_ARGS is not set here`."""
    single: bool = False
    """Of a word that cannot be seen: it is surely one word (`"$X"` in quotes, an item of a list), so that
    after a flag that takes a value it is that value and hides nothing else."""


class Note(msgspec.Struct, frozen=True):
    """Something to know that is no fact: an unknown flag, a duplicate, a value out of its choices."""

    kind: Literal[
        "unknown-flag",
        "bad-value",
        "repeated-flag",
        "hidden",
        "hidden-environment",
        "removed-flag",
        "other-tenant",
        "other",
    ]
    message: str
    where: str | None = None
    suggestion: str | None = None
    """The nearest real flag, or the change."""
    version: str | None = None
    """Of a note about a flag: the engine version whose flags were read."""


def known(
    value: Any, set_by: SetBy, origin: Origin, *, unit: str | None = None, note: str | None = None
) -> Fact:
    """A fact with a value."""
    return Fact(value=value, set_by=set_by, origin=origin, unit=unit, note=note)


def unknown(note: str, *, origin: Origin | None = None, unit: str | None = None) -> Fact:
    """A fact that nobody told: `note` says why."""
    return Fact(value=None, set_by="unknown", origin=origin, unit=unit, note=note)
