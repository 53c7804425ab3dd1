"""Parts of something are judged as what they are, and nothing is N/A for want of its other half."""

from __future__ import annotations

from typing import Any

import pytest
from made import case, deployment, fact

from preop.deployment.types import Deployment
from preop.facts import unknown
from preop.findings import Outcome, Verdict
from preop.gates import GATES
from preop.pitfalls import all_pitfalls
from preop.pitfalls.roles import apart
from preop.run import Plan, Watcher, check

PITFALLS = {pitfall.id: pitfall for pitfall in all_pitfalls()}
OF_THE_RANK = {"P06", "P09", "P12", "P13"}


def part(name: str, **facts: Any) -> Deployment:
    source = f"lws.yml: LeaderWorkerSet serve: container {name}"
    return deployment(name, **{"model": "org/m", "source": source, **facts})


def not_applicable(me: Deployment, *others: Deployment) -> set[str]:
    made = case(me, siblings=others)
    found = {name for name, pitfall in PITFALLS.items() if apart(pitfall, made) is not None}
    for name in found:
        finding = apart(PITFALLS[name], made)
        assert finding is not None and finding.outcome is Outcome.NOT_APPLICABLE and finding.evidence
    return found


@pytest.mark.parametrize("told", [{"role": "worker"}, {"headless": True}, {"node_rank": 1}])
def test_a_worker_is_judged_at_its_leader_for_what_clients_see(told: dict[str, Any]) -> None:
    for leader in (part("serve", role=fact("leader")), part("serve", source="lws.yml: service other")):
        assert not_applicable(part("serve-worker", **told), leader) == PITFALLS.keys() - OF_THE_RANK
        assert not_applicable(leader, part("serve-worker", **told)) == set()


def test_a_worker_without_words_of_its_own_follows_the_leader_of_its_object() -> None:
    worker = part("serve-worker", role="worker", model=unknown("a script starts it"))
    leader = part("serve", role="leader")
    assert not_applicable(worker, leader) == PITFALLS.keys() - OF_THE_RANK
    other = part("other", role="leader", source="lws.yml: LeaderWorkerSet other: container x")
    assert not_applicable(worker, other) == set()


@pytest.mark.parametrize(
    "other",
    [
        None,
        part("another-worker", role="worker"),
        part("other-model", model="org/n"),
        part("other-file", source="b.yml: LeaderWorkerSet x"),
    ],
)
def test_a_worker_without_its_leader_in_the_check_is_judged_whole(other: Deployment | None) -> None:
    worker = part("serve-worker", role="worker")
    assert not_applicable(worker, *([other] if other else [])) == set()


@pytest.mark.parametrize("told", [{"node_rank": 0}, {"headless": False}, {"node_rank": True}, {}])
def test_the_first_rank_is_no_worker(told: dict[str, Any]) -> None:
    assert not_applicable(part("a", **told), part("b")) == set()


def test_prefill_streams_nothing_and_decode_is_judged_whole() -> None:
    for told in ({"role": "prefill"}, {"kv_role": "prefill"}):
        assert not_applicable(part("p", **told)) == {"P08", "P14"}
    for told in ({"role": "decode"}, {"kv_role": "both"}, {"kv_role": "decode"}):
        assert not_applicable(part("d", **told)) == set()


@pytest.mark.parametrize("task", ["embed", "score", "classify", "reward"])
def test_embedders_and_rerankers_have_nothing_to_stream(task: str) -> None:
    assert not_applicable(part("e", task=task)) == {"P08", "P14"}
    for other in ("generate", {"a": 1}, ["embed"], None):
        assert not_applicable(part("e", task=other)) == set()
    assert not_applicable(part("e", task=unknown("not set"))) == set()


def test_a_pull_request_can_be_go_and_the_same_files_hold_before_a_deployment() -> None:
    """Whole GPUs, an image by digest, a length within the native window: what files can show is in order."""
    from preop.facts import Origin
    from preop.models.types import Model, Rope

    model = Model("m", Origin("model", "config.json"), native_context=32768, rope=Rope("default"))
    me = part(
        "chat",
        image="vllm/vllm-openai:v0.32.0@sha256:" + "0" * 64,
        image_digest="sha256:" + "0" * 64,
        engine_version="0.32.0",
        gpu_allocation="whole",
        gpu_count=1,
        accelerator="nvidia",
        max_model_len=16384,
        model_files=model,
    )
    reports = {name: check(Plan([me], gate=gate), None, Watcher()) for name, gate in GATES.items()}
    assert reports["pr"].verdict is Verdict.GO
    assert reports["deploy"].verdict is Verdict.HOLD
    assert not any(result.outcome is Outcome.FAIL for result in reports["pr"].results)
