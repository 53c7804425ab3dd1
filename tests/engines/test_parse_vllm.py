"""How vLLM reads its command line. Source: vllm/utils/argparse_utils.py and engine/arg_utils.py of 0.32.0."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.engines import Unreadable, parse
from preop.errors import PreopError
from preop.facts import Origin, Word

from .commandline import flags_of, read


def value(*texts: str) -> Any:
    """What the words after the model set, as one mapping."""
    found = dict(flags_of(read("vllm", "M", *texts)))
    assert found.pop("model") == "M"
    return found


def kinds(*texts: str) -> list[str]:
    return [note.kind for note in read("vllm", "M", *texts).notes]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["--max-num-seqs", "8"], {"max-num-seqs": 8}),
        (["--max_num_seqs", "8"], {"max-num-seqs": 8}),
        (["--max_num-seqs=8"], {"max-num-seqs": 8}),
        (["-tp", "2"], {"tensor-parallel-size": 2}),
        (["-tp=2"], {"tensor-parallel-size": 2}),
        (["-n4"], {"nnodes": 4}),
        (["--max-model-len", "8k"], {"max-model-len": 8000}),
        (["--max-model-len", "8K"], {"max-model-len": 8192}),
        (["--max-model-len", "25.6k"], {"max-model-len": 25600}),
        (["--max-model-len", "1m"], {"max-model-len": 1000000}),
        (["--max-model-len", "1M"], {"max-model-len": 1048576}),
        (["--max-model-len", "auto"], {"max-model-len": -1}),
        (["--max-model-len", "-1"], {"max-model-len": -1}),
        (["--enable-prefix-caching"], {"enable-prefix-caching": True}),
        (["--no-enable-prefix-caching"], {"enable-prefix-caching": False}),
        (["--no_enable_prefix_caching"], {"enable-prefix-caching": False}),
        (["-O3"], {"optimization-level": "3"}),
        (["-O=3"], {"optimization-level": "3"}),
        (["-O", "3"], {"optimization-level": "3"}),
        (["--gpu-memory-util", "0.5"], {"gpu-memory-utilization": 0.5}),
        (["--device-memory-utilization", "0.5"], {"gpu-memory-utilization": 0.5}),
        (["--served-model-name", "a", "b"], {"served-model-name": ["a", "b"]}),
        (["--quantization", "None"], {"quantization": None}),
        (["--seed", "-1"], {"seed": -1}),
        (["--speculative-config", '{"method": "ngram"}'], {"speculative-config": {"method": "ngram"}}),
        (
            ["--speculative-config.method", "ngram", "--speculative-config.num_speculative_tokens=5"],
            {"speculative-config": {"method": "ngram", "num_speculative_tokens": 5}},
        ),
        (
            ["--speculative_config.a_b.c", "1k", "--speculative-config.a_b.d+", "x,y"],
            {"speculative-config": {"a_b": {"c": 1000, "d": ["x", "y"]}}},
        ),
        (["--hf-overrides", "pkg.function"], {"hf-overrides": "pkg.function"}),
        (["--kv-transfer-config", '{"n": 80m}'], {"kv-transfer-config": {"n": 80000000}}),
    ],
)
def test_what_a_flag_sets(texts: list[str], expected: dict[str, Any]) -> None:
    assert value(*texts) == expected


def test_the_last_of_a_repeated_flag_wins_and_is_noted() -> None:
    assert value("--gpu_memory_utilization", "0.95", "--gpu-memory-utilization", "0.4") == {
        "gpu-memory-utilization": 0.4
    }
    assert kinds("--gpu_memory_utilization", "0.95", "--gpu-memory-utilization", "0.4") == ["repeated-flag"]


def test_the_model_may_be_a_flag() -> None:
    assert flags_of(read("vllm", "--max-num-seqs", "8", "--model", "M"))["model"] == "M"
    assert flags_of(read("vllm", "--model=M"))["model"] == "M"


@pytest.mark.parametrize(
    "texts",
    [
        ["--max-num-seqs", "many"],
        ["--max-num-seqs", "8k"],
        ["--max-num-seqs"],
        ["--max-model-len", "1.5K"],
        ["--dtype", "fp7"],
        ["--gpu-memory-utilization", "nan"],
        ["--speculative-config", "{method: ngram}"],
        ["--enable-prefix-caching=true"],
        ["--max-num-seqs.x", "1"],
    ],
)
def test_a_value_that_vllm_refuses_is_noted_and_unknown(texts: list[str]) -> None:
    assert kinds(*texts) == ["bad-value"]
    assert value(*texts) == {}


def test_an_unknown_flag_gets_the_nearest_real_one_and_reading_goes_on() -> None:
    parsed = read("vllm", "M", "--max-num-seq5", "8", "--max-model-len", "4096", version="0.32.0")
    (note,) = parsed.notes
    assert (note.kind, note.suggestion) == ("unknown-flag", "--max-num-seqs")
    assert flags_of(parsed)["max-model-len"] == 4096


@pytest.mark.parametrize("flag", ["--swap-space", "--disable-log-requests", "--num-scheduler-steps"])
def test_a_removed_flag_is_told_from_a_misspelled_one(flag: str) -> None:
    (note,) = read("vllm", "M", flag, version="0.32.0").notes
    assert note.kind == "removed-flag" and note.suggestion


def test_an_unknown_switch_takes_no_value() -> None:
    parsed = read("vllm", "--disable-log-requests", "M", "--max-num-seqs", "8")
    assert flags_of(parsed) == {"model": "M", "max-num-seqs": 8}


def test_an_ambiguous_beginning_is_no_flag() -> None:
    (note,) = read("vllm", "M", "--enable-l", version="0.32.0").notes
    assert note.kind == "unknown-flag" and (note.suggestion or "").startswith("one of --enable-l")


def test_a_removed_flag_that_begins_others_is_removed_all_the_same() -> None:
    assert kinds("--device", "cpu") == ["removed-flag"]


def test_a_hidden_word_makes_what_was_set_before_it_unknown_and_not_what_comes_after() -> None:
    parsed = read("vllm", "M", "--max-num-seqs", "8", "$EXTRA", "--max-model-len", "4096")
    assert flags_of(parsed) == {"model": "M", "max-model-len": 4096}
    assert parsed.hidden == ("$EXTRA is not set",)


def test_a_hidden_word_after_a_flag_is_its_value_and_may_be_more() -> None:
    parsed = read("vllm", "M", "--max-num-seqs", "8", "--max-model-len", "$LEN")
    assert flags_of(parsed) == {"model": "M"}
    assert parsed.hidden


def test_a_quoted_hidden_word_after_a_flag_is_its_value_and_no_more() -> None:
    parsed = read("vllm", '"$MODEL"', "--max-model-len", '"$LEN"', "--max-num-seqs", "8")
    assert flags_of(parsed) == {"max-num-seqs": 8}
    assert not parsed.given["model"].is_known and not parsed.given["max-model-len"].is_known
    assert parsed.hidden == ()


def test_the_command_line_wins_over_the_config_file() -> None:
    config = {"max-num-seqs": 4, "max_model_len": 4096, "enable-prefix-caching": False, "model": "C"}
    parsed = read("vllm", "--config", "c.yaml", "--max-num-seqs", "8", config=lambda path: config)
    assert flags_of(parsed) == {
        "model": "C",
        "max-num-seqs": 8,
        "max-model-len": 4096,
        "enable-prefix-caching": False,
    }
    assert str(parsed.given["max-model-len"].origin) == "c.yaml: max_model_len"
    assert parsed.notes == ()


def test_a_model_on_the_command_line_wins_over_the_config_files() -> None:
    parsed = read("vllm", "M", "--config", "c.yaml", config=lambda path: {"model": "C"})
    assert flags_of(parsed)["model"] == "M"


def test_a_nested_config_is_json_and_a_list_is_many_values() -> None:
    config = {"speculative-config": {"method": "ngram"}, "served-model-name": ["a", "b"]}
    parsed = read("vllm", "M", "--config", "c.yaml", config=lambda path: config)
    assert flags_of(parsed)["speculative-config"] == {"method": "ngram"}
    assert flags_of(parsed)["served-model-name"] == ["a", "b"]


@pytest.mark.parametrize("answer", [None, lambda path: Unreadable("it is not here")])
def test_a_config_file_that_cannot_be_read_may_set_anything_but_what_the_command_sets(answer: Any) -> None:
    parsed = read("vllm", "M", "--max-num-seqs", "8", "--config", "c.yaml", config=answer)
    assert flags_of(parsed) == {"model": "M", "max-num-seqs": 8}
    assert len(parsed.hidden) == 1


def test_config_with_an_equals_sign_is_never_read() -> None:
    parsed = read("vllm", "M", "--config=c.yaml", config=lambda path: {"max-num-seqs": 4})
    assert "max-num-seqs" not in parsed.given
    assert [note.kind for note in parsed.notes] == ["other"]


def test_the_place_of_a_value_names_argument_and_flag() -> None:
    parsed = read("vllm", "M", "--max-num-seqs", "8")
    assert str(parsed.given["max-num-seqs"].origin) == "argument 3, --max-num-seqs"


def test_a_key_never_becomes_visible() -> None:
    parsed = read(
        "vllm", "M", "--api-key", "topsecret1", "--hf-token=hf_abcdefghijklmnop", "--hf-tokn", "s3cr3t"
    )
    assert "topsecret1" not in repr(parsed) and "hf_abc" not in repr(parsed) and "s3cr3t" not in repr(parsed)
    assert flags_of(parsed)["api-key"] == "***"


@pytest.mark.parametrize(
    "texts",
    [
        ["--max-model-len", "9" * 350 + ".5k"],
        ["--max-num-seqs", "9" * 350],
        ["--hf-overrides", '{"a":' * 300 + "1" + "}" * 300],
        ["--hf-overrides." + "a." * 3000 + "b", "1"],
        ["--hf-overrides.a." + "b." * 20 + "c", '{"a":' * 60 + "1" + "}" * 60],
        ["--speculative-config", '{"num_speculative_tokens": 1e999}'],
        ["--speculative-config", '{"num_speculative_tokens": ' + "9" * 400 + "}"],
    ],
)
def test_values_that_no_engine_could_use_are_unknown_and_never_a_crash(texts: list[str]) -> None:
    parsed = read("vllm", "M", *texts)
    (given_,) = (item for name, item in parsed.given.items() if name != "model")
    assert not given_.is_known and given_.note


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_words_after_an_unknown_flag_named_like_a_secret_are_not_shown(engine: str) -> None:
    parsed = read(engine, "--model", "M", "--my-api-key", "hush1", "hush2", "hush3", "--port", "1", "seen")
    assert "hush" not in repr(parsed)
    assert "'seen'" in repr(parsed.notes)


_WORD = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.sampled_from(
        [
            "--max-model-len",
            "--speculative-config.a",
            "--a.b+",
            "-O",
            "-O3",
            "--",
            "-",
            "=",
            "--=",
            "-tp",
            "--.x",
        ]
    ),
    st.sampled_from(
        ["1k", "--config", "{}", "--no-", "--hf-overrides", "-1", "1e400", "--enable-l", "9" * 5000]
    ),
)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "tgi"])
@settings(max_examples=120, deadline=None)
@given(st.lists(_WORD, max_size=8))
def test_any_words_are_read_or_refused_with_a_preop_error(engine: str, texts: list[str | None]) -> None:
    given_words = [Word(text, Origin("argument", "x"), single=bool(i % 2)) for i, text in enumerate(texts)]
    try:
        parsed = parse(engine, None, given_words)
    except PreopError:
        return
    if None in texts and engine != "tgi":
        assert parsed.hidden or parsed.notes or any(not item.is_known for item in parsed.given.values())
