"""What once was overlooked in Kubernetes manifests: autoscalers, GPUs nobody asked for, labels that admit two
models, patches, claims, Ray clusters. Expectations are those of the APIs' own references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.options import ReadOptions
from preop.deployment.targets import read_files
from preop.deployment.types import Deployment
from preop.errors import InputError, PreopError

from .reading import read_file, said

ARGS = "args: [--model, m]"


def deployment(container: str = ARGS, pod: str = "{}", spec: str = "", name: str = "chat") -> str:
    """A Deployment with one vLLM container; the arguments are flow mappings' inner text."""
    inner = pod[1:-1]
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\n"
        f"spec: {{{spec}template: {{spec: {{{inner + ', ' if inner else ''}containers: ["
        f"{{name: vllm, image: 'vllm/vllm-openai:v0.11.0', {container}}}]}}}}}}\n"
    )


def read(folder: Path, *texts: str, name: str = "serve.yaml") -> list[Deployment]:
    path = folder / name
    path.write_text("---\n".join(texts), encoding="utf-8")
    return read_file(path)


def one(folder: Path, *texts: str) -> Deployment:
    (found,) = read(folder, *texts)
    return found


def value(found: Deployment, name: str) -> Any:
    fact = found.fact(name)
    return fact.value if fact.is_known else "unknown"


def scaler(spec: str, kind: str = "HorizontalPodAutoscaler", api: str = "autoscaling/v2") -> str:
    return f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: s}}\nspec: {spec}\n"


NAMES = ("replicas", "min_replicas", "max_replicas", "autoscaler_metric", "autoscaler_target")
TARGET = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}"
KEDA = {"kind": "ScaledObject", "api": "keda.sh/v1alpha1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            scaler(
                f"{{{TARGET}, minReplicas: 2, maxReplicas: 8, metrics: [{{type: Pods, pods: {{metric: "
                "{name: vllm_waiting}, target: {type: AverageValue, averageValue: 500m}}}]}"
            ),
            (2, 2, 8, "vllm_waiting", 0.5),
        ),
        (scaler(f"{{{TARGET}, maxReplicas: 4}}"), (1, 1, 4, "cpu", 80)),
        (
            scaler(f"{{{TARGET}, maxReplicas: 4, targetCPUUtilizationPercentage: 60}}", api="autoscaling/v1"),
            (1, 1, 4, "cpu", 60),
        ),
        (
            scaler(
                "{scaleTargetRef: {name: chat}, triggers: [{type: prometheus, metadata: "
                "{query: sum(waiting), threshold: '5'}}]}",
                **KEDA,
            ),
            (0, 0, 100, "sum(waiting)", 5),
        ),
        (
            scaler(
                "{scaleTargetRef: {name: chat}, minReplicaCount: 1, maxReplicaCount: 3, triggers: "
                "[{type: cpu, metadata: {value: '60'}}, {type: memory, metadata: {value: '60'}}]}",
                **KEDA,
            ),
            (1, 1, 3, "unknown", "unknown"),
        ),
        (
            scaler("{scaleTargetRef: {name: other}, triggers: []}", **KEDA),
            (1, "unknown", "unknown", "unknown", "unknown"),
        ),
        (scaler(f"{{{TARGET}, minReplicas: two, maxReplicas: 4}}"), ("unknown", "unknown", 4, "cpu", 80)),
    ],
)
def test_an_autoscaler_says_how_many_run_and_by_what(
    tmp_path: Path, text: str, expected: tuple[Any, ...]
) -> None:
    found = one(tmp_path, deployment(), text)
    assert tuple(value(found, name) for name in NAMES) == expected


def test_two_autoscalers_of_one_target_leave_it_unknown(tmp_path: Path) -> None:
    second = scaler(f"{{{TARGET}, maxReplicas: 4}}").replace("name: s}", "name: t}")
    found = one(tmp_path, deployment(), scaler(f"{{{TARGET}, maxReplicas: 9}}"), second)
    assert value(found, "replicas") == value(found, "max_replicas") == "unknown"


def test_a_deployment_at_0_that_keda_starts_is_not_parked(tmp_path: Path) -> None:
    keda = scaler("{scaleTargetRef: {name: chat}, maxReplicaCount: 3, triggers: []}", **KEDA)
    assert value(one(tmp_path, deployment(spec="replicas: 0, "), keda), "max_replicas") == 3
    with pytest.raises(InputError, match="0 replicas"):
        read(tmp_path, deployment(spec="replicas: 0, "), scaler(f"{{{TARGET}, maxReplicas: 4}}"))


