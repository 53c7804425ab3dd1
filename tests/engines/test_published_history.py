"""The history against what others published: logs, pull requests and reports, each with its address."""

from __future__ import annotations

from typing import Any

import pytest

from preop.engines import Accelerator, table
from preop.engines.types import Table

from .commandline import flags_of, read
from .test_facts import facts_of


def known(engine: str, version: str) -> Table:
    found = table(engine, version)
    assert found is not None, version
    return found


NAMESPACES: dict[str, tuple[str, dict[str, Any]]] = {
    # the arguments that a server printed at start, those that the reporter had not set
    "0.5.4": (
        "https://github.com/vllm-project/vllm/issues/7303",
        {
            "port": 8000,
            "uvicorn-log-level": "info",
            "allow-credentials": False,
            "allowed-origins": ["*"],
            "response-role": "assistant",
            "ssl-cert-reqs": 0,
            "middleware": [],
            "tokenizer-mode": "auto",
            "load-format": "auto",
            "dtype": "auto",
            "kv-cache-dtype": "auto",
            "guided-decoding-backend": "outlines",
            "worker-use-ray": False,
            "pipeline-parallel-size": 1,
            "tensor-parallel-size": 1,
            "ray-workers-use-nsight": False,
            "block-size": 16,
            "enable-prefix-caching": False,
            "disable-sliding-window": False,
            "use-v2-block-manager": False,
            "num-lookahead-slots": 0,
            "seed": 0,
            "swap-space": 4,
            "cpu-offload-gb": 0,
            "gpu-memory-utilization": 0.9,
            "max-num-seqs": 256,
            "max-logprobs": 20,
            "disable-log-stats": False,
            "enforce-eager": False,
        },
    ),
    "0.7.0": (
        "https://github.com/vllm-project/vllm/issues/15060",
        {
            "chat-template-content-format": "auto",
            "return-tokens-as-token-ids": False,
            "disable-frontend-multiprocessing": False,
            "enable-request-id-headers": False,
            "enable-auto-tool-choice": False,
            "tool-call-parser": None,
            "tool-parser-plugin": "",
            "ssl-cert-reqs": 0,
            "guided-decoding-backend": "xgrammar",
            "logits-processor-pattern": None,
            "distributed-executor-backend": None,
            "max-parallel-loading-workers": None,
        },
    ),
    "0.7.1": (
        "https://github.com/vllm-project/vllm/pull/13374",
        {
            "host": None,
            "lora-modules": None,
            "enable-reasoning": False,
            "reasoning-parser": None,
            "task": "auto",
            "skip-tokenizer-init": False,
        },
    ),
}


@pytest.mark.parametrize("version", NAMESPACES)
def test_defaults_are_those_that_the_server_of_that_release_printed(version: str) -> None:
    flags = known("vllm", version).flags
    for name, value in NAMESPACES[version][1].items():
        assert (flags[name].how, flags[name].default) == ("literal", value), name


def test_the_choices_of_an_early_release_are_those_of_its_usage() -> None:
    """`api_server.py -h` of vLLM 0.3.1: https://github.com/vllm-project/vllm/issues/2915"""
    flags = known("vllm", "0.3.1").flags
    assert flags["tokenizer-mode"].choices == ("auto", "slow")
    assert flags["load-format"].choices == ("auto", "pt", "safetensors", "npcache", "dummy")
    assert flags["dtype"].choices == ("auto", "half", "float16", "bfloat16", "float", "float32")
    assert flags["kv-cache-dtype"].choices == ("auto", "fp8_e5m2")
    assert flags["block-size"].choices == (8, 16, 32)
    assert flags["quantization"].choices == ("awq", "gptq", "squeezellm")
    more = (
        "trust-remote-code worker-use-ray max-parallel-loading-workers swap-space max-paddings enforce-eager"
    )
    assert set(more.split()) <= set(flags)


def test_multi_step_scheduling_is_gone_with_0_10_1() -> None:
    """https://github.com/vllm-project/vllm/pull/22138 and 22779, of August 2025; 0.10.0 is of July."""
    assert "num-scheduler-steps" in known("vllm", "0.10.0").flags
    (note,) = read("vllm", "m", "--num-scheduler-steps", "8", version="0.10.1").notes
    assert note.kind == "removed-flag" and "multi-step" in (note.suggestion or "")


def test_a_word_switches_chunked_prefill_off_where_its_log_says_so() -> None:
    """0.8.1 says to launch with `--enable-chunked-prefill=False`: https://github.com/kserve/kserve/pull/4368"""
    parsed = read("vllm", "m", "--enable-chunked-prefill=False", version="0.8.1")
    assert parsed.notes == () and flags_of(parsed)["enable-chunked-prefill"] is False


def test_v1_switches_chunked_prefill_off_by_a_flag_of_its_own() -> None:
    """https://github.com/areal-project/AReaL/pull/827: `--no-enable-chunked-prefill`, and on by default."""
    found = facts_of(
        "vllm", "m", "--no-enable-chunked-prefill", "--no-enable-prefix-caching", version="0.13.0"
    )
    assert found["enable_chunked_prefill"].value is False and found["enable_prefix_caching"].value is False
    assert not facts_of("vllm", "m", version="0.13.0")["enable_chunked_prefill"].is_known


