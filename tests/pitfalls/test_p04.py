"""P04: the checklist's own curve, and everything that is not a curve."""

from __future__ import annotations

from typing import Any

from made import NOTHING, case, check, deployment, record

from preop.evidence import ClientCost, Level, Load, Percentiles
from preop.facts import Origin, unknown
from preop.findings import Outcome
from preop.models.types import Model
from preop.pitfalls.p04_concurrency_latency import PITFALL

# Pitfall 4 of the checklist: concurrency, p50 and p99 in ms.
CHECKLIST = ((1, 22.0, 25.0), (4, 24.0, 30.0), (16, 28.0, 50.0), (32, 35.0, 180.0), (64, 50.0, 1200.0))


def level(
    concurrency: int,
    p50: float = 20.0,
    p99: float | None = 25.0,
    *,
    ttft: float | None = 200.0,
    requests: int = 1000,
    errors: int = 0,
    voided: str | None = None,
) -> Level:
    return Level(
        concurrency=concurrency,
        valid=voided is None,
        voided_because=voided,
        requests=requests,
        errors=errors,
        ttft_ms=Percentiles(100.0, ttft),
        tpot_ms=Percentiles(p50, p99),
        itl_ms=Percentiles(),
        e2e_ms=Percentiles(),
        output_tokens_per_s=None,
        client=ClientCost(0.1, 1),
    )


def load(*levels: Level) -> Load:
    return Load("http://127.0.0.1:8000", "m", 100, 100, list(levels))


CURVE = load(*(level(c, p50, p99) for c, p50, p99 in CHECKLIST))


def outcome(measured: Load | None, thresholds: dict[str, float] | None = None, **facts: Any) -> Outcome:
    records = () if measured is None else (record("load", measured),)
    return check(PITFALL, case(deployment(**facts), *records, thresholds=thresholds)).outcome


def test_the_checklists_curve_fails_at_its_cap_and_names_the_change() -> None:
    finding = check(PITFALL, case(deployment(max_num_seqs=64), record("load", CURVE)))
    assert finding.outcome is Outcome.FAIL
    assert "180 ms at 32" in finding.summary.en and "25 ms alone" in finding.summary.en
    assert finding.remedy is not None and "--max-num-seqs 16" in finding.remedy.en
    assert finding.where == "compose.yml:14:9"
    assert any(i.name == "TPOT p99 at 32" and i.value == 180.0 and i.unit == "ms" for i in finding.evidence)


def test_a_cap_before_the_bend_passes() -> None:
    assert outcome(CURVE, max_num_seqs=16) is Outcome.PASS


def test_remedy_speaks_the_engines_language() -> None:
    for engine, flag in (("sglang", "--max-running-requests 16"), ("llama.cpp", "--parallel 16")):
        finding = check(PITFALL, case(deployment(engine=engine, max_num_seqs=64), record("load", CURVE)))
        assert finding.remedy is not None and flag in finding.remedy.en and flag in finding.remedy.zh


def test_a_cap_that_was_not_reached_is_unproven() -> None:
    kept = load(level(1), level(4), level(16))
    assert outcome(kept, max_num_seqs=256) is Outcome.UNPROVEN
    assert outcome(kept, max_num_seqs=16) is Outcome.PASS


def test_a_cap_between_a_kept_and_a_broken_level_is_unproven() -> None:
    measured = load(level(1), level(4), level(16), level(64, 40.0, 400.0))
    finding = check(PITFALL, case(deployment(max_num_seqs=32), record("load", measured)))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "--concurrency 1,4,16,32" in finding.needs.en


def test_a_cap_that_is_not_known_is_never_passed_or_failed() -> None:
    hidden = unknown("$EXTRA_ARGS is not set here", origin=Origin("argument", "argument 5"))
    assert outcome(CURVE) is Outcome.UNPROVEN
    assert outcome(CURVE, max_num_seqs=hidden) is Outcome.UNPROVEN
    assert outcome(load(level(1), level(4), level(16))) is Outcome.UNPROVEN
    assert outcome(CURVE, engine="llama.cpp", max_num_seqs=-1) is Outcome.UNPROVEN


def test_the_cap_counts_for_each_data_parallel_replica() -> None:
    kept = load(level(1), level(4), level(16))
    assert outcome(kept, max_num_seqs=16, data_parallel_size=2) is Outcome.UNPROVEN
    assert outcome(kept, max_num_seqs=8, data_parallel_size=2) is Outcome.PASS


def test_a_default_objective_that_one_request_alone_misses_is_not_the_pitfall() -> None:
    slow = load(*(level(c, ttft=2000.0 * c) for c in (1, 2, 4)))
    assert outcome(slow, max_num_seqs=4) is Outcome.UNPROVEN
    assert outcome(slow, {"P04.ttft_p99_ms": 3000}, max_num_seqs=4) is Outcome.FAIL
    assert outcome(slow, {"P04.ttft_p99_ms": 9000}, max_num_seqs=4) is Outcome.PASS
    assert outcome(slow, {"P04.ttft_p99_ms": 100}, max_num_seqs=4) is Outcome.FAIL


def test_too_few_requests_say_how_many_there_were() -> None:
    finding = check(
        PITFALL,
        case(
            deployment(max_num_seqs=4),
            record("load", load(level(1), level(2, p99=None, requests=40), level(4, p99=None, requests=40))),
        ),
    )
    assert finding.outcome is Outcome.UNPROVEN
    assert "40 requests at concurrency 2" in finding.summary.en
    assert finding.needs is not None and "--requests 662" in finding.needs.en


def test_what_is_no_curve_is_unproven() -> None:
    for measured in (
        load(),
        load(level(1)),
        load(level(1), level(4)),
        load(level(4), level(16), level(32)),
        load(level(1, voided="the client was the bottleneck"), level(4), level(16)),
        load(level(1), level(2), level(4, errors=10)),
    ):
        assert outcome(measured, max_num_seqs=4) is Outcome.UNPROVEN


def test_a_voided_curve_says_why() -> None:
    measured = load(*(level(c, voided="the client was the bottleneck") for c in (1, 2, 4)))
    finding = check(PITFALL, case(deployment(max_num_seqs=4), record("load", measured)))
    assert finding.outcome is Outcome.UNPROVEN and "the client was the bottleneck" in finding.summary.en


def test_fewer_than_one_failure_in_a_hundred_leaves_a_p99() -> None:
    assert outcome(load(level(1), level(2), level(4, errors=9)), max_num_seqs=4) is Outcome.PASS


def test_not_measured_and_not_generative() -> None:
    assert outcome(None, max_num_seqs=4) is Outcome.UNPROVEN
    assert check(PITFALL, case(NOTHING)).outcome is Outcome.UNPROVEN
    embedder = Model("bge", Origin("model", "config.json: architectures"), is_generative=False)
    assert check(PITFALL, case(deployment(model_files=embedder))).outcome is Outcome.NOT_APPLICABLE
