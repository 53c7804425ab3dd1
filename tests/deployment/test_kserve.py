"""KServe: runtimes merged with their services, and placeholders that its controllers fill in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preop.deployment.types import Deployment
from preop.errors import InputError

from .reading import read_file, said


def read(folder: Path, text: str) -> list[Deployment]:
    path = folder / "kserve.yaml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def values(deployment: Deployment, *names: str) -> dict[str, Any]:
    facts = {name: deployment.fact(name) for name in names}
    return {name: fact.value if fact.is_known else "unknown" for name, fact in facts.items()}


SERVICE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: chat, namespace: llm, labels: {size: "8"}}
spec:
  predictor:
    model:
      modelFormat: {name: vLLM}
      storageUri: hf://org/m
      args: [--max-model-len=4096]
      resources: {limits: {nvidia.com/gpu: 1}}
"""
RUNTIME = """
---
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: own, namespace: llm}
spec:
  supportedModelFormats: [{name: vLLM, autoSelect: true}]
  containers:
  - name: kserve-container
    image: vllm/vllm-openai:v0.32.0
    command: [vllm, serve]
    args: [/mnt/models, "--served-model-name={{.Name}}", "--max-num-seqs={{.Labels.size}}", "--seed={{.X}}"]
"""


def test_the_runtime_that_kserve_ships_for_vllm(tmp_path: Path) -> None:
    """config/runtimes/kserve-vllmserver.yaml: --model=/mnt/models --served-model-name={{.Name}}."""
    (found,) = read(tmp_path, SERVICE)
    expected = {
        "model": "org/m",
        "served_model_name": "chat",
        "max_model_len": 4096,
        "gpu_count": 1,
        "engine_version": "unknown",
        "max_num_seqs": "unknown",
    }
    assert values(found, *expected) == expected
    assert "kserve-vllmserver is not among the files" in said(found)


def test_the_runtime_among_the_files_and_its_placeholders(tmp_path: Path) -> None:
    (found,) = read(tmp_path, SERVICE + RUNTIME)
    expected = {
        "model": "org/m",
        "served_model_name": "chat",
        "max_num_seqs": 8,
        "max_model_len": 4096,
        "engine_version": "0.32.0",
    }
    assert values(found, *expected) == expected
    assert "KServe chooses the runtime; own is the one among the files" in said(found)


def test_the_runtime_in_another_namespace_is_another(tmp_path: Path) -> None:
    named = SERVICE.replace("modelFormat:", "runtime: own\n      modelFormat:")
    (found,) = read(tmp_path, named + RUNTIME)
    assert "KServe chooses" not in said(found)
    with pytest.raises(InputError, match="ServingRuntime own is not among the files"):
        read(tmp_path, named + RUNTIME.replace("namespace: llm", "namespace: other"))


def test_huggingfaceserver_and_its_own_flags(tmp_path: Path) -> None:
    """python/huggingfaceserver/__main__.py: --model_dir is /mnt/models, --max_length is --max_model_len."""
    text = SERVICE.replace("name: vLLM}", "name: huggingface}").replace(
        "[--max-model-len=4096]", "[--model_name=llama, --max_length=2048, --dtype=bfloat16]"
    )
    (found,) = read(tmp_path, text)
    expected = {"model": "org/m", "served_model_name": "llama", "max_model_len": 2048, "dtype": "bfloat16"}
    assert found.engine == "vllm"
    assert values(found, *expected) == expected


def test_sizes_of_several_nodes_and_containers_of_its_own(tmp_path: Path) -> None:
    nodes = SERVICE + "    workerSpec: {pipelineParallelSize: 2, tensorParallelSize: 4}\n"
    sizes = {"pipeline_parallel_size": 2, "tensor_parallel_size": 4}
    assert values(read(tmp_path, nodes)[0], *sizes) == sizes
    custom = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: own}
spec:
  predictor:
    containers: [{name: kserve-container, image: "vllm/vllm-openai:v0.32.0", args: [--model=org/m]}]
"""
    (found,) = read(tmp_path, custom)
    assert values(found, "model", "engine_version") == {"model": "org/m", "engine_version": "0.32.0"}


LLM = """
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: qwen, namespace: llm}
spec:
  model:
    uri: hf://Qwen/Qwen3-8B
    lora:
      maxRank: 64
      adapters: [{name: sql, uri: hf://org/sql}]
  parallelism: {tensor: 2, data: 4}
  template:
    containers: [{name: main, resources: {limits: {nvidia.com/gpu: "2"}}}]
"""


def test_adapters_and_the_name_by_default(tmp_path: Path) -> None:
    (found,) = read(tmp_path, LLM)
    expected = {
        "model": "Qwen/Qwen3-8B",
        "served_model_name": "qwen",
        "tensor_parallel_size": 2,
        "data_parallel_size": "unknown",  # the template of one node passes none
        "lora_modules": [{"name": "sql", "path": "hf://org/sql"}],
        "enable_lora": True,
        "max_lora_rank": 64,
    }
    assert values(found, *expected) == expected


def test_a_command_of_its_own_with_placeholders(tmp_path: Path) -> None:
    own = LLM.replace(
        "{name: main, resources",
        "{name: main, command: [/bin/sh, -c], args: ['vllm serve /mnt/models --served-model-name "
        '"{{ .Spec.Model.Name }}" --max-num-seqs {{ .GlobalConfig.Seqs }} $VLLM_ADDITIONAL_ARGS\'], '
        "env: [{name: VLLM_ADDITIONAL_ARGS, value: --max-model-len 4096}], resources",
    )
    (found,) = read(tmp_path, own)
    expected = {"served_model_name": "qwen", "max_num_seqs": "unknown", "max_model_len": 4096}
    assert values(found, *expected) == expected
