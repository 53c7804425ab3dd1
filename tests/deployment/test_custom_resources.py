"""KServe, Ray and Dynamo objects: what their controllers start, and what only the cluster knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError

from .reading import read_file, said


def read(folder: Path, text: str) -> list[Deployment]:
    path = folder / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def value(deployment: Deployment, name: str) -> Any:
    fact = deployment.fact(name)
    return fact.value if fact.is_known else "unknown"


HUGGINGFACE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama3}
spec:
  predictor:
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=llama, --model_id=meta-llama/Llama-3.1-8B-Instruct, --max-model-len=8192]
      resources: {limits: {nvidia.com/gpu: "1"}}
"""
RUNTIME = """
---
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: vllm}
spec:
  containers:
  - name: kserve-container
    image: vllm/vllm-openai:v0.32.0
    command: [python3, -m, vllm.entrypoints.openai.api_server]
    args: [--port=8080, --model=/mnt/models, "--served-model-name={{.Name}}", --max-num-seqs=8]
"""
SERVICE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec:
  predictor:
    minReplicas: 2
    model:
      modelFormat: {name: vLLM}
      runtime: vllm
      storageUri: hf://org/m
      args: [--max-num-seqs=16]
      resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_the_huggingface_format_is_vllm_with_flags_that_may_be_hidden(tmp_path: Path) -> None:
    (found,) = read(tmp_path, HUGGINGFACE)
    assert (found.name, found.engine) == ("llama3", "vllm")
    assert value(found, "model") == "meta-llama/Llama-3.1-8B-Instruct"
    assert (value(found, "max_model_len"), value(found, "served_model_name")) == (8192, "llama")
    assert (value(found, "gpu_count"), value(found, "max_num_seqs")) == (1, "unknown")
    assert value(found, "engine_version") == "unknown"
    (other,) = read(tmp_path, HUGGINGFACE.replace("[--model_name", "[--backend=huggingface, --model_name"))
    assert other.engine == "kserve-transformers"


def test_a_runtime_is_merged_with_its_service_and_the_services_arguments_come_last(tmp_path: Path) -> None:
    (found,) = read(tmp_path, SERVICE + RUNTIME)
    assert (value(found, "model"), value(found, "max_num_seqs")) == ("org/m", 16)
    assert (value(found, "served_model_name"), value(found, "engine_version")) == ("chat", "0.32.0")
    assert (value(found, "replicas"), value(found, "gpu_count")) == (2, 1)
    bucket = SERVICE.replace("hf://org/m", "s3://bucket/m")
    assert value(read(tmp_path, bucket + RUNTIME)[0], "model") == "/mnt/models"
    zero = read(tmp_path, SERVICE.replace("minReplicas: 2", "minReplicas: 0") + RUNTIME)
    assert "scales to zero" in said(zero[0])


def test_a_stopped_service_and_a_runtime_that_is_not_here(tmp_path: Path) -> None:
    stopped = SERVICE.replace("{name: chat}", "{name: chat, annotations: {serving.kserve.io/stop: 'true'}}")
    with pytest.raises(InputError, match="stopped by its annotation"):
        read(tmp_path, stopped + RUNTIME)
    with pytest.raises(InputError, match="nothing to judge"):
        read(tmp_path, SERVICE)
    with pytest.raises(InputError, match="which preop has not read; expected v1beta1"):
        read(tmp_path, SERVICE.replace("v1beta1", "v3"))


LLM = """
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: qwen}
spec:
  replicas: 3
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct", name: Qwen/Qwen2.5-7B-Instruct}
  parallelism: {tensor: 2}
  template:
    containers:
    - name: main
      image: vllm/vllm-openai:v0.32.0
      args: [--max-model-len=16384]
      env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-num-seqs 64 --max-model-len 1"}]
      resources: {limits: {nvidia.com/gpu: "2"}}
"""


