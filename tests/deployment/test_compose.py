"""Docker compose files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.read import ReadOptions, read_targets
from preop.errors import InputError, PreopError

from .reading import read_compose, said, set_facts

ONE = "services:\n  a:\n    image: vllm/vllm-openai:v0.32.0\n"


def test_services_on_shared_gpus_are_several_deployments(tmp_path: Path) -> None:
    found = read_compose(
        tmp_path,
        """
x-gpu: &gpu
  deploy:
    resources:
      reservations:
        devices:
          - driver: nvidia
            count: 1
            capabilities: [gpu]
services:
  web:
    image: nginx:1.27
    ports: ["80:80"]
  chat:
    <<: *gpu
    image: vllm/vllm-openai:v0.32.0
    command: >
      --model Qwen/Qwen2.5-7B-Instruct
      --gpu-memory-utilization 0.70
  embed:
    <<: *gpu
    image: vllm/vllm-openai:v0.32.0
    command: ["--model", "BAAI/bge-m3", "--gpu-memory-utilization", "0.45"]
""",
    )
    assert [each.name for each in found] == ["chat", "embed"]
    assert [each.fact("gpu_memory_fraction").value for each in found] == [0.70, 0.45]
    assert [each.fact("gpu_ids").value for each in found] == [["0"], ["0"]], "Docker counts from GPU 0"
    assert found[0].fact("gpu_memory_fraction").source == f"{tmp_path}/compose.yml:19:32"
    assert found[1].fact("gpu_memory_fraction").source == f"{tmp_path}/compose.yml:23:69"
    assert found[0].fact("accelerator").value == "nvidia"


@pytest.mark.parametrize(
    "command",
    [
        "command: --model m --max-num-seqs 8",
        "command: ['--model', 'm', '--max-num-seqs', 8]",
        'command: "--model m --max-num-seqs 8"',
        "command: >-\n      --model m\n      --max-num-seqs 8",
        "command: |\n      --model m \\\n      --max-num-seqs 8",
        "command: >\n      --model m \\\n      --max-num-seqs 8",
        "entrypoint: vllm serve m\n    command: --max-num-seqs 8",
        "entrypoint: python -m vllm.entrypoints.openai.api_server\n    command: --model m --max-num-seqs 8",
        "entrypoint: ['/bin/bash', '-c']\n    command: ['vllm serve m --max-num-seqs 8']",
        'command: bash -lc "export A=1; exec vllm serve m --max-num-seqs 8"',
        "command: vllm serve m --max-num-seqs $${N:-8}\n    entrypoint: []",
        "command: --model ${M:-m} --max-num-seqs ${N-8}",
        "command: ['--model', '${M:-${MM:-m}}', '--max-num-seqs', '8']",
    ],
)
def test_ways_to_write_a_command(tmp_path: Path, command: str) -> None:
    (deployment,) = read_compose(tmp_path, f"{ONE}    {command}\n")
    expected = {"model": "m", "max_num_seqs": None if "$$" in command else 8}
    assert set_facts(deployment, ["model", "max_num_seqs"]) == expected


def test_variables_come_from_dotenv_and_the_caller_over_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# LEN=1\nexport LEN='2000' # why\nSEQS=4\nHF_TOKEN=hf_secretsecretsecret\n"
    )
    command = "--model $M --max-model-len ${LEN:-1} --max-num-seqs ${SEQS} --tokenizer $HF_TOKEN"
    text = f"{ONE}    command: {command}\n"
    (deployment,) = read_compose(tmp_path, text, environment={"SEQS": "9", "M": "org/m"})
    names = ["model", "max_model_len", "max_num_seqs", "tokenizer"]
    assert set_facts(deployment, names) == {
        "model": "org/m",
        "max_model_len": 2000,
        "max_num_seqs": 9,
        "tokenizer": None,
    }
    assert "secretsecret" not in repr(deployment)


def test_a_variable_that_is_not_set_is_unknown_and_not_empty(tmp_path: Path) -> None:
    (deployment,) = read_compose(tmp_path, f"{ONE}    command: --model m --max-model-len ${{LEN}}\n")
    fact = deployment.fact("max_model_len")
    assert not fact.is_known
    assert "LEN is not set here" in fact.source + str(fact.note)


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("--model m --max-num-seqs 8 --port ${PORT}", True),
        ("--model m --max-num-seqs 8 --api-key $KEY", True),
        ("['--model', 'm', '--max-num-seqs', '8', '--port', '$EXTRA_ARGS']", True),
        ("--model m --max-num-seqs 8 --port $EXTRA_ARGS", False),
        ("--model m --max-num-seqs 8 ${VLLM_OPTS}", False),
    ],
)
def test_what_a_variable_may_hide(tmp_path: Path, command: str, known: bool) -> None:
    """One value after a flag hides that value; a list of words may set anything again."""
    (deployment,) = read_compose(tmp_path, f"{ONE}    command: {command}\n")
    assert deployment.fact("max_num_seqs").is_known is known
    assert deployment.fact("kv_cache_dtype").is_known is known


def test_a_hidden_tag_does_not_hide_the_engine(tmp_path: Path) -> None:
    (deployment,) = read_compose(
        tmp_path, "services: {a: {image: 'vllm/vllm-openai:${TAG}', command: '--model m --max-num-seqs 3'}}"
    )
    assert deployment.engine == "vllm"
    assert deployment.fact("max_num_seqs").value == 3
    assert not deployment.fact("image").is_known
    assert not deployment.fact("engine_version").is_known


@pytest.mark.parametrize(
    ("extra", "environment"),
    [
        ("profiles: [dev]", {}),
        ("deploy: {replicas: 0}", {}),
        ("scale: 0", {}),
        ("deploy: {replicas: '${N}'}", {"N": "0"}),
    ],
)
def test_a_parked_service_is_no_deployment_and_is_named(
    tmp_path: Path, extra: str, environment: dict[str, str]
) -> None:
    parked = f"  b:\n    image: vllm/vllm-openai:v0.32.0\n    command: --model n\n    {extra}\n"
    (deployment,) = read_compose(tmp_path, f"{ONE}    command: --model m\n{parked}", environment=environment)
    assert deployment.name == "a"
    assert "service b does not run" in said(deployment)
    with pytest.raises(InputError, match="service b does not run"):
        read_compose(tmp_path, f"services:\n{parked}", environment=environment)


def test_each_replica_is_an_engine_on_the_same_gpu(tmp_path: Path) -> None:
    gpu = "gpus: [{driver: nvidia, device_ids: ['0']}]"
    text = f"{ONE}    command: --model m --gpu-memory-utilization 0.6\n    {gpu}\n    "
    for replicas in ("deploy: {replicas: 2}", "scale: 2"):
        found = read_compose(tmp_path, text + replicas)
        assert [(each.name, each.fact("gpu_ids").value) for each in found] == [("a", ["0"]), ("a-2", ["0"])]
    many = read_compose(tmp_path, text + "scale: 100000")
    assert len(many) == 8
    assert "has 100000 replicas" in said(many[0])


def test_an_active_profile_runs(tmp_path: Path) -> None:
    text = f"{ONE}    command: --model m\n    profiles: [dev, gpu]\n"
    assert len(read_compose(tmp_path, text, environment={"COMPOSE_PROFILES": "gpu"})) == 1


def test_other_words_in_the_file_are_no_facts(tmp_path: Path) -> None:
    """Comments, health checks, other containers' commands, labels."""
    (deployment,) = read_compose(
        tmp_path,
        f"""{ONE}    # command: --max-num-seqs 1
    command: --model m  # --max-num-seqs 2
    labels: ["--max-num-seqs 3"]
    healthcheck:
      test: ["CMD-SHELL", "vllm serve x --max-num-seqs 4"]
  loader:
    image: curlimages/curl
    command: ["curl", "-d", "--max-num-seqs 5", "http://a:8000"]
  bench:
    image: vllm/vllm-openai:v0.32.0
    entrypoint: ["vllm", "bench", "serve"]
    command: ["--max-concurrency", "6"]
""",
    )
    assert deployment.fact("max_num_seqs").set_by != "user"


