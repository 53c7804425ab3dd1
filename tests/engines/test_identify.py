"""Which engine a command starts, and where its own arguments begin."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.engines import identify
from preop.engines.commands import NotServing, Routing
from preop.errors import InputError, PreopError
from preop.facts import Origin, Word

from .commandline import words


@pytest.mark.parametrize(
    ("command", "engine", "first"),
    [
        ("vllm serve M --port 1", "vllm", "M"),
        ("/opt/venv/bin/vllm serve M", "vllm", "M"),
        ("python -m vllm.entrypoints.openai.api_server --model M", "vllm", "--model"),
        ("python3.12 -u -m vllm.entrypoints.openai.api_server --model M", "vllm", "--model"),
        ("python3 -m vllm.entrypoints.cli.main serve M", "vllm", "M"),
        ("python3 -W ignore -m vllm.entrypoints.cli.main serve M", "vllm", "M"),
        ("llama-server -m M", "llama.cpp", "-m"),
        ("./build/bin/llama-server -m M", "llama.cpp", "-m"),
        ("/app/llama-server -m M", "llama.cpp", "-m"),
        ("llama-server.exe -m M", "llama.cpp", "-m"),
        ("llama serve -m M", "llama.cpp", "-m"),
        ("python -m llama_cpp.server --model M", "llama-cpp-python", "--model"),
        ("sglang serve M", "sglang", "M"),
        ("python3 -m sglang.launch_server --model-path M", "sglang", "--model-path"),
        ("text-generation-launcher --model-id M", "tgi", "--model-id"),
        ("trtllm-serve M", "tensorrt-llm", "M"),
        ("trtllm-serve serve M", "tensorrt-llm", "M"),
        ("python -m tensorrt_llm.commands.serve serve M", "tensorrt-llm", "M"),
        ("trtllm-serve embeddings M", "tensorrt-llm", "M"),
        ("text-embeddings-router --model-id M", "tei", "--model-id"),
        ("infinity_emb v2 --model-id M", "infinity", "--model-id"),
        ("python -m huggingfaceserver --model_id=M", "vllm", "--model_id=M"),
        ("python -m huggingfaceserver --backend=vllm --model_id=M", "vllm", "--backend=vllm"),
        ("python -m huggingfaceserver --backend=huggingface", "kserve-transformers", "--backend=huggingface"),
        ("python -m huggingfaceserver --backend huggingface", "kserve-transformers", "--backend"),
        ("python3 -m dynamo.vllm --model M", "vllm", "--model"),
        ("python3 -m dynamo.sglang --model-path M", "sglang", "--model-path"),
        ("python3 -m dynamo.trtllm --model-path M", "tensorrt-llm", "--model-path"),
    ],
)
def test_the_engine_and_the_start_of_its_arguments(command: str, engine: str, first: str) -> None:
    texts = shlex.split(command)
    found = identify(words(*texts))
    assert found is not None
    assert found.engine == engine
    assert texts[found.arguments_at] == first


@pytest.mark.parametrize(
    "command",
    ["nginx -g x", "python app.py", "python -m http.server", "echo vllm serve", "sleep 1", "$RUN serve M"],
)
def test_what_starts_no_known_engine(command: str) -> None:
    assert identify(words(*command.split())) is None


@pytest.mark.parametrize("command", ["vllm bench serve --model M", "vllm chat", "sglang generate", "vllm"])
def test_a_subcommand_that_does_not_serve_is_refused(command: str) -> None:
    with pytest.raises(InputError, match="serve` was expected"):
        identify(words(*command.split()))


@pytest.mark.parametrize(
    "command",
    [
        "python -m sglang_router.launch_router --pd-disaggregation",
        "python3 -m sglang.srt.disaggregation.mini_lb --prefill http://p",
        "vllm-router --port 8001",
        "python -m vllm_router.app --port 8001",
        "python3 -m dynamo.frontend --http-port 8000",
        "lmcache_server localhost 65432",
        "trtllm-serve disaggregated -c c.yaml",
    ],
)
def test_a_router_is_named_as_what_it_is(command: str) -> None:
    with pytest.raises(Routing, match="serves no model itself"):
        identify(words(*command.split()))


def test_a_worker_that_takes_its_model_from_a_file_is_refused() -> None:
    with pytest.raises(NotServing, match="from a file"):
        identify(words("trtllm-serve", "disaggregated_mpi_worker", "-c", "c.yaml"))


def test_what_stands_between_the_command_and_the_engine_is_named() -> None:
    commands = {
        "vllm serve M": None,
        "python -m huggingfaceserver --model_id M": "kserve",
        "python3 -m dynamo.vllm --model M": "dynamo",
        "trtllm-serve rerank M": "rerank",
    }
    for command, through in commands.items():
        found = identify(words(*command.split()))
        assert found is not None and found.through == through


def test_two_engines_in_one_command_are_refused() -> None:
    with pytest.raises(InputError, match="one engine to a command was expected"):
        identify(words("vllm", "serve", "M", "vllm", "serve", "N"))


def test_a_flag_value_that_is_named_like_an_engine_is_a_value() -> None:
    found = identify(words("vllm", "serve", "M", "--served-model-name", "llama-server"))
    assert found is not None and found.engine == "vllm"


_TEXT = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.sampled_from(
        ["vllm", "serve", "python", "-m", "sglang", "env", "sudo", "--", "A=b", "uv", "run", "-c"]
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_TEXT, max_size=8))
def test_any_words_give_an_answer_or_a_preop_error(texts: list[str | None]) -> None:
    given_words = [Word(text, Origin("argument", "x")) for text in texts]
    try:
        found = identify(given_words)
    except PreopError:
        return
    assert found is None or 0 < found.arguments_at <= len(given_words)
