"""What the engine says of itself during a level, from real expositions and a pacer's."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from wire.pacers import pacing
from wire.servers import RESET, Step, playing

from load.measuring import measured
from preop.evidence import ServerSeen
from preop.instruments.load.server import ServerWatch, read, seen
from preop.instruments.types import Access
from preop.instruments.wire.client import Target, run_loop

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
    told = seen(first, last, {}, 2)
    assert told.counters_fell and told.speculation is None


def between(first: bytes, last: bytes) -> ServerSeen:
    one, two = read(first), read(last)
    assert one is not None and two is not None
    return seen(one, two, {}, 2)


def test_positions_that_appear_with_the_first_draft_count_from_nothing() -> None:
    """llama.cpp prints a position only once a draft has been so long."""
    head = (
        b"llamacpp:spec_decode_num_drafts_total 8\nllamacpp:spec_decode_num_draft_tokens_total 24\n"
        b"llamacpp:spec_decode_num_accepted_tokens_total 14\n"
    )
    position = b'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="%d"} %d\n'
    zero = head.replace(b" 8", b" 0").replace(b" 24", b" 0").replace(b" 14", b" 0")
    told = between(zero, head + position % (0, 8) + position % (1, 6)).speculation
    assert told is not None and told.accepted_per_position == [8, 6] and told.mean_length == 1 + 14 / 8
    later = head + position % (0, 8) + position % (1, 6)
    told = between(head + position % (0, 7), later).speculation
    assert told is not None and told.accepted_per_position == [1, 6]


SGLANG = b"""sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3.0
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 3.0
sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 2.0
sglang:num_requests_total{is_streaming="true",model_name="m"} 10.0
sglang:prompt_tokens_total{is_streaming="true",model_name="m"} 1000.0
sglang:generation_tokens_total{is_streaming="true",model_name="m"} 500.0
sglang:request_time_per_output_token_seconds_sum{is_streaming="true",model_name="m"} 0.5
sglang:request_time_per_output_token_seconds_count{is_streaming="true",model_name="m"} 10.0
"""


def test_sglang_counts_verifications_and_no_drafts() -> None:
    """Ten more requests of 31 tokens: one from the prefill, 30 from 10 steps of 3, two of them accepted."""
    last = SGLANG.replace(b"} 10.0", b"} 20.0").replace(b"} 500.0", b"} 810.0").replace(b"} 0.5", b"} 0.8")
    last += b"sglang:spec_verify_calls_total 100.0\n"
    told = between(SGLANG, last.replace(b"} 1000.0", b"} 3000.0"))
    assert told.speculation is not None
    assert told.speculation.acceptance is None and told.speculation.mean_length == 3
    assert told.tpot_mean_ms == pytest.approx(30) and told.requests == 10
    reading = read(SGLANG)
    assert reading is not None and reading.values["running"] == 5


def test_sglang_prompt_tokens_hold_those_of_the_cache() -> None:
    last = SGLANG.replace(b"} 1000.0", b"} 3000.0")
    for source, tokens in ((b"device", 300), (b"host", 200)):
        last += b'sglang:cached_tokens_total{cache_source="%b"} %d\n' % (source, tokens)
    told = between(SGLANG, last)
    assert (told.prefix_queries, told.prefix_hits) == (2000, 500)
    assert between(SGLANG, SGLANG).prefix_hits is None and between(SGLANG, SGLANG).speculation is None


def test_llama_cpp_prompt_tokens_do_not() -> None:
    body = exposition("llama.cpp-b11549")
    later = body.replace(b"prompt_tokens_total 38", b"prompt_tokens_total 68")
    told = between(body, later.replace(b"prompt_tokens_cached_total 70", b"prompt_tokens_cached_total 170"))
    assert (told.prefix_queries, told.prefix_hits) == (130, 100)


def test_tgi_tells_tokens_by_the_sums_of_histograms() -> None:
    text = (
        "tgi_queue_size 0\ntgi_batch_current_size 2\ntgi_request_success {0}\n"
        "tgi_request_duration_sum {1}\ntgi_request_duration_count {0}\n"
        "tgi_request_input_length_sum {2}\ntgi_request_generated_tokens_sum {3}\n"
    )
    told = between(text.format(3, 6, 90, 60).encode(), text.format(5, 9, 150, 100).encode())
    assert (told.requests, told.prompt_tokens, told.output_tokens, told.e2e_mean_ms) == (2, 60, 40, 1500)
    assert told.tpot_mean_ms is None


@pytest.mark.parametrize(
    ("old", "ours"),
    [
        ("vllm:gpu_cache_usage_perc 0.25", "kv_usage"),
        ("vllm:gpu_prefix_cache_queries_total 0.25", "prefix_queries_total"),
        ("vllm:gpu_prefix_cache_hits_total 0.25", "prefix_hits_total"),
    ],
)
def test_names_of_older_releases(old: str, ours: str) -> None:
    for version in (None, "0.9.0", "0.28.0"):
        reading = read(f"vllm:num_requests_running 1\n{old}\n".encode(), version)
        assert reading is not None
        assert reading.values.get(ours) == (0.25 if version != "0.28.0" else None)


def test_v0_gauges_of_speculation_are_no_counters() -> None:
    body = b"vllm:num_requests_running 1\nvllm:spec_decode_draft_acceptance_rate 0.6\n"
    assert between(body, body).speculation is None


NAMES = st.sampled_from(
    [
        "vllm:num_requests_running",
        "vllm:num_requests_running_by_reason",
        "vllm:prompt_tokens_total",
        "vllm:prompt_tokens_created",
        "vllm:time_to_first_token_seconds_sum",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:request_success_total",
        "python_gc_objects_collected_total",
    ]
)
ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
LABELS = st.dictionaries(
    st.sampled_from(["engine", "model_name", "le", "finished_reason"]),
    st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters='\\"{} ,=#\n'), max_size=6),
)
NUMBERS = st.integers(0, 10**9).map(str) | st.floats(0, 1e12).map(repr)
SERIES = st.dictionaries(
    st.tuples(NAMES, LABELS.map(lambda labels: tuple(sorted(labels.items())))), NUMBERS, max_size=12
)


@given(SERIES, st.sampled_from(["", " 1796099209000"]))
@settings(max_examples=150, deadline=None)
def test_the_scan_sees_what_the_prometheus_client_sees(
    series: dict[tuple[str, tuple[tuple[str, str], ...]], str], timestamp: str
) -> None:
    lines = ["vllm:num_preemptions_total 7"]
    for (name, labels), number in series.items():
        inner = ",".join(f'{key}="{value.translate(ESCAPED)}"' for key, value in labels)
        lines.append(f"{name}{'{' + inner + '}' if inner else ''} {number}{timestamp}")
    body = "\n".join(lines) + "\n"
    expected: dict[str, float] = {}
    for line in lines:
        for family in text_string_to_metric_families(line + "\n"):
            for each in family.samples:
                expected[each.name] = expected.get(each.name, 0.0) + each.value
    reading = read(body.encode())
    assert reading is not None
    for theirs, ours in (
        ("vllm:num_preemptions_total", "preemptions_total"),
        ("vllm:num_requests_running", "running"),
        ("vllm:prompt_tokens_total", "prompt_tokens_total"),
        ("vllm:time_to_first_token_seconds_sum", "ttft_sum"),
        ("vllm:request_success_total", "requests"),
    ):
        assert reading.values.get(ours) == (pytest.approx(expected[theirs]) if theirs in expected else None)


def test_a_reading_of_200_kilobytes_hardly_holds_the_measurement_up() -> None:
    """Three engines' exposition. About 1 ms on a quiet machine; the limit is for a busy one."""
    lines = exposition("vllm-0.32.0-dev").split(b"\n")
    body = b"\n".join(
        line.replace(b'engine="0"', b'engine="%d"' % rank) for rank in range(3) for line in lines
    )
    assert len(body) > 195_000 and read(body) is not None
    took = []
    for _ in range(20):
        begin = time.process_time()
        read(body)
        took.append(time.process_time() - begin)
    assert min(took) < 0.003


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-Inf", "-1", "1e300", "1_000", "", "x"])
def test_numbers_that_are_none_are_not_believed(number: str) -> None:
    body = SPECULATION.decode().replace(" 60.0", f" {number}").replace(" 300.0", f" {number}")
    reading = read(body.encode())
    assert reading is not None
    assert "spec_draft_tokens_total" not in reading.values
    told = between(SPECULATION, body.encode())
    assert told.speculation is None


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


