"""`--baseline` on a real git repository: only what a pull request adds stands in its way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from preop.baseline import base_tree
from preop.errors import UsageError

DIGEST = "sha256:" + "0" * 64
SERVICE = (
    "  {name}:\n    image: vllm/vllm-openai:v0.32.0@" + DIGEST + "\n"
    "    command: --model Qwen/Qwen2.5-7B-Instruct --max-model-len {length} --max-num-seqs 64\n"
    '    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ["{gpu}"], '
    "capabilities: [gpu]}}]}}}}}}\n"
)


def compose(**services: tuple[int, int]) -> str:
    """Services by name: the length they serve, and the GPU they are on."""
    return "services:\n" + "".join(
        SERVICE.format(name=name, length=length, gpu=gpu) for name, (length, gpu) in services.items()
    )


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, files: dict[str, str], message: str = "change") -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """`main` serves 65,536 tokens of a window of 32,768; a branch is checked out."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, {"deploy/compose.yml": compose(chat=(65536, 0)), "README.md": "a\n"})
    git(folder, "checkout", "-qb", "change")
    return folder


def preop(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "preop", "check", "--no-keep", "--gate", "pr", *arguments],
        capture_output=True, text=True, cwd=folder, timeout=60, env=dict(os.environ), check=False,
    )  # fmt: skip


def checked(folder: Path, *arguments: str, target: str = "deploy/compose.yml") -> dict[str, Any]:
    done = preop(folder, "--format", "json", target, *arguments)
    assert done.returncode in (0, 1, 3), done.stderr
    document = json.loads(done.stdout)
    assert {"GO": 0, "NO-GO": 1, "HOLD": 3}[document["verdict"]] == done.returncode
    assert isinstance(document, dict)
    return document


