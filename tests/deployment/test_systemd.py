"""systemd units as systemd reads them (systemd.service(5), systemd.exec(5)), and Podman's quadlets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError

from .reading import read_file, said


def unit(folder: Path, text: str, name: str = "vllm.service") -> Deployment:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    (deployment,) = read_file(path)
    return deployment


def value(deployment: Deployment, name: str) -> Any:
    fact = deployment.fact(name)
    return fact.value if fact.is_known else "unknown"


def test_a_unit_with_variables_files_and_continued_lines(tmp_path: Path) -> None:
    (tmp_path / "vllm.env").write_text("SEQS=8\n")
    found = unit(
        tmp_path,
        '[Unit]\nDescription=chat\n[Service]\nEnvironment=MODEL=org/m "NAME=a b"\n'
        f"EnvironmentFile={tmp_path / 'vllm.env'}\n"
        "# a comment\nExecStart=-/opt/venv/bin/vllm serve ${MODEL} \\\n"
        "  # a comment between\n  --max-num-seqs $SEQS --served-model-name '${NAME}'\n",
    )
    assert (found.name, found.engine) == ("vllm", "vllm")
    assert (value(found, "model"), value(found, "max_num_seqs")) == ("org/m", 8)
    assert value(found, "served_model_name") == "a b"
    assert found.fact("model").source.startswith(f"{tmp_path / 'vllm.service'}:7:")


def test_a_drop_in_resets_the_command_and_the_last_counts(tmp_path: Path) -> None:
    folder = tmp_path / "llm.service.d"
    folder.mkdir()
    (folder / "override.conf").write_text(
        "[Service]\nExecStart=\nExecStart=llama-server -m /m.gguf -c 4096 -np 2\n"
    )
    found = unit(tmp_path, "[Service]\nExecStart=vllm serve m\n", "llm.service")
    assert (found.engine, value(found, "max_num_seqs")) == ("llama.cpp", 2)


def test_what_systemd_fills_in_later_is_unknown(tmp_path: Path) -> None:
    found = unit(tmp_path, "[Service]\nExecStart=vllm serve %i --max-num-seqs 8 $ARGS\n", "vllm@.service")
    assert (found.name, value(found, "model")) == ("vllm", "unknown")
    assert value(found, "max_num_seqs") == "unknown", "$ARGS may set it again"
    missing = unit(tmp_path, "[Service]\nEnvironmentFile=/nowhere/x.env\nExecStart=vllm serve m\n")
    assert "/nowhere/x.env is not here" in said(missing)


def test_a_command_inside_docker_and_inside_a_shell(tmp_path: Path) -> None:
    docker = "docker run --gpus all vllm/vllm-openai:v0.32.0 --model m --max-num-seqs 8"
    found = unit(tmp_path, f"[Service]\nExecStart=/usr/bin/{docker}\n")
    assert (value(found, "engine_version"), value(found, "max_num_seqs")) == ("0.32.0", 8)
    shell = unit(tmp_path, '[Service]\nExecStart=/bin/bash -c "cd /x && vllm serve m --max-num-seqs 8"\n')
    assert value(shell, "max_num_seqs") == 8


def test_a_quadlet(tmp_path: Path) -> None:
    found = unit(
        tmp_path,
        "[Container]\nImage=docker.io/vllm/vllm-openai:v0.32.0\nExec=--model m --max-num-seqs 8\n"
        "AddDevice=nvidia.com/gpu=all\nEnvironment=HF_TOKEN=hf_secretsecretsecret\n",
        "chat.container",
    )
    assert (found.name, value(found, "max_num_seqs")) == ("chat", 8)
    assert (value(found, "engine_version"), value(found, "accelerator")) == ("0.32.0", "nvidia")
    assert "secretsecret" not in str(found)


# systemd.service(5), "Command lines", and systemd.unit(5), "Specifiers".
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("--served-model-name 'a b'", "a b"),
        ('--served-model-name "a\\x20b"', "a b"),
        ("--served-model-name a\\sb", "a b"),
        ("--served-model-name $$ONE", "$ONE"),
        ("--served-model-name x${ONE}y", "xoney"),
        ("--served-model-name $ONE", "one"),
        ("--served-model-name %i", "qwen"),
        ("--served-model-name %p-100%%", "vllm-100%"),
        ("--served-model-name %H", "unknown"),
        ("--served-model-name ${NONE}", "unknown"),
    ],
)
def test_words_of_a_command(tmp_path: Path, line: str, name: str) -> None:
    text = f"[Service]\nEnvironment=ONE=one\nExecStart=/usr/bin/vllm serve m {line}\n"
    assert value(unit(tmp_path, text, "vllm@qwen.service"), "served_model_name") == name


def test_signs_before_the_program(tmp_path: Path) -> None:
    text = "[Service]\nEnvironment=A=8\nExecStart={}\n"
    quiet = unit(tmp_path, text.format("-@!/usr/bin/vllm vllm-chat serve m --max-num-seqs $A"))
    assert (value(quiet, "model"), value(quiet, "max_num_seqs")) == ("m", 8)
    plain = unit(tmp_path, text.format(":/usr/bin/vllm serve m --served-model-name $A"))
    assert value(plain, "served_model_name") == "$A"


def test_a_script_is_read_where_it_is_on_this_machine(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text('#!/bin/sh\nexec vllm serve "$1" --max-num-seqs $SEQS\n')
    text = f"[Service]\nEnvironment=SEQS=8\nExecStart=/bin/bash {script} org/m\n"
    found = unit(tmp_path, text)
    assert (value(found, "max_num_seqs"), value(found, "model")) == (8, "unknown")
    with pytest.raises(InputError, match=r"runs `/bin/bash /nowhere/serve\.sh`, which starts no engine"):
        unit(tmp_path, "[Service]\nExecStart=/bin/bash /nowhere/serve.sh\n")


def test_an_environment_file_that_is_not_here_may_win(tmp_path: Path) -> None:
    text = "[Service]\nEnvironment=SEQS=8\nExecStart=vllm serve m --max-num-seqs ${SEQS}\n"
    assert value(unit(tmp_path, text), "max_num_seqs") == 8
    missing = text.replace("ExecStart", "EnvironmentFile=-/nowhere/x.env\nExecStart")
    assert value(unit(tmp_path, missing), "max_num_seqs") == "unknown"


def test_drop_ins_of_a_template_and_of_its_instance(tmp_path: Path) -> None:
    for folder, name, line in [
        ("vllm@.service.d", "10-a.conf", "Environment=SEQS=4 LEN=1024"),
        ("vllm@.service.d", "20-b.conf", "Environment=SEQS=5"),
        ("vllm@q.service.d", "20-b.conf", "Environment=SEQS=6"),
    ]:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(f"[Service]\n{line}\n")
    text = "[Service]\nExecStart=vllm serve m --max-num-seqs ${SEQS} --max-model-len ${LEN}\n"
    found = unit(tmp_path, text, "vllm@q.service")
    assert (value(found, "max_num_seqs"), value(found, "max_model_len")) == (6, 1024)
    with pytest.raises(InputError, match=r"a drop-in of vllm@q\.service"):
        read_file(tmp_path / "vllm@q.service.d" / "20-b.conf")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[Service]\nExecStart=nginx -g x\n", "starts no engine"),
        ("[Service]\nExecStart=vllm serve a\nExecStart=vllm serve b\n", "a second ExecStart"),
        ("[Container]\nExec=x\nImage=\n", "starts no engine|without Image"),
    ],
)
def test_units_that_are_not_judged(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        unit(tmp_path, text)


@given(st.text(max_size=120), st.sampled_from(["ExecStart=", "Environment=", "Image=", ""]))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_unit_gives_deployments_or_one_sentence(tmp_path: Path, text: str, key: str) -> None:
    try:
        unit(tmp_path, f"[Service]\nExecStart=vllm serve m\n{key}{text}\n")
    except (PreopError, UnicodeError) as error:
        assert str(error)
