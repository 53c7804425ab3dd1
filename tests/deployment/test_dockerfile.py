"""Dockerfiles: what the last stage starts, by the rules of the Dockerfile reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError

from .reading import read_file, said


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


def files(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")


SCRIPT = '#!/bin/bash\nset -e\nexec vllm serve "${MODEL:-m}" --max-num-seqs $SEQS "$@"\n'


def test_a_script_that_is_copied_is_read_with_its_arguments(tmp_path: Path) -> None:
    files(tmp_path, start_sh=SCRIPT)
    text = (
        'FROM vllm/vllm-openai:v0.32.0\nENV SEQS=8 MODEL="org/m"\nWORKDIR /app\n{copy}\n'
        'ENTRYPOINT ["./start.sh"]\nCMD ["--max-model-len", "4096"]\n'
    )
    for copy in (
        "COPY start.sh .",
        "COPY --chmod=755 start.sh /app/start.sh",
        "COPY . /app",
        'ADD ["start.sh", "./"]',
    ):
        found = built(tmp_path, text.format(copy=copy))
        assert (value(found, "model"), value(found, "max_num_seqs")) == ("org/m", 8), copy
        assert value(found, "max_model_len") == 4096
        assert found.fact("model").source.endswith("start.sh:3:18")
    here = f"COPY <<'EOF' /app/start.sh\n{SCRIPT}EOF"
    inside = built(tmp_path, text.format(copy=here))
    assert value(inside, "max_num_seqs") == 8
    assert inside.fact("model").source.endswith("Dockerfile:7:18")
    missing = built(tmp_path, text.format(copy="COPY other.sh /app/start.sh"))
    assert (missing.engine, value(missing, "max_num_seqs")) == ("vllm", "unknown")
    assert "start.sh is not read" in said(missing)


def test_an_image_that_a_compose_file_builds_is_judged_there(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text('FROM vllm/vllm-openai:v0.32.0\nCMD ["--model", "a"]\n')
    (tmp_path / "compose.yml").write_text(
        "services:\n  chat:\n    build: .\n    entrypoint: [vllm, serve]\n    command: [b]\n"
    )
    (found,) = read_targets([str(tmp_path)], None, ReadOptions())
    assert value(found, "model") == "b"


def test_each_word_has_its_place(tmp_path: Path) -> None:
    text = 'FROM vllm/vllm-openai:v0.32.0\nCMD ["--model", "m", \\\n     "--max-num-seqs", "8"]\n'
    assert built(tmp_path, text).fact("max_num_seqs").source == f"{tmp_path / 'Dockerfile'}:3:24"


def test_arguments_of_the_build_that_are_not_given_are_unknown(tmp_path: Path) -> None:
    found = built(tmp_path, 'ARG TAG\nFROM vllm/vllm-openai:$TAG\nCMD ["--model", "m"]\n')
    assert (found.engine, value(found, "engine_version"), value(found, "image")) == (
        "vllm",
        "unknown",
        "unknown",
    )
    pinned = (
        "FROM python:3.12\nARG V=0.32.0\nRUN pip install \\\n  # a comment\n  vllm==${V}\nCMD vllm serve m\n"
    )
    assert value(built(tmp_path, pinned), "engine_version") == "0.32.0"
    assert value(built(tmp_path, pinned.replace("V=0.32.0", "V")), "engine_version") == "unknown"


@pytest.mark.parametrize(
    ("run", "version"),
    [
        ("pip install --upgrade transformers", "0.32.0"),
        ("pip install 'vllm>=0.9'", "unknown"),
        ("uv pip install --system vllm==0.31.0 flashinfer", "0.31.0"),
        ("pip install git+https://github.com/vllm-project/vllm.git@main", "unknown"),
        ("pip install vllm-router==0.1.0", "0.32.0"),
        ("git clone https://github.com/vllm-project/vllm && cd vllm && pip install -e .", "unknown"),
        ("pip install -r requirements.txt", "0.30.0"),
        ("pip install -r elsewhere.txt", "unknown"),
    ],
)
def test_what_a_run_line_installs(tmp_path: Path, run: str, version: str) -> None:
    files(tmp_path, requirements_txt="# pins\ntorch\nvllm==0.30.0\n")
    found = built(tmp_path, f'FROM vllm/vllm-openai:v0.32.0\nRUN {run}\nCMD ["--model", "m"]\n')
    assert value(found, "engine_version") == version


def test_another_escape_character_and_a_shell_of_its_own(tmp_path: Path) -> None:
    text = (
        "# escape=`\nFROM vllm/vllm-openai:v0.32.0\nENTRYPOINT []\nCMD vllm serve m `\n  --max-num-seqs 8\n"
    )
    assert value(built(tmp_path, text), "max_num_seqs") == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM vllm/vllm-openai:v0.32.0\nRUN pip install x\n", "names no command"),
        ("FROM a\nRUN <<EOF\necho\n", "<<EOF is opened and never closed"),
        ("RUN x\nFROM a\n", "RUN before FROM"),
        ("FROM vllm/vllm-openai AS a b c\n", "FROM without an image"),
    ],
)
def test_what_is_no_image_of_an_engine(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        built(tmp_path, text)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("FROM", "ARG", "ENV", "RUN", "COPY", "WORKDIR", "CMD", "ENTRYPOINT")),
            st.text(max_size=30),
        ),
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
