"""The open loop: arrival processes against their closed forms, traces in public formats, known servers."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire.pacers import pacing

from load.measuring import measured
from preop.errors import InputError, UsageError
from preop.instruments.load.arrivals import parse_process, read_trace


@pytest.mark.parametrize(
    ("text", "cv"), [("constant", 0.0), ("poisson", 1.0), ("gamma:0.5", 0.5), ("gamma:3", 3.0)]
)
def test_gaps_have_the_mean_and_the_variation_of_the_process(text: str, cv: float) -> None:
    offsets = list(itertools.islice(parse_process(text).offsets(20.0, seed=7), 20_000))
    gaps = [later - earlier for earlier, later in itertools.pairwise([0.0, *offsets])]
    mean = statistics.fmean(gaps)
    assert mean == pytest.approx(0.05, rel=0.08)
    assert statistics.pstdev(gaps) / mean == pytest.approx(cv, rel=0.08, abs=1e-9)


@pytest.mark.parametrize(
    "text", ["", "uniform", "gamma", "gamma:", "gamma:0", "gamma:-1", "gamma:nan", "poisson:2"]
)
def test_what_is_no_process(text: str) -> None:
    with pytest.raises(UsageError, match="--arrivals"):
        parse_process(text)


def trace(tmp_path: Path, content: str) -> list[tuple[float, int | None, int | None]]:
    path = tmp_path / "trace"
    path.write_text(content)
    return [
        (round(each.offset_s, 6), each.prompt_tokens, each.output_tokens) for each in read_trace(str(path))
    ]


def test_the_format_of_azure(tmp_path: Path) -> None:
    rows = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,110,27\n"
    )
    assert trace(tmp_path, rows) == [(0.0, 4808, 10), (0.052, 110, 27)]


def test_the_format_of_burstgpt(tmp_path: Path) -> None:
    rows = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n"
        "118,GPT-4,417,276,693,API log\n"
    )
    assert trace(tmp_path, rows) == [(0.0, 472, 18), (113.0, 417, 276)]  # no answer: a request that failed


def test_the_format_of_mooncake(tmp_path: Path) -> None:
    rows = (
        '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}\n'
        '{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46]}\n'
    )
    assert trace(tmp_path, rows) == [(0.0, 6955, 52), (3.053, 6472, 26)]


def test_rows_out_of_order_are_sorted(tmp_path: Path) -> None:
    assert [row[0] for row in trace(tmp_path, "time\n9\n\n3\n5\n")] == [0.0, 2.0, 6.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column"), ("a,b\n1,2\n", ":1: no column"), ("timestamp\n", "no arrival"),
        ("timestamp\n1\nx\n", ":3: has no timestamp"), ("timestamp\nnan\n", ":2: has no timestamp"),
        ("timestamp,output_tokens\n1,-4\n", ":2: '-4' is no number of tokens"),
        ('{"timestamp": 1}\n[\n', ":2: is no JSON"),
        ('{"a": 1}\n', ":1: has no timestamp"), ("timestamp\n1e300\n", "no timestamp"),
    ],
)  # fmt: skip
def test_what_is_no_trace(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        trace(tmp_path, content)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: ("timestamp,x\n" + text).encode()))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_a_trace_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-trace"
    path.write_bytes(content)
    try:
        offsets = [arrival.offset_s for arrival in read_trace(str(path))]
    except InputError:
        return
    assert offsets[0] == 0 and offsets == sorted(offsets)


def test_the_offered_rate_is_met() -> None:
    with pacing(open=True, ttft_us=20_000, itl_us=2_000) as url:
        (level,) = measured(url, rate="40", arrivals="constant", duration_s=2.0, output_tokens=8).levels
    assert level.valid, level.voided_because
    assert level.requests in (80, 81) and level.offered_per_s == pytest.approx(40, abs=0.5)
    assert level.achieved_per_s == pytest.approx(40, rel=0.05)
    assert level.start_delay_ms.p50 is not None and level.start_delay_ms.p50 < 2
    assert level.ttft_ms.p50 == pytest.approx(20.3, abs=2)
    # Little's law: 40 a second, each 34 ms.
    assert level.effective_concurrency == pytest.approx(40 * 0.034, rel=0.15)


def test_waiting_for_a_slot_counts_from_the_intended_start() -> None:
    """One slot, 10 ms a request: at intervals of 50 ms all are on time, at 5 ms it can only fall behind."""
    with pacing(slots=1, base_us=5_000) as url:
        slow, fast = measured(url, rate="20,200", arrivals="constant", duration_s=1.5, output_tokens=2).levels
    assert slow.valid, slow.voided_because
    assert slow.e2e_ms.p50 == pytest.approx(10.3, abs=3)
    assert not fast.valid and "no steady state" in str(fast.voided_because)
    assert fast.e2e_ms.p50 is not None and fast.e2e_ms.p50 > 300  # the wait is in the latency


def test_a_trace_is_replayed_with_its_own_lengths(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "timestamp,output_tokens\n" + "".join(f"{n * 0.2},{4 if n % 2 else 12}\n" for n in range(20))
    )
    with pacing(open=True, ttft_us=5_000, itl_us=1_000) as url:
        load = measured(url, trace=str(path), trace_speed=2.0)
    (level,) = load.levels
    assert load.loop == "open" and level.valid, level.voided_because
    assert level.requests == 20 and level.offered_per_s == pytest.approx(20 / 1.9, rel=0.02)
    assert level.output_tokens == 8  # between 4 and 12


def test_the_objective_at_rates() -> None:
    with pacing(slots=2, base_us=4_000, per_seq_us=4_000) as url:
        load = measured(
            url, rate="5,100", slo="e2e_p90=60ms", requests=60, output_tokens=4, arrivals="constant"
        )
    assert load.slo is not None and load.slo.concurrency is None
    assert load.slo.rate_per_s == 5 and load.slo.resolved, load.slo
