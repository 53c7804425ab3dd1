"""Cases built by hand: what a reader would have found, without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from preop.deployment.types import Deployment
from preop.evidence import RECORD_SCHEMA, Payload, Record, Strength
from preop.facts import Fact, Note, Origin, known, unknown
from preop.findings import Finding, Outcome
from preop.models.types import LayerGroup, Model, Quantization, Rope
from preop.pitfalls.types import Case
from preop.thresholds import Thresholds

UNSCALED = Rope("default")
HIDDEN = Note(kind="hidden", message="$EXTRA_ARGS is not set here")


def user(value: Any, where: str = "argument 5", kind: Any = "argument") -> Fact:
    """A value that the user wrote in the command."""
    return known(value, "user", Origin(kind, where))


def in_file(value: Any, where: str = "compose.yml:14:9") -> Fact:
    """A value that the user wrote in a file."""
    return user(value, where, "file")


def default(value: Any, version: str = "vLLM 0.32.0") -> Fact:
    """The default of a version that is stated."""
    return known(value, "default", Origin("default", f"{version} default"))


def running(value: Any, route: str = "GET /props") -> Fact:
    """What the running engine reports."""
    return known(value, "engine", Origin("route", route))


def nobody() -> Fact:
    """A flag that the command does not carry, where the engine's version is not stated."""
    return unknown("not set; the engine's version is not stated")


def unseen() -> Fact:
    """A flag that is there, with a value that cannot be seen."""
    return unknown("$VALUE is not set here", origin=Origin("argument", "argument 7"))


def model(
    *,
    parameters: int | None = 7_615_616_512,
    context: int | None = 32_768,
    rope: Rope | None = UNSCALED,
    layers: tuple[LayerGroup, ...] | None = (LayerGroup("full", 28, kv_heads=4, key_dim=128, value_dim=128),),
    quantization: Quantization | None = None,
    quantization_known: bool = True,
    kind: Any = "model",
    **more: Any,
) -> Model:
    """Qwen2.5-7B-Instruct as its config.json tells it, unless told otherwise."""
    return Model(
        name="a-model",
        origin=Origin(kind, "config.json"),
        parameters=parameters,
        dtype=more.pop("dtype", "bfloat16"),
        quantization=quantization,
        quantization_known=quantization_known,
        layers=layers,
        native_context=context,
        rope=rope,
        **more,
    )


def case(
    engine: str = "vllm",
    *,
    model: Model | None = None,
    payload: Payload | None = None,
    notes: Sequence[Note] = (),
    thresholds: dict[str, float] | None = None,
    **facts: Any,
) -> Case:
    """One deployment of a command whose every word was seen, unless `notes` say otherwise."""
    everything: dict[str, Fact] = {"model": user("a-model", "argument 3"), **facts}
    records = []
    if payload is not None:
        records.append(
            Record(
                schema=RECORD_SCHEMA,
                instrument="any",
                deployment="d",
                strength=Strength.MEASURED,
                taken_at="2026-12-01T00:00:00Z",
                took_s=1.0,
                fingerprint={},
                conditions={},
                payload=payload,
            )
        )
    deployment = Deployment(
        name="d", engine=engine, source="command line", facts=everything, model=model, notes=tuple(notes)
    )
    return Case(deployment, (deployment,), records, Thresholds(thresholds))


def is_whole(finding: Finding) -> None:
    """What every finding must carry, whatever it says."""
    texts = [text for text in (finding.summary, finding.needs, finding.remedy) if text is not None]
    assert all(text.en.strip() and text.zh.strip() for text in texts)
    assert "\n" not in "".join(text.en + text.zh for text in texts)
    assert len(finding.summary.en) <= 64, finding.summary.en
    if finding.outcome is Outcome.UNPROVEN:
        assert finding.needs is not None
    if finding.outcome is Outcome.FAIL:
        assert finding.remedy is not None
        assert finding.evidence
        assert finding.strength is not None
    if finding.outcome in (Outcome.PASS, Outcome.NOT_APPLICABLE):
        assert finding.strength is not None
        assert finding.evidence
    assert all(one.source for one in finding.evidence), finding.evidence
