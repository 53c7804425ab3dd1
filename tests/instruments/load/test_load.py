"""The load instrument against a server whose schedule is known, and against one that misbehaves.

The pacer's law gives the truth: with b requests active a step lasts base + per_seq x b and gives each one
token. Its tokens carry the time at which the server handed them to the kernel.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wire.pacers import free_port, pacing
from wire.servers import HANG, HEAD, Step, chunked, playing

from load.measuring import job, measured
from preop.deployment.types import Deployment
from preop.errors import InputError, InstrumentError, UsageError
from preop.evidence import Level, Load
from preop.inputs import Inputs
from preop.instruments.load import LOAD
from preop.instruments.load.closed import Limits, run_level
from preop.instruments.load.levels import summarize
from preop.instruments.load.options import options_of
from preop.instruments.load.samples import read_samples
from preop.instruments.types import Access, Job
from preop.instruments.wire.chat import chat_body, parse_chat
from preop.instruments.wire.client import Target, run_loop


class Same:
    """A session without end that asks the same again."""

    needs_answer = False

    def next(self, output_tokens: int) -> bytes:
        return chat_body("pacer", [{"role": "user", "content": "x"}], output_tokens)

    def answered(self, text: str) -> None:
        raise AssertionError


def test_the_model_that_the_user_names_is_asked_for() -> None:
    with pacing() as url:
        load = measured(url, concurrency=[1], requests=11, output_tokens=2, model="an-adapter")
    assert load.model == "an-adapter"


def test_time_per_token_follows_the_known_law() -> None:
    with pacing(slots=8, base_us=8_000, per_seq_us=1_000) as url:
        load = measured(url, concurrency=[1, 4, 8], output_tokens=16)
    assert [level.concurrency for level in load.levels] == [1, 4, 8]
    assert (load.model, load.output_tokens) == ("pacer", 16)
    for level in load.levels:
        truth = 8 + level.concurrency
        assert level.valid, level.voided_because
        assert level.tpot_ms.p50 == pytest.approx(truth, rel=0.15)
        assert level.effective_concurrency == pytest.approx(level.concurrency, rel=0.05)
        # Each worker gets a token a step; between two answers it waits for the step under way.
        assert level.output_tokens_per_s == pytest.approx(1000 * level.concurrency / truth, rel=0.2)
        assert level.tpot_ms.p99 is None and level.ttft_ms.p99 is None


def test_requests_above_the_slots_wait() -> None:
    with pacing(slots=2, base_us=5_000) as url:
        level = measured(url, concurrency=[4], output_tokens=16).levels[0]
    assert level.ttft_ms.p50 is not None and level.e2e_ms.p50 is not None
    # Two run and two wait, so a request waits about as long as one takes: 16 steps of 5 ms.
    assert level.ttft_ms.p50 == pytest.approx(80, rel=0.3)
    assert level.tpot_ms.p50 == pytest.approx(5, rel=0.15)


def test_timestamps_against_the_servers_own() -> None:
    async def main(url: str) -> list[float]:
        run = await run_level(
            Target.of(Access(url)), 4, limits=Limits(40, 60, timeout_s=10), output_tokens=20, session=Same
        )
        streams = [parse_chat(response) for response in run.counted]
        assert all(stream.error is None for stream in streams)
        return [
            (piece.ns - int(piece.text.strip()[1:])) / 1e6 for stream in streams for piece in stream.pieces
        ]

    with pacing(slots=4, base_us=5_000) as url:
        errors = sorted(run_loop(main(url)))
    assert len(errors) == 800
    assert errors[0] > 0  # nothing was seen before it was sent
    assert errors[400] < 1.0  # half of all tokens are stamped within a millisecond


def test_p99_only_from_enough_requests() -> None:
    with pacing(slots=16, base_us=1_000) as url:
        level = measured(url, concurrency=[16], requests=662, output_tokens=4).levels[0]
    assert level.requests == 662
    assert level.ttft_ms.p99 is not None and level.tpot_ms.p99 is not None
    assert level.ttft_ms.p50 is not None and level.ttft_ms.p99 >= level.ttft_ms.p50


def test_several_tokens_in_a_chunk_do_not_bend_time_per_token() -> None:
    with pacing(open=True, ttft_us=20_000, itl_us=16_000, chunk_tokens=4) as url:
        level = measured(url, concurrency=[1], output_tokens=32).levels[0]
    assert level.itl_ms.p50 == pytest.approx(16, rel=0.15)
    assert level.tpot_ms.p50 == pytest.approx(7 * 16 / 31, rel=0.15)


def test_failures_are_counted_and_void_the_level() -> None:
    with pacing(slots=4, base_us=2_000, fail_every=5) as url:
        level = measured(url, concurrency=[2], requests=20, output_tokens=4).levels[0]
    assert (level.requests, level.errors, level.valid) == (20, 4, False)
    assert level.voided_because is not None and "4 of 20 requests failed" in level.voided_because
    assert "503" in level.voided_because


def test_few_failures_do_not_void_but_cost_the_tail() -> None:
    with pacing(slots=16, base_us=5_000, fail_every=50) as url:
        level = measured(url, concurrency=[8], requests=700, output_tokens=2).levels[0]
    assert level.valid and 0 < level.errors < 35
    assert level.ttft_ms.p50 is not None and level.ttft_ms.p99 is None


def test_prompts_are_never_sent_twice() -> None:
    chunk = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    models: list[Step] = [b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"]
    answer: list[Step] = [HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(chunk) + b"0\r\n\r\n"]
    with playing(models, answer, keep=True) as server:
        measured(server.url, concurrency=[1, 2])
        bodies = [each.partition(b"\r\n\r\n")[2] for each in server.requests if each.startswith(b"POST")]
    messages = [json.dumps(json.loads(body)["messages"]) for body in bodies]
    assert len(messages) > 20
    assert len(set(messages)) == len(messages)


def test_prompt_tokens_are_met() -> None:
    """The pacer counts a token for each 4 bytes of the body."""
    with pacing(slots=4, base_us=1_000) as url:
        load = measured(url, concurrency=[1], prompt_tokens=400, output_tokens=2)
    assert load.prompt_tokens == pytest.approx(400, rel=0.1)


def test_own_prompts_are_used(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Où?"}]}\n'
    )
    seen: list[bytes] = []
    models: list[Step] = [b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"]
    body = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    with playing(models, [HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body], keep=True) as server:
        measured(server.url, Inputs(prompts=str(path)), concurrency=[1], requests=12)
        seen = server.requests
    last = json.loads(seen[-1].partition(b"\r\n\r\n")[2])["messages"]
    assert last[0] == {"role": "system", "content": "Be brief."}
    assert last[1]["content"].endswith("] Où?")


def test_budget_ends_the_run_and_says_so() -> None:
    with pacing(slots=8, base_us=20_000) as url:
        load = measured(url, concurrency=[1, 2, 4], budget_s=4, output_tokens=50)
    assert [level.valid for level in load.levels] == [False, False, False]
    assert all("was over" in str(level.voided_because) for level in load.levels)


def test_duration_ends_a_level() -> None:
    with pacing(slots=8, base_us=2_000) as url:
        level = measured(url, concurrency=[4], duration_s=1.5, output_tokens=8).levels[0]
    assert level.valid and 100 < level.requests < 400
    assert level.window_s == pytest.approx(1.5, abs=0.2)


def test_the_first_wave_is_outside_a_window_of_time() -> None:
    """8 requests that start together wait for one another's prefill; those of the window never do."""
    with pacing(slots=8, base_us=2_000, prefill_us=500) as url:
        level = measured(url, concurrency=[8], duration_s=1.5, output_tokens=20).levels[0]
    # A request is about 60 pacer tokens: alone 30 ms of prefill, all eight together 240 ms.
    assert level.valid and level.ttft_ms.p50 is not None and level.ttft_ms.p50 < 150


