"""P13: shares are added only where they mean the same, on GPUs that are surely the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made import NOTHING, case, check, deployment, fact

from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.evidence import Strength
from preop.facts import Fact, Note, unknown
from preop.findings import Finding, Outcome
from preop.pitfalls.p13_gpu_sharing import PITFALL
from preop.pitfalls.types import Case

ONE_GPU = {f"{kind}_parallel_size": fact(1, "default") for kind in ("tensor", "pipeline", "data")}


def vllm(name: str, share: float | Fact | None, gpus: list[str] | None = None, **facts: Any) -> Deployment:
    facts = {"engine_version": "0.32.0", **ONE_GPU, **facts}
    facts.setdefault("source", f"compose.yml: service {name}")
    if gpus is not None:
        facts["gpu_ids"] = gpus
    if share is not None:
        facts["gpu_memory_fraction"] = share
    return deployment(name, **facts)


def judged(*all_: Deployment, thresholds: dict[str, float] | None = None) -> Finding:
    """The finding for the first."""
    return check(PITFALL, case(all_[0], siblings=all_[1:], thresholds=thresholds))


def test_two_shares_that_exceed_one_gpu_fail_with_the_sum_and_both_places() -> None:
    chat = vllm("chat", fact(0.7, where="compose.yml:9:15"), ["0"])
    code = vllm("code", fact(0.45, where="compose.yml:31:15"), ["0"])
    for finding in (judged(chat, code), judged(code, chat)):
        assert finding.outcome is Outcome.FAIL
        assert "= 1.15 of GPU 0" in finding.summary.en
        assert finding.where is not None
        assert "compose.yml:9:15" in finding.where and "compose.yml:31:15" in finding.where
        assert finding.remedy is not None and "--gpu-memory-utilization" in finding.remedy.en
        assert any(i.value == pytest.approx(1.15) for i in finding.evidence)


def test_the_checklists_own_fix_passes() -> None:
    finding = judged(vllm("llm", 0.6, ["0"]), vllm("embed", 0.2, ["0"]), vllm("rerank", 0.2, ["0"]))
    assert finding.outcome is Outcome.PASS
    assert "0.60 + 0.20 + 0.20 = 1.00" in finding.summary.en


def test_decimal_shares_that_add_up_to_one_are_not_over_it() -> None:
    assert judged(*(vllm(str(n), s, ["0"]) for n, s in enumerate((0.7, 0.2, 0.1)))).outcome is Outcome.PASS


def test_the_threshold_is_the_users() -> None:
    two = vllm("a", 0.5, ["0"]), vllm("b", 0.45, ["0"])
    assert judged(*two).outcome is Outcome.PASS
    assert judged(*two, thresholds={"P13.memory_shares": 0.9}).outcome is Outcome.FAIL


def test_defaults_count_where_the_version_is_stated() -> None:
    both = [vllm(name, fact(0.92, "default"), ["0"]) for name in ("a", "b")]
    finding = judged(*both)
    assert finding.outcome is Outcome.FAIL and "1.84" in finding.summary.en
    version = unknown("the tag is no engine version")
    unstated = [vllm(n, fact(0.92, "default"), ["0"], engine_version=version) for n in ("a", "b")]
    assert judged(*unstated).outcome is Outcome.UNPROVEN
    assert judged(vllm("a", None, ["0"]), vllm("b", 0.9, ["0"])).outcome is Outcome.UNPROVEN


def test_the_users_own_shares_count_without_a_version_but_do_not_pass_without_one() -> None:
    version = unknown("not stated")
    assert judged(*(vllm(n, 0.6, ["0"], engine_version=version) for n in "ab")).outcome is Outcome.FAIL
    assert judged(*(vllm(n, 0.4, ["0"], engine_version=version) for n in "ab")).outcome is Outcome.UNPROVEN


def test_old_versions_that_charge_neighbours_are_not_added() -> None:
    for version in ("0.6.4", "0.8.5.post1"):
        two = vllm("a", 0.45, ["0"], engine_version=version), vllm("b", 0.9, ["0"], engine_version=version)
        assert judged(*two).outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("engine", ["sglang", "llama.cpp", "tensorrt-llm", "tgi", "unknown"])
def test_fractions_of_something_else_are_never_added(engine: str) -> None:
    def one(name: str) -> Deployment:
        return deployment(
            name,
            engine,
            source=f"compose.yml: service {name}",
            gpu_ids=["0"],
            gpu_memory_fraction=0.9,
            engine_version="0.5.23",
        )

    assert judged(one("a"), one("b")).outcome is Outcome.UNPROVEN
    assert judged(vllm("a", 0.9, ["0"]), one("b")).outcome is Outcome.UNPROVEN
    assert judged(one("b"), vllm("a", 0.9, ["0"])).outcome is Outcome.UNPROVEN


def test_two_that_exceed_fail_whatever_a_third_takes() -> None:
    third = deployment("gguf", "llama.cpp", source="compose.yml: service gguf", gpu_ids=["0"])
    assert judged(vllm("a", 0.6, ["0"]), vllm("b", 0.6, ["0"]), third).outcome is Outcome.FAIL
    assert judged(third, vllm("a", 0.6, ["0"]), vllm("b", 0.6, ["0"])).outcome is Outcome.UNPROVEN


def test_bytes_put_the_share_out_of_force() -> None:
    fixed = vllm("a", 0.9, ["0"], kv_cache_memory_bytes=8_000_000_000)
    assert judged(fixed, vllm("b", 0.9, ["0"])).outcome is Outcome.UNPROVEN
    none = vllm("a", 0.9, ["0"], kv_cache_memory_bytes=fact(None, "default"))
    assert judged(none, vllm("b", 0.9, ["0"])).outcome is Outcome.FAIL


def test_hidden_arguments_may_hold_anything() -> None:
    hidden = deployment(
        "a",
        source="compose.yml: service a",
        gpu_ids=["0"],
        engine_version="0.32.0",
        notes=(Note("hidden", "$EXTRA_ARGS is not set here"),),
        gpu_memory_fraction=unknown("$EXTRA_ARGS is not set here"),
    )
    assert judged(hidden, vllm("b", 0.9, ["0"])).outcome is Outcome.UNPROVEN
    assert judged(vllm("b", 0.9, ["0"]), hidden).outcome is Outcome.UNPROVEN


def test_different_gpus_pass_and_unnamed_ones_are_unproven() -> None:
    assert judged(vllm("a", 0.9, ["0"]), vllm("b", 0.9, ["1"])).outcome is Outcome.PASS
    counted = [vllm(n, 0.9, None, gpu_count=1) for n in "ab"]
    assert judged(*counted).outcome is Outcome.UNPROVEN
    assert judged(vllm("a", 0.9, ["0"]), vllm("b", 0.9, ["GPU-5a3c"])).outcome is Outcome.UNPROVEN
    assert judged(vllm("a", 0.9, ["0"]), vllm("b", 0.9)).outcome is Outcome.UNPROVEN


def test_small_shares_fit_wherever_they_are() -> None:
    assert judged(*(vllm(n, 0.4, None, gpu_count=1) for n in "ab")).outcome is Outcome.PASS


def test_all_gpus_means_the_first_for_both() -> None:
    finding = judged(vllm("a", 0.9, ["all"]), vllm("b", 0.9, ["all"]))
    assert finding.outcome is Outcome.FAIL
    assert judged(vllm("a", 0.9, ["all"]), vllm("b", 0.9, ["1"])).outcome is Outcome.UNPROVEN


def test_tensor_parallel_uses_each_of_its_gpus() -> None:
    wide = vllm("wide", 0.6, ["0", "1"], tensor_parallel_size=2)
    assert judged(wide, vllm("b", 0.6, ["1"])).outcome is Outcome.FAIL
    assert judged(vllm("b", 0.6, ["1"]), wide).outcome is Outcome.FAIL
    split = wide, vllm("b", 0.4, ["0"]), vllm("c", 0.4, ["1"])
    assert judged(*split).outcome is Outcome.PASS  # 1.0 on each, though 1.4 together
    narrow = vllm("narrow", 0.6, ["0", "1"], tensor_parallel_size=1)
    assert judged(narrow, vllm("b", 0.6, ["1"])).outcome is Outcome.UNPROVEN


def test_other_machines_and_cpu_services_are_no_neighbours() -> None:
    elsewhere = deployment(
        "b", source="other.yml: service b", gpu_ids=["0"], gpu_memory_fraction=0.9, engine_version="0.32.0"
    )
    assert judged(vllm("a", 0.9, ["0"]), elsewhere).outcome is Outcome.UNPROVEN
    on_cpu = deployment("b", source="compose.yml: service b", accelerator="none")
    assert judged(vllm("a", 0.9, ["0"]), on_cpu).outcome is Outcome.UNPROVEN
    assert judged(on_cpu, vllm("a", 0.9, ["0"])).outcome is Outcome.NOT_APPLICABLE


def test_one_service_alone_shows_nothing_of_the_others() -> None:
    assert judged(NOTHING).outcome is Outcome.UNPROVEN
    assert judged(vllm("a", 0.9, ["0"])).outcome is Outcome.UNPROVEN
    amd = judged(deployment(accelerator="amd", gpu_memory_fraction=0.9))
    assert amd.outcome is Outcome.UNPROVEN and amd.needs is not None and "nvidia" not in amd.needs.en


def test_commands_of_one_script_need_not_run_at_the_same_time() -> None:
    two = [vllm(name, 0.9, ["0"], source="run.sh") for name in "ab"]
    assert judged(*two).outcome is Outcome.UNPROVEN


def test_a_gpu_service_that_is_no_known_engine_bars_a_pass_but_no_failure() -> None:
    note = Note(
        "other-tenant",
        "service embed takes a GPU too, and preop does not know it",
        "compose.yml:30:9",
    )
    apart = vllm("a", 0.9, ["0"], notes=(note,)), vllm("b", 0.9, ["1"], notes=(note,))
    finding = judged(*apart)
    assert finding.outcome is Outcome.UNPROVEN
    assert any("embed" in str(i.value) for i in finding.evidence)
    together = vllm("a", 0.9, ["0"], notes=(note,)), vllm("b", 0.9, ["0"], notes=(note,))
    assert judged(*together).outcome is Outcome.FAIL


def test_another_file_may_be_on_the_same_machine() -> None:
    apart = vllm("a", 0.9, ["0"]), vllm("b", 0.9, ["1"])
    assert judged(*apart, vllm("c", 0.9, ["0"], source="other.yml: service c")).outcome is Outcome.UNPROVEN
    assert judged(*apart, vllm("c", 0.9, ["2"], source="other.yml: service c")).outcome is Outcome.PASS


def test_a_real_compose_file_from_end_to_end(tmp_path: Path) -> None:
    service = """
  {name}:
    image: vllm/vllm-openai:v0.32.0
    command: --model Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization {share}
    deploy:
      resources:
        reservations:
          devices:
            - {{driver: nvidia, {gpu}, capabilities: [gpu]}}
