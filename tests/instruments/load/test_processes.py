"""One level carried by several client processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire.pacers import pacing

from load.measuring import job, measured
from preop.errors import UsageError
from preop.evidence import Load
from preop.inputs import Inputs
from preop.instruments.load import LOAD
from preop.instruments.load.closed import Limits, Order
from preop.instruments.load.options import options_of
from preop.instruments.load.processes import Spec, shares, spawned, team
from preop.instruments.load.processes import client_main as client
from preop.instruments.load.samples import LevelSamples
from preop.instruments.load.workload import WorkloadOptions
from preop.instruments.types import Access


class Spent:
    requests = output_tokens = 0


def spec(url: str, prompts: str | None = None) -> Spec:
    return Spec(Access(url), "pacer", False, [], prompts, WorkloadOptions(20))


def carried(url: str, workers: int, order: Order, spent: Spent | None = None) -> LevelSamples:
    crew = team(spec(url), workers, None, spent or Spent())

    async def main() -> LevelSamples:
        try:
            return await crew.level(order, ended=lambda failed, look: "go on")
        finally:
            crew.close()

    return asyncio.run(main())


def clients() -> list[str]:
    return [child.name for child in multiprocessing.active_children() if child.name.startswith("preop-")]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 256))
def test_shares_add_up_and_are_even(total: int, parts: int) -> None:
    each = shares(total, parts)
    assert len(each) == parts and sum(each) == total and max(each) - min(each) <= 1


def test_all_wait_for_each_other_and_nothing_is_lost() -> None:
    spent = Spent()
    with pacing(base_us=5_000, slots=64) as url:
        level = carried(url, 3, Order(7, Limits(50, 20.0), 10), spent)
    assert level.stopped_because is None and not level.out_of_time
    assert (level.concurrency, level.asked, len(level.finished)) == (7, 50, 50)
    assert all(sample.output_tokens == 10 for sample in level.counted)
    # None counts before all of the first wave, in all processes, is being answered.
    everything = sorted((*level.counted, *level.uncounted), key=lambda sample: sample.sent_ns)
    first_wave, begin = everything[:7], min(sample.sent_ns for sample in level.counted)
    assert all(sample.first_ns is not None and sample.first_ns <= begin for sample in first_wave)
    # Seven were in flight until the last one had ended.
    end = max(sample.end_ns or 0 for sample in level.counted)
    busy = sum(max(0, min(sample.end_ns or end, end) - max(sample.sent_ns, begin)) for sample in everything)
    assert busy / (end - begin) == pytest.approx(7, rel=0.1)
    assert spent.requests == len(everything)
    assert clients() == []


def test_a_window_of_time_is_the_same_for_all() -> None:
    with pacing(base_us=5_000, slots=64) as url:
        level = carried(url, 2, Order(4, Limits(None, 20.0, window_s=0.6), 10))
    starts = [sample.sent_ns for sample in level.counted]
    assert 0.5 <= (max(starts) - min(starts)) / 1e9 <= 0.7
    # 10 tokens of 5 ms, and half a step to wait: 4 users ask about 11 times in 0.6 s.
    assert len(level.counted) == pytest.approx(4 * 0.6 / 0.055, rel=0.25)


def test_fewer_users_or_requests_than_processes() -> None:
    with pacing(base_us=2_000, slots=64) as url:
        assert len(carried(url, 3, Order(1, Limits(11, 20.0), 4)).finished) == 11
        few = carried(url, 3, Order(3, Limits(2, 20.0), 4))
    assert len(few.finished) == 2 and not few.out_of_time


def test_the_whole_measurement_says_the_same_as_one_process_does() -> None:
    """The law: each token takes 10 ms, a first one up to two steps."""
    with pacing(base_us=10_000, slots=64) as url:
        load = measured(url, concurrency=[1, 8], requests=24, output_tokens=10, workers=2)
    for level in load.levels:
        assert level.valid, level.voided_because
        assert (level.requests, level.errors) == (24, 0)
        assert level.tpot_ms.p50 == pytest.approx(10, rel=0.1)
        assert level.client is not None and level.client.events > 24 * 10
    assert load.levels[1].output_tokens_per_s == pytest.approx(8 * 10 / 0.11, rel=0.15)


def test_an_objective_is_searched_for_with_several_processes() -> None:
    """8 slots, a request takes 10 steps of 5 ms: n users wait (n - 8) / 8 * 50 ms for a slot, and one to two
    steps for the first token. 40 ms are reached at n = 13.3."""
    with pacing(base_us=5_000, slots=8) as url:
        load = measured(
            url, slo="ttft_p50=40ms", max_concurrency=16, output_tokens=10, workers=2, budget_s=40
        )
    assert load.slo is not None and load.slo.concurrency is not None
    assert 12 <= load.slo.concurrency <= 14, load.slo
    assert clients() == []


def test_the_budget_holds_for_all_of_them_together() -> None:
    with pacing(base_us=2_000, slots=64) as url:
        load = measured(
            url, concurrency=[4, 8], requests=400, output_tokens=4, workers=2, budget="60s,100req"
        )
    assert load.stopped_because is not None and "100 requests is used up" in load.stopped_because
    assert 50 <= load.levels[0].requests <= 110


def test_a_process_that_dies_ends_the_level_and_keeps_what_was_measured() -> None:
    with pacing(base_us=5_000, slots=64) as url:
        options = {"concurrency": [2, 4], "duration_s": 0.7, "output_tokens": 10, "workers": 2}

        def kill(load: object) -> None:
            if isinstance(load, Load) and len(load.levels) == 1:
                victim = next(c for c in multiprocessing.active_children() if c.name == "preop-client-2")
                assert victim.pid is not None
                threading.Timer(0.5, os.kill, (victim.pid, signal.SIGKILL)).start()

        load = LOAD.run(replace(job(url, {**options}), partial=kill))
    assert isinstance(load, Load)
    before, during = load.levels
    assert before.valid, before.voided_because
    assert during.voided_because == "stopped: client 2 of 2 was ended by signal 9"
    assert during.requests > 0, "the other one's are kept"
    assert load.stopped_because == "at 4: client 2 of 2 was ended by signal 9"
    assert clients() == []


def test_what_goes_wrong_in_a_process_is_said(tmp_path: Path) -> None:
    async def main() -> LevelSamples:
        crew = team(spec("http://127.0.0.1:9", str(tmp_path / "absent.jsonl")), 2, None, Spent())
        try:
            order = Order(2, Limits(11, 10.0), 4)
            return await crew.level(order, ended=lambda failed, look: "go on")
        finally:
            crew.close()

    level = asyncio.run(main())
    assert level.stopped_because is not None
    assert "of 2 failed: " in level.stopped_because and "absent.jsonl" in level.stopped_because
    assert clients() == []


def test_a_client_ends_with_the_pipe_to_it() -> None:
    with pacing(base_us=50_000, slots=64) as url:
        child, pipe = spawned(client, (spec(url),), "preop-orphan")
        pipe.send(("level", Order(2, Limits(50, 60.0), 100)))
        assert pipe.recv() == ("ready",)
        pipe.send(("go", time.monotonic_ns()))
        time.sleep(0.3)
        assert child.is_alive()
        pipe.close()
        child.join(5)
        assert child.exitcode == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_a_killed_parent_leave_nothing_running(tmp_path: Path, how: signal.Signals) -> None:
    with pacing(base_us=20_000, slots=64) as url:
        command = [sys.executable, "-m", "preop", "measure", "load", "--endpoint", url, "--workers", "2"]
        command += ["--concurrency", "4", "--requests", "5000", "--output-tokens", "50"]
        parent = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        found: list[int] = []
        for _ in range(200):
            time.sleep(0.05)
            found = _children(parent.pid)
            if len(found) >= 3 and requests_of(url) > 8:  # two clients, and multiprocessing's own tracker
                break
        assert len(found) >= 3
        if how is signal.SIGINT:
            os.killpg(parent.pid, how)  # as a terminal does
        else:
            parent.send_signal(how)
        _, said = parent.communicate(timeout=15)
        assert "Traceback" not in said
        for _ in range(100):
            if not any(Path(f"/proc/{pid}").exists() for pid in found):
                break
            time.sleep(0.05)
        assert not any(Path(f"/proc/{pid}").exists() for pid in found)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def requests_of(url: str) -> float:
    with urllib.request.urlopen(url + "/metrics") as answer:
        text = answer.read().decode()
    return float(
        next(line.split()[1] for line in text.splitlines() if line.startswith("pacer_requests_total"))
    )


@pytest.mark.parametrize("given_workers", ["0", "257", "two", "-1", "1.5", "ray6379", "", "9" * 40, "٣"])
def test_workers_that_cannot_be(given_workers: str) -> None:
    with pytest.raises(UsageError, match="--workers"):
        options_of(job("http://127.0.0.1:9", {"workers": given_workers}))


def test_workers_as_they_are_given() -> None:
    def read(text: object) -> tuple[int, str | None]:
        options = options_of(job("http://127.0.0.1:9", {"workers": text}))
        return options.workers, options.cluster

    assert read(None) == (1, None) and read("4") == (4, None)
    assert read("ray") == (1, "auto") and read("ray:10.0.0.1:6379") == (1, "10.0.0.1:6379")
    assert read("ray:ray://head:10001") == (1, "ray://head:10001")
    with pytest.raises(UsageError, match="one client"):
        options_of(job("http://127.0.0.1:9", {"workers": "2", "rate": "5"}, Inputs()))
