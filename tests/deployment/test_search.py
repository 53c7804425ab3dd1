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


CHART = "apiVersion: v2\nname: c\nversion: 1.0.0\n"
TEMPLATE = "kind: Deployment\nimage: {{ .Values.image }}\n"


def test_a_chart_is_said_once_and_its_templates_are_no_manifests(tmp_path: Path) -> None:
    write(
        tmp_path,
        compose_dot_yml=COMPOSE.format("chat"),
        charts__llm__Chart_dot_yaml=CHART,
        charts__llm__values_dot_yaml="image: vllm/vllm-openai:v0.32.0\n",
        charts__llm__templates__a_dot_yaml=TEMPLATE,
        charts__llm__templates__b_dot_yaml=TEMPLATE + "# vllm\n",
        charts__llm__charts__sub__Chart_dot_yaml=CHART,
        charts__llm__charts__sub__templates__c_dot_yaml=TEMPLATE + "# vllm\n",
        charts__web__Chart_dot_yaml=CHART,
        charts__web__templates__a_dot_yaml=TEMPLATE,
    )
    found, unread = search(tmp_path)
    assert [each.name for each in found] == ["chat"]
    (said,) = unread
    assert said.startswith(f"{tmp_path}/charts/llm: a Helm chart; render it first: helm template ")
    assert search(tmp_path, exclude=("charts/*",))[1] == []
    with pytest.raises(InputError, match="render it first"):
        search(tmp_path / "charts" / "llm")


KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
PATCH = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: chat}\n"
    "spec: {template: {spec: {containers: [{name: a, args: [vllm, serve, n]}]}}}\n"
)


def test_an_overlay_has_to_be_built_and_its_base_is_not_judged_as_it_stands(tmp_path: Path) -> None:
    write(
        tmp_path,
        compose_dot_yml=COMPOSE.format("chat"),
        base__kustomization_dot_yaml=KUSTOMIZATION + "resources: [pod.yaml]\n",
        base__pod_dot_yaml=POD.format("base"),
        prod__kustomization_dot_yaml=KUSTOMIZATION + "resources: [../base]\npatches: [{path: patch.yaml}]\n",
        prod__patch_dot_yaml=PATCH,
        web__kustomization_dot_yaml=KUSTOMIZATION + "resources: [web.yaml]\nimages: [{name: nginx}]\n",
        web__web_dot_yaml="apiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
    )
    found, unread = search(tmp_path)
    assert [each.name for each in found] == ["chat"]
    assert unread == [
        f"{tmp_path}/prod: a kustomization that changes what it is made of; build it first: "
        f"kustomize build {tmp_path}/prod | preop check -"
    ]
    with pytest.raises(InputError, match="kustomize build"):
        search(tmp_path / "prod")  # its base is outside the folder


def test_a_kustomization_that_only_lists_is_read_as_its_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        kustomization_dot_yaml=KUSTOMIZATION + "namespace: llm\nresources: [pod.yaml, 'https://x/y']\n",
        pod_dot_yaml=POD.format("pod"),
    )
    found, unread = search(tmp_path)
    assert [each.name for each in found] == ["pod"] and unread == []


def test_kustomizations_in_a_circle_end(tmp_path: Path) -> None:
    write(
        tmp_path,
        a__kustomization_dot_yaml=KUSTOMIZATION + "resources: [../b]\nimages: [{name: vllm}]\n",
        b__kustomization_dot_yaml=KUSTOMIZATION + "resources: [../a, b.yaml]\n",
        b__b_dot_yaml=POD.format("b"),
    )
    with pytest.raises(InputError, match=r"kustomiz|nothing here"):
        search(tmp_path)