def test_an_llm_inference_service(tmp_path: Path) -> None:
    (found,) = read(tmp_path, LLM)
    expected = {
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "served_model_name": "Qwen/Qwen2.5-7B-Instruct",
        "tensor_parallel_size": 2,
        "max_num_seqs": 64,
        "max_model_len": 16384,  # the container's arguments come last
        "replicas": 3,
        "gpu_count": 2,
        "gpu_memory_fraction": "unknown",  # the cluster's template may set it
    }
    assert {name: value(found, name) for name in expected} == expected


def test_its_prefill_and_its_workers_have_roles(tmp_path: Path) -> None:
    prefill = LLM + "  prefill:\n    replicas: 1\n    parallelism: {tensor: 1}\n"
    decode, pre = read(tmp_path, prefill)
    assert [(each.name, value(each, "role")) for each in (decode, pre)] == [
        ("qwen", "decode"),
        ("qwen-prefill", "prefill"),
    ]
    assert value(pre, "tensor_parallel_size") == 1
    worker = LLM + "  worker: {containers: [{name: main, image: 'vllm/vllm-openai:v0.32.0'}]}\n"
    assert [value(each, "role") for each in read(tmp_path, worker)] == ["leader", "worker"]
    base = LLM.replace("spec:\n", "spec:\n  baseRefs: [{name: gpu}]\n", 1)
    assert "LLMInferenceServiceConfig gpu is not among the files" in said(read(tmp_path, base)[0])
    config = "---\napiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceServiceConfig\n"
    config += "metadata: {name: gpu}\nspec: {parallelism: {pipeline: 4, tensor: 8}}\n"
    (found,) = read(tmp_path, base + config)
    assert (value(found, "pipeline_parallel_size"), value(found, "tensor_parallel_size")) == (4, 2)


SERVE = """
applications:
- name: llms
  import_path: ray.serve.llm:build_openai_app
  route_prefix: /
  args:
    llm_configs:
    - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen2.5-7B-Instruct}
      accelerator_type: L4
      deployment_config: {num_replicas: 2}
      engine_kwargs:
        max_model_len: 8192
        tensor_parallel_size: 2
        enable_prefix_caching: false
        enable_chunked_prefill: true
        hf_overrides: {rope_scaling: {rope_type: yarn, factor: 2.0}}
      runtime_env: {env_vars: {VLLM_USE_V1: "1"}}
"""


def test_a_ray_serve_config_and_the_same_in_a_ray_service(tmp_path: Path) -> None:
    expected = {
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "served_model_name": "qwen",
        "max_model_len": 8192,
        "tensor_parallel_size": 2,
        "enable_prefix_caching": False,
        "enable_chunked_prefill": True,
        "gpu": "NVIDIA L4",
        "gpu_count": 2,
        "replicas": 2,
        "engine_version": "unknown",
    }
    (found,) = read(tmp_path, SERVE)
    assert found.name == "qwen"
    assert {name: value(found, name) for name in expected} == expected
    assert value(found, "hf_overrides") == {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}
    inner = "".join(f"    {line}\n" for line in SERVE.strip().splitlines())
    text = (
        f"apiVersion: ray.io/v1\nkind: RayService\nmetadata: {{name: r}}\nspec:\n  serveConfigV2: |\n{inner}"
    )
    (inside,) = read(tmp_path, text)
    assert {name: value(inside, name) for name in expected} == expected
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "max_model_len" in each)
    assert f"x.yaml:{line}:" in inside.fact("max_model_len").source


def test_ray_with_prefill_and_decode_and_with_nothing_that_runs(tmp_path: Path) -> None:
    config = "{model_loading_config: {model_id: m}, engine_kwargs: {}}"
    text = f"applications:\n- args: {{prefill_config: {config}, decode_config: {config}}}\n"
    assert [value(each, "role") for each in read(tmp_path, text)] == ["prefill", "decode"]
    with pytest.raises(InputError, match="it has 0 replicas"):
        read(tmp_path, SERVE.replace("num_replicas: 2", "num_replicas: 0"))
    with pytest.raises(InputError, match="no application has llm_configs"):
        read(tmp_path, "applications:\n- name: a\n  import_path: app:main\n")


