"""The JSON documents that scripts rely on: a check's, and a measurement's.

The structures here are the contract: the published schemas in `docs/schema` are made from them. A field may
be added; none is renamed, removed or given another meaning without a new schema number.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

import msgspec

from preop import __version__
from preop.evidence import Record
from preop.facts import Fact
from preop.findings import Finding, Item, PitfallResult, Waiver
from preop.models.types import Model
from preop.report.asides import age_s
from preop.report.types import Baseline, Report
from preop.text import Language, Text

__all__ = ["CheckDocument", "MeasureDocument", "MeasureOutcome", "document", "measure_document", "to_json"]

OutcomeName = Literal["PASS", "FAIL", "UNPROVEN", "N/A", "ERROR", "WAIVED"]
StrengthName = Literal["declared", "computed", "measured"]
MeasureOutcome = Literal["pass", "measured", "fail", "not-proven"]
PitfallName = Annotated[str, msgspec.Meta(pattern=r"^P(0[1-9]|1[0-5])$")]


class OriginDocument(msgspec.Struct, frozen=True):
    """Where a value was read."""

    kind: str
    where: str


class FactDocument(msgspec.Struct, frozen=True):
    """One thing known of a deployment; `set_by` "unknown" means that nothing tells."""

    value: Any
    unit: str | None
    set_by: Literal["user", "default", "engine", "model", "unknown"]
    source: str
    origin: OriginDocument | None
    note: str | None


class NoteDocument(msgspec.Struct, frozen=True):
    """Something to know that is no fact: an unknown flag with the nearest real one, a repeated flag."""

    kind: str
    message: str
    where: str | None
    suggestion: str | None


class ContradictionDocument(msgspec.Struct, frozen=True):
    """A declared value that the running engine denies."""

    name: str
    declared: FactDocument
    running: FactDocument


class DeploymentDocument(msgspec.Struct, frozen=True):
    """One engine process that was judged. Facts stand by their canonical names."""

    name: str
    engine: str
    source: str
    endpoint: str | None
    model: Model | None
    facts: dict[str, FactDocument]
    notes: list[NoteDocument]
    contradictions: list[ContradictionDocument]
    own_name: str
    """Its name in its own file: the same whatever else is checked beside it."""


class EvidenceDocument(msgspec.Struct, frozen=True):
    """One number that decided, with its unit and where it came from."""

    name: str
    value: Any
    unit: str | None
    source: str | None


class WaiverDocument(msgspec.Struct, frozen=True):
    """A person's acceptance of one pitfall; `expires` is the last day on which it counts."""

    owner: str
    reason: str
    expires: str
    where: str


class DeploymentFinding(msgspec.Struct, frozen=True):
    """One pitfall judged for one deployment."""

    outcome: OutcomeName
    strength: StrengthName | None
    summary: str
    evidence: list[EvidenceDocument]
    needs: str | None
    remedy: str | None
    where: str | None
    holds: StrengthName | None
    waiver: WaiverDocument | None
    waived: OutcomeName | None
    in_baseline: bool | None


class FindingDocument(msgspec.Struct, frozen=True):
    """One pitfall over all deployments: the worst of them speaks, `by_deployment` has each."""

    pitfall: PitfallName
    title: str
    outcome: OutcomeName
    strength: StrengthName | None
    summary: str
    evidence: list[EvidenceDocument]
    needs: str | None
    """What exactly would prove it: a flag, a file, an endpoint."""
    remedy: str | None
    """The change that shuts it."""
    where: str | None
    holds: StrengthName | None
    """Of an UNPROVEN pitfall: the strength at which it is shut all the same, where a gate may be content."""
    waiver: WaiverDocument | None
    """Of a WAIVED pitfall: who accepted it, and until when."""
    waived: OutcomeName | None
    """Of a WAIVED pitfall: what it would be without the waiver."""
    in_baseline: bool | None
    """Whether the baseline has the same finding; null where there is no baseline."""
    by_deployment: dict[str, DeploymentFinding]