def test_a_comment_inside_a_string_command_is_neither_fact_nor_nothing(tmp_path: Path) -> None:
    (deployment,) = read_compose(
        tmp_path,
        f"{ONE}    command: |\n      --model m\n      # --max-num-seqs 9\n      --max-model-len 100\n",
    )
    assert deployment.fact("max_model_len").value == 100
    assert not deployment.fact("max_num_seqs").is_known
    assert "starts no comment" in said(deployment)


def test_environment_in_every_form(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("\n")
    (tmp_path / "a.env").write_text('VLLM_ALLOW_LONG_MAX_MODEL_LEN="1"\nCUDA_VISIBLE_DEVICES=5\n')
    text = f"{ONE}    command: --model m\n    env_file: a.env\n    environment:\n      "
    for form in ("CUDA_VISIBLE_DEVICES: '2,3'", "- CUDA_VISIBLE_DEVICES=2,3", "- CUDA_VISIBLE_DEVICES"):
        (deployment,) = read_compose(tmp_path, f"{text}{form}\n", environment={"CUDA_VISIBLE_DEVICES": "2,3"})
        assert deployment.fact("gpu_ids").value == ["2", "3"]
        assert deployment.fact("allow_long_max_model_len").value is True


@pytest.mark.parametrize("entry", ["missing.env", "[missing.env]", "[{path: missing.env, required: false}]"])
def test_an_env_file_that_is_not_here_hides_facts(tmp_path: Path, entry: str) -> None:
    (deployment,) = read_compose(tmp_path, f"{ONE}    command: --model m\n    env_file: {entry}\n")
    assert not deployment.fact("kv_cache_dtype").is_known
    assert not deployment.fact("allow_long_max_model_len").is_known
    assert "missing.env is not here" in said(deployment)


DEVICES = "deploy: {resources: {reservations: {devices: [%s]}}}"


@pytest.mark.parametrize(
    ("extra", "vendor", "count", "ids"),
    [
        (DEVICES % "{driver: nvidia, count: all, capabilities: [gpu]}", "nvidia", None, ["all"]),
        (DEVICES % "{driver: nvidia, count: 2, capabilities: [gpu]}", "nvidia", 2, ["0", "1"]),
        (DEVICES % "{driver: nvidia, count: '2', capabilities: [gpu]}", "nvidia", 2, ["0", "1"]),
        (DEVICES % "{driver: nvidia, device_ids: ['0', '3'], capabilities: [gpu]}", "nvidia", 2, ["0", "3"]),
        (DEVICES % "{capabilities: [gpu]}", "nvidia", None, ["all"]),
        (DEVICES % "{capabilities: [[gpu, compute]], device_ids: ['1']}", "nvidia", 1, ["1"]),
        (
            DEVICES % "{driver: cdi, device_ids: ['nvidia.com/gpu=1'], capabilities: [gpu]}",
            "nvidia",
            1,
            ["1"],
        ),
        (DEVICES % "{driver: nvidia, device_ids: ['${G}'], capabilities: [gpu]}", "nvidia", None, None),
        (DEVICES % "{driver: other, capabilities: [tpu], count: 1}", None, None, None),
        ("gpus: all", "nvidia", None, ["all"]),
        ("gpus: [{driver: nvidia, count: 1}]", "nvidia", 1, ["0"]),
        ("runtime: nvidia\n    environment: {NVIDIA_VISIBLE_DEVICES: '1'}", "nvidia", 1, ["1"]),
        ("runtime: nvidia\n    environment: [NVIDIA_VISIBLE_DEVICES=all]", "nvidia", None, ["all"]),
        ("gpus: all\n    environment: ['CUDA_VISIBLE_DEVICES=${G}']", "nvidia", None, None),
        ("gpus: all\n    environment: [CUDA_VISIBLE_DEVICES=-1]", "none", 0, None),
        ("environment: [NVIDIA_VISIBLE_DEVICES=2]", "nvidia", 1, ["2"]),
        ("environment: [NVIDIA_VISIBLE_DEVICES=void]", None, None, None),
        ("environment: ['CUDA_VISIBLE_DEVICES=\"1\"']", "nvidia", 1, ["1"]),
        ("devices: ['/dev/kfd:/dev/kfd', /dev/dri]", "amd", None, ["all"]),
        (
            "devices: [/dev/kfd, /dev/dri]\n    environment: {ROCR_VISIBLE_DEVICES: 1}",
            "amd",
            1,
            ["1"],
        ),
        ("devices: ['nvidia.com/gpu=all']", "nvidia", None, ["all"]),
        ("devices: [{source: /dev/kfd, target: /dev/kfd}]", "amd", None, None),
        (
            "gpus: [{driver: nvidia, device_ids: ['4', '5']}]\n    environment: {CUDA_VISIBLE_DEVICES: 1}",
            "nvidia",
            1,
            ["5"],
        ),
    ],
)
def test_gpus_in_every_form(
    tmp_path: Path, extra: str, vendor: str | None, count: int | None, ids: list[str] | None
) -> None:
    (deployment,) = read_compose(tmp_path, f"{ONE}    command: --model m\n    {extra}\n")
    facts = [deployment.fact(name).value for name in ("accelerator", "gpu_count", "gpu_ids")]
    assert facts == [vendor, count, ids]


def test_extends_inherits_and_overrides(tmp_path: Path) -> None:
    (tmp_path / "base.yml").write_text(
        "services: {base: {image: 'vllm/vllm-openai:v0.32.0', gpus: all, command: --model far}}"
    )
    text = (
        "services:\n  mid:\n    extends: {file: base.yml, service: base}\n    command: --model near\n"
        "  top:\n    extends: mid\n    environment: {VLLM_ALLOW_LONG_MAX_MODEL_LEN: '1'}\n"
    )
    found = read_compose(tmp_path, text)
    assert [each.fact("model").value for each in found] == ["near", "near"]
    assert found[1].fact("gpu_ids").value == ["all"]
    assert found[1].fact("allow_long_max_model_len").value is True
    (lost,) = read_compose(
        tmp_path, f"{ONE}    command: --model m\n    extends: {{file: gone.yml, service: x}}\n"
    )
    assert not lost.fact("kv_cache_dtype").is_known


def test_a_volume_shows_the_config_of_the_container(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "c.yaml").write_text("max-num-seqs: 12\n")
    text = f"{ONE}    command: --model m --config /etc/vllm/c.yaml\n    volumes: "
    for volumes in (
        "['./conf:/etc/vllm:ro']",
        "[{type: bind, source: ./conf/c.yaml, target: /etc/vllm/c.yaml}]",
    ):
        (deployment,) = read_compose(tmp_path, text + volumes)
        assert deployment.fact("max_num_seqs").value == 12
    (hidden,) = read_compose(tmp_path, text + "['models:/etc/vllm']")
    assert not hidden.fact("max_num_seqs").is_known


def test_an_own_entrypoint_script_hides_the_flags(tmp_path: Path) -> None:
    (deployment,) = read_compose(tmp_path, f"{ONE}    entrypoint: /start.sh\n    gpus: all\n")
    assert deployment.engine == "vllm"
    assert not deployment.fact("kv_cache_dtype").is_known
    assert "/start.sh is not read" in said(deployment)


def test_an_unknown_neighbour_on_the_gpu_is_named(tmp_path: Path) -> None:
    (deployment,) = read_compose(
        tmp_path,
        f"{ONE}    command: --model m\n  comfy: {{image: team/comfy, gpus: all}}\n"
        "  metrics: {image: nvcr.io/nvidia/k8s/dcgm-exporter:4, gpus: all}\n",
    )
    assert "service comfy takes a GPU too" in said(deployment)
    assert "metrics" not in said(deployment)


def test_a_built_image_leaves_the_version_open(tmp_path: Path) -> None:
    (deployment,) = read_compose(tmp_path, "services: {a: {build: ., command: vllm serve /models/m}}")
    assert not deployment.fact("image").is_known
    assert not deployment.fact("engine_version").is_known
    assert "inside the container" in said(deployment)


def test_the_tag_of_an_image_that_is_built_here_is_no_version(tmp_path: Path) -> None:
    (deployment,) = read_compose(
        tmp_path, "services: {a: {build: ., image: 'vllm/vllm-openai:v0.32.0', command: --model m --seed 1}}"
    )
    assert deployment.engine == "vllm" and deployment.fact("model").value == "m"
    assert not deployment.fact("engine_version").is_known
    assert not deployment.fact("max_num_seqs").is_known
    assert "is built here" in (deployment.fact("image").note or "")


def test_a_private_copy_under_a_hidden_registry_is_read(tmp_path: Path) -> None:
    (deployment,) = read_compose(
        tmp_path, "services: {a: {image: '${REGISTRY}/vllm-openai:v0.9.0', command: --model org/m}}"
    )
    assert deployment.engine == "vllm" and not deployment.fact("engine_version").is_known


def test_a_service_that_may_be_an_engine_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    (deployment,) = read_compose(
        tmp_path, f"{ONE}    command: --model m\n  b: {{image: 'team/sglang:1', command: --port 8000}}\n"
    )
    assert "service b is not judged" in said(deployment)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: {}", "no service to judge"),
        ("services: [a]", "services: expected a mapping"),
        ("services: {a: 1}", "service a: expected a mapping"),
        ("services: {a: {image: nginx}}", "a start no engine"),
        ("services:\n  a: {image: x}\n  a: {image: y}", "'a' is there twice"),
        ("services: {a: {extends: a, image: x}}", "extends itself: a -> a"),
        ("services: {a: {extends: b}}", "'b', which is not there"),
        ("services: {a: {command: [[x]]}}", "expected a list of words"),
        ("services: {a: {command: 'vllm serve \"x'}}", "never closed"),
        ("services: {a: {command: bash -c 'vllm serve a & vllm serve b'}}", "two engines"),
        ("services: {a: {environment: x}}", "expected a mapping or a list"),
        ("services: {a: {gpus: [x]}}", "expected a device"),
        (
            "services: {a: {deploy: {resources: {reservations: {devices: [{driver: nvidia, count: x}]}}}}}",
            "count 'x'",
        ),
        ("services: {a: {image: x}}\n---\nservices: {}", "a second document"),
        ("services: {a: {command: '" + "${X:-" * 99 + "'}}", "no service|nested"),
    ],
)
def test_bad_compose_files_get_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_compose(tmp_path, text)
    assert "\n" not in str(error.value)


