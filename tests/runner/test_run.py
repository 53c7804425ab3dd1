"""The runner: evidence once and shared, a crash costs only its own pitfalls, what finished is kept.

The instruments here are small ones of the test's own: what is tested is how the runner treats them.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preop import instruments
from preop.deployment.types import Deployment
from preop.errors import InstrumentError
from preop.evidence import Payload, StreamedRequest, Streaming
from preop.facts import Origin, known
from preop.findings import Outcome, Verdict
from preop.instruments.types import Access, Instrument, Job
from preop.ledger.runs import read_records, start_run
from preop.pitfalls import all_pitfalls
from preop.report.types import Report
from preop.run import Interrupted, Plan, Watcher, check
from preop.thresholds import Thresholds

URL = "http://127.0.0.1:9"
STREAMS = Streaming(
    URL,
    "m",
    [StreamedRequest(200, "text/event-stream", 9, 9, 8, 10.0, 90.0, 8, True)] * 3,
    "streams",
    "8 reads",
)


def deployment(name: str = "chat", **facts: object) -> Deployment:
    origin = Origin("argument", "argument 1")
    return Deployment(name, "vllm", "command line", {k: known(v, "user", origin) for k, v in facts.items()})


class Heard(Watcher):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, line: str) -> None:
        self.messages.append(line)


@pytest.fixture
def instrument(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    made: dict[str, Instrument] = {}

    def make(name: str, run: Callable[[Job], Payload], *, puts_load: bool = False) -> None:
        made[name] = Instrument(name, puts_load, run, lambda job: None, ("model", "engine"))

    real = instruments.find_instrument
    monkeypatch.setattr("preop.run.find_instrument", lambda name: made.get(name) or real(name))
    yield make


def checked(tmp_path: Path, *measure: str, watcher: Watcher | None = None, **plan: Any) -> Report:
    run = start_run(tmp_path, "0", {})
    arguments = {"deployments": [deployment()], "measure": measure, **plan}
    return check(Plan(**arguments), run, watcher or Heard())


def outcome(report: Report, pitfall: str) -> Outcome:
    return next(result.outcome for result in report.results if result.pitfall == pitfall)


def test_a_crashed_instrument_is_an_error_for_its_pitfalls_and_nothing_more(
    tmp_path: Path, instrument: Callable[..., None]
) -> None:
    def crash(job: Job) -> Payload:
        raise ZeroDivisionError("division by sk-verysecretverysecretverysecret")

    instrument("load", crash, puts_load=True)
    instrument("streaming", lambda job: STREAMS)
    report = checked(tmp_path, "streaming", "load")
    needs_load = {pitfall.id for pitfall in all_pitfalls() if "load" in pitfall.needs}
    assert needs_load >= {"P04", "P07"}
    errors = {result.pitfall for result in report.results if result.outcome is Outcome.ERROR}
    assert errors and errors <= needs_load
    assert outcome(report, "P14") is Outcome.PASS
    assert report.verdict is Verdict.HOLD
    kept = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert "ZeroDivisionError" in kept
    assert "verysecret" not in kept


def test_evidence_is_gathered_once_and_shared(tmp_path: Path, instrument: Callable[..., None]) -> None:
    calls: list[str] = []

    def count(job: Job) -> Payload:
        calls.append(job.deployment.name)
        raise InstrumentError("not now")

    instrument("load", count, puts_load=True)
    assert len([pitfall for pitfall in all_pitfalls() if "load" in pitfall.needs]) > 1
    checked(tmp_path, "load")
    assert calls == ["chat"]


def test_what_puts_load_runs_alone_and_the_others_side_by_side(
    tmp_path: Path, instrument: Callable[..., None]
) -> None:
    meeting = threading.Barrier(2, timeout=10)
    loads: list[int] = []

    def meets(job: Job) -> Payload:
        meeting.wait()
        return STREAMS

    def alone(job: Job) -> Payload:
        loads.append(meeting.n_waiting)
        raise InstrumentError("done")

    instrument("tokens", meets)
    instrument("streaming", meets)
    instrument("load", alone, puts_load=True)
    report = checked(tmp_path, "load", "tokens", "streaming")
    assert not meeting.broken
    assert loads == [0]
    assert outcome(report, "P14") is Outcome.PASS


def test_ctrl_c_keeps_what_was_finished(tmp_path: Path, instrument: Callable[..., None]) -> None:
    def stop(job: Job) -> Payload:
        raise KeyboardInterrupt

    instrument("streaming", lambda job: STREAMS)
    instrument("load", stop, puts_load=True)
    with pytest.raises(Interrupted):
        checked(tmp_path, "streaming", "load")
    (kept,) = read_records([tmp_path])
    assert not isinstance(kept, str) and kept.instrument == "streaming"
    (run,) = tmp_path.glob("*/run.json")
    assert json.loads(run.read_text())["status"] == "interrupted"


def test_valid_evidence_of_an_earlier_run_is_used_until_its_fingerprint_changes(
    tmp_path: Path, instrument: Callable[..., None]
) -> None:
    instrument("streaming", lambda job: STREAMS)
    same: dict[str, Any] = {"evidence_roots": [tmp_path], "deployments": [deployment(model="a")]}
    assert outcome(checked(tmp_path, "streaming", **same), "P14") is Outcome.PASS
    assert outcome(checked(tmp_path, **same), "P14") is Outcome.PASS
    changed = {**same, "deployments": [deployment(model="b")]}
    assert outcome(checked(tmp_path, **changed), "P14") is Outcome.UNPROVEN
    (path,) = tmp_path.rglob("streaming-chat.json")
    path.write_text(re.sub(r'"taken_at": "\d+', '"taken_at": "2020', path.read_text()))
    assert outcome(checked(tmp_path, **same), "P14") is Outcome.UNPROVEN


def test_a_lifetime_longer_than_any_calendar_is_no_crash(
    tmp_path: Path, instrument: Callable[..., None]
) -> None:
    instrument("streaming", lambda job: STREAMS)
    assert outcome(checked(tmp_path, "streaming"), "P14") is Outcome.PASS
    long = Thresholds({"evidence.lifetime_days": 1e300})
    assert outcome(checked(tmp_path, evidence_roots=[tmp_path], thresholds=long), "P14") is Outcome.PASS


def test_evidence_of_another_engine_at_the_same_address_is_not_used(
    tmp_path: Path, instrument: Callable[..., None]
) -> None:
    instrument("streaming", lambda job: STREAMS)
    one = deployment(model="a")
    other = msgspec.structs.replace(one, engine="sglang")
    assert outcome(checked(tmp_path, "streaming", deployments=[one]), "P14") is Outcome.PASS
    report = checked(tmp_path, evidence_roots=[tmp_path], deployments=[other])
    assert outcome(report, "P14") is Outcome.UNPROVEN


def test_evidence_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "old" / "evidence"
    broken.mkdir(parents=True)
    (broken / "load-chat.json").write_text("{")
    heard = Heard()
    checked(tmp_path, watcher=heard, evidence_roots=[tmp_path])
    assert any("load-chat.json" in line for line in heard.messages)


def test_an_instrument_that_lacks_something_says_what(tmp_path: Path) -> None:
    heard = Heard()
    checked(tmp_path, "tokens", watcher=heard)
    assert any(line.startswith("tokens was not measured for chat") for line in heard.messages)


def test_an_endpoint_that_is_dead_leaves_the_declared_facts(tmp_path: Path) -> None:
    heard = Heard()
    report = checked(tmp_path, watcher=heard, endpoints={"": Access(URL)})
    assert [each.name for each in report.deployments] == ["chat"]
    assert any(URL in line for line in heard.messages)


def test_a_judge_that_breaks_costs_its_own_pitfall_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from preop.pitfalls.types import Case, Pitfall

    def broken(case: Case) -> object:
        raise RuntimeError("oops")

    def swap(pitfall: Pitfall) -> Pitfall:
        return replace(pitfall, judge=broken) if pitfall.id == "P03" else pitfall  # type: ignore[arg-type]

    changed = tuple(swap(pitfall) for pitfall in all_pitfalls())
    monkeypatch.setattr("preop.run.all_pitfalls", lambda: changed)
    report = checked(tmp_path)
    assert [result.pitfall for result in report.results if result.outcome is Outcome.ERROR] == ["P03"]


def test_a_pass_weaker_than_the_pitfall_asks_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from preop.evidence import Strength
    from preop.pitfalls.say import passed
    from preop.text import Text

    weak = passed(Text("fine", "好"), Strength.DECLARED)
    changed = tuple(
        replace(pitfall, judge=lambda case: weak) if pitfall.id == "P04" else pitfall
        for pitfall in all_pitfalls()
    )
    monkeypatch.setattr("preop.run.all_pitfalls", lambda: changed)
    assert outcome(checked(tmp_path), "P04") is Outcome.ERROR


def test_every_contradicted_fact_has_exactly_one_owner() -> None:
    owned = [fact for pitfall in all_pitfalls() for fact in pitfall.facts]
    assert len(owned) == len(set(owned))
