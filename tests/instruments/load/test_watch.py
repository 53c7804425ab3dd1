"""The kill switch: load ends by itself where it hurts somebody else."""

from __future__ import annotations

from wire.pacers import pacing

from load.measuring import measured
from preop.instruments.load.limits import LoadLimits
from preop.instruments.load.server import Reading
from preop.instruments.load.watch import KillSwitch


def reading(running: float, waiting: float, kv: float = 0.1, preempted: float = 0) -> Reading:
    values = {"running": running, "waiting": waiting, "kv_usage": kv, "preemptions_total": preempted}
    return Reading("vllm", values)


def test_a_queue_of_our_own_hurts_nobody() -> None:
    switch = KillSwitch(LoadLimits())
    assert all(switch.hurts(64, reading(32, 32), look, look * 0.5) is None for look in range(40))


def test_others_that_have_to_wait_end_the_load_after_a_while() -> None:
    switch = KillSwitch(LoadLimits(seconds=1.5))
    said = [switch.hurts(32, reading(32, 8), look, look * 0.5) for look in range(5)]
    assert said[:3] == [None] * 3 and said[3] is not None
    assert "8 requests of others" in said[3] and "8 have to wait" in said[3]


def test_others_that_are_served_at_once_are_not_hurt() -> None:
    switch = KillSwitch(LoadLimits())
    assert all(switch.hurts(4, reading(20, 0), look, look * 0.5) is None for look in range(40))


def test_others_in_a_full_cache_end_the_load() -> None:
    switch = KillSwitch(LoadLimits(kv_usage=0.9, seconds=0))
    assert switch.hurts(4, reading(4, 0, kv=0.95), 0, 0.0) is None
    said = switch.hurts(4, reading(9, 0, kv=0.95), 1, 0.5)
    assert said == (
        "about 5 requests of others are in the engine, whose KV cache is 95% full, the limit is 90%"
    )


def test_preemptions_beside_others_end_the_load() -> None:
    """Three in half a second are six a second."""
    switch = KillSwitch(LoadLimits(preemptions=5, seconds=0))
    assert switch.hurts(4, reading(9, 0, preempted=100), 0, 0.0) is None
    assert switch.hurts(4, reading(9, 0, preempted=102), 1, 0.5) is None
    said = switch.hurts(4, reading(9, 0, preempted=105), 2, 1.0)
    assert said is not None and "preempts 6.0 a second, the limit is 5" in said
    alone = KillSwitch(LoadLimits(preemptions=5, seconds=0))
    assert [alone.hurts(9, reading(9, 0, preempted=look * 50), look, look * 0.5) for look in range(4)] == (
        [None] * 4
    )


def test_an_engine_that_tells_nothing_ends_nothing() -> None:
    switch = KillSwitch(LoadLimits(seconds=0))
    assert switch.hurts(4, None, 0, 0.0) is None
    assert switch.hurts(4, Reading("tgi", {"running": 50.0}), 1, 0.5) is None


def test_one_reading_is_not_counted_twice() -> None:
    switch = KillSwitch(LoadLimits(seconds=1.0))
    assert all(switch.hurts(4, reading(20, 9), 1, step * 0.2) is None for step in range(40))


def test_failures_end_the_load() -> None:
    switch = KillSwitch(LoadLimits(errors=0.5))
    for _ in range(9):
        switch.ended(True)
    assert switch.hurts(1, None, 0, 0.0) is None
    switch.ended(True)
    assert "10 of the last 10 requests failed" in str(switch.hurts(1, None, 0, 0.0))
    for _ in range(15):
        switch.ended(False)
    assert switch.hurts(1, None, 0, 0.0) is None


def test_a_run_stops_when_requests_fail() -> None:
    """The warm-up passes; after that two of three requests are refused."""
    with pacing(slots=4, base_us=2_000, fail_every=3) as url:
        load = measured(url, concurrency=[2, 4], requests=60, output_tokens=4, limits=LoadLimits(errors=0.2))
    assert load.stopped_because is not None and "failed, the limit is 20%" in load.stopped_because
    assert not any(level.valid for level in load.levels)
    assert load.levels[1].requests == 0
