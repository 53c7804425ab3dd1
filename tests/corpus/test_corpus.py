"""Every real command line is read, and gives the facts that its text states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corpus.entries import Entry, Expected, entries, explained, read
from preop.deployment.types import Deployment
from preop.errors import InputError


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.id)
def test_entry_is_read_as_its_text_says(entry: Entry, tmp_path: Path) -> None:
    if entry.id in explained():
        with pytest.raises(InputError):
            read(entry, tmp_path)
        return
    found = read(entry, tmp_path)
    assert len(found) == len(entry.deployments), [deployment.name for deployment in found]
    problems = [
        problem
        for expected, deployment in zip(entry.deployments, found, strict=True)
        for problem in _problems(expected, deployment)
    ]
    assert not problems, f"{entry.id} ({entry.source}): " + "; ".join(problems)


def test_at_least_99_percent_are_read(tmp_path: Path) -> None:
    assert len(entries()) >= 150
    assert len({entry.id for entry in entries()}) == len(entries())
    assert set(explained()) <= {entry.id for entry in entries()}
    refused = {entry.id for entry in entries() if not _is_read(entry, tmp_path)}
    assert refused == set(explained()), "each failure is explained, and nothing is that is read"
    assert len(refused) <= len(entries()) / 100


def test_the_corpus_is_a_good_mix() -> None:
    forms = [entry.form for entry in entries()]
    engines = [
        expected.engine for entry in entries() if entry.form != "compose" for expected in entry.deployments
    ]
    assert forms.count("compose") >= 35
    assert forms.count("docker-run") >= 15
    assert engines.count("vllm") >= 70
    assert engines.count("sglang") >= 30
    assert engines.count("llama.cpp") >= 35
    assert len({entry.source.partition(":")[0] for entry in entries()}) >= 40


def _is_read(entry: Entry, folder: Path) -> bool:
    try:
        return bool(read(entry, folder))
    except InputError:
        return False


def _problems(expected: Expected, deployment: Deployment) -> list[str]:
    problems = []
    if deployment.engine != expected.engine:
        problems.append(f"engine is {deployment.engine}, not {expected.engine}")
    if expected.name is not None and deployment.name != expected.name:
        problems.append(f"name is {deployment.name}, not {expected.name}")
    for name, value in expected.facts.items():
        fact = deployment.fact(name)
        if not fact.is_known:
            problems.append(f"{name} is unknown ({fact.note}), not {value!r}")
        elif not _is_same(fact.value, value):
            problems.append(f"{name} is {fact.value!r} ({fact.source}), not {value!r}")
    for name in expected.unknown:
        fact = deployment.fact(name)
        if fact.is_known:
            problems.append(f"{name} is {fact.value!r} ({fact.source}), but nothing states it")
    gone = sorted(
        note.message.split()[0] for note in deployment.notes if note.kind in ("unknown-flag", "removed-flag")
    )
    if gone != sorted(expected.gone):
        problems.append(f"flags that are gone are {gone}, not {sorted(expected.gone)}")
    return problems


def _is_same(value: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return isinstance(value, dict) and all(
            key in value and _is_same(value[key], told) for key, told in expected.items()
        )
    return bool(value == expected) and isinstance(value, bool) == isinstance(expected, bool)
