"""Kubernetes manifests: commands as Kubernetes builds them, and nothing known that cannot be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.kubernetes.expand import expand
from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.deployment.yaml_nodes import Scalar, load
from preop.errors import InputError, PreopError
from preop.facts import Origin, Word

from .reading import read_file, said

IMAGE = "vllm/vllm-openai:v0.32.0"


def pod(container: str, rest: str = "") -> str:
    """A Deployment `chat` with one container, whose keys are `container`, indented by 8."""
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: chat, namespace: llm}\nspec:\n"
        "  replicas: 2\n  template:\n    spec:\n      containers:\n"
        f"      - name: vllm\n        image: {IMAGE}\n{container}{rest}"
    )


def read(folder: Path, text: str, name: str = "k8s.yaml", **options: Any) -> list[Deployment]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_file(path, **options)


def one(folder: Path, text: str, **options: Any) -> Deployment:
    (deployment,) = read(folder, text, **options)
    return deployment


def value(deployment: Deployment, name: str) -> Any:
    fact = deployment.fact(name)
    return fact.value if fact.is_known else "unknown"


# The rules of $(NAME), each from the tests beside Kubernetes' own expansion (expansion_test.go).


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("$(VAR_A)-$(VAR_B)", "A-B"),
        ("$(VAR_EMPTY)!", "!"),
        ("$$(VAR_A)", "$(VAR_A)"),
        ("$$$(VAR_A)", "$A"),
        ("$$$$(VAR_A)", "$$(VAR_A)"),
        ("$(VAR_DNE)", "$(VAR_DNE)"),
        ("foo$(VAR_DNE)bar", "foo$(VAR_DNE)bar"),
        ("foo$VAR_Abar", "foo$VAR_Abar"),
        ("$(", "$("),
        ("$(VAR_A", "$(VAR_A"),
        ("$", "$"),
        ("", ""),
        ("$(VAR_REF)", "$(VAR_A)"),
    ],
)
def test_references_are_replaced_as_kubernetes_does(text: str, expected: str) -> None:
    there = Origin("environment", "x")
    values = {"VAR_A": "A", "VAR_B": "B", "VAR_EMPTY": "", "VAR_REF": "$(VAR_A)"}
    variables = {name: Word(each, there) for name, each in values.items()}
    node = Scalar("f", 1, 1, text, True, text)
    assert expand(node, variables).visible == expected


def test_a_name_that_may_be_defined_out_of_sight_is_unknown() -> None:
    node = Scalar("f", 1, 1, "$(X)", True, "$(X)")
    assert expand(node, {}, "Secret s is not among the files").visible is None


@given(st.text(max_size=60), st.dictionaries(st.text("AB_", min_size=1, max_size=3), st.text(max_size=5)))
@settings(max_examples=200, deadline=None)
def test_text_without_a_dollar_stays_and_nothing_is_raised(text: str, values: dict[str, str]) -> None:
    text = text.replace("{", "")
    there = Origin("environment", "x")
    node = Scalar("f", 1, 1, text, True, text)
    token = expand(node, {name: Word(each, there) for name, each in values.items()})
    if "$" not in text:
        assert token.visible == text


# command and args: the table "command, args and the image's own" of the Kubernetes documentation.


def test_args_alone_go_to_the_images_entrypoint(tmp_path: Path) -> None:
    found = one(tmp_path, pod('        args: ["--model", "org/m", "--max-num-seqs", "8"]\n'))
    assert (found.engine, found.name) == ("vllm", "chat")
    assert (value(found, "model"), value(found, "max_num_seqs")) == ("org/m", 8)
    assert value(found, "engine_version") == "0.32.0"
    line = '        args: ["--model", "org/m", "--max-num-seqs", "8"]'
    column = line.index('"8"') + 1
    assert found.fact("max_num_seqs").source == f"{tmp_path / 'k8s.yaml'}:11:{column}"
    assert value(found, "replicas") == 2


def test_a_command_replaces_the_entrypoint_and_args_follow_it(tmp_path: Path) -> None:
    text = pod('        command: ["vllm", "serve", "org/m"]\n        args:\n        - --max-num-seqs=8\n')
    found = one(tmp_path, text)
    assert (value(found, "model"), value(found, "max_num_seqs")) == ("org/m", 8)


def test_a_command_that_is_a_script_inside_the_image_hides_every_flag(tmp_path: Path) -> None:
    found = one(tmp_path, pod("        command: [/start.sh]\n"))
    assert value(found, "max_num_seqs") == "unknown"
    assert "cannot be seen" in said(found)


def test_a_shell_text_sees_the_containers_variables(tmp_path: Path) -> None:
    text = pod(
        "        env:\n        - {name: MODEL, value: org/m}\n        - {name: LEN, value: '$(MODEL)-4096'}\n"
        "        - {name: SEQS, value: '8'}\n"
        "        command: [/bin/sh, -c]\n"
        "        args:\n        - |\n          set -e\n"
        "          exec vllm serve $MODEL --max-num-seqs ${SEQS} --served-model-name $(LEN)\n"
    )
    found = one(tmp_path, text)
    assert (value(found, "model"), value(found, "max_num_seqs")) == ("org/m", 8)
    assert value(found, "served_model_name") == "org/m-4096"


CONFIG = (
    "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: llm}\ndata:\n"
    "  MODEL: org/m\n  vllm.yaml: |\n    max-num-seqs: 5\n    gpu-memory-utilization: 0.8\n"
    "  serve.sh: |\n    #!/bin/sh\n    exec vllm serve $MODEL --max-num-seqs 6\n"
)


def test_a_config_map_is_read_for_variables_scripts_and_the_engines_config(tmp_path: Path) -> None:
    variables = pod(
        '        envFrom: [{configMapRef: {name: conf}}]\n        args: [--model, "$(MODEL)"]\n', CONFIG
    )
    assert value(one(tmp_path, variables), "model") == "org/m"
    prefixed = variables.replace("[{configMapRef", "[{prefix: P_, configMapRef").replace("(MODEL", "(P_MODEL")
    assert value(one(tmp_path, prefixed), "model") == "org/m"
    mounted = (
        "        volumeMounts: [{name: c, mountPath: /etc/conf}]\n      volumes:\n"
        "      - {name: c, configMap: {name: conf}}\n"
    )
    script = pod(
        "        command: [sh, /etc/conf/serve.sh]\n        envFrom: [{configMapRef: {name: conf}}]\n"
        + mounted,
        CONFIG,
    )
    found = one(tmp_path, script)
    assert (value(found, "model"), value(found, "max_num_seqs")) == ("org/m", 6)
    line = script.splitlines().index("    exec vllm serve $MODEL --max-num-seqs 6") + 1
    assert f"k8s.yaml:{line}:" in found.fact("max_num_seqs").source
    config = pod("        args: [--model, m, --config, /etc/conf/vllm.yaml]\n" + mounted, CONFIG)
    found = one(tmp_path, config)
    assert (value(found, "max_num_seqs"), value(found, "gpu_memory_fraction")) == (5, 0.8)


def test_a_config_map_in_another_file_of_the_check_counts(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        pod('        envFrom: [{configMapRef: {name: conf}}]\n        args: [--model, "$(MODEL)"]\n')
    )
    (tmp_path / "b.yaml").write_text(
        CONFIG + "---\n" + pod("        args: [--model, other]\n").replace("name: chat", "name: code")
    )
    found = read_targets([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")], None, ReadOptions())
    assert [value(each, "model") for each in found] == ["org/m", "other"]


def test_what_is_not_among_the_files_is_unknown_and_never_absent(tmp_path: Path) -> None:
    arguments = '[--model, "$(MODEL)", --max-num-seqs, "8"]'
    text = pod(f"        envFrom: [{{secretRef: {{name: s}}}}]\n        args: {arguments}\n")
    found = one(tmp_path, text)
    assert value(found, "model") == "unknown"
    assert value(found, "max_num_seqs") == 8
    assert value(found, "allow_long_max_model_len") == "unknown", "the Secret may set it"
    assert found.fact("speculative").is_known, "no variable sets a flag of vLLM"
    llama = text.replace(IMAGE, "ghcr.io/ggml-org/llama.cpp:server-cuda-b10605").replace(
        arguments, "[-m, /m.gguf]"
    )
    assert value(one(tmp_path, llama), "max_num_seqs") == "unknown", "LLAMA_ARG_N_PARALLEL may be set there"


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    secret = (
        "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {HF: hf_secretsecretsecret}\n"
    )
    text = pod('        envFrom: [{secretRef: {name: s}}]\n        args: [--model, "$(HF)"]\n', secret)
    assert "secretsecret" not in str(one(tmp_path, text))


def test_a_name_that_stands_twice_with_different_content_is_unknown(tmp_path: Path) -> None:
    other = CONFIG.replace("MODEL: org/m", "MODEL: org/n")
    text = pod('        envFrom: [{configMapRef: {name: conf}}]\n        args: [--model, "$(MODEL)"]\n')
    assert value(one(tmp_path, text + CONFIG + other), "model") == "unknown"
    assert value(one(tmp_path, text + CONFIG + CONFIG), "model") == "org/m"
    elsewhere = other.replace("namespace: llm", "namespace: other")
    assert value(one(tmp_path, text + CONFIG + elsewhere), "model") == "org/m"


# Devices


@pytest.mark.parametrize(
    ("limits", "facts"),
    [
        ('nvidia.com/gpu: "2"', {"gpu_count": 2, "accelerator": "nvidia", "gpu_allocation": "whole"}),
        ("amd.com/gpu: 8", {"gpu_count": 8, "accelerator": "amd", "gpu_allocation": "whole"}),
        ("google.com/tpu: 4", {"gpu_count": 4, "accelerator": "google"}),
        (
            "nvidia.com/mig-1g.10gb: 1",
            {"gpu_count": "unknown", "accelerator": "nvidia", "gpu_allocation": "mig"},
        ),
        ("nvidia.com/gpu.shared: 1", {"gpu_count": 1, "gpu_allocation": "shared"}),
        (
            "nvidia.com/gpu: 1, nvidia.com/gpumem: 12000",
            {"gpu_count": 1, "gpu_allocation": "fraction", "gpu_memory_limit_mib": 12000},
        ),
        ("aliyun.com/gpu-mem: 12", {"gpu_allocation": "fraction", "gpu_memory_limit_mib": 12 * 1024}),
        ("nvidia.com/gpu: 0", {"gpu_count": "unknown", "gpu_allocation": "unknown"}),
        ("cpu: 4", {"accelerator": "unknown", "gpu_allocation": "unknown"}),
    ],
)
def test_devices(tmp_path: Path, limits: str, facts: dict[str, Any]) -> None:
    found = one(tmp_path, pod(f"        args: [--model, m]\n        resources: {{limits: {{{limits}}}}}\n"))
    assert {name: value(found, name) for name in facts} == facts
    assert found.fact("gpu_ids").is_known is False, "the device plugin decides"


def test_the_nodes_label_names_the_gpu(tmp_path: Path) -> None:
    text = pod(
        "        args: [--model, m]\n        resources: {limits: {nvidia.com/gpu: 1}}\n"
        "      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}\n"
    )
    found = one(tmp_path, text)
    assert value(found, "gpu") == "NVIDIA L4"
    column = text.splitlines()[12].index("nvidia-l4") + 1
    assert found.fact("gpu").source.endswith(f":13:{column}")
    without = text.replace("resources: {limits: {nvidia.com/gpu: 1}}", "resources: {}")
    assert value(one(tmp_path, without), "gpu") == "unknown"


# Which objects start something


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("StatefulSet", "apps/v1", "{template: {spec: POD}}"),
        ("DaemonSet", "apps/v1", "{template: {spec: POD}}"),
        ("ReplicaSet", "apps/v1", "{template: {spec: POD}}"),
        ("Rollout", "argoproj.io/v1alpha1", "{template: {spec: POD}}"),
        ("Job", "batch/v1", "{template: {spec: POD}}"),
        ("CronJob", "batch/v1", "{jobTemplate: {spec: {template: {spec: POD}}}}"),
        ("Pod", "v1", "POD"),
    ],
)
def test_kinds(tmp_path: Path, kind: str, version: str, spec: str) -> None:
    pod_ = "{containers: [{name: a, image: '" + IMAGE + "', args: [--model, m]}]}"
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec.replace('POD', pod_)}\n"
    assert value(one(tmp_path, text), "model") == "m"
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + text.replace("\n", "\n  ")
    assert value(one(tmp_path, listed), "model") == "m"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("replicas: 2", "replicas: 0"), "it has 0 replicas"),
        (("kind: Deployment", "kind: DaemonSets"), "DaemonSets chat"),
        (("apps/v1", "apps/v9"), "which preop has not read; expected v1"),
        (("args: [--model, m]", "args: '{{ .Values.args }}'"), "render it first"),
        (("args: [--model, m]", "args:\n{{- range .Values.args }}"), "render it first"),
        (("args: [--model, m]", "args: --model m"), "expected a list of words"),
        (("      - name: vllm", "      - vllm\n      - name: vllm"), "expected a mapping"),
    ],
)
def test_what_is_not_judged_is_named(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    text = pod("        args: [--model, m]\n")
    assert change[0] in text
    with pytest.raises(InputError) as error:
        read(tmp_path, text.replace(*change))
    assert why in str(error.value) and "\n" not in str(error.value)


def test_parked_objects_stay_out_and_are_said_once(tmp_path: Path) -> None:
    serving = pod("        args: [--model, m]\n")
    parked = "---\n" + serving.replace("name: chat", "name: old").replace("replicas: 2", "replicas: 0")
    found = one(tmp_path, serving + parked)
    assert "Deployment old does not run: it has 0 replicas" in said(found)


def test_init_containers_end_before_the_engine_and_sidecars_do_not(tmp_path: Path) -> None:
    text = pod(
        "        args: [--model, m]\n      initContainers:\n"
        "      - {name: load, image: '" + IMAGE + "', args: [--model, no]}\n"
        "      - {name: side, image: '" + IMAGE + "', args: [--model, yes], restartPolicy: Always}\n"
    )
    assert [value(each, "model") for each in read(tmp_path, text)] == ["yes", "m"]


def test_a_leader_worker_set_is_a_leader_and_its_workers(tmp_path: Path) -> None:
    container = "{name: a, image: '" + IMAGE + "', command: [sh, -c, 'vllm serve m --nnodes $LWS_GROUP_SIZE "
    container += "--node-rank $LWS_WORKER_INDEX --master-addr $(LWS_LEADER_ADDRESS)']}"
    text = (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: big}\nspec:\n"
        "  replicas: 1\n  leaderWorkerTemplate:\n    size: 2\n"
        f"    workerTemplate: {{spec: {{containers: [{container}]}}}}\n"
    )
    leader, worker = read(tmp_path, text)
    assert (leader.name, value(leader, "role"), value(leader, "model")) == ("big", "leader", "m")
    assert (worker.name, value(worker, "role")) == ("big-worker", "worker")
    alone = read(tmp_path, text.replace("size: 2", "size: 1"))
    assert [value(each, "role") for each in alone] == ["leader"]
    with pytest.raises(InputError, match="which preop has not read"):
        read(tmp_path, text.replace("x-k8s.io/v1", "x-k8s.io/v7"))


def test_a_custom_resource_with_containers_is_said_to_be_unread(tmp_path: Path) -> None:
    serving = pod("        args: [--model, m]\n")
    custom = "---\n" + serving.replace("apps/v1", "example.com/v1").replace("Deployment", "Machine")
    assert "Machine chat (example.com/v1) has containers" in said(one(tmp_path, serving + custom))


def test_a_config_map_that_no_cluster_takes_is_refused(tmp_path: Path) -> None:
    text = pod(
        "        args: [--model, m]\n        volumeMounts: [{name: c, mountPath: /c}]\n      volumes:\n"
        "      - {name: c, configMap: {name: conf}}\n",
        CONFIG + "  big: " + "x" * (1 << 20) + "\n",
    )
    with pytest.raises(InputError, match="Kubernetes takes 1 MiB at most"):
        read(tmp_path, text)


def test_ten_thousand_documents_in_one_file(tmp_path: Path) -> None:
    service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {}\n"
    assert one(tmp_path, service * 10_000 + "---\n" + pod("        args: [--model, m]\n")).name == "chat"


KEYS = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "spec",
        "template",
        "containers",
        "image",
        "args",
        "command",
        "env",
        "envFrom",
        "value",
        "valueFrom",
        "resources",
        "limits",
        "volumes",
        "items",
        "replicas",
        "data",
        "configMapRef",
        "nodeSelector",
        "initContainers",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6) | st.sampled_from([IMAGE, "v1"])


@given(
    st.recursive(
        LEAVES,
        lambda each: st.lists(each, max_size=3) | st.dictionaries(KEYS, each, max_size=5),
        max_leaves=25,
    ),
    st.sampled_from(["Deployment", "Pod", "Job", "CronJob", "List", "LeaderWorkerSet", "ConfigMap"]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_object_gives_deployments_or_one_clear_error(tmp_path: Path, spec: Any, kind: str) -> None:
    import yaml

    group = {"Deployment": "apps/v1", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}.get(kind, "v1")
    text = yaml.safe_dump({"apiVersion": group, "kind": kind, "spec": spec, "items": [spec]})
    try:
        assert load(text, "x") and read(tmp_path, text) is not None
    except PreopError as error:
        assert str(error)


def test_what_envsubst_was_to_fill_in_is_unknown_and_a_shells_own_variables_are_not(tmp_path: Path) -> None:
    left = one(tmp_path, pod('        args: [--model, "${MODEL}", --max-num-seqs, "8"]\n'))
    assert (value(left, "model"), value(left, "max_num_seqs")) == ("unknown", 8)
    shell = pod(
        "        env: [{name: MODEL, value: org/m}]\n        command: [sh, -c]\n"
        '        args: ["vllm serve ${MODEL}"]\n'
    )
    assert value(one(tmp_path, shell), "model") == "org/m"


def test_a_config_map_of_another_namespace_is_not_taken(tmp_path: Path) -> None:
    text = pod('        envFrom: [{configMapRef: {name: conf}}]\n        args: [--model, "$(MODEL)"]\n')
    elsewhere = CONFIG.replace("namespace: llm", "namespace: other")
    assert value(one(tmp_path, text + elsewhere), "model") == "unknown"
    without = text.replace(", namespace: llm", "")
    assert value(one(tmp_path, without + elsewhere), "model") == "unknown"
    assert value(one(tmp_path, text + CONFIG.replace(", namespace: llm", "")), "model") == "org/m"


def test_a_leader_worker_set_without_a_size_has_no_workers(tmp_path: Path) -> None:
    text = (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: one}\nspec:\n"
        "  leaderWorkerTemplate:\n    workerTemplate: {spec: {containers: [{name: a, image: '" + IMAGE + "',"
        " args: [--model, m]}]}}\n"
    )
    assert [value(each, "role") for each in read(tmp_path, text)] == ["leader"]


def test_a_workload_that_a_rollout_runs_is_not_parked_at_0_replicas(tmp_path: Path) -> None:
    parked = pod("        args: [--model, m]\n").replace("replicas: 2", "replicas: 0")
    rollout = (
        "---\napiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: chat, namespace: llm}\n"
        "spec: {replicas: 3, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: chat}}\n"
    )
    assert value(one(tmp_path, parked + rollout), "replicas") == 3
