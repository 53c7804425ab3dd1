"""How TGI and TEI read their command lines, and what their environment says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.engines import facts, parse, table, versions
from preop.errors import PreopError
from preop.facts import Fact, Origin, Word

from .commandline import flags_of, read

TGI, TEI = "3.3.7", "1.9.3"


def facts_of(
    engine: str, *texts: str, version: str | None, environment: dict[str, str | None] | None = None
) -> dict[str, Fact]:
    place = Origin("environment", "here")
    twins = {name: Word(text, place) for name, text in (environment or {}).items()}
    return facts(engine, version, read(engine, *texts, version=version), twins)


# --- the tables, against the projects' own documents


@pytest.mark.parametrize(
    ("version", "flag", "default"),
    [
        # docs/source/reference/launcher.md of TGI 3.3.4
        ("3.3.4", "model-id", "bigscience/bloom-560m"),
        ("3.3.4", "max-concurrent-requests", 128),
        ("3.3.4", "waiting-served-ratio", 0.3),
        ("3.3.4", "port", 3000),
        ("3.3.4", "cuda-memory-fraction", 1.0),
        ("3.3.4", "payload-limit", 2000000),
        # docs/source/basic_tutorials/launcher.md of TGI 1.4.5, where lengths had defaults of their own
        ("1.4.5", "max-input-length", 1024),
        ("1.4.5", "max-total-tokens", 2048),
        ("1.4.5", "max-batch-prefill-tokens", 4096),
        ("1.4.5", "waiting-served-ratio", 1.2),
    ],
)
def test_a_default_of_tgi_is_what_its_reference_says(version: str, flag: str, default: object) -> None:
    found = table("tgi", version)
    assert found is not None
    assert (found.flags[flag].default, found.flags[flag].how) == (default, "literal")


@pytest.mark.parametrize(
    ("flag", "default"),
    [
        # docs/source/en/cli_arguments.md of TEI 1.9
        ("max-concurrent-requests", 512),
        ("max-batch-tokens", 16384),
        ("max-client-batch-size", 32),
        ("prometheus-port", 9000),
        ("auto-truncate", True),
    ],
)
def test_a_default_of_tei_is_what_its_reference_says(flag: str, default: object) -> None:
    found = table("tei", TEI)
    assert found is not None and found.flags[flag].default == default


def test_a_length_that_tgi_finds_out_itself_is_no_number() -> None:
    newest = table("tgi")
    assert newest is not None and newest.flags["max-total-tokens"].how == "computed"


def test_every_flag_of_tgi_but_one_has_a_twin_in_the_environment() -> None:
    newest = table("tgi")
    assert newest is not None
    without = [name for name, flag in newest.flags.items() if flag.environment is None]
    assert without == ["env"]  # --env prints the environment and has none


# --- clap


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["--model-id", "M", "--num-shard=2"], {"model-id": "M", "num-shard": 2}),
        (["-p", "80"], {"port": 80}),
        (["-p80"], {"port": 80}),
        (["-p=80"], {"port": 80}),
        (["--trust-remote-code", "--speculate", "3"], {"trust-remote-code": True, "speculate": 3}),
        (["--sharded", "false"], {"sharded": "false"}),
        (["--cors-allow-origin", "a", "--cors-allow-origin", "b"], {"cors-allow-origin": ["a", "b"]}),
    ],
)
def test_the_ways_to_write_a_flag(texts: list[str], expected: dict[str, Any]) -> None:
    parsed = read("tgi", *texts, version=TGI)
    assert flags_of(parsed) == expected and parsed.notes == ()


@pytest.mark.parametrize(
    ("texts", "kind", "says"),
    [
        (["--num_shard", "2"], "unknown-flag", "--num_shard"),
        (["--num-sha", "2"], "unknown-flag", "--num-sha"),
        (["--num-shard", "2", "--num-shard", "2"], "bad-value", "more than once"),
        (["--json-output", "--json-output"], "bad-value", "more than once"),
        (["--json-output=true"], "bad-value", "takes no value"),
        (["--num-shard", "-1"], "bad-value", "missing"),
        (["--num-shard=-1"], "bad-value", "from 0 on"),
        (["--num-shard", "1_0"], "bad-value", "from 0 on"),
        (["--dtype", "float32"], "bad-value", "float16, bfloat16"),
        (["--quantize"], "bad-value", "missing"),
        (["M"], "other", "belongs to no flag"),
    ],
)
def test_what_the_launcher_stops_at(texts: list[str], kind: str, says: str) -> None:
    parsed = read("tgi", *texts, version=TGI)
    assert (parsed.notes[0].kind, says in parsed.notes[0].message) == (kind, True)
    assert not any(flag.is_known for flag in parsed.given.values())


def test_tei_reads_a_switch_that_may_have_a_value() -> None:
    assert flags_of(read("tei", "--auto-truncate", "false", version=TEI)) == {"auto-truncate": False}
    assert flags_of(read("tei", "--auto-truncate", "--port", "80", version=TEI)) == {
        "auto-truncate": True,
        "port": 80,
    }
    assert flags_of(read("tei", "--auto-truncate=true", version=TEI)) == {"auto-truncate": True}


def test_a_hidden_value_of_one_word_hides_nothing_else() -> None:
    parsed = read("tgi", "--num-shard", '"$N"', "--model-id", "M", version=TGI)
    assert flags_of(parsed) == {"model-id": "M"} and not parsed.hidden
    assert read("tgi", "--num-shard", "$N", version=TGI).hidden


# --- facts


def test_tgis_facts() -> None:
    found = facts_of(
        "tgi", "--model-id", "M", "--quantize", "fp8", "--max-total-tokens", "8192",
        "--max-input-tokens", "4096", "--max-batch-prefill-tokens", "4096", "--num-shard", "2",
        "--speculate", "3", "--lora-adapters", "a=o/a,o/b", version=TGI,
    )  # fmt: skip
    assert {
        name: found[name].value for name in ("model", "quantization", "max_model_len", "max_input_len")
    } == {
        "model": "M",
        "quantization": "fp8",
        "max_model_len": 8192,
        "max_input_len": 4096,
    }
    assert found["tensor_parallel_size"].value == 2
    assert found["speculative"].value["num_speculative_tokens"] == 3
    assert found["max_concurrent_requests"].value == 128
    assert not found["max_num_seqs"].is_known  # what fits the memory: it takes in 128, and runs what fits
    assert found["task"].value == "generate"
    assert found["lora_modules"].value == [{"name": "a", "path": "o/a"}, {"name": "o/b", "path": "o/b"}]


def test_the_environment_sets_what_the_command_does_not() -> None:
    environment: dict[str, str | None] = {"MODEL_ID": "M", "MAX_TOTAL_TOKENS": "4096", "QUANTIZE": "awq"}
    found = facts_of("tgi", "--max-total-tokens", "8192", version=None, environment=environment)
    assert found["model"].value == "M" and found["model"].set_by == "user"
    assert found["quantization"].value == "awq"
    assert found["max_model_len"].value == 8192


def test_a_bad_or_hidden_variable_is_unknown() -> None:
    found = facts_of("tgi", version=TGI, environment={"MAX_TOTAL_TOKENS": "many", "NUM_SHARD": None})
    assert not found["max_model_len"].is_known and not found["tensor_parallel_size"].is_known


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("1", None), ("on", None)])
def test_a_switch_in_the_environment_is_true_or_false(text: str, value: bool | None) -> None:
    """clap reads the variable of a flag without value as a bool, and stops at any other word."""
    fact = facts_of("tei", version=TEI, environment={"AUTO_TRUNCATE": text})["auto_truncate"]
    assert (fact.value, fact.is_known) == (value, value is not None)


def test_no_speculation_is_known_as_none() -> None:
    assert facts_of("tgi", "--speculate", "0", version=TGI)["speculative"].value is None
    unset = facts_of("tgi", version=TGI)["speculative"]
    assert unset.is_known and unset.value is None and "Medusa" in (unset.note or "")


def test_tei_embeds_whatever_its_flags() -> None:
    found = facts_of("tei", "--model-id", "M", version=None)
    assert (found["task"].value, found["model"].value) == ("embed", "M")
    assert not found["auto_truncate"].is_known
    assert facts_of("tei", "--model-id", "M", version="1.6.0")["auto_truncate"].value is False


_FLAG = st.sampled_from(
    [
        "--model-id", "--num-shard", "-p", "-p3", "--json-output", "--auto-truncate", "--cuda-graphs",
        "--speculate", "--lora-adapters", "--", "-", "--port=", "--quantize=awq", "--no-such", "M", "-1",
        "{}", "true", "1e999",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["tgi", "tei"]),
    st.lists(st.one_of(st.none(), _FLAG, st.text(max_size=6)), max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_any_words_give_facts_or_a_preop_error(
    engine: str, texts: list[str | None], is_stated: bool, is_single: bool
) -> None:
    version = versions(engine)[-1] if is_stated else None
    words = [Word(text, Origin("argument", "argument"), single=is_single) for text in texts]
    try:
        parsed = parse(engine, version, words)
        found = facts(engine, version, parsed, {})
    except PreopError:
        return
    for fact in found.values():
        assert (fact.origin is not None) if fact.is_known else (fact.value is None and fact.note)