def test_the_search_finds_the_level_of_the_law() -> None:
    """TPOT is 4 + 0.5 N ms: 14 ms are kept up to N = 20."""
    with pacing(slots=64, base_us=4_000, per_seq_us=500) as url:
        load = measured(url, slo="tpot_p99=14.2ms", output_tokens=16, max_concurrency=64)
    assert load.slo is not None and load.slo.resolved, load.slo
    assert load.slo.concurrency is not None and 18 <= load.slo.concurrency <= 22
    assert load.slo.breaks_at is not None and load.slo.broken is not None and "tpot_p99" in load.slo.broken
    assert max(level.concurrency for level in load.levels) == 32
    by_level = {level.concurrency: level for level in load.levels}
    assert by_level[load.slo.concurrency].held == pytest.approx(1.0, abs=0.011)


def test_an_objective_that_one_request_breaks_is_zero() -> None:
    with pacing(slots=8, base_us=5_000) as url:
        load = measured(url, slo="tpot_p99=2ms", output_tokens=8)
    assert load.slo is not None and (load.slo.concurrency, load.slo.resolved) == (0, True)


def test_a_walk_answers_from_its_own_levels() -> None:
    with pacing(slots=16, base_us=4_000, per_seq_us=1_000) as url:
        load = measured(url, slo="tpot_p90=9ms", concurrency=[1, 4, 16], requests=80, output_tokens=12)
    assert load.slo is not None
    assert (load.slo.concurrency, load.slo.breaks_at, load.slo.resolved) == (4, 16, False)
    assert "no level between" in load.slo.why
    assert [level.concurrency for level in load.levels] == [1, 4, 16]


