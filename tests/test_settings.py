"""preop.toml: every key known, or one sentence with the nearest real one."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.errors import UsageError
from preop.settings import Settings, load_settings
from preop.thresholds import THRESHOLDS, Thresholds


def write(folder: Path, text: str) -> Path:
    path = folder / "preop.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_means_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings() == Settings()


def test_every_section_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'lang = "zh"\nruns = "evidence"\n[deployment]\ngpu = "h100-80gb"\ngpu_count = 2\n'
        '[inputs]\nprompts = "p.jsonl"\n[measure]\nconcurrency = [1, 8]\nbudget_s = 60\n'
        "[thresholds.P04]\nttft_p99_ms = 300\n[thresholds.evidence]\nlifetime_days = 7\n",
    )
    found = load_settings(path)
    assert (found.lang, found.runs) == ("zh", "evidence")
    assert (found.deployment.gpu, found.deployment.gpu_count) == ("h100-80gb", 2)
    assert found.inputs.prompts == "p.jsonl"
    assert found.measure.concurrency == [1, 8]
    thresholds = Thresholds(found.thresholds)
    assert thresholds["P04.ttft_p99_ms"] == 300
    assert thresholds.source("P04.ttft_p99_ms") == "preop.toml"
    assert thresholds["P04.tpot_p99_ms"] == THRESHOLDS["P04.tpot_p99_ms"].default


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[deploymnt]\n", "did you mean deployment?"),
        ('[inputs]\nprompt = "x"\n', "did you mean prompts?"),
        ("[thresholds.P04]\nttft_p99 = 1\n", "did you mean ttft_p99_ms?"),
        ("[thresholds.P99]\nx = 1\n", "thresholds.P99"),
        ("[thresholds.P04]\nttft_p99_ms = nan\n", "expected a number of 0 or more"),
        ("[thresholds.P04]\nttft_p99_ms = inf\n", "expected a number of 0 or more"),
        ("[thresholds.P04]\nttft_p99_ms = true\n", "expected a number of 0 or more"),
        ("[thresholds.P04]\nttft_p99_ms = -1\n", "expected a number of 0 or more"),
        ("thresholds = 3\n", "expected sections"),
        ('[deployment]\ngpu_count = "two"\n', "gpu_count"),
        ('[deployment]\naccelerator = "gpu"\n', "accelerator"),
        ("[measure]\nconcurrency = [0]\n", "concurrency"),
        ("[measure]\nconcurrency = []\n", "concurrency"),
        ("[measure]\nbudget_s = 0\n", "budget_s"),
        ("[measure]\nbudget_s = inf\n", "budget_s"),
        ("[measure]\nrequests = 9999999\n", "requests"),
        ("[deployment]\ngpu_count = 99999999999999999999\n", "gpu_count"),
        ('runs = "a\\u0000b"\n', "expected a folder's path"),
        ('lang = "fr"\n', 'expected "en" or "zh"'),
        ("inputs = 3\n", "expected a section [inputs]"),
        ("a = [\n", "not valid TOML"),
    ],
)
def test_a_wrong_key_or_value_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_settings(write(tmp_path, text))
    message = str(caught.value)
    assert said in message
    assert "preop.toml" in message
    assert "\n" not in message


def test_binary_missing_and_huge_files(tmp_path: Path) -> None:
    path = tmp_path / "preop.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_settings(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_settings(tmp_path / "absent.toml")
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(UsageError, match="larger than 1 MB"):
        load_settings(path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_settings_or_a_usage_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "preop.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_settings(path)
    except UsageError:
        return
    assert tomllib.loads(path.read_text(encoding="utf-8-sig")) is not None
