"""Judge of P14: does the endpoint really stream?

The probe's verdict decides. It proves the path that it took: through a gateway only when the URL is the
gateway's. Whether clients poll instead of streaming stands in the access log, which nothing here reads yet;
the summary says what was proven and no more.
"""

from __future__ import annotations

from preop.evidence import Streaming, Strength
from preop.findings import Finding, Item
from preop.pitfalls.clip import clip
from preop.pitfalls.say import failed, item, not_applicable, passed, place, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_COMMAND = "preop check --endpoint URL --measure streaming"


def judge(case: Case) -> Finding:
    """P14 for one deployment."""
    model = case.deployment.model
    if model is not None and model.is_generative is False:
        return not_applicable(
            Text("not generative: it answers at once, nothing to stream", "非生成式模型，一次返回，无需流式"),
            Strength.DECLARED,
            evidence=[Item("model", model.name, source=str(model.origin))],
        )
    seen = case.payload(Streaming)
    if seen is None:
        return _one_answer(case) or _not_measured(case)
    evidence = _evidence(case, seen)
    match seen.verdict:
        case "streams":
            return passed(
                Text(f"streams: {_rhythm(seen).en}", f"真流式：{_rhythm(seen).zh}"),
                Strength.MEASURED,
                evidence=evidence,
            )
        case "buffered":
            return failed(
                Text(
                    f"buffered: {_rhythm(seen).en}",
                    f"被缓冲：{_rhythm(seen).zh}",
                ),
                Strength.MEASURED,
                remedy=_UNBUFFER,
                evidence=evidence,
            )
        case "not-sse":
            kind = next((r.content_type for r in seen.requests if r.content_type), None)
            return failed(
                Text(
                    f"asked to stream, answered {clip(kind or 'without a content type', 36)}",
                    f"要求流式，返回的却是 {clip(kind or '无内容类型的响应', 36)}",
                ),
                Strength.MEASURED,
                remedy=_SERVE_SSE,
                evidence=evidence,
            )
    return unproven(
        Text("no streamed request finished", "没有一个流式请求完整结束"),
        needs=Text(
            f"an endpoint that finishes a streamed chat completion ({clip(seen.why, 200)}): {_COMMAND}",
            f"能完整返回流式对话的端点（{clip(seen.why, 200)}）：{_COMMAND}",
        ),
        strength=Strength.MEASURED,
        evidence=evidence,
    )


def _one_answer(case: Case) -> Finding | None:
    """Triton sends one response for each request unless the model's transaction policy is decoupled (Triton
    user guide, decoupled backends and models; the TensorRT-LLM and vLLM backends stream only then)."""
    decoupled = case.fact("decoupled")
    if decoupled.set_by != "user" or decoupled.value is not False:
        return None
    return failed(
        Text(
            "Triton gives one answer a request: decoupled is false",
            "Triton 每个请求只返回一次：decoupled 为 false",
        ),
        Strength.DECLARED,
        remedy=Text(
            "model_transaction_policy { decoupled: true } in config.pbtxt, and stream: true in the request",
            "在 config.pbtxt 中写 model_transaction_policy { decoupled: true }，并在请求中设 stream: true",
        ),
        evidence=[item("decoupled", decoupled)],
        where=place(decoupled),
    )


def _not_measured(case: Case) -> Finding:
    return unproven(
        Text("not probed whether the endpoint streams", "没有探测端点是否真流式"),
        needs=Text(_COMMAND, _COMMAND),
        evidence=[item("stream_interval", case.fact("stream_interval")), *_access_log(case)],
    )


def _rhythm(seen: Streaming) -> Text:
    """`41 reads over 812 ms`: of the request with most text events, first to last."""
    timed = [r for r in seen.requests if r.first_content_ms is not None and r.last_content_ms is not None]
    if not timed:
        return Text(clip(seen.why, 44), clip(seen.why, 44))
    best = max(timed, key=lambda request: request.content_events)
    span = (best.last_content_ms or 0.0) - (best.first_content_ms or 0.0)
    return Text(
        f"{best.content_events} text events, {best.reads} reads, over {span:,.0f} ms",
        f"{best.content_events} 个文本事件，{best.reads} 次读取，历时 {span:,.0f} ms",
    )


def _evidence(case: Case, seen: Streaming) -> list[Item]:
    items = [Item("verdict", seen.verdict, source=seen.url), Item("why", seen.why, source=seen.url)]
    for number, request in enumerate(seen.requests, start=1):
        source = f"request {number}, {seen.url}"
        items += [
            Item("content type", request.content_type, source=source),
            Item("reads", request.reads, source=source),
            Item("text events", request.content_events, source=source),
            Item("first text", request.first_content_ms, unit="ms", source=source),
            Item("last text", request.last_content_ms, unit="ms", source=source),
            Item("finished", request.finished, source=source),
        ]
        if request.error:
            items.append(Item("error", request.error, source=source))
    interval = case.fact("stream_interval")
    if interval.is_known:
        items.append(item("stream_interval", interval))
    return [*items, *_access_log(case)]


def _access_log(case: Case) -> list[Item]:
    """What was handed over and is not read yet is shown as that."""
    path = case.inputs.access_log
    return [] if path is None else [Item("access log, not read by this release", path, source="--access-log")]


_UNBUFFER = Text(
    "nginx: `proxy_buffering off; proxy_cache off; gzip off;` on this location, or let the service answer "
    "`X-Accel-Buffering: no`; keep text/event-stream out of every compressing middleware; on the engine keep "
    "--stream-interval small; then probe the engine itself and the gateway: "
    "preop measure streaming --endpoint URL",
    "nginx 在该 location 配置 `proxy_buffering off; proxy_cache off; gzip off;`，或由服务返回 "
    "`X-Accel-Buffering: no`；所有压缩中间件都要放过 text/event-stream；引擎的 --stream-interval 保持小值；"
    "然后分别探测引擎和网关：preop measure streaming --endpoint URL",
)
_SERVE_SSE = Text(
    'pass `"stream": true` through to the engine and hand its body on unread, with '
    "`Content-Type: text/event-stream`; a gateway that waits for the whole answer must be told to stream",
    '把 `"stream": true` 原样传给引擎，响应体不经缓存直接转发，并返回 `Content-Type: text/event-stream`；'
    "会等待完整响应的网关必须改成流式转发",
)
