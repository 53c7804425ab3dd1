"""Clients on the nodes of a real Ray cluster: three nodes on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from wire.pacers import pacing

from load.measuring import job, measured
from preop.errors import InstrumentError
from preop.evidence import Load
from preop.inputs import Inputs
from preop.instruments.load import LOAD
from preop.instruments.load.ray_workers import Offset, offset_of, on_our_clock
from preop.instruments.load.samples import LevelSamples, Sample

HOUR_NS = 3_600 * 10**9


@pytest.mark.parametrize(("there_ns", "back_ns"), [(200, 200), (10, 900), (5_000_000, 40)])
def test_an_offset_is_known_to_half_the_round_trip_however_unequal_its_halves(
    there_ns: int, back_ns: int
) -> None:
    now = 0

    async def theirs() -> int:
        nonlocal now
        now += there_ns
        said = now + HOUR_NS
        now += back_ns
        return said

    found = asyncio.run(offset_of(theirs, lambda: now))
    assert abs(found.ns - HOUR_NS) <= found.error_ns
    assert found.error_ns == (there_ns + back_ns + 1) // 2


def test_the_shortest_round_trip_is_the_one_that_counts() -> None:
    now, trips = 0, iter([9_000_000, 40_000, *[3_000_000] * 100])

    async def theirs() -> int:
        nonlocal now
        now += next(trips)
        return now - HOUR_NS  # all of the way is the way there

    found = asyncio.run(offset_of(theirs, lambda: now))
    assert found.error_ns == 20_000 and abs(found.ns + HOUR_NS) <= 20_000


def test_a_clock_that_drifted_is_known_less_well() -> None:
    assert Offset(1_000, 100).drifted(Offset(2_000, 300)) == Offset(1_500, 800)


def _sample(at_ns: int) -> Sample:
    return Sample(
        at_ns, at_ns, at_ns + 5, at_ns + 20, None, array("q", [at_ns + 5, at_ns + 20]), 2, 2, 1, None
    )


def test_samples_move_with_all_their_times_and_keep_their_latencies() -> None:
    far = LevelSamples(1, 1, counted=[_sample(HOUR_NS + 7)], uncounted=[_sample(HOUR_NS)])
    moved = on_our_clock(far, Offset(HOUR_NS, 900_000), "client 1 of 1")
    assert moved.counted == [_sample(7)] and moved.uncounted == [_sample(0)]
    assert moved.counted[0].ttft_ms == far.counted[0].ttft_ms
    assert moved.notes == [], "below a millisecond nothing needs to be said"
    (note,) = on_our_clock(far, Offset(HOUR_NS, 1_600_000), "client 1 of 1").notes
    assert note.startswith("the clock of client 1 of 1 is known to 1.6 ms")


def test_without_ray_one_sentence_says_what_to_install() -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        with pacing(base_us=1000) as url, pytest.raises(InstrumentError, match=r"pip install 'preop\[ray\]'"):
            measured(url, concurrency=[1], requests=11, output_tokens=2, workers="ray")
    else:
        pytest.skip("Ray is here")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        yield str(nodes.address)
    finally:
        nodes.shutdown()


@pytest.mark.ray
def test_three_nodes_carry_a_level_together(cluster: str, tmp_path: Path) -> None:
    """The pacer's law: 12 requests fit, so each has its first token after one or two steps of 10 ms and
    the next ones every 10 ms."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": "how long is a piece of string?"}) + "\n")
    with pacing(base_us=10_000, slots=64) as url:
        load = measured(
            url,
            Inputs(prompts=str(prompts)),
            concurrency=[2, 12],
            requests=36,
            output_tokens=10,
            workers=f"ray:{cluster}",
        )
    assert load.stopped_because is None
    few, many = load.levels
    for level in (few, many):
        assert level.valid, level.voided_because
        assert (level.requests, level.errors) == (36, 0)
        assert level.tpot_ms.p50 == pytest.approx(10, rel=0.1)
        assert level.ttft_ms.p50 is not None and 9 <= level.ttft_ms.p50 <= 25
        assert level.effective_concurrency == pytest.approx(level.concurrency, rel=0.1)
    assert many.output_tokens_per_s == pytest.approx(12 * 10 / 0.11, rel=0.15)


@pytest.mark.ray
def test_a_node_that_dies_ends_the_level_and_keeps_the_ones_before(cluster: str) -> None:
    def kill(load: object) -> None:
        if isinstance(load, Load) and len(load.levels) == 1:
            threading.Timer(0.7, os.kill, (_actors()[0], signal.SIGKILL)).start()

    options = {"concurrency": [3, 6], "duration_s": 1.5, "output_tokens": 10, "workers": f"ray:{cluster}"}
    with pacing(base_us=10_000, slots=64) as url:
        load = LOAD.run(replace(job(url, {**options}), partial=kill))
    assert isinstance(load, Load)
    before, during = load.levels
    assert before.valid, before.voided_because
    assert during.voided_because is not None
    assert re.match(r"stopped: client \d of 3 \(node .*\) is lost: ", during.voided_because)
    assert during.requests > 0, "those of the others are kept"
    for _ in range(50):
        if not _actors():
            break
        time.sleep(0.1)
    assert _actors() == [], "nothing is left running"


def _actors() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(b"ray::_Actor"):
                found.append(int(folder.name))
        except OSError:  # ended meanwhile
            continue
    return found


@pytest.mark.ray
def test_a_node_whose_clock_is_an_hour_ahead_measures_with_the_others(cluster: str) -> None:
    """A time namespace of Linux gives the fourth node's processes another monotonic clock."""
    ahead = ["unshare", "--time", "--monotonic", "3600"]
    if shutil.which("unshare") is None or subprocess.run([*ahead, "true"], check=False).returncode:
        pytest.skip("no time namespaces here, or no right to make one")
    ray = Path(sys.executable).parent / "ray"
    command = [*ahead, str(ray), "start", "--address", cluster, "--num-cpus", "1", "--block"]
    node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if _nodes(cluster) == 4:
                break
            time.sleep(0.2)
        assert _nodes(cluster) == 4
        with pacing(base_us=10_000, slots=64) as url:
            load = measured(url, concurrency=[8], requests=40, output_tokens=10, workers=f"ray:{cluster}")
    finally:
        node.terminate()
        node.wait(30)
    (level,) = load.levels
    assert level.valid, level.voided_because
    assert level.requests == 40 and level.errors == 0
    assert level.window_s is not None and level.window_s < 5
    assert level.effective_concurrency == pytest.approx(8, rel=0.1)
    assert level.tpot_ms.p50 == pytest.approx(10, rel=0.1)


def _nodes(address: str) -> int:
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        return sum(node["Alive"] for node in ray.nodes())
    finally:
        ray.shutdown()


@pytest.mark.ray
def test_no_cluster_at_the_address_is_one_sentence() -> None:
    pytest.importorskip("ray")
    with pacing(base_us=1000) as url, pytest.raises(InstrumentError, match="no Ray cluster was reached at"):
        measured(url, concurrency=[1], requests=11, output_tokens=2, workers="ray:127.0.0.1:9")
