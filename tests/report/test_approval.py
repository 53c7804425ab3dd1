"""The approval page: the change, the risks and their owners, the way back, the price at the objective."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from preop.evidence import ClientCost, Level, Load, Percentiles
from preop.facts import Origin, known
from preop.report import Approval, render_approval
from preop.report.cost import cost_of
from preop.report.types import Baseline, Change, Report

from .samples import SAMPLES

FILE = Origin("file", "compose.yml:3:5")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_every_report_gives_a_page(name: str, language: str) -> None:
    page = render_approval(SAMPLES[name](), language, Approval())  # type: ignore[arg-type]  # all there are
    assert page.startswith("<!doctype html>") and "<script" not in page
    assert all(f"P{number:02}" in page for number in range(1, 16))


def test_what_nobody_stated_is_said_to_be_unknown() -> None:
    page = render_approval(SAMPLES["no_go"](), "en", Approval())
    for said in ("no baseline was given", "Not stated: [approval] rollback", "Not stated: [cost] gpu_hour"):
        assert said in page


def test_the_change_the_risk_and_the_way_back() -> None:
    changes = (
        Change("chat", "image", known("vllm:v0.31.0", "user", FILE), known("vllm:v0.32.0", "user", FILE)),
        Change("chat", "max_num_seqs", None, known(64, "user", FILE)),
    )
    baseline = Baseline("main", "git", "0123456789abcdef0123456789abcdef01234567", changes)
    report = msgspec.structs.replace(SAMPLES["hold"](), baseline=baseline)
    page = render_approval(report, "en", Approval(service="chat <b>", rollback="helm rollback chat 41"))
    for said in (
        "chat &lt;b&gt;",
        "vllm:v0.31.0",
        "vllm:v0.32.0",
        "helm rollback chat 41",
        "those of commit 0123456789ab",
        "chat ran vllm:v0.31.0.",
        "waived by ml-platform until 2026-12-31: first deployment",
    ):
        assert said in page, said


def level(concurrency: int, ttft: float, rate: float, *, valid: bool = True) -> Level:
    return Level(
        concurrency,
        valid,
        None if valid else "the client was the bottleneck",
        700,
        0,
        Percentiles(10.0, ttft),
        Percentiles(5.0, 20.0),
        Percentiles(),
        Percentiles(),
        rate,
        ClientCost(0.1, 9),
    )


def measured(*levels: Level, gpus: int | None = 2) -> Report:
    """A report whose only load evidence has these levels."""
    report = SAMPLES["hold"]()
    deployment = report.deployments[0]
    facts = {**deployment.facts}
    facts.pop("gpu_count", None)
    if gpus is not None:
        facts["gpu_count"] = known(gpus, "user", FILE)
    others = report.deployments[1:]
    record = msgspec.structs.replace(
        report.records[0],
        instrument="load",
        deployment=deployment.name,
        payload=Load("http://127.0.0.1:9", None, 1, 1, list(levels)),
    )
    return msgspec.structs.replace(
        report, deployments=(msgspec.structs.replace(deployment, facts=facts), *others), records=(record,)
    )


def test_the_price_is_that_of_the_highest_level_within_the_objective() -> None:
    report = measured(level(1, 50, 100), level(16, 400, 1000), level(64, 900, 4000))
    name = report.deployments[0].name
    cost = cost_of(report, name, 3.6, "EUR")
    assert cost is not None
    # 2 GPUs at 3.60 an hour make 1000 tokens/s x 3600 s = 3.6 million tokens: 7.20 / 3.6 = 2 a million
    assert cost.per_million == pytest.approx(2.0)
    assert cost.concurrency == 16
    page = render_approval(report, "en", Approval(gpu_hour=3.6, currency="EUR"))
    assert "2.00 EUR, at 16 concurrent requests and 1,000 output tokens/s on 2 GPU(s)" in page


@pytest.mark.parametrize(
    "report",
    [
        measured(level(1, 600, 100)),
        measured(level(1, 50, 100, valid=False)),
        measured(level(1, 50, 0)),
        measured(level(1, 50, 100), gpus=None),
        measured(),
    ],
)
def test_no_price_without_a_valid_level_within_the_objective(report: Report) -> None:
    assert cost_of(report, report.deployments[0].name, 3.6, "EUR") is None


def test_the_page_beside_another_format(tmp_path: Path) -> None:
    page = tmp_path / "approval.html"
    serve = ["vllm", "serve", "Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "8192"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "preop",
            "check",
            "--no-keep",
            "--format",
            "json",
            "--approval",
            page.name,
            "--",
            *serve,
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    document = json.loads(done.stdout)
    assert done.returncode == {"GO": 0, "NO-GO": 1, "HOLD": 3}[document["verdict"]]
    assert document["verdict"] in page.read_text(encoding="utf-8")