def test_throughput_flat_above_the_slots_is_the_knee() -> None:
    with pacing(slots=4, base_us=5_000) as url:
        load = measured(url, concurrency=[1, 2, 4, 8, 16], output_tokens=16)
    assert load.knee is not None and load.knee.concurrency == 4


def test_server_that_hangs_ends_too() -> None:
    models: list[Step] = [b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"]
    body = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    whole: list[Step] = [HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body]
    with playing(models, whole, whole, whole, [HANG]) as server:
        level = measured(server.url, concurrency=[2], budget_s=1).levels[0]
    assert not level.valid and level.requests == 0


def test_warm_up_failure_is_one_sentence() -> None:
    with (
        pacing(fail_every=1) as url,
        pytest.raises(InstrumentError, match="warm-up request failed: HTTP 503"),
    ):
        measured(url)


def test_nobody_there() -> None:
    with pytest.raises(InstrumentError, match="refused"):
        measured(f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("host", ["10.1.2.3", "llm.example.com", "[2001:db8::1]"])
def test_another_host_needs_permission(host: str) -> None:
    refused = job(f"http://{host}:8000")
    missing = LOAD.missing(refused)
    assert missing is not None and "--yes-load" in missing.en and "--yes-load" in missing.zh
    with pytest.raises(InstrumentError, match="--yes-load"):
        LOAD.run(refused)
    wrong = job(f"http://{host}:8000", {"yes_load": "other.example.com"})
    assert LOAD.missing(wrong) is not None
    assert LOAD.missing(job(f"http://{host}:8000", {"yes_load": host.strip("[]")})) is None


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "http://127.9.9.9:1"]
)
def test_this_machine_needs_none(url: str) -> None:
    assert LOAD.missing(job(url)) is None


@pytest.mark.parametrize(
    ("cap", "expected"),
    [(None, (1, 2, 4, 8)), (1, (1,)), (4, (1, 2, 4)), (6, (1, 2, 4, 6)), (256, (1, 2, 4, 8))],
)
def test_default_levels_end_at_the_engines_cap(cap: int | None, expected: tuple[int, ...]) -> None:
    assert options_of(job("http://127.0.0.1:1", cap=cap)).concurrency == expected


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": []}, {"concurrency": [0]}, {"concurrency": [1.5]}, {"concurrency": "1,2"},
        {"concurrency": [True]}, {"requests": 0}, {"requests": 2.5}, {"duration_s": -1},
        {"budget_s": float("nan")}, {"output_tokens": "many"}, {"prompt_tokens": float("inf")},
    ],
)  # fmt: skip
def test_options_that_cannot_be(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        options_of(job("http://127.0.0.1:1", options))


def test_malformed_prompts_are_named(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": 3}\n')
    with pytest.raises(InputError, match=r"prompts.jsonl:3: `prompt` is not a text"):
        measured("http://127.0.0.1:1", Inputs(prompts=str(path)))


def test_client_cost_is_reported() -> None:
    with pacing(slots=4, base_us=2_000) as url:
        level: Level = measured(url, concurrency=[2], output_tokens=8).levels[0]
    assert level.client is not None
    assert level.client.cpu_s > 0 and level.client.events > 12 * 8
    assert level.client.lag_p50_ms is not None and level.client.lag_p50_ms >= 0


def test_a_client_that_was_the_bottleneck_voids_the_level() -> None:
    async def main(url: str) -> Level:
        run = await run_level(
            Target.of(Access(url)), 2, limits=Limits(12, 30, timeout_s=10), output_tokens=4, session=Same
        )
        run.cpu_s = run.wall_s * 0.95
        return summarize(read_samples(run))

    with pacing(slots=4, base_us=2_000) as url:
        level = run_loop(main(url))
    assert not level.valid and "load generator itself" in str(level.voided_because)


@pytest.mark.engine
def test_real_engine() -> None:
    from preop.demo.engine import running_engine

    with running_engine(context=4096, parallel=4) as engine:
        deployment = Deployment("d", "llama.cpp", "test", {})
        options: dict[str, object] = {
            "concurrency": [1, 2],
            "requests": 11,
            "output_tokens": 8,
            "budget_s": 120,
        }
        load = LOAD.run(Job(deployment, Access(engine.url), options=options))
    assert isinstance(load, Load)
    one, two = load.levels
    assert one.errors == two.errors == 0
    assert one.requests == 11 and one.tpot_ms.p50 is not None and one.ttft_ms.p50 is not None
    assert load.output_tokens == 8 and load.prompt_tokens is not None and load.prompt_tokens > 20