def test_a_dynamo_graph(tmp_path: Path) -> None:
    text = """
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  services:
    Frontend: {componentType: frontend, replicas: 1, extraPodSpec: {mainContainer: {image: "x/frontend:1"}}}
    Prefill:
      subComponentType: prefill
      replicas: 1
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer: {image: "x/vllm:1", command: [vllm, serve], args: [m, --max-num-seqs, "8"]}
    Parked: {replicas: 0, extraPodSpec: {mainContainer: {image: x, command: [vllm, serve, m]}}}
"""
    (found,) = read(tmp_path, text)
    assert (found.name, value(found, "role"), value(found, "gpu_count")) == ("g-Prefill", "prefill", 1)
    assert value(found, "max_num_seqs") == 8
    assert "Parked does not run" in said(found)


RUNTIME_OF_PRODUCTION_STACK = """
apiVersion: production-stack.vllm.ai/v1alpha1
kind: VLLMRuntime
metadata: {name: llama}
spec:
  model: {modelURL: meta-llama/Llama-3.1-8B-Instruct, maxModelLen: 4096, maxNumSeqs: 32, dtype: bfloat16}
  vllmConfig:
    enableChunkedPrefill: true
    tensorParallelSize: 2
    gpuMemoryUtilization: "0.8"
    extraArgs: [--gpu-memory-utilization, "0.7"]
  deploymentConfig:
    resources: {gpu: "2", gpuType: nvidia.com/gpu}
    image: {registry: docker.io, name: "vllm/vllm-openai:v0.32.0"}
    replicas: 2
"""


def test_the_runtime_of_production_stacks_operator(tmp_path: Path) -> None:
    """vllmruntime_controller.go: --no-enable-prefix-caching unless it is on; extraArgs after the fields."""
    (found,) = read(tmp_path, RUNTIME_OF_PRODUCTION_STACK)
    expected = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "max_model_len": 4096,
        "max_num_seqs": 32,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": False,
        "gpu_memory_fraction": 0.7,
        "tensor_parallel_size": 2,
        "gpu_count": 2,
        "replicas": 2,
        "engine_version": "0.32.0",
    }
    assert {name: value(found, name) for name in expected} == expected
    with pytest.raises(InputError, match="modelURL is missing"):
        read(tmp_path, RUNTIME_OF_PRODUCTION_STACK.replace("modelURL", "url"))


WORDS = (
    "predictor model modelFormat name runtime storageUri args env containers image template worker prefill "
    "replicas parallelism tensor uri baseRefs services extraPodSpec mainContainer resources limits command "
    "serveConfigV2 minReplicas model modelURL vllmConfig extraArgs deploymentConfig gpu gpuType"
)
KEYS = st.sampled_from(WORDS.split())
LEAVES = st.none() | st.integers(-3, 3) | st.text(max_size=6) | st.sampled_from(["huggingface", "hf://a/b"])


@given(
    st.sampled_from(
        [
            ("serving.kserve.io/v1beta1", "InferenceService"),
            ("serving.kserve.io/v1alpha1", "LLMInferenceService"),
            ("ray.io/v1", "RayService"),
            ("nvidia.com/v1alpha1", "DynamoGraphDeployment"),
            ("production-stack.vllm.ai/v1alpha1", "VLLMRuntime"),
        ]
    ),
    st.recursive(
        LEAVES,
        lambda each: st.lists(each, max_size=3) | st.dictionaries(KEYS, each, max_size=5),
        max_leaves=25,
    ),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_object_gives_deployments_or_one_sentence(
    tmp_path: Path, kind: tuple[str, str], spec: Any
) -> None:
    import yaml

    try:
        read(tmp_path, yaml.safe_dump({"apiVersion": kind[0], "kind": kind[1], "spec": spec}))
    except PreopError as error:
        assert str(error)
