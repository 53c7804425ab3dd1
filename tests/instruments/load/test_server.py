"""What the engine says of itself during a level, from real expositions and a pacer's; the kill switch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from wire.pacers import pacing
from wire.servers import Step, playing

from load.measuring import measured
from preop.instruments.load.limits import LoadLimits
from preop.instruments.load.server import Reading, read, seen
from preop.instruments.load.watch import KillSwitch

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"


def exposition(name: str) -> bytes:
    return (RECORDINGS / name / "metrics.txt").read_bytes()


@pytest.mark.parametrize(
    ("name", "metric", "ours"),
    [
        ("vllm-0.32.0", "vllm:prompt_tokens_total", "prompt_tokens_total"),
        ("vllm-0.32.0", "vllm:time_to_first_token_seconds_sum", "ttft_sum"),
        ("vllm-0.32.0", "vllm:e2e_request_latency_seconds_count", "e2e_count"),
        ("vllm-0.32.0", "vllm:request_time_per_output_token_seconds_sum", "tpot_sum"),
        ("llama.cpp-b11549", "llamacpp:tokens_predicted_total", "generation_tokens_total"),
        ("llama.cpp-b11549", "llamacpp:requests_deferred", "waiting"),
    ],
)
def test_the_lines_that_are_used_are_those_of_the_whole_exposition(name: str, metric: str, ours: str) -> None:
    body = exposition(name)
    families = text_string_to_metric_families(body.decode())
    total = sum(each.value for family in families for each in family.samples if each.name == metric)
    reading = read(body)
    assert reading is not None and reading.values[ours] == total


def test_requests_that_ended_are_summed_over_their_reasons() -> None:
    reading = read(exposition("vllm-0.32.0"))
    assert reading is not None and reading.values["requests"] == reading.values["e2e_count"]


SPECULATION = b"""# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 100.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 180.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 90.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 60.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 30.0
"""


def test_acceptance_is_that_of_the_level_not_of_the_engines_life() -> None:
    first, last = read(SPECULATION), read(
        SPECULATION.replace(b" 100.0", b" 150.0").replace(b" 300.0", b" 450.0").replace(b" 180.0", b" 255.0")
        .replace(b" 90.0", b" 130.0")
    )  # fmt: skip
    assert first is not None and last is not None
    told = seen(first, last, {}, 2).speculation
    assert told is not None
    assert (told.drafts, told.draft_tokens, told.accepted_tokens) == (50, 150, 75)
    assert told.acceptance == 0.5 and told.mean_length == 2.5
    assert told.accepted_per_position == [40, 0, 0]


def test_an_engine_that_was_started_anew_has_no_difference() -> None:
    first, last = read(SPECULATION), read(SPECULATION.replace(b" 100.0", b" 1.0").replace(b" 300.0", b" 3.0"))
    assert first is not None and last is not None
    assert seen(first, last, {}, 2).speculation is None


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: b"vllm:" + text.encode()))
@settings(max_examples=150, deadline=None)
def test_any_bytes_give_a_reading_or_none(body: bytes) -> None:
    read(body)


def test_a_level_knows_what_ran_in_the_engine() -> None:
    with pacing(slots=4, base_us=10_000) as url:
        (level,) = measured(url, concurrency=[8], requests=40, output_tokens=10).levels
    assert level.valid and level.server is not None
    assert level.server.running_max == 4 and level.server.waiting_max == pytest.approx(4, abs=1)
    assert level.server.output_tokens is not None and level.server.output_tokens >= 400
    assert level.server.speculation is None


def test_an_engine_without_metrics_is_measured_all_the_same() -> None:
    chunk = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(chunk)
    answer: list[Step] = [0.02, head + chunk]
    with playing(answer, keep=True) as server:  # the same to every request, /metrics too
        (level,) = measured(server.url, concurrency=[1]).levels
    assert level.valid and level.server is None


def reading(running: float, waiting: float, kv: float = 0.1) -> Reading:
    return Reading("vllm", {"running": running, "waiting": waiting, "kv_usage": kv})


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
    with pacing(slots=4, base_us=2_000, fail_every=2) as url:
        pass
    with pacing(slots=4, base_us=2_000, fail_every=3) as url:
        load = measured(url, concurrency=[2, 4], requests=60, output_tokens=4, limits=LoadLimits(errors=0.2))
    assert load.stopped_because is not None and "failed, the limit is 20%" in load.stopped_because
    assert not any(level.valid for level in load.levels)
    assert load.levels[1].requests == 0
