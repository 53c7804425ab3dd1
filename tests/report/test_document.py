"""The JSON contract: what scripts rely on, held against the published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from preop.deployment.types import Deployment
from preop.evidence import (
    RECORD_SCHEMA,
    Live,
    Payload,
    Record,
    Strength,
    TokenDifference,
    Tokens,
)
from preop.facts import Origin, known
from preop.findings import Finding, Outcome, PitfallResult
from preop.report.documents import MeasureDocument, document, measure_document
from preop.report.schema import schemas
from preop.report.types import Report
from preop.text import Language, Text

from . import samples

PUBLISHED = Path(__file__).parents[2] / "docs" / "schema"
SAMPLES = [samples.no_go, samples.hold, samples.go, samples.hostile]


def published(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((PUBLISHED / name).read_text(encoding="utf-8"))
    return schema


def as_read(built: dict[str, Any]) -> dict[str, Any]:
    """The document as a script reads it: strict JSON, strict UTF-8."""
    text = json.dumps(built, ensure_ascii=False, allow_nan=False)
    read: dict[str, Any] = json.loads(text.encode("utf-8"))
    return read


@pytest.mark.parametrize("name", ["check-1.json", "measure-1.json"])
def test_published_schema_is_the_generated_one(name: str) -> None:
    assert published(name) == as_read(schemas()[name]), "run: python -m preop.report.schema docs/schema"
    jsonschema.Draft202012Validator.check_schema(published(name))


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_check_validates(sample: Any, language: Language) -> None:
    jsonschema.validate(as_read(document(sample(), language)), published("check-1.json"))


def test_the_contract_of_a_check() -> None:
    read = as_read(document(samples.no_go(), "en"))
    assert list(read)[:4] == ["schema", "preop_version", "verdict", "gate"]
    assert (read["schema"], read["verdict"], read["gate"]) == ("preop.check/1", "NO-GO", "deploy")
    assert [finding["pitfall"] for finding in read["findings"]] == [f"P{n:02d}" for n in range(1, 16)]
    needed = {"pitfall", "outcome", "by_deployment", "strength", "summary", "evidence", "needs", "remedy"}
    assert all(needed <= set(finding) for finding in read["findings"])
    long = read["findings"][14]
    assert long["outcome"] == "FAIL", "the worst deployment speaks"
    assert long["by_deployment"]["chat"]["outcome"] == "FAIL"
    assert long["by_deployment"]["embed"]["outcome"] == "PASS"
    assert long["evidence"][0] == {
        "name": "max_model_len",
        "value": 131072,
        "unit": "tokens",
        "source": "docker-compose.yml:14:9",
    }
    chat = read["deployments"][0]
    assert chat["facts"]["max_model_len"] == {
        "value": 131072,
        "unit": "tokens",
        "set_by": "user",
        "source": "docker-compose.yml:14:9",
        "origin": {"kind": "file", "where": "docker-compose.yml:14:9"},
        "note": None,
    }
    assert chat["facts"]["max_num_seqs"]["set_by"] == "unknown"
    assert list(chat["facts"]) == sorted(chat["facts"])
    assert chat["model"]["name"] == "Qwen/Qwen2.5-7B-Instruct-AWQ"
    assert chat["model"]["origin"]["kind"] == "catalog"
    assert chat["notes"][0]["suggestion"] == "--max-model-len"
    assert chat["contradictions"][0]["running"]["value"] == 32768
    assert read["deployments"][1]["model"] is None


def test_texts_are_in_the_language_asked_for() -> None:
    english, chinese = (document(samples.no_go(), language) for language in ("en", "zh"))
    assert english["findings"][12]["remedy"].startswith("make the shares")
    assert chinese["findings"][12]["remedy"].startswith("让份额之和")
    assert english["findings"][12]["outcome"] == chinese["findings"][12]["outcome"] == "FAIL"


def test_the_same_report_gives_the_same_bytes() -> None:
    assert json.dumps(document(samples.no_go(), "zh")) == json.dumps(document(samples.no_go(), "zh"))


def test_what_is_no_number_is_null_and_what_is_no_text_is_replaced() -> None:
    read = as_read(document(samples.hostile(), "en"))
    evidence = read["findings"][1]["evidence"]
    assert evidence[1] == {"name": "nan", "value": None, "unit": "ms", "source": None}
    assert "\ufffd" in evidence[0]["value"] and len(evidence[0]["value"]) == len(samples.HOSTILE)


def change(read: dict[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    place: Any = read
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return read


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("findings", 0, "outcome"), "OK"),
        (("findings", 0, "pitfall"), "P16"),
        (("findings",), []),
        (("verdict",), "MAYBE"),
        (("schema",), "preop.check/2"),
        (("findings", 0, "strength"), "guessed"),
        (("deployments", 0, "facts", "max_model_len", "set_by"), "somebody"),
    ],
)
def test_the_schema_refuses_what_breaks_the_contract(path: tuple[Any, ...], value: Any) -> None:
    read = change(as_read(document(samples.no_go(), "en")), *path, value=value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(read, published("check-1.json"))


def test_a_report_never_leaves_a_pitfall_out() -> None:
    whole = samples.go()
    with pytest.raises(ValueError, match="all of P01"):
        msgspec.structs.replace(whole, results=whole.results[:14])
    with pytest.raises(ValueError, match="at least one deployment"):
        msgspec.structs.replace(whole, results=(PitfallResult("P01", {}), *whole.results[1:]))


def record(payload: Payload | None, error: str | None = None) -> Record:
    return Record(
        schema=RECORD_SCHEMA,
        instrument="tokens",
        deployment="demo",
        strength=Strength.MEASURED,
        taken_at="2026-11-03T08:40:00Z",
        took_s=1.5,
        fingerprint={"model": "smollm2"},
        conditions={"p": float("inf")},
        payload=payload,
        error=error,
    )


LIVE = Live(
    url="http://127.0.0.1:8000",
    engine="vllm",
    facts={"max_model_len": known(8192, "engine", Origin("route", "GET /v1/models"), unit="tokens")},
    metrics={"running": 3.0, "cache": float("nan")},
    routes=[],
)
TOKENS = Tokens("tokenizer.json", "http://127.0.0.1:8000", 2, [TokenDifference("bos", "hi", 0, [1, 2], [2])])


@pytest.mark.parametrize("payload", [LIVE, samples.STREAMING, samples.LOAD, TOKENS])
def test_a_measurement_validates_and_lays_its_payload_open(payload: Payload) -> None:
    read = as_read(measure_document(record(payload), "measured"))
    jsonschema.validate(read, published("measure-1.json"))
    assert list(read)[:3] == ["schema", "preop_version", "outcome"]
    assert (read["schema"], read["outcome"]) == ("preop.measure/1", "measured")
    assert set(payload.__struct_fields__) <= set(read)


def test_numbers_of_a_measurement() -> None:
    levels = measure_document(record(samples.LOAD), "pass")["levels"]
    assert [level["concurrency"] for level in levels] == [1, 2, 4, 8, 16]
    assert levels[3]["ttft_ms"] == {"p50": 260.0, "p99": 740.0}
    assert measure_document(record(TOKENS), "fail")["differences"][0]["reference_ids"] == [1, 2]
    live = measure_document(record(LIVE), "measured")
    assert live["metrics"] == {"running": 3.0, "cache": None} and live["conditions"] == {"p": None}


def test_a_measurement_that_failed_says_why() -> None:
    read = as_read(measure_document(record(None, "connection refused"), "not-proven"))
    jsonschema.validate(read, published("measure-1.json"))
    assert (read["kind"], read["error"]) == (None, "connection refused")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**read, "error": None}, published("measure-1.json"))


def test_no_payload_hides_a_field_of_the_frame() -> None:
    frame = set(MeasureDocument.__struct_fields__) - {"kind"}
    for payload in get_args(Payload):
        assert not frame & set(payload.__struct_fields__), payload


def test_the_age_of_evidence_is_that_of_the_newest_record_with_an_answer() -> None:
    report = samples.hold()
    newest = report.evidence_for("P04", "demo")
    assert newest is not None and newest.instrument == "load"
    assert report.evidence_for("P04", "other") is None
    assert report.evidence_for("P12", "demo") is None


def test_worst_stands_first_and_required_before_what_is_not() -> None:
    order = [result.pitfall for result in samples.no_go().worst_first]
    assert order[:3] == ["P13", "P15", "P12"]
    assert order.index("P14") < order.index("P03"), "both UNPROVEN; the gate asks for P14"


def test_a_deployment_that_knows_nothing_still_makes_a_document() -> None:
    unproven = Finding(Outcome.UNPROVEN, Text("?", "?"), needs=Text("a file", "文件"))
    base = samples.go()
    report = Report(
        preop_version="0.1.0",
        verdict=base.verdict,
        gate="deploy",
        required=frozenset(),
        deployments=(Deployment(name="x", engine="unknown", source="command line", facts={}),),
        results=tuple(PitfallResult(each.pitfall, {"x": unproven}) for each in base.results),
        about=base.about,
        started_at="2026-11-03T09:12:44Z",
        took_s=0.0,
    )
    jsonschema.validate(as_read(document(report, "en")), published("check-1.json"))
