"""The baseline out of an earlier run: its `check.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from preop.baseline.compare import Base
from preop.deployment.types import Deployment
from preop.errors import UsageError
from preop.evidence import Strength
from preop.facts import Fact, Origin
from preop.findings import Finding, Item, Outcome, PitfallResult
from preop.text import Text

__all__ = ["find_run", "read_run"]

_MAX_BYTES = 256 << 20
_SCHEMA = "preop.check/1"


class _Fact(msgspec.Struct):
    value: Any
    set_by: Any
    unit: str | None = None
    origin: Origin | None = None
    note: str | None = None


class _Deployment(msgspec.Struct):
    name: str
    engine: str
    source: str
    facts: dict[str, _Fact]
    own_name: str = ""


class _Finding(msgspec.Struct):
    outcome: Outcome
    summary: str
    strength: Strength | None = None
    evidence: list[Item] = []
    waived: Outcome | None = None


class _Result(msgspec.Struct):
    pitfall: str
    by_deployment: dict[str, _Finding]


class _Check(msgspec.Struct):
    schema: str
    started_at: str
    deployments: list[_Deployment]
    findings: list[_Result]


def find_run(name: str, runs: Path) -> Path | None:
    """The answer of the run that `name` names: its folder, its `check.json`, or its id below `runs`; None
    where it names none."""
    for path in (Path(name), runs / name):
        try:
            if path.is_dir() and any((path / part).is_file() for part in ("check.json", "run.json")):
                return path / "check.json"
            if path.suffix == ".json" and path.is_file():
                return path
        except (OSError, ValueError):
            continue
    return None


def read_run(name: str, path: Path) -> Base:
    """The baseline in a run's answer. Raises `UsageError` where it is none that this version reads."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"--baseline {name}: {path} is larger than 256 MB")
        check = msgspec.json.decode(path.read_bytes(), type=_Check)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(f"--baseline {name}: {path} is no answer of `preop check`: {error}") from None
    except FileNotFoundError:
        raise UsageError(
            f"--baseline {name}: that run has no answer ({path.name}): it was interrupted, or has not ended"
        ) from None
    except OSError as error:
        raise UsageError(f"--baseline {name}: {path} cannot be read: {error.strerror or error}") from None
    if check.schema != _SCHEMA:
        raise UsageError(f"--baseline {name}: schema {check.schema!r}, expected {_SCHEMA!r}")
    return Base(
        name,
        "run",
        check.started_at,
        [_deployment(each) for each in check.deployments],
        [_result(each) for each in check.findings],
    )


def _deployment(told: _Deployment) -> Deployment:
    facts = {
        name: Fact(fact.value, fact.set_by, fact.origin, fact.unit, fact.note)
        for name, fact in told.facts.items()
    }
    return Deployment(told.name, told.engine, told.source, facts, own_name=told.own_name)


def _result(told: _Result) -> PitfallResult:
    return PitfallResult(
        told.pitfall,
        {
            name: Finding(
                each.outcome,
                Text(each.summary, each.summary),  # in the language of that run
                each.strength,
                tuple(each.evidence),
                waived=each.waived,
            )
            for name, each in told.by_deployment.items()
        },
    )
