"""Evidence keeps until what it belongs to changes: model, engine version, hardware, the flags that matter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.facts import Note, Origin, known
from preop.inputs import Inputs
from preop.instruments import find_instrument
from preop.instruments.fingerprint import fingerprint, mismatch, remembered
from preop.instruments.types import Access
from preop.models.types import Model

LOAD, STREAMING, TOKENS = (find_instrument(name) for name in ("load", "streaming", "tokens"))
URL = "http://127.0.0.1:8000"
PINNED: dict[str, Any] = {
    "model": "org/m",
    "engine_version": "0.32.0",
    "gpu": "H100-SXM-80GB",
    "gpu_count": 1,
    "accelerator": "nvidia",
    "max_num_seqs": 256,
}


def deployed(running: dict[str, Any] | None = None, /, **facts: Any) -> Deployment:
    here, there = Origin("file", "compose.yml:3:5"), Origin("route", "GET /metrics")
    made = {name: known(value, "user", here) for name, value in facts.items()}
    made.update({name: known(value, "engine", there) for name, value in (running or {}).items()})
    return Deployment("chat", "vllm", "compose.yml", made)


def why(
    before: Deployment,
    after: Deployment,
    *,
    measured_at: str | None = URL,
    now_at: str | None = None,
    instrument: Any = LOAD,
    inputs: tuple[Inputs, Inputs] = (Inputs(), Inputs()),
) -> str | None:
    taken = fingerprint(instrument, before, Access(measured_at) if measured_at else None, inputs[0])
    now = fingerprint(instrument, after, Access(now_at) if now_at else None, inputs[1])
    return mismatch(instrument, json.loads(json.dumps(taken)), now)


def test_what_is_pinned_keeps_its_evidence_without_the_endpoint_being_given_again() -> None:
    assert why(deployed(**PINNED), deployed(**PINNED)) is None
    assert why(deployed(**PINNED), deployed(**PINNED), now_at="http://elsewhere:8000") is None


def test_flags_that_do_not_matter_to_the_instrument_change_nothing() -> None:
    after = deployed(**PINNED, served_model_name="chat", api_key_set=True)
    assert why(deployed(**PINNED), after) is None
    assert why(deployed(**PINNED), deployed(**{**PINNED, "max_num_seqs": 512}), instrument=TOKENS) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "org/other"}, "model was org/m, is org/other"),
        ({"engine_version": "0.31.0"}, "engine_version was 0.32.0, is 0.31.0"),
        ({"gpu": "L4"}, "gpu was H100-SXM-80GB, is L4"),
        ({"gpu_count": 2}, "gpu_count was 1, is 2"),
        ({"max_num_seqs": 512}, "max_num_seqs was 256, is 512"),
        ({"quantization": "awq"}, "quantization was not set, is awq"),
        ({"speculative": {"num_speculative_tokens": 3}}, "speculative was not set"),
    ],
)
def test_each_change_that_matters_ends_it_and_is_named(change: dict[str, Any], said: str) -> None:
    found = why(deployed(**PINNED), deployed(**{**PINNED, **change}))
    assert found is not None and found.startswith(said)
    back = why(deployed(**{**PINNED, **change}), deployed(**PINNED))
    assert back is not None


def test_another_engine_is_another_deployment() -> None:
    other = msgspec.structs.replace(deployed(**PINNED), engine="sglang")
    assert why(deployed(**PINNED), other) == "engine was vllm, is sglang"


def test_a_default_that_the_engine_told_is_no_flag_that_was_set() -> None:
    measured = deployed({"max_model_len": 32768}, **PINNED)
    assert why(measured, deployed(**PINNED)) is None
    assert why(measured, deployed({"max_model_len": 32768}, **PINNED), now_at=URL) is None
    assert why(measured, deployed({"max_model_len": 4096}, **PINNED), now_at=URL) is not None


def test_what_only_the_engine_told_must_be_told_again() -> None:
    silent = {name: value for name, value in PINNED.items() if name != "engine_version"}
    measured = deployed({"engine_version": "0.32.0"}, **silent)
    assert why(measured, deployed(**silent)) == "engine_version was 0.32.0, and nothing states it now"
    assert why(measured, deployed({"engine_version": "0.32.0"}, **silent), now_at=URL) is None
    assert why(measured, deployed({"engine_version": "0.33.0"}, **silent), now_at=URL) is not None


@pytest.mark.parametrize("lacks", ["gpu", "gpu_count", "engine_version", "model"])
def test_where_something_cannot_be_seen_the_evidence_belongs_to_its_endpoint(lacks: str) -> None:
    vague = deployed(**{name: value for name, value in PINNED.items() if name != lacks})
    assert why(vague, vague, now_at=URL) is None
    for elsewhere in (None, "http://elsewhere:8000"):
        found = why(vague, vague, now_at=elsewhere)
        assert found is not None and lacks in found and URL in found


def test_hidden_flags_and_an_unnamed_cpu_bind_it_to_its_endpoint_too() -> None:
    hidden = msgspec.structs.replace(deployed(**PINNED), notes=(Note("hidden", "$EXTRA_ARGS"),))
    assert "hidden flags" in (why(hidden, hidden) or "")
    assert why(hidden, hidden, now_at=URL) is None
    cpu = deployed(model="org/m", engine_version="0.32.0", accelerator="none", gpu_count=0)
    assert "the CPU" in (why(cpu, cpu) or "")
    assert why(cpu, cpu, now_at=URL) is None


def test_a_stream_belongs_to_the_way_to_the_engine() -> None:
    assert why(deployed(**PINNED), deployed(**PINNED), instrument=STREAMING) is None
    found = why(deployed(**PINNED), deployed(**PINNED), now_at="http://proxy", instrument=STREAMING)
    assert found == f"it was measured at {URL}"


def test_another_tokenizer_behind_the_same_name_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    given_ = Inputs(tokenizer=str(path))
    taken = fingerprint(TOKENS, deployed(**PINNED), Access(URL), given_)
    assert mismatch(TOKENS, taken, fingerprint(TOKENS, deployed(**PINNED), None, Inputs())) is None
    path.write_text('{"a": 1}')
    changed = fingerprint(TOKENS, deployed(**PINNED), None, given_)
    assert mismatch(TOKENS, taken, changed) == "tokenizer has changed"
    path.unlink()
    assert fingerprint(TOKENS, deployed(**PINNED), None, given_)["inputs"] == {}


def test_a_tokenizer_that_changed_where_it_was_ends_it_without_being_named_again(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "merges.txt").write_text("a b")
    taken = fingerprint(TOKENS, deployed(**PINNED), Access(URL), Inputs(tokenizer=str(tmp_path)))
    taken = json.loads(json.dumps(taken))

    def now() -> dict[str, Any]:
        return fingerprint(TOKENS, deployed(**PINNED), None, remembered(Inputs(), taken))

    (tmp_path / "README.md").write_text("changed")
    assert mismatch(TOKENS, taken, now()) is None
    (tmp_path / "merges.txt").write_text("b a")
    assert mismatch(TOKENS, taken, now()) == "tokenizer has changed"


def test_a_large_gguf_is_known_by_its_head_and_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("preop.instruments.fingerprint._MOST_BYTES", 8)
    path = tmp_path / "m.gguf"
    given_ = Inputs(tokenizer=str(path))
    made = []
    for content in (b"12345678rest", b"12345678REST", b"1234567_rest", b"12345678rest+"):
        path.write_bytes(content)
        made.append(fingerprint(TOKENS, deployed(**PINNED), None, given_)["inputs"]["tokenizer"])
    assert made[0] == made[1] and len(set(made)) == 3


@pytest.mark.parametrize(
    ("instrument", "file", "ends_it"),
    [(LOAD, "config.json", True), (LOAD, "model.safetensors", True), (LOAD, "tokenizer.json", False),
     (TOKENS, "tokenizer.json", True), (TOKENS, "config.json", False), (STREAMING, "config.json", False)],
)  # fmt: skip
def test_a_local_model_is_what_its_files_hold(
    tmp_path: Path, instrument: Any, file: str, ends_it: bool
) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json", "README.md"):
        (tmp_path / name).write_text("{}")
    model = Model("org/m", Origin("model", "config.json"), path=str(tmp_path))
    local = msgspec.structs.replace(deployed(**PINNED), model=model)
    taken = fingerprint(instrument, local, Access(URL), Inputs())
    (tmp_path / "README.md").write_text("changed")
    assert mismatch(instrument, taken, fingerprint(instrument, local, None, Inputs())) is None
    (tmp_path / file).write_text('{"a": 1}')
    found = mismatch(instrument, taken, fingerprint(instrument, local, None, Inputs()))
    assert found == (f"{file} has changed" if ends_it else None)
    (tmp_path / file).unlink()
    assert mismatch(instrument, taken, fingerprint(instrument, local, None, Inputs())) is None


SERVE = ["vllm", "serve", "org/m", "--max-num-seqs", "64"]
GIVEN = ReadOptions(engine_version="0.32.0", gpu="h100-80gb", gpu_count=1, accelerator="nvidia")


def served(*more: str) -> Deployment:
    (found,) = read_targets([], [*SERVE, *more], GIVEN)
    return found


@pytest.mark.parametrize(
    "more",
    [
        ["--enforce-eager"],
        ["--async-scheduling"],
        ["--revision", "abc"],
        ["--dtype", "float16"],
        ["--block-size", "32"],
    ],
)
def test_a_flag_that_extra_args_brought_in_ends_the_evidence_under_load(more: list[str]) -> None:
    assert why(served(), served()) is None
    assert why(served(), served(*more)) is not None
    assert why(served(*more), served()) is not None


@pytest.mark.parametrize(
    "more",
    [
        ["--port", "9000"],
        ["--host", "0.0.0.0"],
        ["--served-model-name", "chat"],
        ["--api-key", "sk-abcdefghijklmnop"],
        ["--disable-log-requests"],
        ["--uvicorn-log-level", "debug"],
        ["--tool-call-parser", "hermes"],
        ["--chat-template", "t.jinja"],
    ],
)
def test_a_flag_that_says_nothing_of_speed_leaves_it_valid(more: list[str]) -> None:
    assert why(served(), served(*more)) is None
    assert why(served(*more), served()) is None


def test_a_value_that_cannot_be_seen_binds_it_to_its_endpoint(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text('vllm serve org/m --max-num-seqs "$N" --port "$PORT"\n')
    (hidden,) = read_targets([str(script)], None, GIVEN)
    assert "max-num-seqs" in (why(hidden, hidden) or "") and "port" not in (why(hidden, hidden) or "at")[:40]
    assert why(hidden, hidden, now_at=URL) is None
    assert why(hidden, hidden, instrument=STREAMING) is None


def test_a_key_in_a_flag_or_a_name_that_is_no_utf8_is_no_crash_and_not_kept() -> None:
    made = fingerprint(LOAD, served("--kv-transfer-config", '{"password": "hunter22secret"}'), None, Inputs())
    assert "hunter22secret" not in str(made)
    odd = fingerprint(
        LOAD, deployed(**{**PINNED, "model": "m\udcff", "max_num_seqs": float("inf")}), None, Inputs()
    )
    assert (odd["model"], odd["set"]["max_num_seqs"]) == ("m?", None)


def test_a_key_in_an_address_is_not_kept() -> None:
    made = fingerprint(LOAD, deployed(), Access("http://user:hunter22secret@h:1"), Inputs())
    assert "hunter22secret" not in str(made)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.dictionaries(
                st.sampled_from(
                    [
                        "engine",
                        "set",
                        "flags",
                        "paths",
                        "running",
                        "inputs",
                        "unseen",
                        "endpoint",
                        "model",
                        "gpu",
                    ]
                ),
                inner,
                max_size=8,
            )
            | st.lists(inner, max_size=3)
        ),
    )
)
def test_a_fingerprint_that_somebody_edited_never_raises(document: Any) -> None:
    now = fingerprint(LOAD, deployed(**PINNED), None, Inputs())
    if isinstance(document, dict):
        found = mismatch(LOAD, document, now)
        assert found is None or found
