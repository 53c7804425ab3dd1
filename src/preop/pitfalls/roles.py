"""Deployments that are a part of something: judged as what they are.

A worker behind a leader serves no clients and decides nothing: all but its GPUs and its software stack is
judged at the leader, where that is in the same check. A prefill instance generates one token and streams
nothing; what the stream looks like is judged at the decode side. An embedder or reranker answers at once.
"""

from __future__ import annotations

from preop.deployment.types import Deployment
from preop.evidence import Strength
from preop.facts import Fact
from preop.findings import Finding
from preop.pitfalls.clip import clip
from preop.pitfalls.readings import truth
from preop.pitfalls.say import item, not_applicable, place
from preop.pitfalls.types import Case, Pitfall
from preop.text import Text

__all__ = ["apart"]

_OF_THE_RANK = frozenset({"P06", "P09", "P12", "P13"})
"""What each rank has of its own: its GPUs and its software stack. All else is the whole engine's."""
_NOT_IN_PREFILL = frozenset({"P08", "P14"})
_NOT_OF_POOLING = frozenset({"P08", "P14"})
_POOLING = {
    "embed": Text("embeddings", "向量"),
    "score": Text("scores", "打分"),
    "classify": Text("classes", "分类"),
    "reward": Text("rewards", "奖励分"),
}


def apart(pitfall: Pitfall, case: Case) -> Finding | None:
    """N/A where the pitfall cannot occur in this deployment's part; None where its judge has to say."""
    return _worker(pitfall, case) or _prefill(pitfall, case) or _pooling(pitfall, case)


def _worker(pitfall: Pitfall, case: Case) -> Finding | None:
    if pitfall.id in _OF_THE_RANK:
        return None
    told = _follows(case.deployment)
    if told is None:
        return None
    name, fact = told
    leader = next((each for each in case.siblings if _leads(each, case.deployment)), None)
    if leader is None:
        return None
    return not_applicable(
        Text(
            f"a worker of {clip(leader.name, 40)}: judged there",
            f"{clip(leader.name, 40)} 的工作节点：在那里判定",
        ),
        Strength.DECLARED,
        evidence=[item(name, fact)],
        where=place(fact),
    )


def _follows(deployment: Deployment) -> tuple[str, Fact] | None:
    """The fact that says that this is one of another's ranks; None where nothing says so for certain."""
    role, headless, rank = (deployment.fact(name) for name in ("role", "headless", "node_rank"))
    if role.value == "worker":
        return "role", role
    if truth(headless):
        return "headless", headless
    if isinstance(rank.value, int) and not isinstance(rank.value, bool) and rank.value > 0:
        return "node_rank", rank
    return None


def _leads(other: Deployment, worker: Deployment) -> bool:
    """Whether `other` surely is the one that answers for `worker`: the leader of the same object, or of the
    same file, the same engine and model, and no worker itself."""
    if other.name == worker.name or other.engine != worker.engine or _follows(other) is not None:
        return False
    if other.fact("role").value == "leader":
        return _owner(other) == _owner(worker)
    model = other.fact("model")
    return _file(other) == _file(worker) and model.is_known and model.value == worker.fact("model").value


def _owner(deployment: Deployment) -> str:
    """`serve.yaml: LeaderWorkerSet big` of `serve.yaml: LeaderWorkerSet big: container worker`."""
    return deployment.source.partition(": container ")[0]


def _file(deployment: Deployment) -> str:
    return deployment.source.partition(": ")[0]


def _prefill(pitfall: Pitfall, case: Case) -> Finding | None:
    if pitfall.id not in _NOT_IN_PREFILL:
        return None
    for name in ("role", "kv_role"):
        fact = case.fact(name)
        if fact.is_known and fact.value == "prefill":
            return not_applicable(
                Text("prefill only: it generates and streams nothing", "只做 prefill：不生成也不流式输出"),
                Strength.DECLARED,
                evidence=[item(name, fact)],
                where=place(fact),
            )
    return None


def _pooling(pitfall: Pitfall, case: Case) -> Finding | None:
    task = case.fact("task")
    what = _POOLING.get(str(task.value)) if task.is_known else None
    if what is None or pitfall.id not in _NOT_OF_POOLING:
        return None
    return not_applicable(
        Text(f"serves {what.en}: it answers at once", f"提供{what.zh}：一次返回"),
        Strength.DECLARED,
        evidence=[item("task", task)],
        where=place(task),
    )