class RecordDocument(msgspec.Struct, frozen=True):
    """One piece of evidence that the check used; the whole of it lies in the run's folder."""

    instrument: str
    deployment: str
    strength: StrengthName
    taken_at: str
    age_s: int | None
    """Seconds from `taken_at` until the check began (`started_at`); null where either is no time."""
    took_s: float
    fingerprint: dict[str, Any]
    """The facts that this evidence belongs to."""
    error: str | None


class ChangeDocument(msgspec.Struct, frozen=True):
    """One fact that was set otherwise in the baseline; `fact` null: the deployment itself came or went."""

    deployment: str
    fact: str | None
    before: FactDocument | None
    after: FactDocument | None


class ResolvedDocument(msgspec.Struct, frozen=True):
    """A fail of the baseline that is none any more."""

    pitfall: PitfallName
    deployment: str
    summary: str


class BaselineDocument(msgspec.Struct, frozen=True):
    """What the check was held against: a git commit, or an earlier run."""

    name: str
    kind: Literal["git", "run"]
    detail: str
    """The commit, or the run's time."""
    changes: list[ChangeDocument]
    resolved: list[ResolvedDocument]


class CheckDocument(msgspec.Struct, frozen=True):
    """What `preop check --format json` prints."""

    schema: Literal["preop.check/1"]
    preop_version: str
    verdict: Literal["GO", "NO-GO", "HOLD"]
    gate: str
    required: list[PitfallName]
    """What the gate asks for."""
    not_required: list[PitfallName]
    """The others: a FAIL of one is NO-GO all the same."""
    started_at: str
    took_s: float
    run_path: str | None
    language: Literal["en", "zh"]
    deployments: list[DeploymentDocument]
    findings: Annotated[list[FindingDocument], msgspec.Meta(min_length=15, max_length=15)]
    records: list[RecordDocument]
    baseline: BaselineDocument | None
    """Null: the check stands for itself."""
    remarks: list[str]
    """What a reader must know that belongs to no pitfall: a waiver that expires soon, a file not read."""


class MeasureDocument(msgspec.Struct, frozen=True):
    """What `preop measure NAME --format json` prints, without the fields of its payload.

    `kind` tells the payload; its fields stand beside these. It is null, and `error` says why, where
    nothing was measured.
    """

    schema: Literal["preop.measure/1"]
    preop_version: str
    outcome: MeasureOutcome
    kind: str | None
    instrument: str
    deployment: str
    strength: StrengthName
    taken_at: str
    took_s: float
    fingerprint: dict[str, Any]
    conditions: dict[str, Any]
    error: str | None


def document(report: Report, language: Language) -> dict[str, Any]:
    """The check as one JSON document, texts in `language`: only JSON values, keys in a fixed order."""
    return _json_values(
        CheckDocument(
            schema="preop.check/1",
            preop_version=report.preop_version,
            verdict=report.verdict.value,
            gate=report.gate,
            required=sorted(report.required),
            not_required=report.not_required,
            started_at=report.started_at,
            took_s=report.took_s,
            run_path=report.run_path,
            language=language,
            deployments=[
                DeploymentDocument(
                    name=deployment.name,
                    engine=deployment.engine,
                    source=deployment.source,
                    endpoint=deployment.endpoint,
                    model=deployment.model,
                    facts={name: _fact(deployment.facts[name]) for name in sorted(deployment.facts)},
                    notes=[
                        NoteDocument(note.kind, note.message, note.where, note.suggestion)
                        for note in deployment.notes
                    ],
                    contradictions=[
                        ContradictionDocument(each.name, _fact(each.declared), _fact(each.running))
                        for each in deployment.contradictions
                    ],
                    own_name=deployment.own_name or deployment.name,
                )
                for deployment in report.deployments
            ],
            findings=[
                _finding(result, report.about[result.pitfall].title, language) for result in report.results
            ],
            records=[
                RecordDocument(
                    instrument=record.instrument,
                    deployment=record.deployment,
                    strength=record.strength.value,
                    taken_at=record.taken_at,
                    age_s=age_s(record, report.started_at),
                    took_s=record.took_s,
                    fingerprint=record.fingerprint,
                    error=record.error,
                )
                for record in report.records
            ],
            baseline=_baseline(report.baseline, language) if report.baseline else None,
            remarks=[remark.in_(language) for remark in report.remarks],
        )
    )


