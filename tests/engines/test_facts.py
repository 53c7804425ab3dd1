"""From a command line to canonical facts: who set what, and what stays unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.engines import Accelerator, facts, parse, table, vocabulary
from preop.errors import PreopError
from preop.facts import Fact, Origin, Word

from .commandline import read

NEWEST = {"vllm": "0.32.0", "sglang": "0.5.23", "llama.cpp": "b10605"}


def facts_of(
    engine: str,
    *texts: str,
    version: str | None = "newest",
    environment: dict[str, str | None] | None = None,
    **options: Any,
) -> dict[str, Fact]:
    version = NEWEST[engine] if version == "newest" else version
    place = Origin("environment", "here")
    words = {name: Word(text, place) for name, text in (environment or {}).items()}
    return facts(engine, version, read(engine, *texts, version=version), words, **options)


def told(fact: Fact) -> tuple[Any, str]:
    return fact.value, fact.set_by


def test_a_set_flag_is_the_users_and_an_unset_one_the_versions() -> None:
    found = facts_of("vllm", "M", "--max-num-seqs", "8")
    assert told(found["max_num_seqs"]) == (8, "user")
    assert found["max_num_seqs"].unit == "requests"
    assert told(found["gpu_memory_fraction"]) == (0.92, "default")
    assert found["gpu_memory_fraction"].source == "vLLM 0.32.0 default"


@pytest.mark.parametrize("version", [None, "0.0.9", "0.32.0rc1"])
def test_without_the_versions_table_nothing_is_at_its_default(version: str | None) -> None:
    found = facts_of("vllm", "M", "--max-num-seqs", "8", version=version)
    assert told(found["max_num_seqs"]) == (8, "user")
    assert not any(fact.set_by == "default" for fact in found.values())
    assert "is 0.92" in (found["gpu_memory_fraction"].note or "")


def test_a_hidden_word_leaves_nothing_at_its_default() -> None:
    found = facts_of("vllm", "M", "$EXTRA", "--max-num-seqs", "8")
    assert told(found["max_num_seqs"]) == (8, "user")
    assert not any(fact.set_by == "default" and fact.value is not None for fact in found.values())
    assert "$EXTRA" in (found["speculative"].note or "")
    assert not found["speculative"].is_known


def test_hidden_environment_leaves_nothing_at_its_default() -> None:
    found = facts_of("llama.cpp", "-m", "M", hidden=[".env is not here"])
    assert told(found["model"]) == ("M", "user")
    assert not found["context_shift"].is_known and not found["max_num_seqs"].is_known


# --- vLLM


@pytest.mark.parametrize(
    ("gpu", "memory", "texts", "seqs", "tokens"),
    [
        ("NVIDIA H100 80GB HBM3", 79.6, [], 1024, 8192),
        ("NVIDIA B200", 178.4, [], 1024, 16384),
        ("NVIDIA A100-SXM4-80GB", 79.3, [], 256, 2048),
        ("NVIDIA L4", 22.5, [], 256, 2048),
        ("NVIDIA L4", 22.5, ["--performance-mode", "throughput"], 512, 4096),
        ("NVIDIA H100 80GB HBM3", 79.6, ["--max-num-batched-tokens", "512"], 512, 512),
        ("NVIDIA H100 80GB HBM3", 79.6, ["--max-num-seqs", "4", "--max-model-len", "1024"], 4, 4096),
        ("NVIDIA H100 80GB HBM3", 79.6, ["--max-num-seqs", "4"], 4, None),
        (None, 79.6, [], None, None),
        (None, None, [], None, None),
    ],
)
def test_vllms_batch_defaults_on_a_known_gpu(
    gpu: str | None, memory: float | None, texts: list[str], seqs: int | None, tokens: int | None
) -> None:
    """The rule of `EngineArgs.get_batch_defaults` in vLLM 0.32.0, for text: images may raise the tokens."""
    found = facts_of("vllm", "M", "--language-model-only", *texts, accelerator=Accelerator(gpu, memory))
    assert (found["max_num_seqs"].value, found["max_num_batched_tokens"].value) == (seqs, tokens)


def test_vllms_batch_defaults_without_a_gpu_are_unknown_and_say_how() -> None:
    fact = facts_of("vllm", "M")["max_num_seqs"]
    assert not fact.is_known and "A100" in (fact.note or "")


def test_a_hidden_cap_is_not_replaced_by_the_gpus_default() -> None:
    found = facts_of("vllm", "M", "--max-num-seqs", '"$N"', accelerator=Accelerator("NVIDIA L4", 22.5))
    assert not found["max_num_seqs"].is_known


def test_vllms_speculation() -> None:
    assert told(facts_of("vllm", "M")["speculative"]) == (None, "default")
    given = facts_of("vllm", "M", "--speculative-config", '{"method": "ngram", "num-speculative-tokens": 5}')
    assert told(given["speculative"]) == ({"method": "ngram", "num_speculative_tokens": 5}, "user")
    parts = facts_of("vllm", "M", "--spec-method", "ngram", "--spec-tokens", "3")
    assert told(parts["speculative"]) == ({"method": "ngram", "num_speculative_tokens": 3}, "user")
    assert told(facts_of("vllm", "M", "--speculative-config", "None")["speculative"]) == (None, "user")
    assert not facts_of("vllm", "M", "--speculative-config", '"$S"')["speculative"].is_known
    assert not facts_of("vllm", "M", "--speculative-config", "{bad")["speculative"].is_known


def test_max_model_len_auto_is_unknown() -> None:
    assert not facts_of("vllm", "M", "--max-model-len", "auto")["max_model_len"].is_known


@pytest.mark.parametrize(
    ("value", "expected"), [("1", (True, "user")), ("true", (True, "user")), ("0", (False, "user"))]
)
def test_the_environment_may_allow_a_longer_context(value: str, expected: tuple[bool, str]) -> None:
    found = facts_of("vllm", "M", environment={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": value})
    assert told(found["allow_long_max_model_len"]) == expected
    hidden = facts_of("vllm", "M", environment={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": None})
    assert not hidden["allow_long_max_model_len"].is_known
    assert told(facts_of("vllm", "M")["allow_long_max_model_len"]) == (False, "default")


def test_a_flag_of_an_older_vllm_counts_where_the_version_is_not_stated() -> None:
    texts = ["M", "--rope-scaling", '{"rope_type": "yarn", "factor": 4.0}']
    fact = facts_of("vllm", *texts, version=None)["rope_scaling"]
    assert told(fact) == ({"rope_type": "yarn", "factor": 4.0}, "user")
    assert told(facts_of("vllm", *texts)["rope_scaling"]) == (None, "default")
    assert not facts_of("vllm", "M", version=None)["rope_scaling"].is_known


# --- SGLang


def test_sglangs_speculation_is_one_fact() -> None:
    found = facts_of(
        "sglang", "M", "--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3",
        "--speculative-draft-model-path", "D", "--speculative-num-draft-tokens", "4",
    )  # fmt: skip
    assert told(found["speculative"]) == (
        {"method": "EAGLE3", "model": "D", "num_steps": 3, "num_speculative_tokens": 4},
        "user",
    )
    assert told(facts_of("sglang", "M")["speculative"]) == (None, "default")


def test_sglangs_overrides_are_an_object() -> None:
    found = facts_of("sglang", "M", "--json-model-override-args", '{"rope_scaling": {"factor": 2}}')
    assert found["hf_overrides"].value == {"rope_scaling": {"factor": 2}}
    assert not facts_of("sglang", "M", "--json-model-override-args", "{x")["hf_overrides"].is_known


# --- llama.cpp


@pytest.mark.parametrize(
    ("texts", "slots", "unified", "slot_context"),
    [
        (["-c", "8192", "-np", "4"], 4, False, 2048),
        (["-c", "8192", "-np", "4", "-kvu"], 4, True, 8192),
        (["-c", "8192", "-np", "1"], 1, False, 8192),
        (["-c", "8192"], 4, True, 8192),  # auto: four slots over one cache
        (["-c", "8192", "-np", "-1", "-no-kvu"], 4, True, 8192),
        (["-c", "8000", "-np", "3"], 3, False, 2816),  # 8192 / 3 rounded up to 256
        (["-c", "0", "-np", "4"], 4, False, None),
        (["-np", "4"], 4, False, None),
    ],
)
def test_the_context_of_one_llama_slot(
    texts: list[str], slots: int, unified: bool, slot_context: int | None
) -> None:
    found = facts_of("llama.cpp", "-m", "M", *texts)
    assert found["max_num_seqs"].value == slots
    assert found["kv_unified"].value is unified
    assert found["max_model_len"].value == slot_context


def test_a_llama_slot_without_a_stated_version_is_unknown_where_defaults_decide() -> None:
    assert not facts_of("llama.cpp", "-c", "8192", version=None)["max_model_len"].is_known
    assert facts_of("llama.cpp", "-c", "8192", "-np", "1", version=None)["max_model_len"].value == 8192


def test_llama_environment_twins_lose_to_the_command_line() -> None:
    environment: dict[str, str | None] = {
        "LLAMA_ARG_CTX_SIZE": "4096",
        "LLAMA_ARG_N_PARALLEL": "2",
        "LLAMA_ARG_CONTEXT_SHIFT": "on",
        "LLAMA_ARG_ENDPOINT_METRICS": "1",
        "LLAMA_ARG_MODEL": "M",
    }
    found = facts_of("llama.cpp", "-c", "8192", environment=environment)
    assert told(found["context_size"]) == (8192, "user")
    assert told(found["max_num_seqs"]) == (2, "user")
    assert told(found["context_shift"]) == (True, "user")
    assert told(found["enable_metrics"]) == (True, "user")
    assert told(found["model"]) == ("M", "user")


def test_llama_switches_have_a_negative_twin() -> None:
    found = facts_of("llama.cpp", environment={"LLAMA_ARG_NO_CONTEXT_SHIFT": "whatever"})
    assert told(found["context_shift"]) == (False, "user")


def test_a_bad_or_hidden_llama_variable_is_unknown() -> None:
    found = facts_of("llama.cpp", environment={"LLAMA_ARG_CTX_SIZE": "big", "LLAMA_ARG_N_PARALLEL": None})
    assert not found["context_size"].is_known and not found["max_num_seqs"].is_known


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], (None, "default")),
        (["--spec-type", "none"], (None, "user")),
        (["--spec-type", "ngram-mod"], ({"method": "ngram-mod"}, "user")),
        (["--spec-default"], ({"method": "ngram-mod"}, "user")),
        (
            ["--spec-type", "draft-simple", "-md", "d.gguf"],
            ({"method": "draft-simple", "model": "d.gguf"}, "user"),
        ),
        (["-md", "d.gguf"], (None, "unknown")),
    ],
)
def test_llamas_speculation(texts: list[str], expected: tuple[Any, str]) -> None:
    assert told(facts_of("llama.cpp", "-m", "M", *texts)["speculative"]) == expected


@pytest.mark.parametrize(("text", "layers"), [("0", 0), ("99", 99), ("all", "all"), ("-1", "auto")])
def test_llamas_layers_on_the_gpu(text: str, layers: object) -> None:
    assert facts_of("llama.cpp", "-ngl", text)["gpu_layers"].value == layers
    assert facts_of("llama.cpp", "--device", "none")["devices"].value == "none"


def test_a_model_may_come_from_a_hub() -> None:
    assert facts_of("llama.cpp", "-hf", "org/model:Q4_K_M")["model"].value == "org/model:Q4_K_M"


def test_secrets_inside_values_are_masked() -> None:
    found = facts_of("vllm", "M", "--hf-overrides", '{"hf_token": "hf_abcdefghijklmnop"}')
    assert found["hf_overrides"].value == {"hf_token": "***"}


_VALUE = st.sampled_from(
    ["0", "-1", "1", "8k", "None", "auto", "none", "{}", '{"a": 1}', "[1]", "ngram-mod", "x", ""]
)


@st.composite
def _command(draw: st.DrawFn) -> tuple[str, list[str | None], dict[str, str | None]]:
    """Flags of the vocabulary with values that may not suit them, hidden words, environment twins."""
    engine = draw(st.sampled_from(sorted(NEWEST)))
    named = [entry[engine] for entry in vocabulary().values() if engine in entry]
    flags = [flag for names in named for flag in ([names] if isinstance(names, str) else names)]
    flags += [
        "spec-method",
        "spec-tokens",
        "speculative-num-steps",
        "spec-draft-n-max",
        "spec-default",
        "kv-unified",
    ]
    texts: list[str | None] = []
    for flag in draw(st.lists(st.sampled_from(flags), max_size=6)):
        texts += [f"--{flag}", draw(st.one_of(st.none(), _VALUE))]
    newest = table(engine)
    assert newest is not None
    twins = [flag.environment for flag in newest.flags.values() if flag.environment]
    twins += ["VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"]
    names = draw(st.lists(st.sampled_from(twins), max_size=3))
    return engine, texts, {name: draw(st.one_of(st.none(), _VALUE)) for name in names}


@settings(max_examples=150, deadline=None)
@given(_command(), st.booleans(), st.booleans(), st.sampled_from([None, 22.5, 79.6, 180.0]))
def test_any_flags_give_facts_that_say_where_they_are_from(
    command: tuple[str, list[str | None], dict[str, str | None]],
    is_stated: bool,
    is_single: bool,
    memory: float | None,
) -> None:
    engine, texts, environment = command
    place = Origin("argument", "argument")
    version = NEWEST[engine] if is_stated else None
    words = [Word(text, place, single=is_single) for text in texts]
    try:
        parsed = parse(engine, version, words)
    except PreopError:
        return
    variables = {name: Word(text, place) for name, text in environment.items()}
    found = facts(engine, version, parsed, variables, accelerator=Accelerator("NVIDIA L4", memory))
    for name, fact in found.items():
        assert (fact.origin is not None) if fact.is_known else (fact.value is None and fact.note), name
        assert fact.set_by != "default" or (is_stated and not parsed.hidden) or name == "rope_scaling", name
