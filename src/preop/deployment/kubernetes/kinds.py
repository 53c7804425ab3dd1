"""Which kinds of objects start something, and who reads them: one reader, one module.

A reader is `Callable[[Manifest, Resources], Workload | Parked]`. Of a custom resource its kind says which
versions of the API were read: another version may mean something else, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from preop.facts import Note

if TYPE_CHECKING:
    from preop.deployment.forms.types import Started
    from preop.deployment.kubernetes.manifest import Manifest, Resources

__all__ = ["Kind", "Parked", "Reader", "Workload", "kind_of", "kinds"]


@dataclass(frozen=True)
class Workload:
    """What an object starts."""

    started: Sequence[Started]
    notes: tuple[Note, ...] = ()
    """Said once: what a reader must know of the object."""


@dataclass(frozen=True)
class Parked:
    """An object that starts nothing as long as it stands so, and why."""

    why: str
    where: str


Reader = Callable[["Manifest", "Resources"], "Workload | Parked"]


@dataclass(frozen=True)
class Kind:
    """One kind of object that starts something."""

    group: str
    versions: frozenset[str]
    """Of the API, as read here; none: all."""
    read: Reader


@cache
def kinds() -> Mapping[str, tuple[Kind, ...]]:
    """By name: those of that name in different groups."""
    from preop.deployment.kubernetes.dynamo import DYNAMO_COMPONENT, DYNAMO_GRAPH
    from preop.deployment.kubernetes.kserve import INFERENCE_SERVICE
    from preop.deployment.kubernetes.leader_worker_set import LEADER_WORKER_SET
    from preop.deployment.kubernetes.llm_inference_service import LLM_INFERENCE_SERVICE
    from preop.deployment.kubernetes.ray_cluster import RAY_CLUSTER, RAY_JOB
    from preop.deployment.kubernetes.ray_service import RAY_SERVICE
    from preop.deployment.kubernetes.vllm_runtime import VLLM_RUNTIME
    from preop.deployment.kubernetes.workloads import CRON_JOB, JOB, POD, TEMPLATED

    v1 = frozenset({"v1"})
    apps = Kind("apps", frozenset({"v1", "v1beta1", "v1beta2"}), TEMPLATED)
    return {
        "Pod": (Kind("", v1, POD),),
        "ReplicationController": (Kind("", v1, TEMPLATED),),
        "Deployment": (apps, Kind("extensions", frozenset({"v1beta1"}), TEMPLATED)),
        "StatefulSet": (apps, Kind("apps.kruise.io", frozenset(), TEMPLATED)),
        "DaemonSet": (apps, Kind("extensions", frozenset({"v1beta1"}), TEMPLATED)),
        "ReplicaSet": (apps,),
        "Rollout": (Kind("argoproj.io", frozenset({"v1alpha1"}), TEMPLATED),),
        "CloneSet": (Kind("apps.kruise.io", frozenset({"v1alpha1", "v1beta1"}), TEMPLATED),),
        "Job": (Kind("batch", v1, JOB),),
        "CronJob": (Kind("batch", frozenset({"v1", "v1beta1"}), CRON_JOB),),
        "LeaderWorkerSet": (Kind("leaderworkerset.x-k8s.io", v1, LEADER_WORKER_SET),),
        "InferenceService": (Kind("serving.kserve.io", frozenset({"v1beta1"}), INFERENCE_SERVICE),),
        "LLMInferenceService": (
            Kind("serving.kserve.io", frozenset({"v1alpha1", "v1alpha2"}), LLM_INFERENCE_SERVICE),
        ),
        "RayService": (Kind("ray.io", frozenset({"v1", "v1alpha1"}), RAY_SERVICE),),
        "RayCluster": (Kind("ray.io", frozenset({"v1", "v1alpha1"}), RAY_CLUSTER),),
        "RayJob": (Kind("ray.io", frozenset({"v1", "v1alpha1"}), RAY_JOB),),
        "VLLMRuntime": (Kind("production-stack.vllm.ai", frozenset({"v1alpha1"}), VLLM_RUNTIME),),
        "DynamoGraphDeployment": (Kind("nvidia.com", frozenset({"v1alpha1", "v1beta1"}), DYNAMO_GRAPH),),
        "DynamoComponentDeployment": (
            Kind("nvidia.com", frozenset({"v1alpha1", "v1beta1"}), DYNAMO_COMPONENT),
        ),
    }


def kind_of(manifest: Manifest) -> Kind | None:
    """The kind whose reader takes the object; None where it starts nothing that preop reads."""
    return next((kind for kind in kinds().get(manifest.kind, ()) if kind.group == manifest.group), None)
