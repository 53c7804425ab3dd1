"""The flag tables against what the engines' own documents and sources say."""

from __future__ import annotations

import sys
import time

import pytest

from preop.engines import table, versions, vocabulary
from preop.engines.tables import ENGINES, find


@pytest.mark.parametrize(
    ("engine", "version", "flag", "default"),
    [
        # Help texts and configuration classes of vLLM 0.32.0.
        ("vllm", "0.32.0", "gpu-memory-utilization", 0.92),
        ("vllm", "0.32.0", "port", 8000),
        ("vllm", "0.32.0", "tensor-parallel-size", 1),
        ("vllm", "0.32.0", "stream-interval", 1),
        ("vllm", "0.32.0", "generation-config", "auto"),
        ("vllm", "0.32.0", "performance-mode", "balanced"),
        ("vllm", "0.32.0", "h11-max-header-count", 256),
        ("vllm", "0.32.0", "allowed-methods", ["*"]),
        ("vllm", "0.32.0", "model", "Qwen/Qwen3-0.6B"),
        ("sglang", "0.5.23", "port", 30000),
        ("sglang", "0.5.23", "host", "127.0.0.1"),
        ("sglang", "0.5.23", "stream-interval", 1),
        ("sglang", "0.5.23", "enable-metrics", False),
        # llama-server's README.
        ("llama.cpp", "b10605", "port", 8080),
        ("llama.cpp", "b10605", "batch-size", 2048),
        ("llama.cpp", "b10605", "ubatch-size", 512),
        ("llama.cpp", "b10605", "cache-type-k", "f16"),
        ("llama.cpp", "b10605", "context-shift", False),
        ("llama.cpp", "b10605", "cont-batching", True),
        ("llama.cpp", "b10605", "cache-ram", 8192),
        ("llama.cpp", "b10605", "slots", True),
        ("llama.cpp", "b10605", "spec-type", "none"),
        ("llama.cpp", "b10605", "temp", 0.8),
    ],
)
def test_a_default_is_what_the_engine_says(engine: str, version: str, flag: str, default: object) -> None:
    found = table(engine, version)
    assert found is not None
    assert (found.flags[flag].default, found.flags[flag].how) == (default, "literal")


@pytest.mark.parametrize(
    ("engine", "spelling", "flag"),
    [
        ("vllm", "tensor-parallel-size", "tensor-parallel-size"),
        ("vllm", "device-memory-utilization", "gpu-memory-utilization"),
        ("sglang", "tensor-parallel-size", "tp-size"),
        ("sglang", "model", "model-path"),
        ("llama.cpp", "n-gpu-layers", "gpu-layers"),
        ("llama.cpp", "model-draft", "spec-draft-model"),
    ],
)
def test_a_flag_is_found_by_any_of_its_names(engine: str, spelling: str, flag: str) -> None:
    newest = table(engine)
    assert newest is not None
    found = find(newest, spelling)
    assert found is not None and found[0] == flag


def test_an_llama_flag_has_its_environment_twin() -> None:
    newest = table("llama.cpp")
    assert newest is not None
    assert newest.flags["ctx-size"].environment == "LLAMA_ARG_CTX_SIZE"


def test_a_default_that_depends_on_the_machine_is_no_number() -> None:
    newest = table("vllm", "0.32.0")
    assert newest is not None
    flag = newest.flags["max-num-seqs"]
    assert flag.how == "computed" and "70 GiB" in (flag.why or "")


def test_a_version_is_found_as_people_write_it_and_no_other_is() -> None:
    newest = versions("vllm")[-1]
    assert table("vllm", f"v{newest}") == table("vllm", f"{newest}+cu130") == table("vllm")
    for version in ("0.32.0rc1", "0.0.9", "0.32.0.dev5", "../vocabulary", ""):
        assert table("vllm", version) is None
    assert versions("ollama") == () and table("ollama") is None


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_no_two_flags_share_a_spelling(engine: str) -> None:
    newest = table(engine)
    assert newest is not None
    names = [f"--{name}" for name in newest.flags]
    names += [alias for flag in newest.flags.values() for alias in flag.aliases + flag.negations]
    assert len(names) == len(set(names))


def test_every_flag_of_the_vocabulary_is_a_flag_of_some_version() -> None:
    missing = []
    for name, entry in vocabulary().items():
        for engine in set(ENGINES) & set(entry):
            newest = table(engine)
            flags = [entry[engine]] if isinstance(entry[engine], str) else entry[engine]
            if newest is not None and not any(find(newest, f) or f in newest.removed for f in flags):
                missing.append((engine, name))
    assert missing == []


def test_a_table_loads_in_milliseconds_and_nothing_heavy_with_it() -> None:
    start = time.perf_counter()
    for engine in ("vllm", "sglang", "llama.cpp"):
        newest = table(engine)
        assert newest is not None and newest.source["version"]
    assert time.perf_counter() - start < 0.5
    assert "preop.engines.tables" in sys.modules