def test_the_context_that_fits_comes_with_0_14() -> None:
    """`--max-model-len auto`: https://github.com/vllm-project/vllm/pull/29431, first in 0.14.0
    (https://github.com/vllm-project/vllm-ascend/pull/6181)."""
    assert flags_of(read("vllm", "m", "--max-model-len", "auto", version="0.14.0"))["max-model-len"] == -1
    for version in ("0.9.0", "0.11.0", "0.13.0"):
        (note,) = read("vllm", "m", "--max-model-len", "auto", version=version).notes
        assert note.kind == "bad-value", version


@pytest.mark.parametrize(
    ("version", "flag", "suffixed"),
    [
        # `_compute_kwargs` and `add_cli_args` in `vllm/engine/arg_utils.py` of each release
        ("0.8.3", "max-model-len", False),
        ("0.8.4", "max-model-len", True),
        ("0.9.0", "max-model-len", True),
        ("0.9.0", "max-num-batched-tokens", False),
        ("0.9.0.1", "max-num-batched-tokens", False),
        ("0.9.1", "max-num-batched-tokens", True),
        ("0.13.0", "kv-cache-memory-bytes", True),
        ("0.26.0", "max-num-scheduled-tokens", True),
        ("0.33.0", "max-num-seqs", False),
    ],
)
def test_suffixes_are_read_by_the_flags_that_read_them_then(version: str, flag: str, suffixed: bool) -> None:
    parsed = read("vllm", "--model", "m", f"--{flag}", "32k", version=version)
    assert [note.kind for note in parsed.notes] == ([] if suffixed else ["bad-value"])
    assert flags_of(parsed).get(flag) == (32000 if suffixed else None)


def test_llama_servers_flash_attn_takes_a_value_since_it_has_three() -> None:
    """`--flash-attn [on|off|auto]`, default auto: https://github.com/yazon/flexllama/issues/15; the parameter
    came with b6327 at the latest: https://github.com/mybigday/llama.node/pull/102"""
    assert read("llama.cpp", "-m", "M", "--flash-attn", "--main-gpu", "1", version="b5990").notes == ()
    for value in ("on", "off", "auto"):
        assert read("llama.cpp", "-m", "M", "-fa", value, version="b6332").notes == ()
    for version in ("b6332", "b6666", "b10605"):
        (note,) = read("llama.cpp", "-m", "M", "--flash-attn", version=version).notes
        assert note.kind == "bad-value", version
    assert known("llama.cpp", "b6666").flags["flash-attn"].kind == "str"


def test_tgi_2_takes_its_lengths_from_the_models_config() -> None:
    """https://github.com/huggingface/text-generation-inference/pull/1727: max_input_length became
    max_input_tokens (both are read), and the lengths come from the config."""
    before, after = known("tgi", "1.4.5").flags, known("tgi", "2.0.0").flags
    assert "max-input-tokens" not in before and before["max-total-tokens"].default == 2048
    assert after["max-total-tokens"].how == after["max-input-tokens"].how == "computed"
    assert read("tgi", "--model-id", "M", "--max-input-length", "1024", version="2.0.0").notes == ()


def test_sglangs_attention_backend_comes_with_0_3_1() -> None:
    """https://github.com/sgl-project/sglang/pull/1380 of 2024-09: instead of `--disable-flashinfer`."""
    assert "attention-backend" not in known("sglang", "0.3.0").flags
    flags = known("sglang", "0.3.1").flags
    assert flags["attention-backend"].choices == ("flashinfer", "triton") and "disable-flashinfer" in flags
    (note,) = read("sglang", "--model-path", "M", "--disable-flashinfer", version="0.4.4").notes
    assert note.kind == "removed-flag"


@pytest.mark.parametrize("version", ["0.22.0", "0.27.1", "0.33.0"])
def test_the_batch_of_a_prefix_lm_is_raised_so_it_is_no_number_until_the_model_is_known(version: str) -> None:
    """Gemma 4 needs 2496 tokens where a GPU below 70 GiB has 2048:
    https://github.com/vllm-project/vllm/issues/42687 and pull request 43051, first in 0.22.0."""
    small = Accelerator("NVIDIA L4", 22.5)
    gemma = ("google/gemma-4-31b-it",)
    tokens = facts_of("vllm", *gemma, version=version, accelerator=small)["max_num_batched_tokens"]
    assert not tokens.is_known and "2048" in (tokens.note or "") and "prefix-LM" in (tokens.note or "")
    assert facts_of("vllm", *gemma, version=version, accelerator=small)["max_num_seqs"].value == 256
    before = facts_of("vllm", *gemma, version="0.21.0", accelerator=small)["max_num_batched_tokens"]
    assert before.value == 2048


def test_text_alone_raises_nothing() -> None:
    """`_supports_multimodal_for_mm_prefix` in `vllm/config/model.py` of 0.28.0; not before."""
    small = Accelerator("NVIDIA L4", 22.5)

    def tokens(version: str, *texts: str) -> Any:
        found = facts_of("vllm", "m", *texts, version=version, accelerator=small)
        return found["max_num_batched_tokens"].value

    assert tokens("0.28.0", "--language-model-only") == 2048
    assert tokens("0.28.0", "--language-model-only", "--enable-mm-embeds") is None
    assert tokens("0.23.0", "--language-model-only") is None
    assert tokens("0.33.0", "--max-num-seqs", "1", "--max-model-len", "1024") == 1024
