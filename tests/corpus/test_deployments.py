"""Every real deployment file is read, and gives the facts that its text states; the others are declined."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from corpus.deployments import Entry, entries, problems, read
from preop.errors import InputError

AT_LEAST = {
    "kubernetes": 8,
    "kustomize": 3,
    "leaderworkerset": 5,
    "kserve-isvc": 5,
    "llmisvc": 5,
    "helm-values": 5,
    "ray-serve": 5,
    "systemd": 4,
    "dockerfile": 4,
    "triton": 5,
    "tgi": 4,
    "trtllm-serve": 4,
    "compose": 4,
    "dynamo": 3,
    "shell-script": 4,
    "engine-config": 2,
}


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.id)
def test_entry_is_read_as_its_text_says(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if entry.refused is not None:
        with pytest.raises(InputError) as raised:
            read(entry, tmp_path, monkeypatch)
        assert str(raised.value).strip()
        return
    found = read(entry, tmp_path, monkeypatch)
    assert len(found) == len(entry.deployments), [deployment.name for deployment in found]
    told = [
        problem
        for expected, deployment in zip(entry.deployments, found, strict=True)
        for problem in problems(expected, deployment)
    ]
    assert not told, f"{entry.id} ({entry.source}): " + "; ".join(told)


def test_the_deployments_are_a_good_mix() -> None:
    forms = Counter(entry.form for entry in entries())
    assert {form: forms[form] for form in AT_LEAST if forms[form] < AT_LEAST[form]} == {}
    assert len(entries()) >= 150
    assert len({entry.source.partition(":")[0] for entry in entries()}) >= 40
    engines = {expected.engine for entry in entries() for expected in entry.deployments}
    assert engines >= {"vllm", "sglang", "llama.cpp", "tgi", "tei", "tensorrt-llm"}


def test_an_entry_is_whole() -> None:
    assert len({entry.id for entry in entries()}) == len(entries())
    for entry in entries():
        assert bool(entry.deployments) != (entry.refused is not None), entry.id
        for target in entry.targets:
            is_folder = target == "." or any(name.startswith(f"{target}/") for name in entry.files)
            assert is_folder or target in entry.files, entry.id
        assert not any(name.startswith("/") or ".." in name.split("/") for name in entry.files), entry.id
        assert "-" not in entry.files or entry.targets == ("-",), entry.id