def test_an_autoscaler_in_another_file_of_the_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "hpa.yaml").write_text(scaler(f"{{{TARGET}, maxReplicas: 4}}"), encoding="utf-8")
    (tmp_path / "serve.yaml").write_text(deployment(), encoding="utf-8")
    (found,) = read_file(tmp_path)
    assert value(found, "max_replicas") == 4


def test_replicas_not_given_are_the_apis_default_and_say_so(tmp_path: Path) -> None:
    fact = one(tmp_path, deployment()).fact("replicas")
    assert (fact.value, fact.set_by) == (1, "default")
    assert "Kubernetes API" in fact.source
    daemon = deployment().replace("kind: Deployment", "kind: DaemonSet")
    assert value(one(tmp_path, daemon), "replicas") == "unknown", "as many as there are nodes"


def test_gpus_by_variable_without_a_request_are_shared(tmp_path: Path) -> None:
    env = f"{ARGS}, env: [{{name: NVIDIA_VISIBLE_DEVICES, value: VALUE}}]"
    found = one(tmp_path, deployment(env.replace("VALUE", "all")))
    assert value(found, "gpu_allocation") == "shared" and value(found, "gpu_count") == "unknown"
    off = one(tmp_path, deployment(env.replace("VALUE", "void")))
    assert value(off, "gpu_allocation") == "unknown" and value(off, "accelerator") == "unknown"
    asked = env.replace("VALUE", "all") + ", resources: {limits: {nvidia.com/gpu: 1}}"
    assert value(one(tmp_path, deployment(asked)), "gpu_allocation") == "whole"


def test_the_nvidia_runtime_without_a_request_is_noted(tmp_path: Path) -> None:
    pod = "{runtimeClassName: nvidia}"
    assert "without a GPU request" in said(one(tmp_path, deployment(pod=pod)))
    asked = deployment(f"{ARGS}, resources: {{limits: {{nvidia.com/gpu: 1}}}}", pod)
    assert "without a GPU request" not in said(one(tmp_path, asked))


def affinity(*terms: str) -> str:
    listed = ", ".join(
        f"{{matchExpressions: [{{key: nvidia.com/gpu.product, operator: In, values: [{term}]}}]}}"
        for term in terms
    )
    required = f"requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{listed}]}}"
    return f"{{affinity: {{nodeAffinity: {{{required}}}}}}}"


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (affinity("NVIDIA-L4"), "NVIDIA L4"),
        (affinity("NVIDIA-L4, NVIDIA-L40S"), "unknown"),
        (affinity("NVIDIA-L4", "NVIDIA-L40S"), "unknown"),
        (affinity("NVIDIA-L4", "NVIDIA-L4"), "NVIDIA L4"),
        (affinity("NVIDIA-L4, NVIDIA-Nothing-9"), "unknown"),
        ("{nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}", "NVIDIA H100 80GB HBM3 (SXM5)"),
        ("{nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB}}", "unknown"),
        (
            "{nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}}",
            "NVIDIA H100 80GB HBM3 (SXM5)",
        ),
        ("{nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-a100}}", "NVIDIA A100 SXM4 40GB"),
    ],
)
def test_a_label_that_admits_two_models_states_no_gpu(tmp_path: Path, pod: str, expected: str) -> None:
    found = one(tmp_path, deployment(f"{ARGS}, resources: {{limits: {{nvidia.com/gpu: 1}}}}", pod))
    assert value(found, "gpu") == expected
    if expected == "unknown":
        assert "does not say which one" in (found.fact("gpu").note or "")


@pytest.mark.parametrize(
    ("limits", "count", "how", "mib"),
    [
        ("tencent.com/vcuda-core: 200, tencent.com/vcuda-memory: 64", 2, "whole", "unknown"),
        ("tencent.com/vcuda-core: 30, tencent.com/vcuda-memory: 20", 1, "fraction", 5 * 1024),
        ("aliyun.com/gpu-core.percentage: 50", 1, "fraction", "unknown"),
    ],
)
def test_units_of_which_a_hundred_are_one_gpu(
    tmp_path: Path, limits: str, count: int, how: str, mib: Any
) -> None:
    found = one(tmp_path, deployment(f"{ARGS}, resources: {{limits: {{{limits}}}}}"))
    names = ("gpu_count", "gpu_allocation", "gpu_memory_limit_mib")
    assert tuple(value(found, name) for name in names) == (count, how, mib)


def test_a_patch_is_said_to_be_one(tmp_path: Path) -> None:
    patch = deployment("resources: {limits: {nvidia.com/gpu: 2}}").replace(
        "image: 'vllm/vllm-openai:v0.11.0', ", ""
    )
    with pytest.raises(InputError, match=r"Deployment chat is a patch.*kustomize build"):
        read(tmp_path, patch)
    operations = "- op: replace\n  path: /spec/replicas\n  value: 3\n"
    with pytest.raises(InputError, match=r"a JSON patch.*kustomize build"):
        read(tmp_path, operations)