"""
    for gpus, expected in (
        (("device_ids: ['0']", "device_ids: ['0']"), Outcome.FAIL),
        (("device_ids: ['0']", "device_ids: ['1']"), Outcome.PASS),
        (("count: all", "count: all"), Outcome.FAIL),
        (("count: all", "device_ids: ['0']"), Outcome.UNPROVEN),
    ):
        file = tmp_path / "compose.yml"
        parts = [
            service.format(name=name, share=share, gpu=gpu)
            for name, share, gpu in zip(("chat", "code"), (0.7, 0.45), gpus, strict=True)
        ]
        file.write_text("services:" + "".join(parts))
        found = read_targets([str(file)], None, ReadOptions(environment={}))
        for each in found:
            assert check(PITFALL, Case(each, tuple(found))).outcome is expected, gpus


def pod(name: str, allocation: str, **facts: Any) -> Deployment:
    facts = {"engine_version": "0.32.0", "source": f"k8s.yml: Deployment {name}", "gpu_count": 1, **facts}
    return deployment(name, gpu_allocation=fact(allocation, where="k8s.yml:20:13"), **facts)


def test_pods_with_devices_of_their_own_are_no_neighbours_whatever_their_shares() -> None:
    finding = judged(pod("a", "whole", gpu_memory_fraction=0.9), pod("b", "whole", gpu_memory_fraction=0.9))
    assert finding.outcome is Outcome.UNPROVEN and finding.holds is Strength.DECLARED
    assert "1 whole GPU" in finding.summary.en and finding.where == "k8s.yml:20:13"
    assert finding.needs is not None and "sharing-strategy" in finding.needs.en
    slices = judged(pod("a", "mig", gpu_count=2), pod("b", "mig"))
    assert slices.holds is Strength.DECLARED and "2 MIG slices" in slices.summary.en
    compose = judged(vllm("chat", 0.7, ["0"]), pod("b", "whole", gpu_memory_fraction=0.9))
    assert not any("b" in str(i.value) for i in compose.evidence if i.name == "also there")


def test_a_fraction_is_shut_by_its_quota_and_open_without() -> None:
    with_quota = judged(pod("a", "fraction", gpu_memory_limit_mib=12_000))
    assert with_quota.outcome is Outcome.PASS and "12000 MiB" in with_quota.summary.en
    for allocation in ("fraction", "shared"):
        finding = judged(pod("a", allocation))
        assert finding.outcome is Outcome.UNPROVEN and finding.holds is None


def test_a_compose_file_with_one_tenant_is_in_order_as_far_as_files_can_tell() -> None:
    alone = vllm("chat", 0.9)
    assert judged(alone).holds is Strength.DECLARED
    stranger = msgspec.structs.replace(alone, notes=(Note("other-tenant", "service x takes a GPU too"),))
    assert judged(stranger).holds is None
    assert judged(vllm("chat", 0.9, source="command line")).holds is None


@pytest.mark.parametrize("gpus", [["0"], ["all"], None])
def test_thousands_of_services_in_one_file_are_judged_in_seconds(gpus: list[str] | None) -> None:
    """Each against each would be nine million pairs: minutes."""
    all_ = tuple(vllm(f"s{n}", 0.0001, gpus) for n in range(3000))
    start = time.perf_counter()
    findings = [PITFALL.judge(Case(each, all_)) for each in all_]
    assert time.perf_counter() - start < 10
    assert {finding.outcome for finding in findings} == {Outcome.PASS}
    assert all("3000 shares = 0.30" in finding.summary.en for finding in findings)
    assert all(len(finding.evidence) < 20 for finding in findings)


def test_shares_of_many_services_are_summed_though_few_are_shown() -> None:
    finding = judged(*(vllm(f"s{n}", 0.1, ["0"]) for n in range(11)))
    assert finding.outcome is Outcome.FAIL and "11 shares = 1.10 of GPU 0" in finding.summary.en
    assert any(item.name == "not shown" and item.value == "3 more" for item in finding.evidence)


def test_a_check_after_another_sees_its_own_deployments() -> None:
    """The sorting is kept for the judges of one check, and for no other."""
    small, large = vllm("b", 0.2, ["0"]), vllm("b", 0.9, ["0"])
    me = vllm("a", 0.5, ["0"])
    for beside, outcome in ((small, Outcome.PASS), (large, Outcome.FAIL), (small, Outcome.PASS)):
        assert PITFALL.judge(Case(me, (me, beside))).outcome is outcome


def test_of_many_deployments_elsewhere_the_first_are_named_and_all_are_counted() -> None:
    me = vllm("me", 0.5, ["0"])
    others = [vllm(f"o{n}", 0.1, ["0"], source=f"o{n}.yml: service o{n}") for n in range(30)]
    finding = judged(me, *others)
    assert finding.outcome is Outcome.UNPROVEN
    said = [str(item.value) for item in finding.evidence if item.name == "also there"]
    assert len(said) == 9 and said[0].startswith("o0 (") and said[-1] == "and 22 more"