def test_broken_compose_is_said_and_what_is_none_is_not(tmp_path: Path) -> None:
    write(
        tmp_path,
        a__compose_dot_yml="services:\n  chat: {image: [vllm}\n",
        b__stack_dot_yaml="services:\n  {{ chat }}:\n    image: vllm\n  x: {{ y }}\n",
        _dot_gitlab_ci_dot_yml="services: [docker]\ntest: {script: vllm serve m}\n",
        mkdocs_dot_yml="nav: [vllm]\nx: !!python/name:y z\n",
        good_dot_sh="vllm serve m\n",
    )
    found, unread = search(tmp_path)
    assert len(found) == 1
    assert len(unread) == 2
    assert "not valid YAML" in unread[0] and "render it first" in unread[1]


def test_data_is_passed_over_in_one_line_and_what_is_forbidden_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, a_dot_yml=COMPOSE.format("chat"), b_dot_yml=COMPOSE.format("no"))
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(30 * 1024 * 1024)
    (tmp_path / "data.json").write_bytes(b"\x00\x01")
    (tmp_path / "utf16.yml").write_bytes(COMPOSE.format("x").encode("utf-16"))
    opened = Path.read_bytes

    def forbidden(self: Path) -> bytes:
        if self.name == "b.yml":
            raise PermissionError(13, "Permission denied")
        return opened(self)

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    lines: list[str] = []
    unread: list[str] = []
    real_open = Path.open

    def no_open(self: Path, *arguments: Any, **named: Any) -> Any:
        if self.name == "b.yml":
            raise PermissionError(13, "Permission denied")
        return real_open(self, *arguments, **named)

    monkeypatch.setattr(Path, "open", no_open)
    found = read_targets([str(tmp_path)], None, ReadOptions(), message=lines.append, unread=unread)
    assert [each.name for each in found] == ["chat"]
    assert lines == [f"passed over, too large or no text: {tmp_path}/data.json, {tmp_path}/huge.json"]
    assert len(unread) == 2
    assert "b.yml: cannot be read: Permission denied" in unread[0]
    assert "utf16.yml: is not UTF-8" in unread[1]


def test_the_same_file_is_read_once_whatever_leads_to_it(tmp_path: Path) -> None:
    write(tmp_path, a__compose_dot_yml=COMPOSE.format("chat"), b_dot_sh="vllm serve m\n")
    (tmp_path / "link.yml").symlink_to(tmp_path / "a" / "compose.yml")
    names = [str(tmp_path / "a" / "compose.yml"), str(tmp_path), str(tmp_path / "a" / "..")]
    found = read_targets(names[:2], None, ReadOptions())
    assert [each.name for each in found] == ["chat", "vllm"]
    with pytest.raises(InputError, match="nothing here"):
        read_targets(names, None, ReadOptions())


def test_the_teams_own_images_are_looked_for(tmp_path: Path) -> None:
    from preop.engines.images import ImageRule

    write(tmp_path, pod_dot_yaml=POD.format("pod").replace("vllm/vllm-openai:v0.32.0", "reg.corp/chat:1"))
    rule = ImageRule("reg.corp/*", "vllm", None)
    (found,), unread = search(tmp_path, images=(rule,))
    assert found.engine == "vllm" and unread == []


def test_a_thousand_equal_names_in_one_file_are_numbered_in_no_time(tmp_path: Path) -> None:
    write(tmp_path, all_dot_yaml="---\n".join(POD.format("a") for _ in range(1000)))
    found, _ = search(tmp_path)
    assert [found[0].name, found[1].name, found[-1].name] == ["a", "a-2", "a-1000"]
    assert len({each.name for each in found}) == 1000


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


def test_standard_input_is_read_once_and_never_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="given twice"):
        read_targets(["-", "-"], None, ReadOptions())
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="is closed"):
        read_targets(["-"], None, ReadOptions())


def test_standard_input_has_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, _dot_env="N=4\n")
    monkeypatch.chdir(tmp_path)
    text = COMPOSE.format("chat").replace("--model m", "--model m --max-num-seqs ${N}")
    assert not piped(monkeypatch, text.encode())[0].fact("max_num_seqs").is_known


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
