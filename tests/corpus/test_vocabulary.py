"""Whatever a reader calls a fact, the vocabulary has the name, and its unit."""

from __future__ import annotations

import pytest

from corpus import deployments, entries
from preop.deployment.types import Deployment
from preop.engines import vocabulary


def test_every_fact_of_the_corpus_has_a_name_and_a_unit_of_the_vocabulary(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, said, read = vocabulary(), set(), 0
    for deployment in _all(tmp_path_factory, monkeypatch):
        read += 1
        for name, fact in deployment.facts.items():
            if name not in words:
                said.add(f"{name} is no name of the vocabulary ({deployment.source})")
            elif fact.unit is not None and fact.unit != words[name].get("unit"):
                said.add(f"{name} is in {fact.unit}, not {words[name].get('unit')} ({deployment.source})")
    assert said == set()
    assert read >= 400


def _all(factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> list[Deployment]:
    found: list[Deployment] = []
    for entry in deployments.entries():
        if entry.refused is None:
            found += deployments.read(entry, factory.mktemp("file"), monkeypatch)
    declined = entries.explained()
    for each in entries.entries():
        if each.id not in declined:
            found += entries.read(each, factory.mktemp("command"))
    return found


def test_the_vocabulary_tells_what_a_form_states_besides_the_command() -> None:
    words = vocabulary()
    assert {"role", "replicas", "gpu_allocation", "gpu_memory_limit_mib", "decoupled"} <= words.keys()
    assert all(words[name]["meaning"] for name in ("role", "replicas", "gpu_allocation", "decoupled"))