def _baseline(baseline: Baseline, language: Language) -> BaselineDocument:
    return BaselineDocument(
        baseline.name,
        baseline.kind,
        baseline.detail,
        [
            ChangeDocument(
                each.deployment,
                each.fact,
                _fact(each.before) if each.before else None,
                _fact(each.after) if each.after else None,
            )
            for each in baseline.changes
        ],
        [
            ResolvedDocument(each.pitfall, each.deployment, each.summary.in_(language))
            for each in baseline.resolved
        ],
    )


def measure_document(record: Record, outcome: MeasureOutcome) -> dict[str, Any]:
    """One measurement as one JSON document: its payload's fields stand at the top (`levels`, `differences`).

    Payloads carry no text in two languages.
    """
    kind = msgspec.to_builtins(record.payload).get("kind") if record.payload is not None else None
    frame = _json_values(
        MeasureDocument(
            schema="preop.measure/1",
            preop_version=__version__,
            outcome=outcome,
            kind=kind,
            instrument=record.instrument,
            deployment=record.deployment,
            strength=record.strength.value,
            taken_at=record.taken_at,
            took_s=record.took_s,
            fingerprint=record.fingerprint,
            conditions=record.conditions,
            error=record.error,
        )
    )
    return frame if record.payload is None else {**frame, **_json_values(record.payload)}


_INVISIBLE = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def to_json(built: dict[str, Any]) -> str:
    """A document as text: one object, indented; what would steer a terminal stands as an escape."""
    import json

    text = json.dumps(built, indent=2, ensure_ascii=False, allow_nan=False)
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n"


def _fact(fact: Fact) -> FactDocument:
    return FactDocument(
        value=fact.value,
        unit=fact.unit,
        set_by=fact.set_by,
        source=fact.source,
        origin=OriginDocument(fact.origin.kind, fact.origin.where) if fact.origin else None,
        note=fact.note,
    )


def _finding(result: PitfallResult, title: Text, language: Language) -> FindingDocument:
    speaks = _deployment_finding(result.worst, language)
    return FindingDocument(
        pitfall=result.pitfall,
        title=title.in_(language),
        **{name: getattr(speaks, name) for name in DeploymentFinding.__struct_fields__},
        by_deployment={
            name: _deployment_finding(finding, language) for name, finding in result.by_deployment.items()
        },
    )


def _deployment_finding(finding: Finding, language: Language) -> DeploymentFinding:
    return DeploymentFinding(
        outcome=finding.outcome.value,
        strength=finding.strength.value if finding.strength else None,
        summary=finding.summary.in_(language),
        evidence=[_item(item) for item in finding.evidence],
        needs=finding.needs.in_(language) if finding.needs else None,
        remedy=finding.remedy.in_(language) if finding.remedy else None,
        where=finding.where,
        holds=finding.holds.value if finding.holds else None,
        waiver=_waiver(finding.waiver) if finding.waiver else None,
        waived=finding.waived.value if finding.waived else None,
        in_baseline=finding.in_baseline,
    )


def _waiver(waiver: Waiver) -> WaiverDocument:
    return WaiverDocument(waiver.owner, waiver.reason, waiver.expires, waiver.where)


def _item(item: Item) -> EvidenceDocument:
    return EvidenceDocument(item.name, item.value, item.unit, item.source)


def _json_values(structure: msgspec.Struct) -> dict[str, Any]:
    """`structure` as plain JSON values: NaN and infinities become null, lone surrogates U+FFFD."""
    built = _json_value(msgspec.to_builtins(structure, enc_hook=str, str_keys=True))
    assert isinstance(built, dict)
    return built


_SURROGATES = re.compile("[\ud800-\udfff]")


def _json_value(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_json_value(str(key)): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return value
