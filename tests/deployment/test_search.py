"""A folder is searched for whatever serves; what looks like a deployment and cannot be read is said."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError

COMPOSE = "services:\n  {0}:\n    image: vllm/vllm-openai:v0.32.0\n    command: --model m\n"
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: {0}}}\nspec:\n  containers:\n"
    "  - {{name: a, image: 'vllm/vllm-openai:v0.32.0', args: [--model, m]}}\n"
)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def search(folder: Path, **options: Any) -> tuple[list[Deployment], list[str]]:
    unread: list[str] = []
    return read_targets([str(folder)], None, ReadOptions(**options), unread=unread), unread


def test_every_form_below_a_folder_is_found_in_a_fixed_order(tmp_path: Path) -> None:
    write(
        tmp_path,
        b__compose_dot_yml=COMPOSE.format("chat"),
        a__pod_dot_yaml=POD.format("pod"),
        serve_dot_sh="vllm serve m\n",
        README_dot_md="vllm serve no\n",
        values_dot_json='{"a": 1}',
        node_modules__x__compose_dot_yml=COMPOSE.format("no"),
        _dot_git__compose_dot_yml=COMPOSE.format("no"),
    )
    found, unread = search(tmp_path)
    assert [each.name for each in found] == ["vllm", "pod", "chat"]
    assert unread == []


def test_equal_names_are_told_apart_by_their_files(tmp_path: Path) -> None:
    write(tmp_path, prod_dot_yml=COMPOSE.format("chat"), test_dot_yml=COMPOSE.format("chat"))
    found, _ = search(tmp_path)
    assert [each.own_name for each in found] == ["chat", "chat"]
    assert [each.name for each in found] == [f"chat ({tmp_path / name}.yml)" for name in ("prod", "test")]


def test_what_looks_like_a_deployment_and_is_broken_is_said(tmp_path: Path) -> None:
    write(
        tmp_path,
        good_dot_yml=COMPOSE.format("chat"),
        broken_dot_yaml=POD.format("x") + "  bad: [vllm\n",
        chart__templates__deploy_dot_yaml="apiVersion: v1\nkind: Pod\nspec: {{ .Values.vllm }}\n",
        other_dot_yaml="a: [b\n",
    )
    (tmp_path / "image.yaml").write_bytes(b"vllm\x00\xff")
    found, unread = search(tmp_path)
    assert [each.name for each in found] == ["chat"]
    assert len(unread) == 2
    assert any("broken.yaml" in said and "not valid YAML" in said for said in unread)
    assert any("deploy.yaml" in said and "render it first" in said for said in unread)
    found, unread = search(tmp_path, exclude=("chart/*", "broken.*"))
    assert unread == [] and len(found) == 1


def test_a_folder_without_engines_says_what_was_looked_for(tmp_path: Path) -> None:
    write(tmp_path, a_dot_yml="services: {db: {image: postgres}}\n", b_dot_txt="vllm serve m\n")
    with pytest.raises(InputError, match=r"nothing here starts an engine .* \(2 files seen\)"):
        search(tmp_path)


def test_links_in_a_circle_and_folders_met_twice_are_read_once(tmp_path: Path) -> None:
    write(tmp_path, a__compose_dot_yml=COMPOSE.format("chat"))
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe.yml")
    found, unread = search(tmp_path)
    assert [each.name for each in found] == ["chat"] and unread == []


def test_a_file_that_vanishes_while_it_is_searched_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, a_dot_yml=COMPOSE.format("chat"), b_dot_yml=COMPOSE.format("gone"))
    read = Path.read_bytes

    def vanish(self: Path) -> bytes:
        if self.name == "b.yml":
            self.unlink(missing_ok=True)
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", vanish)
    found, unread = search(tmp_path)
    assert [each.name for each in found] == ["chat"]
    assert unread and "b.yml" in unread[0]


def test_progress_is_one_short_line(tmp_path: Path) -> None:
    write(tmp_path, a_dot_yml=COMPOSE.format("a"), b_dot_yml=COMPOSE.format("b"))
    lines: list[str] = []
    read_targets([str(tmp_path)], None, ReadOptions(), progress=lines.append)
    assert lines == ["1 of 2 files, 0 deployments", "2 of 2 files, 1 deployments"]


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> list[Deployment]:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    return read_targets(["-"], None, ReadOptions())


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    found = piped(monkeypatch, (POD.format("a") + "---\n" + POD.format("b")).encode())
    assert [each.name for each in found] == ["a", "b"]
    column = POD.format("a").splitlines()[5].index(" m]") + 2
    assert found[0].fact("model").source == f"standard input:6:{column}"
    assert piped(monkeypatch, COMPOSE.format("chat").encode())[0].name == "chat"
    assert piped(monkeypatch, b"vllm serve m --max-num-seqs 8\n")[0].fact("max_num_seqs").value == 8


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "standard input: is empty"),
        (b"\xff\xfe\x00", "standard input: is not UTF-8"),
        (b"a\x00b", "binary"),
        (b"remember the milk\n", "starts no engine"),
        (b"apiVersion: v1\nkind: Pod\nspec: {{ .x }}\n", "render it first"),
    ],
)
def test_standard_input_that_is_none(monkeypatch: pytest.MonkeyPatch, data: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        piped(monkeypatch, data)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a.yml", "b.yaml", "c.sh", "d.service", "Dockerfile", "e.pbtxt", "f.json"]),
            st.binary(max_size=60) | st.text(max_size=60).map(str.encode),
            st.sampled_from([b"", b"vllm serve m\n", b"apiVersion: v1\nkind: Pod\n", b"services:\n"]),
        ),
        max_size=4,
    )
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_in_a_folder_give_deployments_or_one_sentence(
    tmp_path: Path, files: list[tuple[str, bytes, bytes]]
) -> None:
    for name, data, head in files:
        (tmp_path / name).write_bytes(head + data)
    try:
        search(tmp_path)
    except PreopError as error:
        assert str(error)
