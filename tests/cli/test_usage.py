"""The call itself: exit codes, clean standard output, one sentence for what is wrong."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SERVE = ["vllm", "serve", "Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "32768"]


def preop(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
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
        (["check", "vllm", "serve", "m"], "put `--` before the serve command"),
        (["check", "--evidence", "/dev/null", "--", *SERVE], "no folder"),
        (["check", "--measure", "all", "--", *SERVE], "--endpoint URL"),
        (["check", "--measure", "lod", "--endpoint", "http://127.0.0.1:9"], "expected `all` or some of"),
        (["check", "--endpoint", "127.0.0.1:8000"], "begins with http://"),
        (["check", "--endpoint", "http://user:pw@127.0.0.1:9"], "--api-key-env"),
        (["check", "-q", "--endpoint", "http://127.0.0.1:9"], "127.0.0.1:9"),
        (["check", "--api-key-env", "NOT_SET_ANYWHERE", "--endpoint", "http://127.0.0.1:9"], "not set"),
        (["check", "--prompts", "absent.jsonl", "--", *SERVE], "--prompts absent.jsonl"),
        (["check", "--gate", "party", "--", *SERVE], "party"),
        (["check", "--concurrency", "1,x", "--", *SERVE], "whole numbers"),
        (["check", "--accelerator", "gpu", "--", *SERVE], "nvidia"),
        (["check", "--requests", "8", "--", *SERVE], "--measure load"),
        (["check", "-q", "--accelerator", "none", "--endpoint", "http://127.0.0.1:9"], "nothing listens"),
        (["check", "--"], "after `--` is empty"),
        (["explain", "P16"], "P01 to P15"),
        (["measure", "load"], "--endpoint URL"),
        (["measure", "load", "--prompts", "p.jsonl", "--prompt-tokens", "9"], "give one of them"),
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


def test_a_run_that_judged_nothing_is_closed(tmp_path: Path) -> None:
    preop("check", "-q", "--endpoint", "http://127.0.0.1:9", cwd=tmp_path)
    (run,) = (tmp_path / ".preop" / "runs").iterdir()
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"


def test_prompts_that_are_none_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "hello"}\n{"promt": "hello"}\n')
    done = preop("check", "--prompts", "prompts.jsonl", "--", *SERVE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "prompts.jsonl:2" in done.stderr


def test_a_folder_that_cannot_be_written_costs_the_documents_not_the_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = preop("check", "--runs", "file/runs", "--", *SERVE, cwd=tmp_path)
    assert done.returncode in (0, 1, 3)
    assert "not kept" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["--api-key-env", "sk-hush", "--endpoint", "http://127.0.0.1:9"], "hush"),
        (["--endpoint", "user:hush@127.0.0.1:9"], "hush"),
        (["--api-key=hush"], "hush"),
        (["HF_TOKEN=hush.yml"], "hush"),
        (["\x1b[31mred\u202e.yml"], "\x1b"),
    ],
)
def test_a_complaint_shows_no_secret_and_no_control_character(
    tmp_path: Path, arguments: list[str], key: str
) -> None:
    done = preop("check", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert key not in done.stderr and "\u202e" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("option", ["--report", "--output"])
@pytest.mark.parametrize("where", [".", "absent/report.html"])
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, option: str, where: str
) -> None:
    done = preop("check", option, where, "--endpoint", "http://127.0.0.1:9", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert where in done.stderr and "endpoint:" not in done.stderr
    assert not (tmp_path / ".preop").exists()


def test_an_output_that_is_a_link_or_a_device_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real.json")
    preop("check", "--no-keep", "--format", "json", "-o", "link", "--", *SERVE, cwd=tmp_path)
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["schema"] == "preop.check/1"
    (tmp_path / "null").symlink_to("/dev/null")
    preop("check", "--no-keep", "-o", "null", "--", *SERVE, cwd=tmp_path)
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["check", "--no-keep", "--", *SERVE], ["explain"], ["init", "--print"]])
def test_a_full_standard_output_is_one_sentence_and_no_verdict(tmp_path: Path, command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "preop", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "standard output: No space left" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_outputs_leave_the_exit_code(tmp_path: Path, closed: str) -> None:
    command = shlex.join([sys.executable, "-m", "preop", "check", "--no-keep", "--", *SERVE])
    done = subprocess.run(
        ["sh", "-c", f"{command} {closed}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 1, 3) and "Traceback" not in done.stderr


def test_a_defect_of_preop_is_told_and_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from preop import cli

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("api_key=hush")

    monkeypatch.setattr("preop.cli.check.settings_of", broken)
    with pytest.raises(SystemExit) as left:
        cli.main(["check", "--", *SERVE])
    assert left.value.code == 70
    said = capsys.readouterr()
    assert said.out == "" and "ZeroDivisionError" in said.err
    assert "hush" not in said.err and len(said.err.splitlines()) == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_still_leaves_with_one_sentence(tmp_path: Path, sent: signal.Signals) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "preop", "check", "--timeout", "30", "--endpoint", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in a background job
        )
        silent.settimeout(30)
        silent.accept()[0].close()
        for _ in range(3):
            process.send_signal(sent)
            time.sleep(0.02)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "interrupted" in err and "Traceback" not in err
    (run,) = (tmp_path / ".preop" / "runs").glob("*/run.json")
    assert json.loads(run.read_text())["status"] == "interrupted"


def test_a_background_job_that_ignores_ctrl_c_is_still_ended_by_sigterm(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "preop", "check", "--timeout", "30", "--endpoint", url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        silent.settimeout(30)
        kept, _ = silent.accept()
        with kept:
            process.terminate()
            assert process.wait(timeout=20) == 130


def test_init_writes_settings_that_check_reads(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "hello"}\n')
    assert preop("init", cwd=tmp_path).returncode == 0
    text = (tmp_path / "preop.toml").read_text()
    assert 'prompts = "prompts.jsonl"' in text
    assert preop("check", "--", *SERVE, cwd=tmp_path).returncode in (0, 1, 3)
    again = preop("init", cwd=tmp_path)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_init_among_hostile_files_writes_settings_that_check_reads(tmp_path: Path) -> None:
    for name in ('a\n[inputs]\nprompts = "z".gguf', '"$(x)" \U0001f600.gguf', "b\x7f.gguf", "c.gguf"):
        (tmp_path / name).write_text("")
    for name, content in (("number", "5"), ("deep", "[" * 100_000), ("model", '{"architectures": []}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(content)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "config.json")
    os.mkfifo(tmp_path / "pipe.gguf")
    done = preop("init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    from preop.settings import load_settings

    assert load_settings(tmp_path / "preop.toml").deployment.model_path == '"$(x)" \U0001f600.gguf'
    assert "(also here: c.gguf, model)" in (tmp_path / "preop.toml").read_text()


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
