"""Instrument "streaming": does the endpoint really stream, or does something hold the text back?

The same chat is asked for 16, 64 and 64 tokens, one request after another. How text was held back is told in
milliseconds, from when each event arrived and in which read from the socket:

- *lump*: the size of the read, in events, that the middle event came in (median over events, so that a
  machine that stalls once does not count as buffering);
- *pace*: milliseconds for each event after those of the first read, from first to last text;
- *held* = (lump - 1) x pace: how long text waited for the rest of its lump.

A request **streams** when its text came in 4 reads or more, not faster than 0.2 ms an event (5,000 events a
second in one stream: no engine generates so fast, only a buffer empties so fast), and held < 100 ms, the
limit below which a reaction is felt as instant (J. Nielsen, Usability Engineering, 1993). It is **buffered**
when lump >= 4 and held >= 100 ms. When all text came at once, neither is known: a fast small model looks
like a buffer. Then the time to the last text is held against the number of tokens: it grows with
them if they were generated and held back. That growth must show twice (16 to 64 and 64 to 256 tokens), and
amount to 100 ms over the longest answer, before the verdict is "buffered"; if it does not, the
instrument says that it cannot tell. The majority of the requests with 8 events or more decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Literal

from preop.errors import InstrumentError
from preop.evidence import StreamedRequest, Streaming
from preop.instruments.types import Instrument, Job
from preop.text import Text

if TYPE_CHECKING:
    from preop.instruments.wire.chat import ChatStream

__all__ = ["STREAMING", "classify", "decide"]

Verdict = Literal["streams", "buffered", "not-sse", "failed"]

_LENGTHS = (16, 64, 64)
_LONGER = (256, 1024)
_LEAST_EVENTS = 8
_LEAST_READS = 4
_LEAST_LUMP = 4
_FASTEST_MS = 0.2
_FELT_MS = 100.0
_TIMEOUT_S = 120.0

_CHAT = [
    {"role": "user", "content": "Write the numbers from one to two hundred as words, one after another."}
]


def classify(stream: ChatStream) -> tuple[Literal["streams", "buffered", "at-once", "short"], float]:
    """How one finished request arrived, and for how many milliseconds its text was held back."""
    events = len(stream.pieces)
    if events < _LEAST_EVENTS:
        return "short", 0.0
    sizes = Counter(piece.read for piece in stream.pieces)
    lump = median(sizes[piece.read] for piece in stream.pieces)
    after_first = events - sizes[stream.pieces[0].read]
    span_ms = (stream.pieces[-1].ns - stream.pieces[0].ns) / 1e6
    pace_ms = span_ms / after_first if after_first else 0.0
    held_ms = (lump - 1) * pace_ms
    if pace_ms < _FASTEST_MS:
        return "at-once", 0.0
    if lump >= _LEAST_LUMP and held_ms >= _FELT_MS:
        return "buffered", held_ms
    return ("streams", held_ms) if len(sizes) >= _LEAST_READS else ("at-once", 0.0)


def decide(streams: Sequence[ChatStream]) -> tuple[Verdict | None, str]:
    """The verdict over all requests so far and why; None when they do not tell."""
    finished = [stream for stream in streams if stream.error is None]
    if not finished:
        return "failed", f"no request finished: {streams[-1].error if streams else 'none was sent'}"
    plain = next((stream for stream in finished if not stream.is_sse), None)
    if plain is not None:
        kind = plain.response.content_type or "no content type"
        return "not-sse", f"a stream was asked for and {kind[:80]} came, not text/event-stream"
    told = [(classify(stream), stream) for stream in finished]
    votes = Counter(kind for (kind, _), _ in told if kind != "short")
    if not votes:
        most = max(len(stream.pieces) for stream in finished)
        return None, f"the answers are too short to tell ({most} events, {_LEAST_EVENTS} are needed)"
    kind, count = votes.most_common(1)[0]
    if count * 2 <= votes.total():
        return None, f"the requests disagree: {', '.join(f'{n} {name}' for name, n in votes.items())}"
    if kind == "at-once":
        return _decide_at_once(finished)
    held_ms = median(held for (name, held), _ in told if name == kind)
    pieces, reads = _sizes(max(finished, key=lambda stream: len(stream.pieces)))
    arrived = f"{pieces} events of text came in {reads} reads"
    if kind == "buffered":
        return "buffered", f"{arrived}: text is held back for {held_ms:.0f} ms, then comes in lumps"
    return "streams", f"{arrived}, spread over the generation; text is held back for {held_ms:.0f} ms"


def _decide_at_once(finished: Sequence[ChatStream]) -> tuple[Verdict | None, str]:
    """All text at once: a buffer, if the time to it grows with the number of tokens; else nobody knows."""
    by_length: dict[int, float] = {}
    for stream in finished:
        length = stream.output_tokens or len(stream.pieces)
        if stream.last_ns is not None:
            took_ms = (stream.last_ns - stream.response.sent_ns) / 1e6
            by_length[length] = min(took_ms, by_length.get(length, took_ms))
    points = sorted(by_length.items())
    growth = [(took_b - took_a) / (b - a) for (a, took_a), (b, took_b) in pairwise(points) if b >= 1.5 * a]
    pieces, reads = _sizes(max(finished, key=lambda stream: len(stream.pieces)))
    arrived = f"{pieces} events of text came at once, in {reads} {'read' if reads == 1 else 'reads'}"
    if len(growth) >= 2 and min(growth) * points[-1][0] >= _FELT_MS:
        longest, took_ms = points[-1]
        return "buffered", (
            f"{arrived}, {took_ms:.0f} ms after the request, and each further token delays them by "
            f"{min(growth):.1f} ms: they are generated one by one and held back to the end ({longest} tokens)"
        )
    return None, f"{arrived}: the model is too fast, or its answers too short, to tell a stream from a buffer"


def _sizes(stream: ChatStream) -> tuple[int, int]:
    return len(stream.pieces), len({piece.read for piece in stream.pieces})


def _summary(stream: ChatStream) -> StreamedRequest:
    def since_sent(ns: int | None) -> float | None:
        return None if ns is None else round((ns - stream.response.sent_ns) / 1e6, 3)

    return StreamedRequest(
        status=stream.response.status,
        content_type=stream.response.content_type,
        reads=stream.reads,
        events=stream.events,
        content_events=len(stream.pieces),
        first_content_ms=since_sent(stream.first_ns),
        last_content_ms=since_sent(stream.last_ns),
        output_tokens=stream.output_tokens,
        finished=stream.error is None,
        error=str(stream.error) if stream.error is not None else None,
    )


def _run(job: Job) -> Streaming:
    from preop.instruments.wire.ask import Asker, knows_ignore_eos, model_name, reachable
    from preop.instruments.wire.chat import chat_body
    from preop.instruments.wire.client import Target, run_loop

    access = reachable(job)
    target = Target.of(access)

    async def measure() -> tuple[str | None, list[ChatStream], Verdict | None, str]:
        model = await model_name(target, job, access.timeout_s)
        # What client libraries send: a gateway that packs the stream may hold it back for that.
        asker = Asker(target, accept_encoding="gzip, deflate")
        streams: list[ChatStream] = []
        verdict: Verdict | None = None
        why = ""
        try:
            for number, length in enumerate((*_LENGTHS, *_LONGER)):
                if number >= len(_LENGTHS) and verdict is not None:
                    break
                job.progress(f"request {number + 1}, {length} tokens")
                body = chat_body(model, _CHAT, length, ignore_eos=knows_ignore_eos(job.deployment))
                streams.append(await asker.ask_and_read(body, max(_TIMEOUT_S, access.timeout_s)))
                verdict, why = decide(streams)
                last = streams[-1].error
                if last is not None and last.kind in ("http", "timeout"):
                    break  # the next one would say the same
        finally:
            asker.close()
        return model, streams, verdict, why

    model, streams, verdict, why = run_loop(measure())
    if verdict is None:
        raise InstrumentError(why)
    return Streaming(
        url=access.url,
        model=model,
        requests=[_summary(stream) for stream in streams],
        verdict=verdict,
        why=why,
    )


def _missing(job: Job) -> Text | None:
    if job.access is None:
        return Text(en="give the running endpoint: --endpoint URL", zh="请给出正在运行的端点：--endpoint URL")
    return None


STREAMING = Instrument(
    name="streaming",
    puts_load=False,
    run=_run,
    missing=_missing,
    depends_on=("engine_version", "stream_interval"),
    at_endpoint=True,
)
