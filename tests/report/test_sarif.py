"""SARIF: valid by the standard's own schema, all rules declared, places in the user's own files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from preop.findings import Outcome
from preop.report import render_sarif
from preop.report.places import Place, file_of, places, uri
from preop.report.types import Report

from .samples import SAMPLES

SCHEMA = json.loads((Path(__file__).parents[1] / "data" / "schemas" / "sarif-2.1.0-rtm.5.json").read_text())
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


def run(report: Report, folder: Path | None = None) -> dict[str, Any]:
    log = json.loads(render_sarif(report, "en", {"P01": "# P01\n\nA symptom.\n"}, folder))
    VALIDATOR.validate(log)
    (found,) = log["runs"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", list(SAMPLES))
def test_it_is_valid_and_declares_every_rule(name: str) -> None:
    found = run(SAMPLES[name]())
    rules = [rule["id"] for rule in found["tool"]["driver"]["rules"]]
    assert rules == [f"P{number:02}" for number in range(1, 16)]
    for result in found["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert (result["kind"] == "fail") is (result["level"] != "none"), "section 3.27.10"


def test_every_fail_is_a_result_and_points_into_its_file(tmp_path: Path) -> None:
    report = SAMPLES["no_go"]()
    found = run(report, tmp_path)
    fails = {r["ruleId"] for r in found["results"] if r["kind"] == "fail" and "suppressions" not in r}
    assert fails == {result.pitfall for result in report.results if result.outcome is Outcome.FAIL}
    physical = [
        place["physicalLocation"]
        for result in found["results"]
        for place in result["locations"]
        if "physicalLocation" in place
    ]
    assert physical
    for place in physical:
        assert place["artifactLocation"]["uri"].endswith((".yml", ".yaml"))
        assert place["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
        assert place["region"]["startLine"] >= 1


def test_a_waiver_is_a_suppression_with_its_owner() -> None:
    suppressed = [r for r in run(SAMPLES["hold"]())["results"] if "suppressions" in r]
    assert [r["ruleId"] for r in suppressed] == ["P11"]
    (suppression,) = suppressed[0]["suppressions"]
    assert suppression["status"] == "accepted"
    assert suppression["justification"] == "ml-platform: first deployment"
    assert suppression["properties"]["expires"] == "2026-12-31"


@pytest.mark.parametrize(("known", "state"), [(True, "unchanged"), (False, "new"), (None, None)])
def test_the_baseline_state(known: bool | None, state: str | None) -> None:
    report = SAMPLES["no_go"]()
    results = tuple(
        msgspec.structs.replace(
            result,
            by_deployment={
                name: msgspec.structs.replace(finding, in_baseline=known)
                for name, finding in result.by_deployment.items()
            },
        )
        for result in report.results
    )
    marked = run(msgspec.structs.replace(report, results=results))
    assert {result.get("baselineState") for result in marked["results"]} == {state}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("compose.yml:14:9", [Place("compose.yml", 14, 9)]),
        ("a.yml:9:15, b.yml:31", [Place("a.yml", 9, 15), Place("b.yml", 31)]),
        ("C:\\deploy\\a.yml:3:1", [Place("C:\\deploy\\a.yml", 3, 1)]),
        ("standard input:3:1", []),
        ("http://127.0.0.1:8000", []),
        ("argument 5, --max-model-len", []),
        (None, []),
    ],
)
def test_places(where: str | None, expected: list[Place]) -> None:
    assert places(where) == expected


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("compose.yml: service chat", "compose.yml"),
        ("k8s.yml: Deployment chat: container vllm", "k8s.yml"),
        ("serve.sh", "serve.sh"),
        ("command line", None),
        ("standard input: Pod a", None),
        ("http://127.0.0.1:8000", None),
    ],
)
def test_the_file_of_a_source(source: str, file: str | None) -> None:
    assert file_of(source) == file


def test_paths_are_relative_to_the_repository_and_percent_encoded(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inside = tmp_path / "deploy"
    inside.mkdir()
    assert uri("a b%.yml", inside, tmp_path) == ("deploy/a%20b%25.yml", True)
    assert uri("../top.yml", inside, tmp_path) == ("top.yml", True)
    address, relative = uri("/etc/x.yml", inside, tmp_path)
    assert (address, relative) == ("file:///etc/x.yml", False)
