"""production-stack values: the command that the chart's own template writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preop.deployment.types import Deployment
from preop.errors import InputError

from .reading import read_file

VALUES = """
servingEngineSpec:
  runtimeClassName: ""
  modelSpec:
  - name: "mistral"
    repository: "vllm/vllm-openai"
    tag: "v0.32.0"
    modelURL: "mistralai/Mistral-7B-Instruct-v0.2"
    replicaCount: 2
    requestCPU: 10
    requestMemory: "64Gi"
    requestGPU: 2
    vllmConfig:
      enableChunkedPrefill: false
      maxModelLen: 32000
      tensorParallelSize: 2
      gpuMemoryUtilization: 0.95
      extraArgs: ["--gpu-memory-utilization", "0.4", "--max-num-seqs=64"]
    hf_token: hf_secretsecretsecret
"""


def read(folder: Path, text: str) -> list[Deployment]:
    path = folder / "values.yaml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def value(deployment: Deployment, name: str) -> Any:
    fact = deployment.fact(name)
    return fact.value if fact.is_known else "unknown"


def test_the_charts_own_command(tmp_path: Path) -> None:
    (found,) = read(tmp_path, VALUES)
    expected = {
        "model": "mistralai/Mistral-7B-Instruct-v0.2",
        "engine_version": "0.32.0",
        "max_model_len": 32000,
        "tensor_parallel_size": 2,
        "gpu_memory_fraction": 0.4,  # extraArgs come last, and win
        "max_num_seqs": 64,
        "enable_chunked_prefill": False,
        "enable_prefix_caching": False,  # not true, so the chart switches it off
        "replicas": 2,
        "gpu_count": 2,
        "accelerator": "nvidia",
        "gpu_allocation": "whole",
    }
    assert {name: value(found, name) for name in expected} == expected
    assert found.name == "mistral" and "secretsecret" not in str(found)
    line = next(n for n, text in enumerate(VALUES.splitlines(), 1) if "maxModelLen" in text)
    assert found.fact("max_model_len").source == f"{tmp_path / 'values.yaml'}:{line}:20"


def test_shares_of_a_gpu_and_mig(tmp_path: Path) -> None:
    shared = VALUES.replace("requestGPU: 2", "requestGPU: 1\n    requestGPUMem: 12000")
    (found,) = read(tmp_path, shared)
    assert (value(found, "gpu_allocation"), value(found, "gpu_memory_limit_mib")) == ("fraction", 12000)
    mig = VALUES.replace("requestGPU: 2", "requestGPU: 1\n    requestGPUType: nvidia.com/mig-4g.71gb")
    assert value(read(tmp_path, mig)[0], "gpu_allocation") == "mig"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("replicaCount: 2", "replicaCount: 0"), "it has 0 replicas"),
        (('name: "mistral"', 'name: "mistral"\n    enabled: false'), "it is not enabled"),
        (("  runtimeClassName", "  enableEngine: false\n  runtimeClassName"), "enableEngine is false"),
        (('    modelURL: "mistralai/Mistral-7B-Instruct-v0.2"\n', ""), "modelURL is missing"),
    ],
)
def test_what_does_not_run(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    assert change[0] in VALUES
    with pytest.raises(InputError, match=why):
        read(tmp_path, VALUES.replace(*change))


def test_the_tag_that_is_missing_is_unknown(tmp_path: Path) -> None:
    (found,) = read(tmp_path, VALUES.replace('    tag: "v0.32.0"\n', ""))
    assert value(found, "engine_version") == "unknown"
