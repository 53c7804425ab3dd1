"""Triton model repositories: the text format, and what a model's config says of its engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.forms.pbtxt import Message, read_pbtxt
from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError
from preop.findings import Outcome
from preop.pitfalls.p14_streaming import PITFALL as STREAMING
from preop.pitfalls.types import Case

from .reading import read_file, said


def text_of(message: Message, *path: str) -> str | None:
    for name in path[:-1]:
        inner = message.message(name)
        assert inner is not None
        message = inner
    found = message.text(path[-1])
    return found.text if found else None


# The language: protobuf.dev, "Text Format Language Specification".


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('name: "a"', ("name",), "a"),
        ("name: 'a' # b\n", ("name",), "a"),
        ('name: "a" "b"\n  \'c\'', ("name",), "abc"),
        (r'name: "\x41\102\n\"\u00e9"', ("name",), 'AB\n"\u00e9'),
        ("a { b { c: 1 } }", ("a", "b", "c"), "1"),
        ("a: < b: { c: -1.5e3 } >", ("a", "b", "c"), "-1.5e3"),
        ("a: 1; b: 2, c: KIND_GPU", ("c",), "KIND_GPU"),
        ("a: [1, 2, 3]", ("a",), "3"),
        ("a [ { b: 1 }, { b: 2 } ]", ("a", "b"), "2"),
        ("[x.y/z]: 1 n: 2", ("n",), "2"),
        ("n: ${size}", ("n",), "${size}"),
        ('n: "${size}"', ("n",), "${size}"),
    ],
)
def test_the_text_format(text: str, path: tuple[str, ...], expected: str) -> None:
    assert text_of(read_pbtxt(text, "config.pbtxt"), *path) == expected


def test_repeated_fields_keep_their_order_and_places() -> None:
    found = read_pbtxt('p { key: "a" }\np { key: "b" }\nd: [ 0, 1 ]\nd: 2\n', "config.pbtxt")
    assert [text_of(each, "key") for each in found.messages("p")] == ["a", "b"]
    assert [each.text for each in found.texts("d")] == ["0", "1", "2"]
    assert str(found.texts("d")[1].origin) == "config.pbtxt:3:9"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a {", "1:3"),
        ("a: [1", "1:4"),
        ("a b", "1:3"),
        ('a: "b', "1:4"),
        ("a: }", "1:4"),
        ("}", "1:1"),
        ("a {" * 200, "nested deeper"),
    ],
)
def test_what_is_no_text_format_is_one_sentence_with_its_place(text: str, where: str) -> None:
    with pytest.raises(InputError, match=where):
        read_pbtxt(text, "config.pbtxt")


@given(st.text(alphabet=st.sampled_from("abk{}[]<>:,;\"'\\#\n 01-.$x"), max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_message_or_one_sentence(text: str) -> None:
    try:
        read_pbtxt(text, "config.pbtxt")
    except InputError as error:
        assert "\n" not in str(error)


FIELDS = st.dictionaries(
    st.sampled_from(["a", "b_c", "D1"]),
    st.recursive(
        st.text(max_size=8),
        lambda each: st.dictionaries(st.sampled_from(["a", "b_c"]), each, max_size=2),
        max_leaves=6,
    ),
    max_size=3,
)


@given(FIELDS)
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_read_back(fields: dict[str, Any]) -> None:
    def written(value: Any) -> str:
        if isinstance(value, str):
            codes = "".join(f"\\U{ord(char):08x}" for char in value if not 0xD800 <= ord(char) < 0xE000)
            return f': "{codes}"'
        return " {" + " ".join(f"{key}{written(inner)}" for key, inner in value.items()) + "}"

    def read_back(message: Message) -> dict[str, Any]:
        return {
            key: each.text if not isinstance(each, Message) else read_back(each)
            for key, (each, *_) in message.fields.items()
        }

    text = " ".join(f"{key}{written(value)}" for key, value in fields.items())
    assert read_back(read_pbtxt(text, "x")) == fields


# Models.


def repository(folder: Path, name: str, config: str, **files: str) -> Path:
    model = folder / "repository" / name
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(config, encoding="utf-8")
    for file, text in files.items():
        (model / "1" / f"{file}.json").write_text(text, encoding="utf-8")
    return model / "config.pbtxt"


def value(deployment: Deployment, name: str) -> Any:
    fact = deployment.fact(name)
    return fact.value if fact.is_known else "unknown"


TENSORRT = """
name: "tensorrt_llm"
backend: "tensorrtllm"
max_batch_size: 64
model_transaction_policy { decoupled: %s }
dynamic_batching { preferred_batch_size: [ 64 ] max_queue_delay_microseconds: 100 }
instance_group [ { count: 1 kind: KIND_CPU } ]
parameters: { key: "gpt_model_type" value: { string_value: "inflight_fused_batching" } }
parameters: { key: "gpt_model_path" value: { string_value: "/engines/llama" } }
parameters { key: "kv_cache_free_gpu_mem_fraction" value { string_value: "0.85" } }
parameters { key: "enable_kv_cache_reuse" value { string_value: "${reuse}" } }
parameters { key: "gpu_device_ids" value { string_value: "0,1" } }
parameters { key: "max_tokens_in_paged_kv_cache" value { string_value: "" } }
"""


def test_the_tensorrt_llm_backend(tmp_path: Path) -> None:
    (found,) = read_file(repository(tmp_path, "tensorrt_llm", TENSORRT % "false"))
    assert (found.name, found.engine) == ("tensorrt_llm", "tensorrt-llm")
    expected = {
        "decoupled": False,
        "max_num_seqs": 64,
        "gpt_model_type": "inflight_fused_batching",
        "kv_cache_free_memory_fraction": 0.85,
        "enable_prefix_caching": "unknown",  # the template is not filled in
        "max_tokens_in_paged_kv_cache": "unknown",
        "gpu_count": 2,
        "image": "unknown",
    }
    assert {name: value(found, name) for name in expected} == expected
    assert "${...}" in said(found)
    assert found.fact("decoupled").source.endswith("config.pbtxt:5:39")
    python = TENSORRT.replace('"tensorrtllm"', '"python"')  # the same model in tensorrtllm_backend's model.py
    assert read_file(repository(tmp_path / "c", "tensorrt_llm", python % "true"))[0].engine == "tensorrt-llm"
    streams = repository(tmp_path / "b", "tensorrt_llm", TENSORRT % "true")
    assert value(read_file(streams)[0], "decoupled") is True


VLLM = 'backend: "vllm"\ninstance_group [ { count: 1 kind: KIND_MODEL } ]\n'
ARGUMENTS = """{
    "model": "facebook/opt-125m",
    "disable_log_requests": true,
    "gpu_memory_utilization": 0.5,
    "enable_prefix_caching": false,
    "enforce_eager": true,
    "max_num_seqs": 32
}
"""


def test_the_vllm_backend_and_its_adapters(tmp_path: Path) -> None:
    path = repository(tmp_path, "vllm_model", VLLM, model=ARGUMENTS, multi_lora='{"doll": "/lora/doll"}')
    (found,) = read_file(path)
    assert (found.name, found.engine) == ("vllm_model", "vllm")
    expected = {
        "model": "facebook/opt-125m",
        "gpu_memory_fraction": 0.5,
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "max_num_seqs": 32,
        "decoupled": "unknown",  # the backend decides where the config does not say
        "engine_version": "unknown",
        "lora_modules": [{"name": "doll", "path": "/lora/doll"}],
    }
    assert {name: value(found, name) for name in expected} == expected
    assert found.fact("max_num_seqs").source.endswith("1/model.json:7:21")


def test_a_repository_is_searched_and_its_other_models_are_passed_over(tmp_path: Path) -> None:
    repository(tmp_path, "tensorrt_llm", TENSORRT % "true")
    repository(tmp_path, "preprocessing", 'name: "preprocessing"\nbackend: "python"\n')
    repository(tmp_path, "ensemble", 'name: "ensemble"\nplatform: "ensemble"\nensemble_scheduling { }\n')
    found = read_targets([str(tmp_path)], None, ReadOptions())
    assert [each.name for each in found] == ["tensorrt_llm"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('platform: "onnxruntime_onnx"\n', "runs ONNX Runtime, which is no LLM engine"),
        ('backend: "python"\n', "Python code of its own"),
        ('name: "x"\n', "neither backend nor platform"),
        ('backend: "${backend}"\n', "fill it in first"),
        (VLLM, "1/model.json beside it, and it is not there"),
        ("backend vllm", "expected `:` or `{`"),
    ],
)
def test_models_that_are_not_judged(tmp_path: Path, config: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_file(repository(tmp_path, "x", config))


@given(
    st.sampled_from(["tensorrtllm", "vllm"]),
    st.text(alphabet=st.sampled_from('ab{}[]:"\n 01,.$x'), max_size=60),
    st.text(alphabet=st.sampled_from('ab{}[]:"\n 01,model'), max_size=40),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_model_gives_deployments_or_one_sentence(
    tmp_path: Path, backend: str, config: str, arguments: str
) -> None:
    model = tmp_path / "model"
    (model / "1").mkdir(parents=True, exist_ok=True)
    (model / "1" / "model.json").write_text(arguments or "{}", encoding="utf-8")
    (model / "config.pbtxt").write_text(f'backend: "{backend}"\n{config}', encoding="utf-8")
    try:
        read_file(model / "config.pbtxt")
    except PreopError as error:
        assert str(error)


@pytest.mark.parametrize(("decoupled", "outcome"), [("false", Outcome.FAIL), ("true", Outcome.UNPROVEN)])
@pytest.mark.parametrize("backend", ["tensorrtllm", "vllm"])
def test_a_model_that_may_answer_only_once_cannot_stream(
    tmp_path: Path, backend: str, decoupled: str, outcome: Outcome
) -> None:
    policy = f"model_transaction_policy {{ decoupled: {decoupled} }}\n"
    if backend == "vllm":
        path = repository(tmp_path, "m", VLLM + policy, model=ARGUMENTS)
    else:
        path = repository(tmp_path, "m", TENSORRT % decoupled)
    (found,) = read_file(path)
    finding = STREAMING.judge(Case(found, (found,)))
    assert finding.outcome is outcome
    assert (finding.where or "").endswith("3:39" if backend == "vllm" else "5:39") is (decoupled == "false")


def test_a_policy_that_is_not_stated_or_not_filled_in_proves_nothing(tmp_path: Path) -> None:
    silent = TENSORRT.replace("model_transaction_policy { decoupled: %s }\n", "")
    for number, text in enumerate((silent, TENSORRT % "${decoupled}")):
        (found,) = read_file(repository(tmp_path / str(number), "m", text))
        assert STREAMING.judge(Case(found, (found,))).outcome is Outcome.UNPROVEN
