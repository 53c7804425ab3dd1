"""Dynamo's graphs in both versions of its API: workers with roles, and what is no engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preop.deployment.types import Deployment
from preop.errors import InputError

from .reading import read_file, said


def read(folder: Path, text: str) -> list[Deployment]:
    path = folder / "graph.yaml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def values(deployment: Deployment, *names: str) -> dict[str, Any]:
    facts = {name: deployment.fact(name) for name in names}
    return {name: fact.value if fact.is_known else "unknown" for name, fact in facts.items()}


ALPHA = """
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: vllm-disagg}
spec:
  envs: [{name: VLLM_ALLOW_LONG_MAX_MODEL_LEN, value: "1"}]
  services:
    Frontend:
      componentType: frontend
      replicas: 1
      extraPodSpec: {mainContainer: {image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.0"}}
    VllmDecodeWorker:
      envFromSecret: hf-token-secret
      componentType: worker
      subComponentType: decode
      replicas: 2
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.0
          command: [/bin/sh, -c]
          args: ["python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B --migration-limit 3 --max-num-seqs 8"]
    VllmPrefillWorker:
      componentType: worker
      subComponentType: prefill
      replicas: 1
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.0
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-0.6B, --is-prefill-worker]
"""


def test_v1alpha1_has_services_by_name(tmp_path: Path) -> None:
    decode, prefill = read(tmp_path, ALPHA)
    assert decode.name == "vllm-disagg-VllmDecodeWorker"
    expected = {
        "model": "Qwen/Qwen3-0.6B",
        "max_num_seqs": 8,
        "role": "decode",
        "replicas": 2,
        "gpu_count": 1,
        "gpu": "NVIDIA L40S",
        "engine_version": "unknown",  # 0.6.0 is Dynamo's
        "allow_long_max_model_len": True,
    }
    assert values(decode, *expected) == expected
    assert values(prefill, "kv_role", "role") == {"kv_role": "prefill", "role": "prefill"}
    assert "hf-token-secret" in said(decode)
    assert "Frontend" not in said(decode) and "not judged" not in said(decode)


BETA = """
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: sglang}
spec:
  backendFramework: sglang
  components:
  - {name: Frontend, type: frontend, replicas: 1}
  - name: decode
    type: decode
    multinode: {nodeCount: 2}
    replicas: 1
    podTemplate:
      spec:
        containers:
        - name: main
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.1
          command: [python3, -m, dynamo.sglang]
          args: [--model-path, Qwen/Qwen3-0.6B, --tp-size, "8", --disaggregation-mode, decode]
          resources: {limits: {nvidia.com/gpu: "4"}}
  - name: planner
    type: planner
    podTemplate: {spec: {containers: [{name: main, command: [python3, -m, dynamo.planner]}]}}
"""


def test_v1beta1_has_a_list_and_a_decode_without_prefill_does_both(tmp_path: Path) -> None:
    (found,) = read(tmp_path, BETA)
    expected = {"role": "unknown", "tensor_parallel_size": 8, "gpu_count": 4, "model": "Qwen/Qwen3-0.6B"}
    assert (found.name, found.engine) == ("sglang-decode", "sglang")
    assert values(found, *expected) == expected


def test_a_component_by_itself(tmp_path: Path) -> None:
    text = """
apiVersion: nvidia.com/v1beta1
kind: DynamoComponentDeployment
metadata: {name: my-worker}
spec:
  type: worker
  replicas: 1
  podTemplate:
    spec: {containers: [{name: main, image: x, command: [python3, -m, dynamo.vllm], args: [--model, org/m]}]}
"""
    (found,) = read(tmp_path, text)
    assert (found.name, values(found, "model")) == ("my-worker", {"model": "org/m"})
    with pytest.raises(InputError, match="it has 0 replicas"):
        read(tmp_path, text.replace("replicas: 1", "replicas: 0"))


def test_what_does_not_run_and_a_version_that_was_not_read(tmp_path: Path) -> None:
    off = ALPHA.replace("replicas: 2", "replicas: 0").replace(
        "      replicas: 1\n      resources", "      replicas: 0\n      resources"
    )
    with pytest.raises(InputError, match="VllmDecodeWorker does not run: it has 0 replicas"):
        read(tmp_path, off)
    with pytest.raises(InputError, match="which preop has not read; expected v1alpha1 or v1beta1"):
        read(tmp_path, BETA.replace("v1beta1", "v2"))