def new(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Pitfall and deployment of what is new and fails."""
    return {
        (finding["pitfall"], name)
        for finding in document["findings"]
        for name, each in finding["by_deployment"].items()
        if each["in_baseline"] is False and each["outcome"] == "FAIL"
    }


def test_a_readme_change_is_go_although_the_base_fails(repository: Path) -> None:
    assert checked(repository)["verdict"] == "NO-GO"
    commit(repository, {"README.md": "b\n"})
    document = checked(repository, "--baseline", "main")
    assert document["verdict"] == "GO" and new(document) == set()
    p15 = next(finding for finding in document["findings"] if finding["pitfall"] == "P15")
    assert (p15["outcome"], p15["in_baseline"]) == ("FAIL", True)
    assert document["baseline"]["kind"] == "git"
    assert document["baseline"]["detail"] == git(repository, "rev-parse", "main")


def test_a_worse_length_is_a_new_finding_and_a_fix_is_resolved(repository: Path) -> None:
    commit(repository, {"deploy/compose.yml": compose(chat=(131072, 0))})
    document = checked(repository, "--baseline", "main")
    assert document["verdict"] == "NO-GO" and new(document) == {("P15", "chat")}
    commit(repository, {"deploy/compose.yml": compose(chat=(16384, 0))})
    fixed = checked(repository, "--baseline", "main")
    assert fixed["verdict"] == "GO"
    assert [(each["pitfall"], each["deployment"]) for each in fixed["baseline"]["resolved"]] == [
        ("P15", "chat")
    ]


def test_a_new_service_is_judged_whole(repository: Path) -> None:
    commit(repository, {"deploy/compose.yml": compose(chat=(65536, 0), code=(65536, 1))})
    document = checked(repository, "--baseline", "main")
    assert document["verdict"] == "NO-GO" and new(document) == {("P15", "code")}


def test_uncommitted_files_count_and_main_may_move_on(repository: Path) -> None:
    git(repository, "checkout", "-q", "main")
    commit(repository, {"deploy/compose.yml": compose(chat=(32768, 0))}, "main mends it")
    git(repository, "checkout", "-q", "change")
    (repository / "README.md").write_text("c\n")
    assert checked(repository, "--baseline", "main")["verdict"] == "GO", "against the common ancestor"
    (repository / "deploy/compose.yml").write_text(compose(chat=(131072, 0)))
    assert checked(repository, "--baseline", "main")["verdict"] == "NO-GO"
    assert git(repository, "status", "--porcelain") == "M README.md\n M deploy/compose.yml".strip()


def test_below_the_top_of_the_repository_and_with_files_beside(repository: Path) -> None:
    commit(
        repository,
        {
            "deploy/.env": "LENGTH=65536\n",
            "deploy/compose.yml": compose(chat=(65536, 0)).replace("65536", "${LENGTH}"),
        },
    )
    git(repository, "branch", "-f", "base")
    commit(repository, {"deploy/.env": "LENGTH=131072\n"})
    document = checked(repository / "deploy", "--baseline", "base", target="compose.yml")
    assert new(document) == {("P15", "chat")}


def test_a_run_can_be_the_baseline(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "preop", "check", "--gate", "pr", "deploy/compose.yml"],
        capture_output=True, text=True, cwd=repository, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (run,) = (repository / ".preop" / "runs").iterdir()
    for name in (run.name, str(run), str(run / "check.json")):
        document = checked(repository, "--baseline", name)
        assert document["verdict"] == "GO" and document["baseline"]["kind"] == "run"
    (repository / "deploy/compose.yml").write_text(compose(chat=(131072, 0)))
    assert new(checked(repository, "--baseline", run.name)) == {("P15", "chat")}


def test_a_hostile_repository_runs_nothing_and_hides_nothing(repository: Path) -> None:
    git(repository, "checkout", "-q", "main")
    filter_ = "deploy/compose.yml filter=evil export-ignore export-subst\n"
    commit(repository, {".gitattributes": filter_, "strange name é\n.txt": "x\n"})
    (repository / "link").symlink_to("/etc")
    (repository / "deploy" / "up").symlink_to("../deploy")
    commit(repository, {"README.md": "d\n"})
    git(repository, "config", "filter.evil.smudge", "touch /tmp/preop-evil-smudge; cat")
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch /tmp/preop-evil-hook\n")
    hook.chmod(0o755)
    git(repository, "checkout", "-qB", "change")
    commit(repository, {"README.md": "e\n"})
    for left in (Path("/tmp/preop-evil-smudge"), Path("/tmp/preop-evil-hook")):
        left.unlink(missing_ok=True)
    evil = repository.parent / "evil"
    for setting in ("core.fsmonitor", "core.alternateRefsCommand", "diff.evil.textconv", "core.sshCommand"):
        git(repository, "config", setting, f"touch {evil}; false")
    document = checked(repository, "--baseline", "main")
    assert document["verdict"] == "GO"
    assert not Path("/tmp/preop-evil-smudge").exists() and not Path("/tmp/preop-evil-hook").exists()
    assert not evil.exists()


def test_a_base_that_cannot_be_judged_counts_as_empty_and_is_said(repository: Path) -> None:
    git(repository, "checkout", "-q", "main")
    commit(repository, {"deploy/compose.yml": "services: [\n"})
    git(repository, "checkout", "-qB", "change")
    commit(repository, {"deploy/compose.yml": compose(chat=(65536, 0))})
    document = checked(repository, "--baseline", "main")
    assert document["verdict"] == "NO-GO"
    assert any("counts as new" in remark for remark in document["remarks"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--baseline", "nowhere", "deploy/compose.yml"], "neither a run nor a commit of this repository"),
        (["--baseline", "--evil", "deploy/compose.yml"], "neither a run nor a commit"),
        (["--baseline", "main", "--", "vllm", "serve", "m"], "expected files or folders of the repository"),
        (["--baseline", "README.md", "deploy/compose.yml"], "neither a run nor a commit"),
    ],
)
def test_a_baseline_that_is_none_is_one_sentence(repository: Path, arguments: list[str], said: str) -> None:
    done = preop(repository, *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and "Traceback" not in done.stderr


def test_outside_of_a_repository_and_in_a_shallow_clone(repository: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "compose.yml").write_text(compose(chat=(65536, 0)))
    done = preop(alone, "--baseline", "main", "compose.yml")
    assert done.returncode == 2 and "not a git repository" in done.stderr
    commit(repository, {"README.md": "f\n"})
    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", f"file://{repository}", str(clone)],
        check=True,
        capture_output=True,
    )
    done = preop(clone, "--baseline", "origin/main", "deploy/compose.yml")
    assert done.returncode == 2 and "this clone is shallow: git fetch origin main" in done.stderr


def test_a_service_that_is_renamed_or_moved_brings_no_new_finding_of_its_own(repository: Path) -> None:
    for files in (
        {"deploy/compose.yml": compose(talk=(65536, 0))},
        {"deploy/app.yml": compose(chat=(65536, 0))},
    ):
        for path in (repository / "deploy").iterdir():
            path.unlink()
        commit(repository, files)
        document = checked(repository, "--baseline", "main", target="deploy")
        assert document["verdict"] == "GO" and new(document) == set()
        assert [each["fact"] for each in document["baseline"]["changes"]] in (["name"], ["file"])


def test_a_service_renamed_together_with_a_worse_number_fails_anew(repository: Path) -> None:
    commit(repository, {"deploy/compose.yml": compose(talk=(131072, 0))})
    document = checked(repository, "--baseline", "main")
    assert document["verdict"] == "NO-GO" and new(document) == {("P15", "talk")}


@pytest.mark.parametrize(("then", "now"), [("zh", "en"), ("en", "zh")])
def test_a_run_in_one_language_is_the_baseline_of_a_check_in_the_other(
    repository: Path, then: str, now: str
) -> None:
    subprocess.run(
        [sys.executable, "-m", "preop", "check", "--gate", "pr", "--lang", then, "deploy/compose.yml"],
        capture_output=True, cwd=repository, timeout=60, check=False,
    )  # fmt: skip
    (run,) = (repository / ".preop" / "runs").iterdir()
    assert checked(repository, "--lang", now, "--baseline", run.name)["verdict"] == "GO"
    (repository / "deploy/compose.yml").write_text(compose(chat=(131072, 0)))
    assert new(checked(repository, "--lang", now, "--baseline", run.name)) == {("P15", "chat")}


def test_a_path_in_full_is_one_of_the_repository(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repository)
    for inside in (repository / "deploy", repository / "deploy/compose.yml", tmp_path / "link/deploy"):
        assert checked(repository, "--baseline", "main", target=str(inside))["verdict"] == "GO"
    assert checked(repository / "deploy", "--baseline", "main", target="../deploy")["verdict"] == "GO"
    outside = tmp_path / "compose.yml"
    outside.write_text(compose(chat=(65536, 0)))
    for target in (str(outside), "../compose.yml"):
        done = preop(repository, "--baseline", "main", target)
        assert done.returncode == 2 and "lies outside of the repository" in done.stderr


def test_a_file_that_cannot_be_read_is_no_old_news_once_it_is_changed(repository: Path) -> None:
    template = (
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template: {{{{ .Values.x }}}}\n"
        "  image: vllm/vllm-openai\n  args: [--model, m, --max-model-len, {more}]\n"
    )
    commit(repository, {"deploy/raw.yaml": template.format(more=1)})
    git(repository, "branch", "-f", "base")
    for target in ("deploy", str(repository / "deploy"), "."):
        assert checked(repository, "--baseline", "base", target=target)["verdict"] == "GO"
    commit(repository, {"deploy/raw.yaml": template.format(more=999999)})
    document = checked(repository, "--baseline", "base", target="deploy")
    assert document["verdict"] == "HOLD" and any("raw.yaml" in remark for remark in document["remarks"])


def test_services_of_one_name_in_two_files_are_each_held_against_its_own_past(repository: Path) -> None:
    commit(repository, {"other.yml": compose(chat=(16384, 1))})
    git(repository, "branch", "-f", "base")
    commit(repository, {"other.yml": compose(chat=(65536, 1))})
    done = preop(repository, "--format", "json", "--baseline", "base", "deploy/compose.yml", "other.yml")
    assert new(json.loads(done.stdout)) == {("P15", "chat (other.yml)")}


def test_what_is_new_is_called_new_in_every_text(repository: Path) -> None:
    commit(repository, {"deploy/compose.yml": compose(chat=(131072, 0))})
    for form in ("text", "markdown", "html", "approval", "junit"):
        said = preop(repository, "--format", form, "--baseline", "main", "deploy/compose.yml").stdout
        assert said.count("new since the baseline") == 1, form
        assert "in the baseline already" in said
    said = preop(repository, "--lang", "zh", "--baseline", "main", "deploy/compose.yml").stdout
    assert said.count("相对基线新增") == 1


def test_a_submodule_a_deleted_file_and_odd_bytes_in_the_base(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "-q", "main")
    (repository / os.fsdecode(b"deploy/\xff\n.yml")).write_text(compose(odd=(65536, 1)))
    (repository / "deploy/gone.yml").write_text(compose(gone=(65536, 2)))
    commit(repository, {"README.md": "g\n"})
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},vendored")
    git(repository, "commit", "-qm", "submodule")
    git(repository, "checkout", "-qB", "change")
    (repository / "deploy/gone.yml").unlink()
    document = checked(repository, "--baseline", "main", target="deploy")
    assert document["verdict"] == "GO"
    assert any("the files of 1 submodule are not part" in remark for remark in document["remarks"])
    assert ("P15", "gone") in {
        (each["pitfall"], each["deployment"]) for each in document["baseline"]["resolved"]
    }


def test_a_run_that_was_killed_is_no_baseline_and_a_full_disk_is_said(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = repository / ".preop" / "runs" / "20261201T000000Z-abcd"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"status": "running"}')
    done = preop(repository, "--baseline", run.name, "deploy/compose.yml")
    assert done.returncode == 2 and "that run has no answer" in done.stderr

    def full(*_: object) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("preop.baseline.git._write", full)
    written = pytest.raises(UsageError, match=r"its files cannot be written below .*No space left")
    with written, base_tree("main", repository):
        pass
