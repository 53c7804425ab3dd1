"""Run folders: whole documents, readable without preop, lost evidence is said."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.evidence import (
    RECORD_SCHEMA,
    ClientCost,
    Level,
    Load,
    Payload,
    Percentiles,
    Record,
    Strength,
    Tokens,
)
from preop.ledger.runs import is_fresh, read_records, stale, start_run, utc_now

FINGERPRINT = {"engine": "vllm", "model": "m"}


def record(**changes: object) -> Record:
    made = Record(
        schema=RECORD_SCHEMA,
        instrument="tokens",
        deployment="chat",
        strength=Strength.MEASURED,
        taken_at=utc_now().isoformat(),
        took_s=0.1,
        fingerprint=FINGERPRINT,
        conditions={},
        payload=Tokens("a", "b", 3, []),
    )
    return msgspec.structs.replace(made, **changes)


def test_a_kept_record_comes_back_equal_and_is_plain_json(tmp_path: Path) -> None:
    run = start_run(tmp_path, "0", {})
    run.keep(record())
    (path,) = run.path.glob("evidence/*.json")
    assert json.loads(path.read_text())["payload"]["kind"] == "tokens"
    assert list(read_records([tmp_path])) == [record(taken_at=json.loads(path.read_text())["taken_at"])]


def test_names_that_look_like_paths_stay_inside_the_run(tmp_path: Path) -> None:
    run = start_run(tmp_path / "runs", "0", {})
    run.keep(record(deployment="../../../../etc/passwd"))
    run.keep(record(deployment="../../../../etc/passwd"))
    assert len(list((run.path / "evidence").glob("*.json"))) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]


def test_a_broken_document_is_said_and_costs_no_other(tmp_path: Path) -> None:
    run = start_run(tmp_path, "0", {})
    run.keep(record())
    (run.path / "evidence" / "a.json").write_text('{"schema": ')
    (run.path / "evidence" / "b.json").write_text("[" * 100_000)
    (run.path / "evidence" / "c.json").write_bytes(b"\xff\x00")
    found = list(read_records([tmp_path]))
    assert sum(isinstance(one, Record) for one in found) == 1
    assert sum(isinstance(one, str) for one in found) == 3


def _edited(folder: Path, change: Callable[[dict[str, Any]], object], payload: Payload, name: str) -> str:
    """What is said of a kept record after somebody edited it."""
    run = start_run(folder, "0", {})
    run.keep(record(instrument=name, payload=payload))
    (path,) = run.path.glob("evidence/*.json")
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    (said,) = read_records([run.path.parent])
    assert isinstance(said, str)
    return said


LEVEL = Level(
    1,
    True,
    None,
    9,
    0,
    Percentiles(1.0, 2.0),
    Percentiles(),
    Percentiles(),
    Percentiles(),
    1.0,
    ClientCost(0.1, 9),
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("concurrency", 0),
        ("requests", -1),
        ("errors", -1),
        ("output_tokens_per_s", -1.0),
        ("tpot_ms", {"p99": -1e308}),
    ],
)
def test_a_negative_latency_or_count_is_no_evidence(tmp_path: Path, field: str, value: object) -> None:
    said = _edited(
        tmp_path,
        lambda document: document["payload"]["levels"][0].update({field: value}),
        Load("http://127.0.0.1:9", None, 1, 1, [LEVEL]),
        "load",
    )
    assert f"levels[0].{field}" in said


def test_a_payload_under_another_instruments_name_is_no_evidence(tmp_path: Path) -> None:
    said = _edited(
        tmp_path, lambda document: document.update(instrument="load"), Tokens("a", "b", 3, []), "tokens"
    )
    assert "load holds tokens" in said


@pytest.mark.parametrize("depth", [100, 900, 5000])
@pytest.mark.parametrize("field", ["conditions", "fingerprint"])
def test_deeply_nested_evidence_is_said_and_raises_nothing(tmp_path: Path, field: str, depth: int) -> None:
    run = start_run(tmp_path, "0", {})
    run.keep(record(**{field: {"a": "@"}}))
    (path,) = run.path.glob("evidence/*.json")
    path.write_text(path.read_text().replace('"@"', "[" * depth + "]" * depth))
    (said,) = read_records([tmp_path])
    assert isinstance(said, str) and "not a record" in said


def test_a_pipe_among_the_evidence_is_not_waited_for(tmp_path: Path) -> None:
    run = start_run(tmp_path, "0", {})
    run.keep(record())
    os.mkfifo(run.path / "evidence" / "pipe.json")
    (run.path / "evidence" / "zero.json").symlink_to("/dev/zero")
    found = list(read_records([tmp_path]))
    assert [isinstance(one, Record) for one in found] == [False, True, False]


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({}, True),
        ({"payload": None, "error": "refused"}, False),
        ({"taken_at": "2020-01-01T00:00:00+00:00"}, False),
        ({"taken_at": "2999-01-01T00:00:00+00:00"}, False),
        ({"taken_at": "yesterday"}, False),
        ({"taken_at": "2026-01-01T00:00:00"}, False),
    ],
)
def test_evidence_is_fresh_for_its_lifetime(change: dict[str, object], valid: bool) -> None:
    assert is_fresh(record(**change), utc_now(), timedelta(days=30)) is valid


def test_an_interrupted_run_says_so_and_keeps_what_finished(tmp_path: Path) -> None:
    run = start_run(tmp_path, "0", {"measure": ["load"]})
    run.keep(record())
    run.interrupt()
    document = json.loads((run.path / "run.json").read_text())
    assert document["status"] == "interrupted"
    assert len(list(read_records([tmp_path]))) == 1


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_as_a_record_never_raise(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "r" / "evidence"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.json").write_bytes(content)
    assert len(list(read_records([tmp_path]))) == 1


def test_evidence_dated_in_the_future_or_at_no_time_says_so() -> None:
    now, month = utc_now(), timedelta(days=30)
    future = record(taken_at=(now + timedelta(hours=1)).isoformat())
    assert "dated in the future" in (stale(future, now, month) or "")
    for text in ("2026-13-01", "yesterday", "2026-12-01T00:00:00", "", "0001-01-01T00:00:00+14:00"):
        found = stale(record(taken_at=text), now, month)
        assert found is not None and not is_fresh(record(taken_at=text), now, month)
    assert stale(record(taken_at=(now - month).isoformat()), now, month) is None


def test_a_name_that_is_no_utf8_is_kept(tmp_path: Path) -> None:
    run = start_run(tmp_path, "0", {"targets": ["\udcff.yml"]})
    run.keep(record(deployment="m\udcff", fingerprint={"model": "m\udcff", "x": float("nan")}))
    (kept,) = read_records([tmp_path])
    assert isinstance(kept, Record) and kept.deployment == "m?" and kept.fingerprint["x"] is None


def test_two_runs_that_draw_one_name_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["aaaa", "aaaa", "bbbb", "aaaa"])
    monkeypatch.setattr("preop.ledger.runs.secrets.token_hex", lambda _: next(drawn))
    now = utc_now()
    monkeypatch.setattr("preop.ledger.runs.utc_now", lambda: now)
    assert {start_run(tmp_path, "0", {}).path.name[-4:] for _ in range(2)} == {"aaaa", "bbbb"}
