"""Which kind of file a path holds, and what is said of those that preop does not read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.read import ReadOptions, read_targets
from preop.errors import InputError, PreopError

from .reading import read_file, said

COMPOSE = "services:\n  chat:\n    image: vllm/vllm-openai:v0.32.0\n    command: --model m --max-num-seqs 8\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docker-compose.yml", COMPOSE),
        ("compose.prod.yaml", COMPOSE),
        ("stack", COMPOSE),
        (
            "c.json",
            '{"services": {"chat": {"command": ["vllm", "serve", "m", "--max-num-seqs", "8"]}}}',
        ),
        ("bom.yml", "\ufeff" + COMPOSE),
        ("crlf.yml", COMPOSE.replace("\n", "\r\n")),
        (
            "serve.sh",
            "#!/usr/bin/env bash\nset -e\n# vllm serve old\nvllm serve m \\\n  --max-num-seqs 8\n",
        ),
        ("serve", '#!/bin/sh\nexec vllm serve m --max-num-seqs 8 "$@"\n'.replace(' "$@"', "")),
        ("command.txt", "vllm serve m --max-num-seqs 8\n"),
        ("run.sh", "docker run --gpus all vllm/vllm-openai:v0.32.0 --model m --max-num-seqs 8"),
        ("both.sh", "vllm serve m --max-num-seqs 8 &\nsleep 60\nvllm bench serve --max-concurrency 1\n"),
        (
            "asks.sh",
            "if ! command -v vllm; then pip install vllm; fi\ncommand -v llama-server\nvllm --version\n"
            "llama-server --version\npkill -f 'vllm serve'\necho vllm serve x\n"
            "docker pull vllm/vllm-openai\nvllm serve m --max-num-seqs 8\n",
        ),
        ("array.sh", 'A=(m --max-num-seqs 8)\nvllm serve "${A[@]}"\n'),
        ("eval.sh", 'M=m\nCMD="vllm serve $M"\nCMD+=\' --max-num-seqs 8\'\neval "$CMD"\n'),
        ("text.sh", 'M=m\nCMD="\n vllm serve \\\n  $M --max-num-seqs 8\n"\nbash -c "${CMD}" &\n'),
        ("crlf.sh", "vllm serve m \\\r\n  --max-num-seqs 8\r\n"),
    ],
)
def test_files_that_are_read(tmp_path: Path, name: str, text: str) -> None:
    (deployment,) = read_file(write(tmp_path, name, text))
    assert deployment.engine == "vllm"
    assert deployment.fact("max_num_seqs").value == 8
    assert deployment.fact("max_num_seqs").source.startswith(f"{tmp_path / name}:")


def test_a_script_with_its_own_arguments_hides_flags(tmp_path: Path) -> None:
    (deployment,) = read_file(write(tmp_path, "s.sh", 'vllm serve m --max-num-seqs 8 "$@"\n'))
    assert not deployment.fact("max_num_seqs").is_known
    assert "$@ cannot be seen" in said(deployment)


def test_relative_paths_begin_where_the_script_has_gone(tmp_path: Path) -> None:
    write(tmp_path, "conf/c.yaml", "max-num-seqs: 5\n")
    write(tmp_path, "c.yaml", "max-num-seqs: 6\n")
    (here,) = read_file(write(tmp_path, "a.sh", "vllm serve m --config c.yaml"))
    (there,) = read_file(write(tmp_path, "b.sh", "cd conf && vllm serve m --config c.yaml"))
    (nowhere,) = read_file(write(tmp_path, "c.sh", 'cd "$DIR" && vllm serve m --config c.yaml'))
    assert [each.fact("max_num_seqs").value for each in (here, there, nowhere)] == [6, 5, None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty.yml", "", "is empty"),
        ("blank.yml", " \n\n", "is empty"),
        ("comment.yml", "# nothing\n", "holds no value"),
        ("list.yml", "- a\n", "holds no mapping"),
        ("pod.yaml", "apiVersion: v1\nkind: Pod\n", "nothing to judge"),
        ("values.yaml", "servingEngineSpec:\n  modelSpec: []\n", "modelSpec is empty"),
        ("Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n", "Helm"),
        ("t.yaml", "args:\n{{- range .Values.args }}\n", "a template"),
        ("serve.yaml", "applications:\n- name: llm\n", "no application has llm_configs"),
        ("config.json", '{"architectures": ["X"], "hidden_size": 1}', "a model's config.json"),
        ("vllm.yaml", "model: m\ntensor-parallel-size: 4\n", "flags of more than one engine"),
        ("trt.yaml", "kv_cache_config: {dtype: fp8}\n", "trtllm-serve MODEL --config FILE"),
        ("my-values.yaml", "image: {tag: x}\n", "a Helm chart that preop does not know: render it first"),
        ("app.py", "from vllm import LLM\nllm = LLM(model='m')\n", "Python that makes an engine"),
        ("other.yml", "a: 1\n", "no form that preop knows"),
        ("x.toml", "a = 1\n", "not a kind of file"),
        ("x.py", "print(1)\n", "not a kind of file"),
        ("x", "#!/usr/bin/env python3\nprint(1)\n", "a python3 program"),
        ("Dockerfile", 'FROM python:3\nCMD ["m"]\n', "starts no engine"),
        ("x.service", "[Service]\nExecStart=nginx\n", "starts no engine"),
        ("none.sh", "#!/bin/sh\necho vllm serve m\n", "starts no engine"),
        ("two.sh", "vllm serve a &\nvllm serve b\n", "two engines"),
        ("open.sh", "vllm serve 'a\n", "never closed"),
        ("dup.yml", COMPOSE + "services: {}\n", "'services' is there twice"),
        ("notes.txt", "remember the milk\n", "starts no engine"),
    ],
)
def test_files_that_are_not_read_are_named_for_what_they_are(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_file(write(tmp_path, name, text))
    assert "\n" not in str(error.value)
    assert name in str(error.value)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_file(tmp_path / "none.yml")
    with pytest.raises(InputError, match=r"nothing here starts an engine .* \(0 files seen\)"):
        read_file(tmp_path)
    with pytest.raises(InputError, match=r"no such file|cannot be read"):
        read_targets(["a\x00b"], None, ReadOptions())
    with pytest.raises(InputError, match="cannot be read"):
        read_targets(["x" * 5000], None, ReadOptions())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no ordinary file"):
        read_file(tmp_path / "pipe")


def test_a_file_of_100_mb_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "huge.yml"
    with path.open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    start = time.monotonic()
    with pytest.raises(InputError, match=r"100 MiB; expected .* at most 20 MiB"):
        read_file(path)
    assert time.monotonic() - start < 0.5


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)), b"services: \x00", b"\xff\xfea\x00"]
)
def test_a_binary_file_is_named_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.yml"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"binary|not UTF-8"):
        read_file(path)


def test_several_targets_have_names_of_their_own(tmp_path: Path) -> None:
    path = str(write(tmp_path, "compose.yml", COMPOSE))
    found = read_targets([path, path], ["vllm", "serve", "m"], ReadOptions())
    assert [each.name for each in found] == ["chat", "chat-2", "vllm"]


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.sampled_from(["x.yml", "x.sh", "x"])
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_gives_deployments_or_one_clear_error(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    try:
        read_file(path)
    except PreopError as error:
        assert str(error)
