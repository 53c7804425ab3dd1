"""This machine's own ceiling: a stub with a known schedule, and a client whose lateness can be told."""

from __future__ import annotations

import json
import multiprocessing
import time

import pytest
from click.testing import CliRunner

from preop.cli.measure import command
from preop.instruments.load import self_test as module
from preop.instruments.load.self_test import SelfTest, Streams, self_test, self_test_lines
from preop.instruments.wire.client import Connection


def level(streams: int, carried: bool = True) -> Streams:
    return Streams(streams, streams * 50, streams * 50.0, 12.5, 0.3, 1.0 if carried else 9.0, carried)


@pytest.fixture(scope="module")
def small() -> SelfTest:
    return self_test((16, 24))


def test_the_events_that_the_schedule_asks_for_are_those_that_came(small: SelfTest) -> None:
    assert [each.streams for each in small.levels] == [16, 24]
    for each in small.levels:
        assert each.failed is None
        assert each.due_per_s == each.streams * 50
        assert each.events_per_s == pytest.approx(each.due_per_s, rel=0.1)
        assert each.cpu_us_per_event is not None and 0 < each.cpu_us_per_event < 5_000
        assert each.late_p50_ms is not None and each.late_p99_ms is not None
        assert 0 <= each.late_p50_ms <= each.late_p99_ms


def test_nothing_is_left_running(small: SelfTest) -> None:
    assert [child for child in multiprocessing.active_children() if child.name == "preop-stub"] == []


def test_a_client_that_is_late_is_seen_to_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read is kept waiting for 6 ms, which is more than the limit of 5 ms."""
    read = Connection.data_received

    def slow(connection: Connection, data: bytes) -> None:
        time.sleep(0.006)
        read(connection, data)

    monkeypatch.setattr(Connection, "data_received", slow)
    found = self_test((1,))
    (only,) = found.levels
    assert only.late_p50_ms is not None and 6 <= only.late_p50_ms < 20
    assert not only.carried and found.ceiling is None
    assert "does not time even 1 streams to 5 ms" in found.means.en


def test_the_table_and_its_sentence(small: SelfTest) -> None:
    lines = self_test_lines(small, "en")
    assert len(lines) == 5 and lines[0].split()[0] == "streams"
    assert lines[1].split()[:2] == ["16", "800"] and lines[2].split()[:2] == ["24", "1,200"]
    assert lines[-1] == small.means.en and self_test_lines(small, "zh")[-1] == small.means.zh


@pytest.mark.parametrize(
    ("carried", "ceiling", "said"),
    [
        ((True, True, True), 256, "256 streams of 50 events a second each (the most that was tried)"),
        (
            (True, False, True),
            16,
            "16 streams of 50 events a second each to 5 ms at the 99th percentile, and 64",
        ),
        ((False, True, True), None, "does not time even 16 streams"),
    ],
)
def test_the_ceiling_is_the_highest_level_below_which_none_failed(
    monkeypatch: pytest.MonkeyPatch, carried: tuple[bool, ...], ceiling: int | None, said: str
) -> None:
    found = dict(zip((16, 64, 256), carried, strict=True))
    monkeypatch.setattr(module, "_level", lambda port, streams: level(streams, found[streams]))
    result = self_test(tuple(found))
    assert result.ceiling == ceiling
    assert said in result.means.en


def test_the_command_prints_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEVELS", (4,))
    run = CliRunner().invoke(
        command, ["load", "--self-test", "--format", "json", "-q"], standalone_mode=False
    )
    assert run.return_value == 0, run.output
    answer = json.loads(run.stdout)
    assert answer["schema"] == "preop.self-test/1" and answer["limit_ms"] == 5
    assert [each["streams"] for each in answer["levels"]] == [4]
    assert set(answer["means"]) == {"en", "zh"}


def test_with_an_endpoint_it_is_a_wrong_call() -> None:
    asked = ["load", "--self-test", "--endpoint", "http://127.0.0.1:9"]
    run = CliRunner().invoke(command, asked, standalone_mode=False)
    assert "measures this machine alone" in str(run.exception)
