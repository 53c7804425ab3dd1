"""Values of llm-d's modelservice chart: the command that its templates write (`_helpers.tpl`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError

from .reading import read_file, said

VALUES = """
modelArtifacts:
  uri: "hf://{{ .Values.modelArtifacts.name }}"
  name: Qwen/Qwen3-32B
  size: 80Gi
accelerator: {type: nvidia}
decode:
  replicas: 2
  parallelism: {tensor: 4}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.32.0
    modelCommand: vllmServe
    args: ["--max-num-seqs", "8", "--tensor-parallel-size=2"]
    mountModelVolume: true
prefill:
  replicas: 1
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.32.0
    modelCommand: imageDefault
    args: ["--max-model-len=4096"]
"""


def read(folder: Path, text: str) -> list[Deployment]:
    path = folder / "ms-values.yaml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def values(deployment: Deployment, *names: str) -> dict[str, Any]:
    facts = {name: deployment.fact(name) for name in names}
    return {name: fact.value if fact.is_known else "unknown" for name, fact in facts.items()}


def test_decode_and_prefill(tmp_path: Path) -> None:
    decode, prefill = read(tmp_path, VALUES)
    expected = {
        "model": "Qwen/Qwen3-32B",
        "served_model_name": "Qwen/Qwen3-32B",
        "tensor_parallel_size": 2,  # the container's arguments come last
        "max_num_seqs": 8,
        "gpu_count": 4,  # tensor times dataLocal
        "role": "decode",
        "replicas": 2,
        "engine_version": "0.32.0",
    }
    assert values(decode, *expected) == expected
    other = {"model": "Qwen/Qwen3-32B", "max_model_len": 4096, "gpu_count": 1, "role": "prefill"}
    assert values(prefill, *other) == other


def test_without_replicas_the_chart_runs_decode_and_no_prefill(tmp_path: Path) -> None:
    (found,) = read(tmp_path, VALUES.replace("  replicas: 1\n", "").replace("  replicas: 2\n", ""))
    assert values(found, "role", "replicas") == {"role": "unknown", "replicas": 1}
    assert "prefill does not run" in said(found)


@pytest.mark.parametrize(
    ("uri", "model"),
    [
        ("hf://org/name", "org/name"),
        ("'hf://\"{{ .Values.modelArtifacts.name }}\"'", "Qwen/Qwen3-32B"),
        ("pvc://claim/models/llama", "/model-cache/models/llama"),
        ("pvc+hf://claim/hub/org/name", "org/name"),
    ],
)
def test_where_the_model_is(tmp_path: Path, uri: str, model: str) -> None:
    text = VALUES.replace('"hf://{{ .Values.modelArtifacts.name }}"', uri)
    assert values(read(tmp_path, text)[0], "model") == {"model": model}


def test_devices_that_the_container_names_win_and_a_cpu_has_none(tmp_path: Path) -> None:
    own = VALUES.replace("    mountModelVolume: true\n", "    resources: {limits: {nvidia.com/gpu: 8}}\n")
    assert values(read(tmp_path, own)[0], "gpu_count") == {"gpu_count": 8}
    cpu = read(tmp_path, VALUES.replace("type: nvidia", "type: cpu"))[0]
    assert values(cpu, "gpu_count") == {"gpu_count": "unknown"}


def test_an_address_that_the_chart_refuses(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected hf://, pvc:// or pvc\\+hf://"):
        read(tmp_path, VALUES.replace('"hf://{{ .Values.modelArtifacts.name }}"', "oci://x/y"))


LEAVES = st.none() | st.integers(-3, 9) | st.text(max_size=6) | st.sampled_from(["vllmServe", "hf://a/b"])
WORDS = (
    "uri name replicas parallelism tensor dataLocal containers image modelCommand args resources limits "
    "create acceleratorTypes labelKey labelValues"
)
KEYS = st.sampled_from(WORDS.split())


@given(
    st.dictionaries(
        st.sampled_from(["decode", "prefill", "accelerator"]),
        st.recursive(
            LEAVES,
            lambda each: st.lists(each, max_size=2) | st.dictionaries(KEYS, each, max_size=4),
            max_leaves=20,
        ),
    )
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_values_give_deployments_or_one_sentence(tmp_path: Path, parts: dict[str, Any]) -> None:
    import yaml

    try:
        read(tmp_path, yaml.safe_dump({"modelArtifacts": {"uri": "hf://a/b"}, "decode": None, **parts}))
    except PreopError as error:
        assert str(error)
