"""Dockerfiles: what the last stage starts, by the rules of the Dockerfile reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError

from .reading import read_file


def built(folder: Path, text: str) -> Deployment:
    path = folder / "Dockerfile"
    path.write_text(text, encoding="utf-8")
    (deployment,) = read_file(path)
    return deployment


def value(deployment: Deployment, name: str) -> Any:
    fact = deployment.fact(name)
    return fact.value if fact.is_known else "unknown"


@pytest.mark.parametrize(
    "commands",
    [
        'CMD ["--model", "m", "--max-num-seqs", "8"]',
        'ENTRYPOINT ["vllm", "serve", "m"]\nCMD ["--max-num-seqs", "8"]',
        'CMD ["no"]\nENTRYPOINT ["vllm", "serve", "m", "--max-num-seqs", "8"]',
        "ENTRYPOINT []\nCMD vllm serve m \\\n  --max-num-seqs 8",
        'ENV SEQS=8\nENTRYPOINT vllm serve m --max-num-seqs $SEQS\nCMD ["ignored"]',
    ],
)
def test_entrypoint_and_cmd(tmp_path: Path, commands: str) -> None:
    found = built(tmp_path, f"# syntax=docker/dockerfile:1\nFROM vllm/vllm-openai:v0.32.0\n{commands}\n")
    assert (value(found, "model"), value(found, "max_num_seqs")) == ("m", 8)
    assert value(found, "engine_version") == "0.32.0"
    assert value(found, "image_digest") == "unknown"


def test_arguments_stages_and_versions_that_are_installed(tmp_path: Path) -> None:
    text = (
        "ARG VERSION=v0.31.0\nFROM vllm/vllm-openai:${VERSION} AS base\n"
        'ENTRYPOINT ["vllm", "serve", "m"]\nFROM base\nCMD ["--max-num-seqs", "8"]\n'
    )
    found = built(tmp_path, text)
    assert (value(found, "engine_version"), value(found, "max_num_seqs")) == ("0.31.0", 8)
    pinned = built(tmp_path, text + "RUN pip install 'vllm[audio]==0.30.1'\n")
    assert value(pinned, "engine_version") == "0.30.1"
    loose = built(tmp_path, text + "RUN pip install -U vllm\n")
    assert value(loose, "engine_version") == "unknown"
    from_python = "FROM python:3.12\nRUN uv pip install vllm==0.32.0\nCMD vllm serve m\n"
    assert value(built(tmp_path, from_python), "engine_version") == "0.32.0"


def test_one_that_starts_no_engine_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="starts no engine"):
        built(tmp_path, "FROM python:3.12\nRUN <<EOF\nvllm serve no\nEOF\nCMD python app.py\n")


@given(
    st.lists(
        st.tuples(st.sampled_from(("FROM", "ARG", "ENV", "RUN", "CMD", "ENTRYPOINT")), st.text(max_size=30)),
        max_size=6,
    )
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_dockerfile_gives_deployments_or_one_sentence(
    tmp_path: Path, lines: list[tuple[str, str]]
) -> None:
    text = "FROM vllm/vllm-openai\n" + "".join(f"{keyword} {rest}\n" for keyword, rest in lines)
    try:
        built(tmp_path, text)
    except (PreopError, UnicodeError, ValueError) as error:
        assert str(error)
