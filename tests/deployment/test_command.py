"""Commands after `preop check --`: wrappers, containers, shells, and what they say of the GPUs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.deployment.read import ReadOptions, read_targets
from preop.errors import InputError, PreopError, UsageError

from .reading import read_command, said, set_facts

SERVE = ("vllm", "serve", "some/model", "--max-model-len", "4096")


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "env A=1",
        "A=1 B=2",
        "env -u PATH -i A=1",
        "exec",
        "nohup",
        "sudo -E -u svc",
        "numactl -N 0 -m 0",
        "numactl --cpunodebind=0 --membind 0",
        "taskset -c 0-7",
        "timeout -k 5 1h",
        "nice -n 5 ionice -c 2",
        "stdbuf -oL setsid",
        "/usr/bin/tini --",
        "uv run --with vllm --python 3.12 --",
        "uv run",
        "uvx --from vllm==0.9.1",
        "conda run -n serving --no-capture-output",
        "poetry -C /srv run",
        "uv --directory /srv run",
        "srun -N 1 --gres=gpu:2",
        "mpirun -np 1 -x NCCL_DEBUG",
        "mpirun -n 2 --allow-run-as-root -mca btl ^openib trtllm-llmapi-launch",
        "srun -N 2 --ntasks-per-node 8 --mpi pmix trtllm-llmapi-launch",
        "nsys profile -o report --trace cuda",
        "opentelemetry-instrument --service_name llm",
        "ddtrace-run",
        "docker run --rm -it --gpus all -p 8000:8000 -v /a:/b --ipc=host -e X=1 --name n some/image:tag",
        "sudo podman run -d --device nvidia.com/gpu=all img",
        "nerdctl run --network host --shm-size 1g --ulimit memlock=-1 img",
        "docker container run -dit --restart=always img",
        "docker exec -it -e A=1 box",
    ],
)
def test_wrappers_are_taken_off(prefix: str) -> None:
    deployment = read_command(*prefix.split(), *SERVE)
    assert deployment.engine == "vllm"
    assert set_facts(deployment, ["model", "max_model_len"]) == {"model": "some/model", "max_model_len": 4096}
    assert not deployment.notes


@pytest.mark.parametrize(
    "argv",
    [
        ("vllm serve some/model --max-model-len 4096",),
        ("bash", "-c", "vllm serve some/model --max-model-len 4096"),
        ("bash", "-lc", "cd /srv && exec vllm serve some/model --max-model-len 4096 2>&1 | tee log"),
        ("bash", "-euo", "pipefail", "-c", "vllm serve some/model --max-model-len 4096"),
        ("docker", "run", "img", "sh", "-c", "sleep 5; vllm serve some/model --max-model-len 4096"),
        ("docker", "run", "--entrypoint", "vllm", "img", "serve", "some/model", "--max-model-len", "4096"),
        ("docker", "run", "--entrypoint=bash", "img", "-c", "vllm serve some/model --max-model-len 4096"),
        ("docker run vllm/vllm-openai:latest \\\n --model some/model \\\n --max-model-len 4096",),
        ("sh -c 'bash -c \"vllm serve some/model --max-model-len 4096\"'",),
        ("uvx", "vllm@0.12.0", "serve", "some/model", "--max-model-len", "4096"),
        ("vllm serve some/model --max-model-len 4096  # --max-model-len 9",),
    ],
)
def test_shells_strings_and_entrypoints(argv: tuple[str, ...]) -> None:
    deployment = read_command(*argv)
    assert set_facts(deployment, ["model", "max_model_len"]) == {"model": "some/model", "max_model_len": 4096}


def test_places_are_counted_from_the_engines_command() -> None:
    fact = read_command("sudo", *SERVE).fact("max_model_len")
    assert fact.source == "argument 4, --max-model-len"


def test_a_dash_c_text_sees_the_environment_of_its_container() -> None:
    deployment = read_command(
        "docker", "run", "-e", "LEN=1000", "img", "sh", "-c", "vllm serve m --max-model-len $LEN"
    )
    assert deployment.fact("max_model_len").value == 1000


@pytest.mark.parametrize(
    ("options", "accelerator", "count", "ids"),
    [
        ("--gpus all", "nvidia", None, ["all"]),
        ("--gpus 2", "nvidia", 2, ["0", "1"]),
        ("--gpus device=3", "nvidia", 1, ["3"]),
        ("--gpus '\"device=0,1\"'", "nvidia", 2, ["0", "1"]),
        ("--gpus=device=GPU-7c9e", "nvidia", 1, ["GPU-7c9e"]),
        ("--gpus count=2,capabilities=gpu", "nvidia", 2, ["0", "1"]),
        ("--runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=1,2", "nvidia", 2, ["1", "2"]),
        ("--runtime nvidia", "nvidia", None, None),
        ("--runtime habana -e HABANA_VISIBLE_DEVICES=all", "habana", None, ["all"]),
        ("--device /dev/kfd --device /dev/dri", "amd", None, ["all"]),
        ("--device /dev/kfd --device /dev/dri/renderD129", "amd", None, None),
        ("--device /dev/kfd --device /dev/dri -e HIP_VISIBLE_DEVICES=2,3", "amd", 2, ["2", "3"]),
        ("--device=/dev/kfd --device=/dev/dri -e CUDA_VISIBLE_DEVICES=1", "amd", 1, ["1"]),
        ("--device /dev/kfd --device /dev/dri/renderD129 -e HIP_VISIBLE_DEVICES=0", "amd", 1, None),
        ("-e ROCR_VISIBLE_DEVICES=4,5 -e HIP_VISIBLE_DEVICES=1", "amd", 1, ["5"]),
        ("--gpus all -e HIP_VISIBLE_DEVICES=", "nvidia", None, ["all"]),
        ("--device nvidia.com/gpu=0 --device nvidia.com/gpu=1", "nvidia", 2, ["0", "1"]),
        ("--gpus device=2,3 -e CUDA_VISIBLE_DEVICES=1", "nvidia", 1, ["3"]),
        ("-e CUDA_VISIBLE_DEVICES=0", "nvidia", 1, ["0"]),
        ("-e CUDA_VISIBLE_DEVICES=", "none", 0, None),
        ("-e VLLM_CPU_KVCACHE_SPACE=4", "none", 0, None),
        ("", "unknown", None, None),
        ("--device /dev/dri", "unknown", None, None),
        ("--runtime runsc", "unknown", None, None),
    ],
)
def test_gpus_of_docker_run(options: str, accelerator: str, count: int | None, ids: list[str] | None) -> None:
    deployment = read_command(f"docker run {options} img:1 vllm serve m")
    fact = deployment.fact("accelerator")
    assert (fact.value if fact.is_known else "unknown") == accelerator
    assert deployment.fact("gpu_count").value == count
    assert deployment.fact("gpu_ids").value == ids


@pytest.mark.parametrize(
    ("image", "accelerator"),
    [
        ("rocm/vllm:latest", None),
        ("vllm/vllm-openai-rocm:v0.32.0", "amd"),
        ("lmsysorg/sglang:v0.5.23-rocm720-mi35x", "amd"),
        ("vllm/vllm-openai-cpu:latest", "none"),
        ("registry:5000/team/vllm-cpu:1", "none"),
        ("ghcr.io/ggml-org/llama.cpp:server", "none"),
        ("ghcr.io/ggml-org/llama.cpp:server-b7000", "none"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "nvidia"),
        ("ghcr.io/ggml-org/llama.cpp:server-vulkan", None),
        ("vault.habana.ai/gaudi-docker/1.20/vllm:latest", None),
        ("vllm/vllm-tpu:nightly", "google"),
        ("intel/vllm:0.10-xpu", "intel"),
        ("team/vllm:cpu-and-cuda", None),
        ("team/occupied:recpu", None),
        ("vllm/vllm-openai:v0.32.0", None),
    ],
)
def test_what_an_image_name_says_of_the_accelerator(image: str, accelerator: str | None) -> None:
    assert read_command("docker", "run", image, "vllm", "serve", "m").fact("accelerator").value == accelerator


def test_a_cpu_image_is_not_overruled_by_a_gpu_request() -> None:
    deployment = read_command("docker run --gpus all vllm/vllm-openai-cpu:latest --model m")
    assert deployment.fact("accelerator").value == "none"
    assert deployment.fact("gpu_ids").value is None


@pytest.mark.parametrize(
    "command",
    [
        "docker run --gpus all team/vllm-cpu-offload:1 vllm serve m",
        "docker run --gpus all -e VLLM_CPU_KVCACHE_SPACE=4 vllm/vllm-openai:v0.32.0 m",
    ],
)
def test_a_sign_of_the_cpu_is_not_believed_where_a_gpu_is_asked_for(command: str) -> None:
    deployment = read_command(command)
    assert not deployment.fact("accelerator").is_known
    assert deployment.fact("gpu_ids").value == ["all"]


@pytest.mark.parametrize(
    "words",
    [
        "--model org/m --port 8000",
        "org/m --max-model-len 4096",
        "--model=org/m",
    ],
)
@pytest.mark.parametrize(
    "image", ["registry.corp:5000/team/vllm-openai:v0.9.0", "registry.corp:5000/team/vllm-openai"]
)
def test_a_private_registrys_copy_is_read_and_its_version_stays_open(image: str, words: str) -> None:
    deployment = read_command(f"docker run --gpus all {image} {words}")
    assert deployment.engine == "vllm" and deployment.fact("model").value == "org/m"
    assert not deployment.fact("engine_version").is_known
    assert not deployment.fact("kv_cache_dtype").is_known
    assert "entrypoint may pass flags" in said(deployment)


def test_another_program_in_a_private_copy_is_no_model() -> None:
    with pytest.raises(InputError, match="starts no engine"):
        read_command("docker run registry.corp:5000/team/vllm-openai:v0.9.0 nvidia-smi")


@pytest.mark.parametrize(
    "command",
    [
        "llama-server -m a.gguf --device none",
        "vllm serve m --device cpu",
        "sglang serve --model-path m --device=cpu",
    ],
)
def test_a_command_may_say_that_it_runs_on_the_cpu(command: str) -> None:
    fact = read_command(*command.split()).fact("accelerator")
    assert (fact.value, fact.set_by) == ("none", "user")
    assert "--device" in fact.source


def test_options_of_preop_count_first() -> None:
    deployment = read_command(*SERVE, gpu="H100-SXM", gpu_count=2, engine_version="0.32.0")
    assert deployment.fact("accelerator").value == "nvidia"
    assert deployment.fact("gpu_count").source == "--gpu-count"
    assert "H100" in deployment.fact("gpu").value
    assert deployment.fact("engine_version").value == "0.32.0"
    assert deployment.fact("max_num_seqs").value == 1024, "vLLM 0.32 at 70 GiB and more"
    with pytest.raises(UsageError, match="--gpu Nonesuch 9000"):
        read_command(*SERVE, gpu="Nonesuch 9000")


def test_an_image_says_version_and_digest() -> None:
    tagged = read_command("docker run vllm/vllm-openai:v0.32.0 --model m")
    assert tagged.fact("engine_version").value == "0.32.0"
    digest = tagged.fact("image_digest")
    assert digest.is_known and digest.value is None
    pinned = read_command("docker run vllm/vllm-openai@sha256:0123 --model m")
    assert pinned.fact("image_digest").value == "sha256:0123"
    assert not pinned.fact("engine_version").is_known


@pytest.mark.parametrize(
    "image",
    ["ghcr.io/llm-d/llm-d-cuda:v0.9.0", "team/vllm:0.9.0", "vllm/vllm-openai:nightly", "vllm/vllm-openai"],
)
def test_a_tag_that_is_no_engine_version_is_not_taken_for_one(image: str) -> None:
    deployment = read_command("docker", "run", image, "vllm", "serve", "m")
    assert not deployment.fact("engine_version").is_known


def test_an_alias_that_sounds_quantized_is_no_quantization() -> None:
    deployment = read_command("vllm", "serve", "some/model", "--served-model-name", "chat-awq-int4")
    assert deployment.fact("quantization").set_by != "user"
    assert deployment.model is None


def test_a_variable_in_a_typed_text_hides_its_own_value_alone() -> None:
    deployment = read_command('vllm serve $MODEL --port ${PORT} --max-num-seqs 8 --api-key "$KEY"')
    assert deployment.fact("max_num_seqs").value == 8
    assert not deployment.fact("model").is_known


def test_hidden_flags_make_facts_unknown_and_never_absent() -> None:
    deployment = read_command("bash", "-c", "vllm serve m $EXTRA_ARGS", engine_version="0.32.0")
    fact = deployment.fact("max_num_batched_tokens")
    assert not fact.is_known
    assert not deployment.fact("kv_cache_dtype").is_known
    assert "$EXTRA_ARGS is not set here" in said(deployment)


def test_an_env_file_that_is_not_here_hides_the_environment(tmp_path: Path) -> None:
    missing = read_command("docker run --env-file /nowhere/x.env vllm/vllm-openai:v0.32.0 --model m")
    assert "environment file /nowhere/x.env is not here" in said(missing)
    assert not missing.fact("kv_cache_dtype").is_known
    there = tmp_path / "x.env"
    there.write_text("# VLLM_ALLOW_LONG_MAX_MODEL_LEN=0\nVLLM_ALLOW_LONG_MAX_MODEL_LEN=1\nOTHER\n")
    seen = read_command(f"docker run --env-file {there} vllm/vllm-openai:v0.32.0 --model m")
    assert seen.fact("allow_long_max_model_len").value is True
    assert seen.fact("allow_long_max_model_len").source == f"{there}:2:1"


def test_the_environment_around_docker_is_not_that_of_the_container() -> None:
    deployment = read_command("env VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 docker run img vllm serve m")
    assert deployment.fact("allow_long_max_model_len").value is not True


def test_secrets_never_become_facts() -> None:
    secret = "sk-verysecretverysecret"
    deployment = read_command(
        f"env HF_TOKEN={secret} docker run -e HF_TOKEN={secret} -e VLLM_API_KEY={secret} "
        f"https://user:{secret}@host/vllm vllm serve m --api-key {secret} --max-num-seqs 7 $X{secret}"
    )
    assert secret not in repr(deployment)
    assert deployment.fact("max_num_seqs").value is None  # a word that cannot be seen follows it


def test_a_config_file_is_read_where_it_is(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("max-num-seqs: 77\nmax-model-len: 1000\n")
    deployment = read_command("vllm", "serve", "m", "--config", str(config), "--max-model-len", "2000")
    assert set_facts(deployment, ["max_num_seqs", "max_model_len"]) == {
        "max_num_seqs": 77,
        "max_model_len": 2000,
    }
    mounted = read_command(
        f"docker run -v {tmp_path}:/cfg:ro vllm/vllm-openai:v0.32.0 --model m --config /cfg/c.yaml"
    )
    assert mounted.fact("max_num_seqs").value == 77
    inside = read_command("docker run vllm/vllm-openai:v0.32.0 --model m --config /cfg/c.yaml")
    assert not inside.fact("max_num_seqs").is_known
    assert not inside.fact("kv_cache_dtype").is_known


def test_a_path_in_a_container_is_not_a_path_here(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("not JSON, and must not be read")
    deployment = read_command("docker", "run", "img", "vllm", "serve", str(tmp_path))
    assert deployment.model is None
    assert "inside the container" in said(deployment)


def test_a_model_path_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert "is not here" in said(read_command("vllm", "serve", str(tmp_path / "none")))
    with pytest.raises(InputError, match="no such file or folder"):
        read_command(*SERVE, model_path=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "is empty"),
        (("",), "is empty"),
        (("ls", "-l"), "starts no engine that preop knows"),
        (("docker", "run", "-it"), "without an image"),
        (("docker", "run", "-e"), "without its value"),
        (("docker", "ps"), "starts no engine"),
        (("vllm", "bench", "serve"), "serves nothing"),
        (("vllm serve a & vllm serve b",), "two engines"),
        (("vllm", "serve", "a", "vllm", "serve", "b"), "one engine"),
        (("vllm serve 'a",), "never closed"),
        (("env",) * 40, "wrappers|no engine"),
        (("bash", "serve.sh"), "starts no engine"),
        (("docker", "run", "nginx"), "starts no engine"),
    ],
)
def test_bad_commands_get_one_sentence(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_command(*argv)
    assert "\n" not in str(error.value)


WORDS = st.sampled_from(
    [
        *("docker", "run", "exec", "env", "bash", "-c", "-lc", "sudo", "uv", "vllm", "serve", "m", "--gpus"),
        *("all", "-e", "A=1", "--", "-it", "--config", "$X", "'", '"', "llama-server", "-m", "a.gguf", "x y"),
        *("vllm/vllm-openai:v1", "--env-file", "python", "sglang.launch_server", "--max-model-len", "1k"),
        *("--device", "none", "~nobody/x", "\x00"),
    ]
)


@given(st.lists(WORDS | st.text(max_size=12), max_size=10))
@settings(max_examples=300, deadline=None)
def test_any_command_gives_a_deployment_or_one_clear_error(argv: list[str]) -> None:
    try:
        read_targets([], argv, ReadOptions())
    except PreopError as error:
        assert str(error)


def test_reading_a_command_imports_nothing_heavy() -> None:
    command = ["vllm", "serve", "Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "32k"]
    heavy = ["yaml", "httpx", "huggingface_hub", "pydantic", "jinja2", "numpy", "rich"]
    code = (
        "import sys; from preop.deployment.read import ReadOptions, read_targets;"
        f"read_targets([], {command}, ReadOptions());"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    result: Any = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("hidden", ["$EXTRA_ARGS", "${EXTRA_ARGS}"])
def test_a_variable_that_no_shell_expanded_may_hide_any_flag(hidden: str) -> None:
    (found,) = read_targets((), ["vllm", "serve", "m", "--max-num-seqs", "8", hidden], ReadOptions())
    assert not found.fact("max_num_seqs").is_known
    assert not found.fact("speculative").is_known
    assert any(note.kind == "hidden" for note in found.notes)


def test_a_variable_that_no_shell_expanded_is_the_value_of_its_flag() -> None:
    command = ["vllm", "serve", "m", "--max-model-len=$LEN", "--max-num-seqs", "8"]
    (found,) = read_targets((), command, ReadOptions())
    assert not found.fact("max_model_len").is_known
    assert found.fact("max_num_seqs").value == 8


@pytest.mark.parametrize(
    "argv",
    [
        ["vllm-router", "--worker-urls", "http://a:8000"],
        ["vllm-router --worker-urls http://a:8000"],
        ["python3", "-m", "vllm_router.app", "--port", "8001"],
        ["python", "-m", "sglang_router.launch_router", "--worker-urls", "http://a:8000"],
        ["docker", "run", "-p", "1:1", "lmcache/lmstack-router", "vllm-router", "--port", "1"],
    ],
)
def test_a_router_alone_is_said_to_be_one_and_what_to_check_instead(argv: list[str]) -> None:
    with pytest.raises(
        InputError, match="Router hands requests on to engines and serves no model itself"
    ) as said_:
        read_command(*argv)
    assert "the command of an engine was expected" in str(said_.value)
