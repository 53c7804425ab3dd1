"""The call itself: exit codes, clean standard output, one sentence for what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SERVE = ["vllm", "serve", "Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "32768"]


def preop(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "preop", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check"], "nothing to check"),
        (["check", "vllm", "serve", "m", "--max-model-len", "8"], "put `--` before the serve command"),
        (["check", "absent.yml"], "absent.yml"),
        (["check", "--measure", "all", "--", *SERVE], "--endpoint URL"),
        (["check", "--measure", "lod", "--endpoint", "http://127.0.0.1:9"], "expected `all` or some of"),
        (["check", "--endpoint", "127.0.0.1:8000"], "begins with http://"),
        (["check", "--endpoint", "http://user:pw@127.0.0.1:9"], "--api-key-env"),
        (["check", "-q", "--endpoint", "http://127.0.0.1:9"], "127.0.0.1:9"),
        (["check", "--api-key-env", "NOT_SET_ANYWHERE", "--endpoint", "http://127.0.0.1:9"], "not set"),
        (["check", "--prompts", "absent.jsonl", "--", *SERVE], "--prompts absent.jsonl"),
        (["check", "--gate", "party", "--", *SERVE], "party"),
        (["check", "--concurrency", "1,x", "--", *SERVE], "whole numbers"),
        (["check", "--"], "after `--` is empty"),
        (["explain", "P16"], "P01 to P15"),
        (["measure", "load"], "--endpoint URL"),
        (["frobnicate"], "frobnicate"),
        (["check", "--config", "absent.toml", "--", *SERVE], "absent.toml"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_exit_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = preop(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "pw" not in done.stderr


def test_json_goes_to_standard_output_alone(tmp_path: Path) -> None:
    done = preop("check", "--format", "json", "--", *SERVE, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == {"GO": 0, "NO-GO": 1, "HOLD": 3}[document["verdict"]]
    assert [finding["pitfall"] for finding in document["findings"]] == [f"P{n:02d}" for n in range(1, 16)]


def test_a_run_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    preop("check", "--no-keep", "--", *SERVE, cwd=tmp_path)
    assert not (tmp_path / ".preop").exists()
    preop("check", "--", *SERVE, cwd=tmp_path)
    (run,) = (tmp_path / ".preop" / "runs").iterdir()
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    assert json.loads((run / "check.json").read_text())["schema"] == "preop.check/1"


def test_a_folder_that_cannot_be_written_costs_the_documents_not_the_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = preop("check", "--runs", "file/runs", "--", *SERVE, cwd=tmp_path)
    assert done.returncode in (0, 1, 3)
    assert "not kept" in done.stderr
    assert "Traceback" not in done.stderr


def test_init_writes_settings_that_check_reads(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "hello"}\n')
    assert preop("init", cwd=tmp_path).returncode == 0
    text = (tmp_path / "preop.toml").read_text()
    assert 'prompts = "prompts.jsonl"' in text
    assert preop("check", "--", *SERVE, cwd=tmp_path).returncode in (0, 1, 3)
    again = preop("init", cwd=tmp_path)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_every_example_line_of_init_is_a_real_key(tmp_path: Path) -> None:
    preop("init", cwd=tmp_path)
    path = tmp_path / "preop.toml"
    lines = []
    for line in path.read_text().splitlines():
        bare = line.removeprefix("# ")
        lines.append(bare if line.startswith("# ") and " = " in bare.split("#")[0] else line)
    path.write_text("\n".join(lines))
    from preop.settings import load_settings

    assert load_settings(path).deployment.gpu == "h100-80gb"


def test_the_static_check_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = {
        "httpx",
        "httptools",
        "uvloop",
        "tokenizers",
        "jinja2",
        "altair",
        "pydantic",
        "huggingface_hub",
        "numpy",
        "torch",
        "transformers",
        "asyncio",
        "yaml",
        "vl_convert",
        "prometheus_client",
        "markdown_it",
    }
    script = (
        "import sys; from preop.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    for arguments in (["--help"], ["check", "--no-keep", "--", *SERVE]):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        loaded = set(done.stderr.strip().splitlines()[-1].split())
        assert "preop" in loaded
        assert not loaded & heavy
