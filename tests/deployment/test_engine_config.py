"""An engine's config file by itself: whose it is, and what the command that is not here may add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.errors import InputError

from .reading import read_file

# The shape of vLLM's documentation, "Server arguments: YAML config".
VLLM = """
model: meta-llama/Llama-3.1-8B-Instruct
host: "127.0.0.1"
port: 6379
uvicorn-log-level: "info"
max_model_len: 8192
gpu-memory-utilization: 0.8
enable-prefix-caching: false
enforce-eager: true
speculative_config:
  method: ngram
  num_speculative_tokens: 3
"""
SGLANG = """
model-path: meta-llama/Llama-3.1-8B-Instruct
tensor-parallel-size: 2
mem-fraction-static: 0.8
context-length: 8192
enable-metrics: true
"""


def write(folder: Path, text: str, name: str = "serve.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def values(deployment: Deployment, *names: str) -> dict[str, Any]:
    facts = {name: deployment.fact(name) for name in names}
    return {name: fact.value if fact.is_known else "unknown" for name, fact in facts.items()}


def test_vllm_and_what_its_command_may_add(tmp_path: Path) -> None:
    (found,) = read_file(write(tmp_path, VLLM), engine_version="0.32.0")
    assert (found.name, found.engine) == ("serve", "vllm")
    expected = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "max_model_len": 8192,
        "gpu_memory_fraction": 0.8,
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "speculative": {"method": "ngram", "num_speculative_tokens": 3},
        "max_num_seqs": "unknown",
        "kv_cache_dtype": "unknown",  # auto by default, and the command may say otherwise
    }
    assert values(found, *expected) == expected
    assert found.fact("max_model_len").source == f"{tmp_path / 'serve.yaml'}:6:16"


def test_sglang(tmp_path: Path) -> None:
    (found,) = read_file(write(tmp_path, SGLANG))
    expected = {"tensor_parallel_size": 2, "gpu_memory_fraction": 0.8, "max_model_len": 8192}
    assert found.engine == "sglang"
    assert values(found, *expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "model: m\n",
        "model: m\nseed: 1\ndtype: auto\n",
        "model: m\nlearning_rate: 1e-4\nmax_model_len: 8192\nbatch_size: 8\n",
        "base_model: m\nlora_r: 8\nmicro_batch_size: 2\nsequence_len: 2048\n",
    ],
)
def test_configs_of_other_programs_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"own config file|no form that preop knows"):
        read_file(write(tmp_path, text))


def test_beside_the_command_that_names_it_it_is_no_deployment_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, VLLM)
    (tmp_path / "serve.sh").write_text("#!/bin/sh\nvllm serve --config serve.yaml --max-num-seqs 8\n")
    (found,) = read_targets([str(tmp_path)], None, ReadOptions())
    assert found.source.endswith("serve.sh")
    assert values(found, "max_num_seqs", "max_model_len") == {"max_num_seqs": 8, "max_model_len": 8192}
