"""Ctrl-C keeps the finished levels, and a run goes on from them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from wire.pacers import pacing

from load.measuring import job
from preop.instruments.load.measure import measure
from preop.instruments.load.resume import FOLDER


def obey_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a run in the background has it ignored, and hands that on


def command(url: str, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "preop", "measure", "load", "--endpoint", url, "--concurrency", "1,2,8",
        "--requests", "12", "--output-tokens", "10", "--format", "json", *more,
    ]  # fmt: skip


def test_what_had_finished_is_printed_kept_and_not_measured_again(tmp_path: Path) -> None:
    with pacing(slots=2, base_us=20_000) as url:
        child = subprocess.Popen(
            command(url),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=obey_ctrl_c,
        )
        for _ in range(400):
            time.sleep(0.05)
            kept = list((tmp_path / FOLDER).glob("*.json"))
            if kept and '"2.0"' in kept[0].read_text().replace('"2"', '"2.0"'):
                break
        child.send_signal(signal.SIGINT)
        printed, said = child.communicate(timeout=20)
        assert child.returncode == 130, said
        cut = json.loads(printed)
        assert cut["error"].startswith("interrupted")
        assert [level["concurrency"] for level in cut["levels"] if level["valid"]] == [1, 2]

        began = time.monotonic()
        done = subprocess.run(command(url, "--resume"), cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        whole = json.loads(done.stdout)
        assert time.monotonic() - began < 30
    assert whole["levels"][:2] == cut["levels"][:2]  # to the last digit: not measured again
    assert whole["levels"][2]["valid"] and any("run before: 1, 2" in note for note in whole["notes"])
    assert not list((tmp_path / FOLDER).glob("*.json"))  # through: nothing is left to resume


def test_no_request_is_left_running_after_ctrl_c(tmp_path: Path) -> None:
    with pacing(slots=8, base_us=50_000) as url:
        child = subprocess.Popen(
            command(url),
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=obey_ctrl_c,
        )
        time.sleep(2)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=10) == 130
        time.sleep(0.3)
        said = urlopen(f"{url}/metrics", timeout=5).read().decode()
    assert 'num_requests_running{model_name="pacer"} 0' in said


def test_another_shape_of_load_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shape = {"concurrency": [1], "requests": 12, "output_tokens": 4}
    with pacing(slots=2, base_us=2_000) as url:
        stopped = measure(job(url, {**shape, "concurrency": [1, 2], "budget": "60s,14req", "resume": False}))
        assert stopped.stopped_because is not None and list(FOLDER.glob("*.json"))
        other = measure(job(url, {**shape, "output_tokens": 5, "resume": True}))
        same = measure(job(url, {**shape, "concurrency": [1, 2], "resume": True}))
    assert not any("run before" in note for note in other.notes)
    assert any("run before: 1" in note for note in same.notes)
    assert same.levels[0] == stopped.levels[0] and same.levels[1].valid


@pytest.mark.parametrize("wrong", [("--slo", "x"), ("--rate", "abc"), ("--budget", "5foo")])
def test_a_flag_that_cannot_be_is_a_usage_error(tmp_path: Path, wrong: tuple[str, str]) -> None:
    with pacing(slots=2, base_us=2_000) as url:
        flags = [sys.executable, "-m", "preop", "measure", "load", "--endpoint", url, *wrong]
        done = subprocess.run(flags, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and wrong[0] in done.stderr and "Traceback" not in done.stderr
