"""The whole way on a real engine: llama.cpp with SmolLM2, through the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from preop.demo.engine import Engine, running_engine

pytestmark = pytest.mark.engine
SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schema"
QUICK = ["--concurrency", "1,2,4", "--requests", "12"]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with running_engine(context=4096, parallel=4) as running:
        yield running


def preop(folder: Path, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "preop", *arguments],
        capture_output=True, text=True, cwd=folder, timeout=timeout, env=dict(os.environ), check=False,
    )  # fmt: skip


def checked(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = preop(folder, "check", "--format", "json", *arguments)
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "check-1.json").read_text()))
    return done.returncode, document


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {finding["pitfall"]: finding["outcome"] for finding in document["findings"]}


def test_a_declared_and_running_engine_is_measured_and_the_evidence_is_used_again(
    tmp_path: Path, engine: Engine
) -> None:
    command = ["--", *engine.argv]
    code, document = checked(tmp_path, "--endpoint", engine.url, "--measure", "all", *QUICK, *command)
    found = outcomes(document)
    assert found["P14"] == "PASS"
    assert found["P10"] == found["P13"] == found["P03"] == "N/A"
    assert found["P01"] == "UNPROVEN"  # the weights are Q4_1: nobody has compared its answers
    assert code == {"NO-GO": 1, "HOLD": 3}[document["verdict"]]
    facts = document["deployments"][0]["facts"]
    assert (facts["max_num_seqs"]["value"], facts["max_model_len"]["value"]) == (4, 1024)
    p02 = next(f for f in document["findings"] if f["pitfall"] == "P02")
    assert (p02["outcome"], p02["strength"]) == ("UNPROVEN", "measured")

    _, again = checked(tmp_path, "--endpoint", engine.url, *command)
    assert outcomes(again)["P14"] == "PASS"
    _, elsewhere = checked(tmp_path, "--endpoint", engine.url, "--", *engine.argv, "-ctk", "q8_0")
    assert outcomes(elsewhere)["P04"] == "UNPROVEN"


def test_an_engine_that_only_its_endpoint_tells_of(tmp_path: Path, engine: Engine) -> None:
    _, document = checked(tmp_path, "--endpoint", f"{engine.url}/v1/")
    (deployment,) = document["deployments"]
    assert deployment["engine"] == "llama.cpp"
    assert deployment["facts"]["max_num_seqs"]["set_by"] == "engine"
    assert "/" in deployment["facts"]["max_num_seqs"]["source"]


def test_what_the_options_say_holds_for_an_endpoint_alone(tmp_path: Path, engine: Engine) -> None:
    stated = ["--endpoint", engine.url, "--accelerator", "none", "--engine-version", "b10605"]
    _, document = checked(tmp_path, *stated)
    assert outcomes(document)["P13"] == "N/A"
    facts = document["deployments"][0]["facts"]
    assert (facts["engine_version"]["value"], facts["engine_version"]["set_by"]) == ("b10605", "user")
    assert facts["max_num_seqs"]["set_by"] == "engine"


def test_a_declared_value_that_the_running_engine_denies_is_a_finding(tmp_path: Path, engine: Engine) -> None:
    at = engine.argv.index("-np") + 1
    declared = [*engine.argv[:at], "16", *engine.argv[at + 1 :]]
    code, document = checked(tmp_path, "--endpoint", engine.url, "--", *declared)
    assert (code, document["verdict"]) == (1, "NO-GO")
    p07 = next(finding for finding in document["findings"] if finding["pitfall"] == "P07")
    assert p07["outcome"] == "FAIL"
    assert {16, 4} <= {item["value"] for item in p07["evidence"]}


@pytest.mark.parametrize(
    ("arguments", "outcome", "code", "key"),
    [
        (["endpoint"], "measured", 0, "facts"),
        (["streaming"], "pass", 0, "requests"),
        (["load", "--concurrency", "1,2", "--requests", "11"], "measured", 0, "levels"),
        (["tokens"], "pass", 0, "differences"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_each_instrument_by_itself(
    tmp_path: Path, engine: Engine, arguments: list[str], outcome: str, code: int, key: str
) -> None:
    done = preop(tmp_path, "measure", *arguments, "--endpoint", engine.url, "--format", "json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "measure-1.json").read_text()))
    assert (done.returncode, document["outcome"]) == (code, outcome), done.stderr
    assert key in document
    assert document["schema"].startswith("preop.")


def test_every_way_to_show_it(tmp_path: Path, engine: Engine) -> None:
    for language in ("en", "zh"):
        for form in ("text", "markdown", "html"):
            done = preop(tmp_path, "check", "--format", form, "--lang", language, "--endpoint", engine.url)
            assert done.returncode in (1, 3), done.stderr
            assert all(f"P{number:02d}" in done.stdout for number in range(1, 16))


def test_the_demo_leaves_a_report_and_exits_0(tmp_path: Path) -> None:
    done = preop(tmp_path, "demo", "--parallel", "2", "--context", "2048", timeout=600)
    assert done.returncode == 0, done.stderr
    assert "exit code of that `preop check` was" in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>") and "<svg" in page
    assert all(f"P{number:02d}" in done.stdout for number in range(1, 16))