def test_a_kustomization_without_a_kind_is_still_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a kustomization; build it first"):
        read(tmp_path, "resources: [a.yaml]\npatches: [{path: b.yaml}]\n", name="kustomization.yaml")


def test_a_folder_with_a_plain_kustomization_is_read(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [serve.yaml]\n", encoding="utf-8")
    (tmp_path / "serve.yaml").write_text(deployment(), encoding="utf-8")
    (found,) = read_file(tmp_path)
    assert value(found, "model") == "m"


def test_engines_of_one_pod_go_by_their_containers_names(tmp_path: Path) -> None:
    two = "args: [--model, m]}, {name: embed, image: 'vllm/vllm-openai:v0.11.0', args: [--model, e]"
    helped = "args: [--model, m]}, {name: proxy, image: 'nginx:1'"
    assert [each.name for each in read(tmp_path, deployment(two))] == ["chat/vllm", "chat/embed"]
    assert [each.name for each in read(tmp_path, deployment(helped))] == ["chat"]


def test_documents_that_are_no_manifests_are_named_once(tmp_path: Path) -> None:
    found = one(tmp_path, deployment(), "note: hello\n", "more: [1]\n")
    assert said(found).count("2 documents without apiVersion and kind") == 1


def test_an_unknown_kind_with_containers_is_said_in_one_sentence(tmp_path: Path) -> None:
    text = deployment().replace("apps/v1", "example.com/v1").replace("Deployment", "Foo")
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert str(error.value).count("Foo chat") == 1 and "not judged" in str(error.value)


SCRIPT = """apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
  x.sh: |
    vllm serve a/b --max-model-len 2048
"""
MOUNT = "volumeMounts: [{name: c, mountPath: /scripts}]"
VOLUME = "{volumes: [{name: c, configMap: {name: c, defaultMode: 493}}]}"


@pytest.mark.parametrize("script", ["/scripts/x.sh", "exec bash /scripts/x.sh", "'/scripts/x.sh'"])
def test_a_script_of_a_config_map_behind_bash_c_is_read(tmp_path: Path, script: str) -> None:
    container = f'command: [bash, -c, "{script}"], {MOUNT}'
    assert value(one(tmp_path, SCRIPT, deployment(container, VOLUME)), "max_model_len") == 2048


def claim(requests: str, kind: str = "ResourceClaimTemplate", api: str = "v1") -> str:
    spec = f"{{devices: {{requests: [{requests}]}}}}"
    held = f"{{spec: {spec}}}" if kind == "ResourceClaimTemplate" else spec
    return f"apiVersion: resource.k8s.io/{api}\nkind: {kind}\nmetadata: {{name: t}}\nspec: {held}\n"


CLAIMS = f"{ARGS}, resources: {{claims: [{{name: g}}]}}"
OF_TEMPLATE = "{resourceClaims: [{name: g, resourceClaimTemplateName: t}]}"
BY_NAME = "{resourceClaims: [{name: g, resourceClaimName: t}]}"


@pytest.mark.parametrize(
    ("text", "count", "how"),
    [
        (claim("{name: a, exactly: {deviceClassName: gpu.nvidia.com, count: 4}}"), 4, "whole"),
        (claim("{name: a, exactly: {deviceClassName: gpu.nvidia.com}}"), 1, "whole"),
        (claim("{name: a, deviceClassName: gpu.nvidia.com, count: 2}", api="v1beta1"), 2, "whole"),
        (
            claim("{name: a, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All}}"),
            "unknown",
            "whole",
        ),
        (claim("{name: a, exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}}"), 1, "shared"),
        (claim("{name: a, exactly: {deviceClassName: mig.nvidia.com}}"), "unknown", "mig"),
        (claim("{name: a, exactly: {deviceClassName: our-own-class}}"), "unknown", "unknown"),
        ("", "unknown", "unknown"),
    ],
)
def test_a_resource_claim_of_a_template_is_counted(tmp_path: Path, text: str, count: Any, how: str) -> None:
    found = one(tmp_path, deployment(CLAIMS, OF_TEMPLATE), *([text] if text else []))
    assert (value(found, "gpu_count"), value(found, "gpu_allocation")) == (count, how)


def test_a_claim_by_name_is_shared_by_all_replicas(tmp_path: Path) -> None:
    named = claim("{name: a, exactly: {deviceClassName: gpu.nvidia.com}}", "ResourceClaim")
    alone = one(tmp_path, deployment(CLAIMS, BY_NAME), named)
    assert value(alone, "gpu_allocation") == "unknown" and value(alone, "gpu_count") == 1
    several = one(tmp_path, deployment(CLAIMS, BY_NAME, "replicas: 2, "), named)
    assert value(several, "gpu_allocation") == "shared"


def ray(kind: str, spec: str) -> str:
    return f"apiVersion: ray.io/v1\nkind: {kind}\nmetadata: {{name: r}}\nspec: {spec}\n"


HEAD = (
    "headGroupSpec: {template: {spec: {containers: [{name: h, image: 'rayproject/ray-llm:2.49.0'COMMAND}]}}}"
)


def test_a_ray_job_is_read_by_its_entrypoint(tmp_path: Path) -> None:
    cluster = f"rayClusterSpec: {{{HEAD.replace('COMMAND', '')}}}"
    job = ray("RayJob", f"{{entrypoint: vllm serve a/b --max-model-len 2048, {cluster}}}")
    found = one(tmp_path, job)
    assert (found.name, value(found, "max_model_len")) == ("r", 2048)
    gpu = ", resources: {limits: {nvidia.com/gpu: 4}}"
    with_gpus = f"rayClusterSpec: {{{HEAD.replace('COMMAND', gpu)}}}"
    own = one(tmp_path, ray("RayJob", f"{{entrypoint: vllm serve a/b, {with_gpus}}}"))
    assert "takes a GPU too" not in said(own), "the cluster's GPUs are the job's"
    with pytest.raises(InputError, match="RayJob r does not run: it is suspended"):
        read(tmp_path, job.replace("{entrypoint", "{suspend: true, entrypoint"))
    with pytest.raises(InputError, match="RayJob r start no engine"):
        read(tmp_path, ray("RayJob", f"{{entrypoint: python train.py, {cluster}}}"))


def test_a_ray_cluster_that_starts_an_engine_is_read_and_another_is_named(tmp_path: Path) -> None:
    command = ", command: [vllm, serve, a/b]"
    assert (
        value(one(tmp_path, ray("RayCluster", f"{{{HEAD.replace('COMMAND', command)}}}")), "model") == "a/b"
    )
    with pytest.raises(InputError, match="RayCluster r start no engine"):
        read(tmp_path, ray("RayCluster", f"{{{HEAD.replace('COMMAND', '')}}}"))


KEYS = (
    *("scaleTargetRef", "kind", "name", "metrics", "pods", "target", "triggers", "metadata", "spec"),
    *("devices", "requests", "exactly", "count", "entrypoint", "rayClusterSpec", "headGroupSpec"),
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["chat", "all", "t", "Pods", "1m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ODD, st.sampled_from(["HorizontalPodAutoscaler", "ScaledObject", "ResourceClaimTemplate", "RayJob"]))
def test_any_companion_gives_deployments_or_one_clear_error(tmp_path: Path, spec: Any, kind: str) -> None:
    api = {"HorizontalPodAutoscaler": "autoscaling/v2", "ScaledObject": "keda.sh/v1alpha1"}
    api |= {"ResourceClaimTemplate": "resource.k8s.io/v1", "RayJob": "ray.io/v1"}
    text = scaler(json.dumps(spec), kind, api[kind])
    try:
        assert read(tmp_path, deployment(CLAIMS, OF_TEMPLATE), text)
    except PreopError as error:
        assert "\n" not in str(error)


def test_a_manifest_as_one_line_of_json_is_one(tmp_path: Path) -> None:
    pod = {"containers": [{"name": "c", "image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "m"]}]}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {"template": {"spec": pod}},
    }
    found = one(tmp_path, json.dumps(manifest, separators=(",", ":")))
    assert (found.engine, value(found, "engine_version"), value(found, "model")) == ("vllm", "0.11.0", "m")


@pytest.mark.parametrize(
    "image", ["vllm/vllm-openai:${TAG}", "${REGISTRY}/vllm-openai:${TAG:-x}", "vllm/vllm-openai@${DIGEST}"]
)
def test_an_image_whose_tag_envsubst_left_over_is_still_that_engine(tmp_path: Path, image: str) -> None:
    text = deployment().replace("vllm/vllm-openai:v0.11.0", image)
    assert image in text
    found = one(tmp_path, text)
    assert found.engine == "vllm" and not found.fact("engine_version").is_known


def test_a_server_of_an_unknown_kind_in_a_searched_folder_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(deployment())
    strange = (
        deployment(name="other").replace("apps/v1", "example.dev/v1").replace("Deployment", "Inferencer")
    )
    (tmp_path / "b.yaml").write_text(strange)
    unread: list[str] = []
    found = read_files([str(tmp_path)], ReadOptions(), lambda line: None, lambda line: None, unread)
    assert [each.name for each in found] == ["chat"]
    assert len(unread) == 1 and "Inferencer other" in unread[0]
