"""The fifteen judges over every real command line: no wrong FAIL, no PASS from absence, no crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.entries import Entry, entries, explained, failures, passes, read
from preop.findings import Outcome
from preop.run import Plan, Watcher, check

READABLE = [entry for entry in entries() if entry.id not in explained()]


@pytest.mark.parametrize("entry", READABLE, ids=lambda entry: entry.id)
def test_only_what_is_certain_fails_or_passes(entry: Entry, tmp_path: Path) -> None:
    report = check(Plan(deployments=read(entry, tmp_path)), None, Watcher())
    said: dict[Outcome, dict[str, str]] = {outcome: {} for outcome in Outcome}
    for result in report.results:
        for finding in result.by_deployment.values():
            said[finding.outcome][result.pitfall] = finding.summary.en
    assert not said[Outcome.ERROR]
    assert said[Outcome.FAIL].keys() == failures().get(entry.id, {}).keys(), said[Outcome.FAIL]
    assert said[Outcome.PASS].keys() == passes().get(entry.id, {}).keys(), said[Outcome.PASS]


def test_every_listed_judgement_is_of_an_entry() -> None:
    known = {entry.id for entry in READABLE}
    assert failures().keys() | passes().keys() <= known