def watched(url: str, seconds: float, *, key: str | None = None) -> tuple[ServerSeen | None, str | None]:
    async def main() -> tuple[ServerSeen | None, str | None]:
        watch = ServerWatch(Target.of(Access(url, api_key=key)))
        await watch.begin()
        await asyncio.sleep(seconds)
        told = await watch.end()
        watch.close()
        return told, watch.why_not

    return run_loop(main())


def page(body: bytes, status: bytes = b"200 OK", kind: bytes = b"text/plain") -> list[Step]:
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(body))
    return [head + body]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (page(b"not found", b"404 Not Found"), "/metrics answers HTTP 404"),
        (page(b"", b"401 Unauthorized"), "/metrics answers HTTP 401"),
        (page(b"", b"302 Found"), "/metrics answers HTTP 302"),
        (page(b"<html>vllm:num_requests_running 3</html>", kind=b"text/html"), "nothing of an engine"),
        (page(b""), "nothing of an engine"),
        (page(b"process_cpu_seconds_total 3\n"), "nothing of an engine"),
        ([RESET], "could not be read"),
    ],
)
def test_metrics_that_tell_nothing_say_why(answer: list[Step], why: str) -> None:
    with playing(answer, keep=True) as server:
        told, why_not = watched(server.url, 0)
    assert told is None and why_not is not None and why in why_not


def test_the_key_opens_the_metrics_too() -> None:
    with playing(page(SPECULATION), keep=True) as server:
        watched(server.url, 0, key="sesame")
    assert all(b"Authorization: Bearer sesame" in request for request in server.requests)


def test_an_engine_that_came_back_is_told_though_it_has_counted_further() -> None:
    few, many = SPECULATION.replace(b" 100.0", b" 3.0"), SPECULATION.replace(b" 100.0", b" 900.0")
    with playing(page(SPECULATION), page(few), page(many), keep=True) as server:
        told, _ = watched(server.url, 0.75)
    assert told is not None and told.samples == 3
    assert told.counters_fell and told.speculation is None


def test_a_read_that_fails_once_is_done_again() -> None:
    with playing(page(SPECULATION), [RESET], page(SPECULATION), keep=True) as server:
        told, why_not = watched(server.url, 0)
    assert told is not None and why_not is None and told.samples == 2
