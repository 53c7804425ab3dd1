"""What an engine is there for: task, part in disaggregated serving, ranks, adapters."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.engines import facts, identify, parse
from preop.errors import PreopError
from preop.facts import Fact, Origin, Word

from .commandline import words


def facts_of(command: str, version: str | None = None) -> dict[str, Fact]:
    typed = words(*shlex.split(command))
    found = identify(typed)
    assert found is not None
    parsed = parse(found.engine, version, typed[found.arguments_at :], None, found.through)
    return facts(found.engine, version, parsed, {})


@pytest.mark.parametrize(
    ("command", "version", "task"),
    [
        ("vllm serve M --task embed", "0.8.5", "embed"),
        ("vllm serve M --task embedding", "0.7.3", "embed"),
        ("vllm serve M --task score", "0.8.5", "score"),
        ("vllm serve M --task reward", "0.8.5", "reward"),
        ("vllm serve M --task transcription", "0.8.5", "transcribe"),
        ("vllm serve M --task generate", "0.8.5", "generate"),
        ("vllm serve M --runner pooling --convert classify", "0.32.0", "classify"),
        ("vllm serve M --convert embed", "0.32.0", "embed"),
        ("vllm serve M --runner pooling", "0.32.0", "embed"),
        ("vllm serve M --runner generate", "0.32.0", "generate"),
        ("python -m sglang.launch_server --model-path M --is-embedding", "0.5.3", "embed"),
        ("llama-server -m M --embeddings", "b10605", "embed"),
        ("llama-server -m M --embedding --pooling rank", "b10605", "score"),
        ("llama-server -m M --reranking", "b10605", "score"),
        ("llama-server -m M --rerank", "b6341", "score"),
        ("text-embeddings-router --model-id M", None, "embed"),
        ("trtllm-serve embeddings M", None, "embed"),
        ("trtllm-serve rerank M", None, "score"),
        ("python -m huggingfaceserver --model_id M --task text_embedding", None, "embed"),
    ],
)
def test_a_task_that_the_flags_say(command: str, version: str | None, task: str) -> None:
    fact = facts_of(command, version)["task"]
    assert fact.value == task and fact.origin is not None


@pytest.mark.parametrize(
    ("command", "version"),
    [
        ("vllm serve M", "0.32.0"),
        ("vllm serve M --task auto", "0.8.5"),
        ("vllm serve M --runner auto", "0.32.0"),
        ('vllm serve M --runner "$R"', "0.32.0"),
        ("vllm serve M $EXTRA", "0.32.0"),
        ("python -m sglang.launch_server --model-path M", "0.5.23"),
        ("llama-server -m M", "b10605"),
        ("trtllm-serve M", None),
    ],
)
def test_a_task_that_the_model_decides_is_unknown(command: str, version: str | None) -> None:
    fact = facts_of(command, version)["task"]
    assert not fact.is_known and fact.note


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("""vllm serve M --kv-transfer-config '{"kv_connector":"N","kv_role":"kv_producer"}'""", "prefill"),
        ("""vllm serve M --kv-transfer-config '{"kv_role":"kv_consumer"}'""", "decode"),
        ("""vllm serve M --kv-transfer-config '{"kv_role":"kv_both"}'""", "both"),
        ("vllm serve M --kv-transfer-config.kv_role kv_producer", "prefill"),
        ("python -m sglang.launch_server --model-path M --disaggregation-mode prefill", "prefill"),
        ("python3 -m dynamo.vllm --model M --is-prefill-worker", "prefill"),
        ("python3 -m dynamo.vllm --model M --disaggregation-mode decode", "decode"),
        ("python3 -m dynamo.sglang --model-path M --disaggregation-mode=decode", "decode"),
        ("python3 -m dynamo.trtllm --model-path M --disaggregation-mode prefill", "prefill"),
    ],
)
def test_a_part_in_disaggregated_serving(command: str, role: str) -> None:
    fact = facts_of(command)["kv_role"]
    assert (fact.value, fact.set_by) == (role, "user")


def test_no_part_is_known_as_none_where_the_version_is() -> None:
    assert facts_of("vllm serve prefill --served-model-name decode", "0.32.0")["kv_role"].value is None
    sglang = facts_of("python -m sglang.launch_server --model-path M", "0.5.23")["kv_role"]
    assert sglang.is_known and sglang.value is None
    assert not facts_of("vllm serve M")["kv_role"].is_known
    hidden = facts_of("""vllm serve M --kv-transfer-config '{"kv_connector":"X"}'""")["kv_role"]
    assert not hidden.is_known


def test_ranks_of_one_deployment() -> None:
    found = facts_of(
        "vllm serve M --headless --data-parallel-size 4 --data-parallel-rank 2 "
        "--data-parallel-address 10.0.0.1 --nnodes 2 --node-rank 1 --master-addr 10.0.0.1"
    )
    values = {
        "headless": True,
        "data_parallel_rank": 2,
        "data_parallel_address": "10.0.0.1",
        "nnodes": 2,
        "node_rank": 1,
        "dist_init_addr": "10.0.0.1",
    }
    assert {name: found[name].value for name in values} == values
    command = "python -m sglang.launch_server --model-path M --nnodes 2 --node-rank 1 --dist-init-addr a:1"
    found = facts_of(command)
    assert [found[name].value for name in ("nnodes", "node_rank", "dist_init_addr")] == [2, 1, "a:1"]


@pytest.mark.parametrize(
    ("command", "adapters"),
    [
        ("vllm serve M --enable-lora --lora-modules a=o/a b=/b", [("a", "o/a"), ("b", "/b")]),
        (f"vllm serve M --lora-modules '{json.dumps({'name': 'a', 'path': 'o/a'})}'", [("a", "o/a")]),
        (
            "python -m sglang.launch_server --model-path M --lora-paths a=o/a o/b",
            [("a", "o/a"), ("o/b", "o/b")],
        ),
        ("llama-server -m M --lora a.gguf --lora b.gguf", [("a.gguf", "a.gguf"), ("b.gguf", "b.gguf")]),
        ("text-generation-launcher --lora-adapters a=/a,o/b", [("a", "/a"), ("o/b", "o/b")]),
    ],
)
def test_adapters(command: str, adapters: list[tuple[str, str]]) -> None:
    value: Any = facts_of(command)["lora_modules"].value
    assert [(each["name"], each["path"]) for each in value] == adapters


def test_kserve_names_the_model_and_vllm_reads_the_rest() -> None:
    command = "python -m huggingfaceserver --model_name=m --model_id=o/m --model_dir /mnt --max_length 4096 "
    found = facts_of(command + "--tensor-parallel-size 2 --http_port 80")
    values = {"model": "o/m", "served_model_name": "m", "max_model_len": 4096, "tensor_parallel_size": 2}
    assert {name: found[name].value for name in values} == values
    assert not any(fact.set_by == "default" for fact in found.values())
    assert facts_of("python -m huggingfaceserver --model_dir=/mnt/models")["model"].value == "/mnt/models"


def test_dynamo_adds_flags_of_its_own_and_that_is_no_mistake() -> None:
    typed = words("--model", "M", "--endpoint", "dyn://x", "--connector", "nixl", "--max-model-len", "8192")
    parsed = parse("vllm", None, typed, None, "dynamo")
    assert {note.kind for note in parsed.notes} == {"other"}
    assert facts("vllm", None, parsed, {})["max_model_len"].value == 8192


_WORD = st.sampled_from(
    ["--model_id", "--model-dir=/m", "--model", "M", "--backend", "--task", "text_embedding", "--",
     "--is-prefill-worker", "--disaggregation-mode", "prefill", "--disaggregation-mode=x", "-1", "8k",
     "--max_length", "--is-decode-worker=1", "--extra-engine-args", "--kv-transfer-config", "{}",
     '{"kv_role": 3}', "--lora-modules", '{"a"']
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        [
            ("vllm", "kserve"),
            ("vllm", "dynamo"),
            ("sglang", "dynamo"),
            ("tensorrt-llm", "dynamo"),
            ("vllm", None),
        ]
    ),
    st.lists(st.one_of(st.none(), _WORD, st.text(max_size=5)), max_size=9),
    st.booleans(),
)
def test_any_words_before_an_engine_give_facts_or_a_preop_error(
    who: tuple[str, str | None], texts: list[str | None], is_single: bool
) -> None:
    engine, through = who
    given_words = [Word(text, Origin("argument", "argument"), single=is_single) for text in texts]
    try:
        found = facts(engine, None, parse(engine, None, given_words, None, through), {})
    except PreopError:
        return
    for fact in found.values():
        assert (fact.origin is not None) if fact.is_known else (fact.value is None and fact.note)
