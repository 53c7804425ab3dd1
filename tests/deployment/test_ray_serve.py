"""Ray Serve LLM: configs in files of their own, replicas, GPUs, and what is Python."""

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
    path = folder / "serve.yaml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def values(deployment: Deployment, *names: str) -> dict[str, Any]:
    facts = {name: deployment.fact(name) for name in names}
    return {name: fact.value if fact.is_known else "unknown" for name, fact in facts.items()}


CONFIG = """
model_loading_config: {model_id: chat, model_source: org/m}
accelerator_type: %s
engine_kwargs: {tensor_parallel_size: 2, pipeline_parallel_size: 2, max_num_seqs: 8}
"""


def served(config: str) -> str:
    """A Serve config with that LLM config inline."""
    inner = "".join(f"      {line}\n" for line in config.strip().splitlines())
    return (
        "applications:\n- import_path: ray.serve.llm:build_openai_app\n  args:\n    llm_configs:\n    -\n"
        + inner
    )


def test_a_config_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "llm.yaml").write_text(CONFIG % "L4", encoding="utf-8")
    text = (
        "applications:\n- import_path: ray.serve.llm:build_openai_app\n"
        "  args: {llm_configs: [./llm.yaml, ./none.yaml]}\n"
    )
    (found,) = read(tmp_path, text)
    assert values(found, "model", "max_num_seqs") == {"model": "org/m", "max_num_seqs": 8}
    assert found.fact("max_num_seqs").source.endswith("llm.yaml:4:83")
    assert "./none.yaml is not here: it is not judged" in said(found)


@pytest.mark.parametrize(
    ("kind", "gpu", "vendor"),
    [
        ("L4", "NVIDIA L4", "nvidia"),
        ("L40S", "NVIDIA L40S", "nvidia"),
        ("A10", "unknown", "nvidia"),  # Ray takes it for A10G, which is not in the sheet
        ("H100", "unknown", "nvidia"),  # its members differ in memory
        ("AMD-Instinct-MI300X-OAM", "unknown", "amd"),
    ],
)
def test_accelerators_by_rays_names(tmp_path: Path, kind: str, gpu: str, vendor: str) -> None:
    (found,) = read(tmp_path, served(CONFIG % kind))
    told = values(found, "gpu", "gpu_count", "accelerator")
    assert (told["gpu_count"], told["accelerator"]) == (4, vendor)
    assert gpu == "unknown" or told["gpu"] == gpu


def test_bundles_say_how_many_gpus_a_replica_has(tmp_path: Path) -> None:
    text = served(CONFIG % "L4" + "placement_group_config: {bundles: [{GPU: 1, CPU: 1}, {GPU: 1}]}\n")
    assert values(read(tmp_path, text)[0], "gpu_count") == {"gpu_count": 2}


def test_replicas_that_are_scaled(tmp_path: Path) -> None:
    def scaled(least: int, most: int) -> Deployment:
        scaling = (
            f"deployment_config: {{autoscaling_config: {{min_replicas: {least}, max_replicas: {most}}}}}\n"
        )
        return read(tmp_path, served(CONFIG % "L4" + scaling))[0]

    assert values(scaled(2, 2), "replicas") == {"replicas": 2}
    assert values(scaled(1, 4), "replicas") == {"replicas": "unknown"}
    assert "scales to zero" in said(scaled(0, 4))


def test_adapters_come_when_they_are_asked_for(tmp_path: Path) -> None:
    text = served(CONFIG % "L4" + "lora_config: {dynamic_lora_loading_path: s3://bucket/loras}\n")
    fact = read(tmp_path, text)[0].fact("lora_modules")
    assert not fact.is_known and "as they are asked for" in (fact.note or "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("applications:\n- import_path: app:chat\n", "app:chat is Python, which preop does not run"),
        (served("engine_kwargs: {}"), "names no model; expected model_id"),
        (served("model_loading_config: {model_id: m}\nllm_engine: Other"), "expected vLLM or SGLang"),
        (
            served("model_loading_config: {model_id: m}\nengine_kwargs: [a]"),
            "expected a mapping of the engine",
        ),
        ("applications:\n- args: {llm_configs: [[a]]}\n", "expected a mapping or a path"),
    ],
)
def test_what_is_not_judged_is_said_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


WORDS = (
    "model_loading_config model_id model_source engine_kwargs accelerator_type deployment_config bundles GPU "
    "autoscaling_config placement_group_config tensor_parallel_size lora_config"
)
KEYS = st.sampled_from(WORDS.split())


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda each: st.lists(each, max_size=2) | st.dictionaries(KEYS, each, max_size=5),
        max_leaves=20,
    )
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_config_gives_deployments_or_one_sentence(tmp_path: Path, config: Any) -> None:
    import yaml

    try:
        read(tmp_path, yaml.safe_dump({"applications": [{"args": {"llm_configs": [config]}}]}))
    except PreopError as error:
        assert str(error)
