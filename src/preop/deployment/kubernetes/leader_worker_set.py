"""LeaderWorkerSet: groups of one leader and its workers, each with a pod template.

Source: leaderworkerset.x-k8s.io/v1 API: without `leaderTemplate` the leader runs the `workerTemplate` too;
`size` counts the pods of a group, the leader included, and is 1 by default; the controller injects
LWS_LEADER_ADDRESS, LWS_GROUP_SIZE and LWS_WORKER_INDEX.
"""

from __future__ import annotations

from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, whole
from preop.deployment.kubernetes.pod import Extra, read_pod
from preop.deployment.kubernetes.workloads import replicas_of, template_of
from preop.deployment.yaml_nodes import Node
from preop.facts import Fact, Origin, Word, known

__all__ = ["LEADER_WORKER_SET"]

_ONE = known(1, "default", Origin("default", "LeaderWorkerSet API: replicas where it is not given"))


def _read(owner: Manifest, resources: Resources) -> Workload | Parked:
    count = at(owner.spec, "replicas")
    if count is not None and whole(count) == 0:
        return Parked("it has 0 replicas", count.where)
    group = at(owner.spec, "leaderWorkerTemplate")
    size = whole(at(group, "size")) if at(group, "size") is not None else 1
    leader, worker = at(group, "leaderTemplate"), at(group, "workerTemplate")
    started = []
    roles = [("leader", leader or worker)]
    if at(group, "size") is not None and (size is None or size > 1):
        roles.append(("worker", worker))
    for role, template in roles:
        if template is None:
            continue
        facts = {**replicas_of(count, _ONE), **_role(role, template)}
        name = owner.name if role == "leader" else f"{owner.name}-worker"
        pod = template_of(owner, template)
        started += read_pod(
            pod, owner, resources, name=name, facts=facts, extra=Extra(_injected(owner, size, role))
        )
    return Workload(started)


def _role(role: str, template: Node) -> dict[str, Fact]:
    return {"role": known(role, "user", template.origin, note=f"the {role} of a LeaderWorkerSet")}


def _injected(owner: Manifest, size: int | None, role: str) -> dict[str, Word]:
    """What the controller tells every container of a group."""
    origin = owner.node.origin
    unseen = "the LeaderWorkerSet fills it in"
    return {
        "LWS_LEADER_ADDRESS": Word(None, origin, unseen, single=True),
        "LWS_GROUP_SIZE": Word(str(size), origin) if size else Word(None, origin, unseen, single=True),
        "LWS_WORKER_INDEX": Word("0", origin)
        if role == "leader"
        else Word(None, origin, unseen, single=True),
    }


LEADER_WORKER_SET = _read