SCALARS = st.sampled_from(
    [
        *("vllm serve m", "${X:-a", "$$X", "${X}", "all", "0", "nvidia", "--model m", "'", "/dev/kfd", "A=1"),
        *("null", "a.env", "vllm/vllm-openai:v0.32.0", "bash -c 'vllm serve m'", "b", "# x", "device=0,1"),
        *("~x/y:/z", "\\"),
    ]
)
KEYS = st.sampled_from(
    [
        *(
            "image",
            "command",
            "entrypoint",
            "environment",
            "env_file",
            "deploy",
            "gpus",
            "runtime",
            "devices",
        ),
        *("profiles", "extends", "scale", "volumes", "resources", "reservations", "driver", "count"),
        *("device_ids", "capabilities", "service", "file", "replicas", "path", "source", "target", "type"),
    ]
)
SERVICES = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=6,
)


@given(st.dictionaries(st.sampled_from(["a", "b"]), SERVICES, max_size=2))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_compose_file_gives_deployments_or_one_clear_error(
    tmp_path: Path, services: dict[str, object]
) -> None:
    import json

    try:
        assert read_compose(tmp_path, json.dumps({"services": services}))
    except PreopError as error:
        assert str(error)


def test_hip_ids_beside_an_env_file_that_is_not_there_are_not_known(tmp_path: Path) -> None:
    text = (
        "services:\n  chat:\n    image: rocm/vllm\n    command: vllm serve m\n"
        "    devices: [/dev/kfd, /dev/dri]\n"
        "    environment: {HIP_VISIBLE_DEVICES: '1'}\n"
    )
    for beside, expected in (("", True), ("    env_file: gone.env\n", False)):
        path = tmp_path / "compose.yml"
        path.write_text(text + beside)
        (found,) = read_targets([str(path)], None, ReadOptions())
        assert found.fact("gpu_ids").is_known is expected
