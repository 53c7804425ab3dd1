"""Deployments and cases made by hand for the judges' tests."""

from __future__ import annotations

from typing import Any

from cases import is_whole

from preop.deployment.types import Contradiction, Deployment
from preop.evidence import RECORD_SCHEMA, Payload, Record, Strength
from preop.facts import Fact, Note, Origin, SetBy, known
from preop.findings import Finding, Outcome
from preop.inputs import Inputs
from preop.models.types import Model
from preop.pitfalls.types import Case, Pitfall
from preop.thresholds import Thresholds


def fact(value: Any, set_by: SetBy = "user", *, where: str = "compose.yml:14:9") -> Fact:
    return known(value, set_by, Origin("file", where))


def deployment(
    name: str = "llm",
    engine: str = "vllm",
    *,
    source: str = "compose.yml",
    model_files: Model | None = None,
    notes: tuple[Note, ...] = (),
    contradictions: tuple[Contradiction, ...] = (),
    **facts: Any,
) -> Deployment:
    """Facts by name: a `Fact` as it is, any other value as one that the user set in compose.yml."""
    return Deployment(
        name=name,
        engine=engine,
        source=source,
        facts={n: v if isinstance(v, Fact) else fact(v) for n, v in facts.items()},
        model=model_files,
        notes=notes,
        contradictions=contradictions,
    )


def record(instrument: str, payload: Payload | None, error: str | None = None) -> Record:
    return Record(
        schema=RECORD_SCHEMA,
        instrument=instrument,
        deployment="llm",
        strength=Strength.MEASURED,
        taken_at="2026-12-01T00:00:00+00:00",
        took_s=1.0,
        fingerprint={},
        conditions={},
        payload=payload,
        error=error,
    )


def case(
    subject: Deployment,
    *records: Record,
    siblings: tuple[Deployment, ...] = (),
    thresholds: dict[str, float] | None = None,
    inputs: Inputs | None = None,
) -> Case:
    return Case(subject, (subject, *siblings), records, Thresholds(thresholds), inputs or Inputs())


def check(pitfall: Pitfall, given: Case) -> Finding:
    """The judge's finding, held to what every finding owes its reader."""
    finding = pitfall.judge(given)
    is_whole(finding)
    assert finding.summary.en != finding.summary.zh
    if finding.outcome is Outcome.PASS:
        assert finding.strength is not None and finding.strength.rank >= pitfall.least.rank
    return finding


NOTHING = Deployment(name="empty", engine="unknown", source="command line", facts={})
