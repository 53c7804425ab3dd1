"""Files, folders and standard input as a user gives them: exit codes, what is said, eighty columns."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec:\n  containers:\n"
    "  - {name: a, image: 'vllm/vllm-openai:v0.32.0', args: [--model, m]}\n"
)
COMMAND = [sys.executable, "-m", "preop", "check", "--no-keep"]


def preop(
    *arguments: str, cwd: Path, text: str | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=text,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80"},
        timeout=60,
        check=False,
        **more,
    )


def folder(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_stream_on_standard_input(tmp_path: Path) -> None:
    stream = "---\n".join(POD.replace("NAME", name) for name in ("a", "b"))
    done = preop("-", "--format", "json", cwd=tmp_path, text=stream)
    document = json.loads(done.stdout)
    assert [each["name"] for each in document["deployments"]] == ["a", "b"]
    assert {each["source"].partition(": ")[0] for each in document["deployments"]} == {"standard input"}
    assert done.stderr == ""
    folder(tmp_path, more_dot_sh="vllm serve m\n")
    done = preop("-", "more.sh", "--format", "json", cwd=tmp_path, text=stream)
    assert len(json.loads(done.stdout)["deployments"]) == 3


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        (["-"], "", "standard input: is empty"),
        (["-"], POD + "  - [a\n", "not valid YAML"),
        (["-", "-"], POD, "given twice"),
        (["-"], "kind: List\napiVersion: v1\nitems: []\n", "nothing to judge"),
        (["."], None, "nothing here starts an engine that preop knows (0 files seen)"),
        (["none"], None, "no such file"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_and_exit_2(
    tmp_path: Path, arguments: list[str], text: str | None, said: str
) -> None:
    done = preop(*arguments, cwd=tmp_path, text=text)
    assert done.returncode == 2
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_terminal_is_not_waited_for(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    try:
        done = subprocess.run(
            [*COMMAND, "-"],
            stdin=slave,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=30,
            check=False,
        )
    finally:
        os.close(slave)
        os.close(master)
    assert done.returncode == 2
    assert "standard input is a terminal; expected a pipe" in done.stderr


def test_what_looks_like_a_deployment_and_is_broken_keeps_from_go(tmp_path: Path) -> None:
    folder(tmp_path, good_dot_yaml=POD, bad_dot_yaml=POD + "  - [vllm\n")
    done = preop(".", "--format", "json", "--gate", "pr", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["verdict"] != "GO" and done.returncode in (1, 3)
    assert any("bad.yaml" in str(remark) for remark in document["remarks"])
    # and the answer to it: it is named, or passed over on purpose
    done = preop(".", "--exclude", "bad.*", "--format", "json", "--gate", "pr", cwd=tmp_path)
    assert not any("bad.yaml" in str(remark) for remark in json.loads(done.stdout)["remarks"])


def test_a_folder_of_many_fits_eighty_columns_and_says_nothing_of_its_progress(tmp_path: Path) -> None:
    for number in range(30):
        folder(tmp_path, **{f"team{number}__deploy_dot_yaml": POD.replace("NAME", "chat")})
    done = preop("-v", ".", cwd=tmp_path)
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80
    document = json.loads(preop(".", "--format", "json", cwd=tmp_path).stdout)
    assert "chat (team3/deploy.yaml)" in [each["name"] for each in document["deployments"]]


def test_progress_is_one_line_on_a_terminal(tmp_path: Path) -> None:
    for number in range(30):
        folder(tmp_path, **{f"team{number}__deploy_dot_yaml": POD.replace("NAME", "chat")})
    master, slave = pty.openpty()
    with subprocess.Popen([*COMMAND, "."], stdout=subprocess.PIPE, stderr=slave, cwd=tmp_path) as process:
        os.close(slave)
        assert process.stdout is not None
        process.stdout.read()
        shown = b""
        try:
            while part := os.read(master, 4096):
                shown += part
        except OSError:  # the other end has gone
            pass
    os.close(master)
    assert b"reading 1 of 30 files" in shown
    assert b"\n" not in shown, "one line, and it is taken away"
    assert shown.endswith(b"\r\x1b[2K")
