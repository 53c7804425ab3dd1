"""Engines change: what each release knows, held against their own sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.extract_flags.history import pack

from preop.engines.tables import ENGINES, later, newest_with, order, spellings, table, versions
from preop.engines.types import Table

from .commandline import read
from .test_facts import facts_of

HISTORIES = [engine for engine in ENGINES if versions(engine)]


def known(engine: str, version: str) -> Table:
    found = table(engine, version)
    assert found is not None, version
    return found


def test_each_minor_release_of_vllm_is_there() -> None:
    minors = {order(version)[:2] for version in versions("vllm")}
    assert minors >= {(0, minor) for minor in range(1, 34)}
    assert "0.15.0" in versions("vllm")


@pytest.mark.parametrize(
    ("engine", "last_without", "first_with"),
    [
        # `vllm/scripts.py`, and `_normalize_positional_model_path` in `sglang/cli/serve.py`
        ("vllm", "0.5.1", "0.5.2"),
        ("sglang", "0.5.15.post1", "0.5.16"),
    ],
)
def test_a_model_without_a_flag_is_read_by_the_releases_that_read_it(
    engine: str, last_without: str, first_with: str
) -> None:
    parsed = read(engine, "org/model", "--port", "1", version=first_with)
    assert parsed.notes == ()
    assert {given.value for given in parsed.given.values()} == {"org/model", 1}
    (note,) = read(engine, "org/model", "--port", "1", version=last_without).notes
    assert "belongs to no flag" in note.message
    for version in versions(engine):
        has = known(engine, version).positional is not None
        assert has == (order(version) >= order(first_with)), version


@pytest.mark.parametrize("engine", HISTORIES)
def test_a_default_that_is_unknown_says_why(engine: str) -> None:
    for version in versions(engine):
        for name, flag in known(engine, version).flags.items():
            assert flag.how != "unknown" or flag.why, (version, name)


def test_why_a_default_is_unknown_reaches_the_reader() -> None:
    note = facts_of("llama.cpp", "-m", "M", version="b10605")["lora_modules"].note or ""
    assert "does not know the default" in note and "the source states no single value" in note


def test_image_flags_of_0_5_0_are_read() -> None:
    """`add_cli_args_for_vlm` in `vllm/engine/arg_utils.py` of 0.5.0 and 0.5.0.post1; gone with 0.5.1."""
    names = ["input-type", "token-id", "input-shape", "feature-size", "processor", "processor-revision"]
    for version in ("0.5.0", "0.5.0.post1"):
        flags = known("vllm", version).flags
        assert {*(f"image-{name}" for name in names), "disable-image-processor"} <= set(flags)
        words = ("--model", "m", "--image-feature-size", "576", "--disable-image-processor")
        assert read("vllm", *words, version=version).notes == ()


def test_the_first_releases_are_read_as_their_own_parsers_do() -> None:
    """`EngineArgs` of 0.1.0, 0.2.0, 0.3.3 and 0.4.0."""
    first = facts_of("vllm", "--model", "m", "-tp", "2", version="0.1.0")
    assert first["max_num_batched_tokens"].value == 2560 and first["max_num_seqs"].value == 256
    assert first["tensor_parallel_size"].value == 2 and first["gpu_memory_fraction"].value == 0.9
    assert known("vllm", "0.1.0").flags["model"].default == "facebook/opt-125m"
    (note,) = read("vllm", "--model", "m", "--max-model-len", "4096", version="0.1.7").notes
    assert "it comes with vLLM 0.2.0" in note.message
    assert read("vllm", "--model", "m", "--use-np-weights", version="0.1.4").notes == ()
    assert [n.kind for n in read("vllm", "--model", "m", "-q", "gptq", version="0.2.5").notes] == [
        "bad-value"
    ]
    assert read("vllm", "--model", "m", "-q", "gptq", version="0.2.6").notes == ()
    # type=bool: whatever is written, it is on
    odd = facts_of("vllm", "--model", "m", "--enable-chunked-prefill", "False", version="0.4.0")
    assert odd["enable_chunked_prefill"].value is True


@pytest.mark.parametrize("engine", HISTORIES)
def test_packing_the_tables_again_gives_the_same_tables(engine: str) -> None:
    chosen = versions(engine)[:: max(len(versions(engine)) // 6, 1)]
    tables = [known(engine, version) for version in chosen]
    history = pack(tables, {})
    for at, before in enumerate(tables):
        assert history.table(at).flags == before.flags, before.version


@pytest.mark.parametrize("engine", HISTORIES)
def test_no_release_has_two_flags_of_one_spelling(engine: str) -> None:
    for version in versions(engine):
        flags = known(engine, version).flags
        names = [f"--{name}" if len(name) > 1 else f"-{name}" for name in flags]
        names += [text for flag in flags.values() for text in (*flag.aliases, *flag.negations)]
        assert len(names) == len(set(names)), version
        assert len(spellings(engine, version)) == len(names)


@pytest.mark.parametrize(
    ("version", "flag", "default"),
    [
        # vLLM's EngineArgs, release by release; 0.90 became 0.92 in 0.20.0
        ("0.4.2", "gpu-memory-utilization", 0.9),
        ("0.19.1", "gpu-memory-utilization", 0.9),
        ("0.20.0", "gpu-memory-utilization", 0.92),
        ("0.6.4", "max-num-seqs", 256),
        ("0.6.2", "block-size", 16),
        ("0.5.0", "enable-prefix-caching", False),
        ("0.17.1", "swap-space", 4),
    ],
)
def test_defaults_that_changed(version: str, flag: str, default: object) -> None:
    found = known("vllm", version).flags[flag]
    assert (found.how, found.default) == ("literal", default)


@pytest.mark.parametrize(
    ("version", "flag"),
    [("0.6.5", "max-num-seqs"), ("0.8.0", "enable-prefix-caching"), ("0.5.3", "enable-chunked-prefill")],
)
def test_what_a_release_decides_at_start_is_no_number(version: str, flag: str) -> None:
    assert known("vllm", version).flags[flag].how == "computed"


@pytest.mark.parametrize(
    ("flag", "last", "gone"),
    [
        ("speculative-model", "0.8.2", "0.8.3"),
        ("rope-scaling", "0.11.0", "0.11.1"),
        ("swap-space", "0.17.1", "0.18.0"),
        ("disable-log-requests", "0.16.0", "0.17.0"),
        ("num-scheduler-steps", "0.10.0", "0.10.1"),
    ],
)
def test_flags_that_are_gone_are_said_to_be_with_the_release(flag: str, last: str, gone: str) -> None:
    assert flag in known("vllm", last).flags
    assert f"gone since {gone}" in known("vllm", gone).removed[flag]
    (note,) = [
        each for each in read("vllm", "m", f"--{flag}", "1", version=gone).notes if flag in each.message
    ]
    assert note.kind == "removed-flag" and gone in (note.suggestion or "")


def test_a_flag_that_comes_later_is_said_to() -> None:
    assert later(known("vllm", "0.11.0"), "performance-mode") == "0.17.0"
    (note,) = read("vllm", "m", "--performance-mode", "throughput", version="0.11.0").notes
    assert "it comes with vLLM 0.17.0" in note.message
    # the flag itself is older, BooleanOptionalAction of 0.8.5 brings its negation
    (note,) = read("vllm", "--model", "m", "--no-enable-chunked-prefill", version="0.5.1").notes
    assert "it comes with vLLM 0.8.5" in note.message
    assert newest_with("vllm", "--swap-space") == "0.17.1"
    assert newest_with("vllm", "--no-such-flag") is None


def test_an_old_command_gives_the_facts_of_its_release() -> None:
    found = facts_of("vllm", "m", "--enable-chunked-prefill", "False", version="0.6.0")
    assert (found["enable_chunked_prefill"].value, found["enable_chunked_prefill"].set_by) == (False, "user")
    assert found["max_num_seqs"].value == 256 and found["max_num_seqs"].source == "vLLM 0.6.0 default"
    assert found["gpu_memory_fraction"].value == 0.9


def test_speculation_by_the_flags_of_its_release_is_never_none() -> None:
    words = ("m", "--speculative-model", "draft", "--num-speculative-tokens", "5")
    found = facts_of("vllm", *words, version="0.6.4")["speculative"]
    assert found.value == {"model": "draft", "num_speculative_tokens": 5} and found.set_by == "user"
    text = facts_of("vllm", "m", "--speculative-config", '{"model": "d"}', version="0.8.2")["speculative"]
    assert text.value == {"model": "d"}
    assert facts_of("vllm", "m", version="0.6.4")["speculative"].value is None


@pytest.mark.history
@pytest.mark.parametrize(
    ("engine", "package", "version"),
    [("vllm", "vllm", "0.3.3"), ("vllm", "vllm", "0.12.0"), ("sglang", "sglang", "0.4.6")],
)
def test_one_release_read_again_is_what_ships(
    engine: str, package: str, version: str, tmp_path: Path
) -> None:
    """Downloads an sdist: `make history`."""
    unearth = Path(sys.executable).with_name("unearth")
    if not unearth.exists():
        pytest.skip("unearth is not installed: pip install unearth")
    done = subprocess.run(
        [str(unearth), f"{package}=={version}", "--no-binary", "--download", str(tmp_path)],
        capture_output=True, text=True, check=False, env=dict(os.environ), timeout=300,
    )  # fmt: skip
    archives = list(tmp_path.glob("*.tar.gz"))
    if done.returncode or not archives:
        pytest.skip(f"the registry does not serve it: {done.stderr[-200:]}")
    from tools.extract_flags.__main__ import extract

    fresh = extract(engine, archives[0])
    shipped = known(engine, version)
    assert fresh.flags.keys() == shipped.flags.keys()
    for name, flag in fresh.flags.items():
        assert flag == shipped.flags[name], name
    assert fresh.positional == shipped.positional


def test_underscores_are_dashes_only_since_the_parser_takes_them() -> None:
    """`FlexibleArgumentParser` parses the server's arguments since 0.5.1."""
    words = ("--model", "m", "--max_model_len", "4096")
    assert read("vllm", *words, version="0.5.1").notes == ()
    for version in ("0.3.3", "0.5.0.post1"):
        (note,) = read("vllm", *words, version=version).notes
        assert (note.kind, note.suggestion) == ("unknown-flag", "--max-model-len"), version


_WORDS = st.sampled_from(
    (
        *("m", "--model", "--model=m", "--max-model-len", "32k", "auto", "1M", "-tp", "2", "$X"),
        *("--enable-chunked-prefill", "False", "--quantization", "None", "--image-feature-size"),
        *("--no-such", "--", "-O3", "--a.b"),
    )
)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(versions("vllm")), st.lists(_WORDS, max_size=8))
def test_any_command_is_read_by_any_release(version: str, texts: list[str]) -> None:
    parsed = read("vllm", *texts, version=version)
    assert parsed.version == version
    flags = known("vllm", version).flags
    assert all(name in flags for name in parsed.given)
    assert all(given.is_known or given.value is None for given in parsed.given.values())
    if known("vllm", version).positional is None and texts[:1] == ["m"]:
        assert any("belongs to no flag" in note.message for note in parsed.notes)
