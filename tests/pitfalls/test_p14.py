"""P14: the four verdicts of the probe, and no probe at all."""

from __future__ import annotations

from typing import Literal

from made import NOTHING, case, check, deployment, record

from preop.evidence import StreamedRequest, Streaming
from preop.facts import Origin
from preop.findings import Finding, Outcome
from preop.models.types import Model
from preop.pitfalls.p14_streaming import PITFALL


def judged(
    verdict: Literal["streams", "buffered", "not-sse", "failed"], request: StreamedRequest, why: str = "why"
) -> Finding:
    seen = Streaming("http://127.0.0.1:8000", "m", [request], verdict, why)
    return check(PITFALL, case(deployment(), record("streaming", seen)))


def request(
    kind: str | None = "text/event-stream", *, reads: int = 41, last: float = 912.0
) -> StreamedRequest:
    return StreamedRequest(200, kind, reads, 42, 40, 100.0, last, 40, True)


def test_streams() -> None:
    finding = judged("streams", request())
    assert finding.outcome is Outcome.PASS
    assert "40 text events, 41 reads, over 812 ms" in finding.summary.en


def test_buffered_fails_with_the_proxys_own_switch() -> None:
    finding = judged("buffered", request(reads=1, last=100.2))
    assert finding.outcome is Outcome.FAIL
    assert finding.remedy is not None
    for language in (finding.remedy.en, finding.remedy.zh):
        assert "proxy_buffering off" in language and "X-Accel-Buffering: no" in language
    assert any(i.name == "reads" and i.value == 1 for i in finding.evidence)


def test_another_content_type_fails_and_is_named() -> None:
    finding = judged("not-sse", request("application/json", reads=1))
    assert finding.outcome is Outcome.FAIL and "application/json" in finding.summary.en


def test_a_probe_that_did_not_finish_proves_nothing() -> None:
    broken = StreamedRequest(401, "application/json", 1, 0, 0, None, None, None, False, "needs a key")
    finding = judged("failed", broken, "the server wants a key")
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "the server wants a key" in finding.needs.en


def test_no_probe() -> None:
    assert check(PITFALL, case(NOTHING)).outcome is Outcome.UNPROVEN
    assert (
        check(PITFALL, case(deployment(), record("streaming", None, "refused"))).outcome is Outcome.UNPROVEN
    )
    embedder = Model("bge", Origin("model", "config.json"), is_generative=False)
    assert check(PITFALL, case(deployment(model_files=embedder))).outcome is Outcome.NOT_APPLICABLE
