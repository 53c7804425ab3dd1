"""production-stack values: the command that the chart's own template writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError

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


def one(folder: Path, text: str) -> Deployment:
    (found,) = read(folder, text)
    return found


def test_without_a_config_the_chart_writes_none_of_its_flags(tmp_path: Path) -> None:
    begin, end = VALUES.index("    vllmConfig"), VALUES.index("    hf_token")
    found = one(tmp_path, VALUES[:begin] + VALUES[end:])
    assert "not set" in (found.fact("enable_prefix_caching").note or "")


def test_a_key_that_the_chart_does_not_know_is_said(tmp_path: Path) -> None:
    found = one(tmp_path, VALUES.replace("maxModelLen:", "maxModelLength:"))
    note = next(note for note in found.notes if "maxModelLength" in note.message)
    assert (note.suggestion, value(found, "max_model_len")) == ("maxModelLen", "unknown")


def test_the_node_that_the_model_must_have(tmp_path: Path) -> None:
    terms = (
        "    nodeSelectorTerms:\n    - matchExpressions:\n      - key: nvidia.com/gpu.product\n"
        "        operator: In\n        values: [NVIDIA-L40S]\n    hf_token"
    )
    assert value(one(tmp_path, VALUES.replace("    hf_token", terms)), "gpu") == "NVIDIA L40S"


def test_a_cache_of_lmcache_and_a_scaler(tmp_path: Path) -> None:
    more = "    lmcacheConfig: {enabled: true, kvRole: kv_producer}\n    keda: {enabled: true}\n    hf_token"
    found = one(tmp_path, VALUES.replace("    hf_token", more))
    assert (value(found, "kv_role"), value(found, "replicas")) == ("prefill", "unknown")


def test_variables_of_the_chart_and_of_the_model(tmp_path: Path) -> None:
    allow = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
    text = VALUES.replace("  modelSpec", f'  configs: {{{allow}: "1"}}\n  modelSpec')
    assert value(one(tmp_path, text), "allow_long_max_model_len") is True
    own = text.replace("    hf_token", f'    env: [{{name: {allow}, value: "0"}}]\n    hf_token')
    assert value(one(tmp_path, own), "allow_long_max_model_len") is False


def test_a_model_on_a_ray_cluster_has_the_devices_of_its_head(tmp_path: Path) -> None:
    """ray-cluster.yaml: a head and replicaCount workers run one engine; nothing switches caching off."""
    more = "    raySpec: {enabled: true, headNode: {requestGPU: 4}}\n    hf_token"
    text = VALUES.replace("    hf_token", more).replace(
        "      tensor", "      pipelineParallelSize: 3\n      tensor"
    )
    found = one(tmp_path, text)
    expected = {"gpu_count": 4, "pipeline_parallel_size": 3, "replicas": "unknown"}
    assert {name: value(found, name) for name in expected} == expected
    assert "not set" in (found.fact("enable_prefix_caching").note or "")
    plain = one(tmp_path, VALUES.replace("      tensor", "      pipelineParallelSize: 3\n      tensor"))
    assert value(plain, "pipeline_parallel_size") == 1, "the Deployment's template has no such flag"


def test_the_tag_that_is_missing_is_unknown(tmp_path: Path) -> None:
    (found,) = read(tmp_path, VALUES.replace('    tag: "v0.32.0"\n', ""))
    assert value(found, "engine_version") == "unknown"


WORDS = (
    "name repository tag modelURL replicaCount requestGPU requestGPUType requestGPUMem maxModelLen "
    "extraArgs enablePrefixCaching lmcacheConfig enabled kvRole raySpec headNode env resources limits keda "
    "nodeSelectorTerms chatTemplate vllmConfig"
)
KEYS = st.sampled_from(WORDS.split())
LEAVES = st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=6)


@given(
    st.dictionaries(
        KEYS,
        st.recursive(
            LEAVES,
            lambda each: st.lists(each, max_size=2) | st.dictionaries(KEYS, each, max_size=4),
            max_leaves=15,
        ),
    )
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_values_give_deployments_or_one_sentence(tmp_path: Path, model: dict[str, Any]) -> None:
    import yaml

    try:
        read(tmp_path, yaml.safe_dump({"servingEngineSpec": {"modelSpec": [{"modelURL": "a/b", **model}]}}))
    except PreopError as error:
        assert str(error)
