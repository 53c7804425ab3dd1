"""The client's numbers against a real engine's own histograms."""

from __future__ import annotations

from statistics import fmean

import pytest

from preop.deployment.types import Deployment
from preop.instruments.load.options import options_of
from preop.instruments.load.runner import Runner
from preop.instruments.load.samples import LevelSamples
from preop.instruments.types import Access, Job
from preop.instruments.wire.client import run_loop

pytestmark = pytest.mark.vllm


def level(url: str, concurrency: int) -> LevelSamples:
    access = Access(url)
    options: dict[str, object] = {"concurrency": [concurrency], "output_tokens": 24}
    job = Job(Deployment("d", "vllm", "test", {}), access, options=options)

    async def main() -> LevelSamples:
        runner = Runner(job, access, options_of(job))
        await runner.ready()
        return await runner.closed(concurrency, 24, 300)

    return run_loop(main())


@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_client_sees_what_the_engine_says_it_did(vllm_url: str, concurrency: int) -> None:
    """The engine's means are over its first wave, the counted and the torn-down requests that it finished."""
    samples = level(vllm_url, concurrency)
    assert not [sample.error for sample in samples.counted if sample.error is not None]
    server = samples.server
    assert server is not None and server.requests is not None
    assert server.running_max is not None and server.running_max <= concurrency
    whole = [sample for sample in (*samples.counted, *samples.uncounted) if sample.finish_ns is not None]
    ours = fmean(sample.ttft_ms for sample in whole if sample.ttft_ms is not None)
    assert server.ttft_mean_ms is not None
    assert ours == pytest.approx(server.ttft_mean_ms, rel=0.25, abs=15)
    tpot = fmean(sample.tpot_ms for sample in whole if sample.tpot_ms is not None)
    assert server.tpot_mean_ms is not None and tpot == pytest.approx(server.tpot_mean_ms, rel=0.10)
    e2e = fmean(sample.e2e_ms for sample in whole if sample.e2e_ms is not None)
    assert server.e2e_mean_ms is not None and e2e == pytest.approx(server.e2e_mean_ms, rel=0.10)
