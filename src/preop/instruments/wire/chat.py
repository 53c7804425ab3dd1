"""What a streamed chat completion says: tokens, usage, the finish, and whether it was one at all.

A stream counts as finished only when a `finish_reason` and the end of the body were both seen and nothing
in it was an error. An HTTP 200 proves nothing: engines send their errors inside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from preop.instruments.wire.client import Connection, Response, Target
from preop.instruments.wire.errors import WireError, clean
from preop.instruments.wire.sse import Event, Parser

__all__ = ["ChatStream", "Piece", "chat", "chat_body", "first_model", "parse_chat"]

Messages = Sequence[dict[str, Any]]

_FAILED_FINISH = {"error", "abort", "aborted", "cancelled", "canceled"}
"""finish_reasons that mean that the engine gave up."""


class Piece(msgspec.Struct, frozen=True, gc=False):
    """One event that carried generated text (answer, reasoning or tool call)."""

    ns: int
    """The time of the read that completed it."""
    read: int
    """Which read of the body that was, from 0."""
    text: str
    """Its text; of a tool call its arguments."""


@dataclass
class ChatStream:
    """One streamed chat completion, read. `error` is None only for one that finished."""

    response: Response
    reads: int = 0
    events: int = 0
    pieces: list[Piece] = field(default_factory=list)
    model: str | None = None
    finish_reason: str | None = None
    finish_ns: int | None = None
    """The read that brought the finish_reason: the end of the last generation step."""
    done: bool = False
    """`[DONE]` was seen."""
    is_sse: bool = False
    """The content type is text/event-stream."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    """From `usage`, never counted from events."""
    cached_tokens: int | None = None
    """Prompt tokens that the engine took from its prefix cache, where it says so."""
    error: WireError | None = None

    @property
    def text(self) -> str:
        """All generated text."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def first_ns(self) -> int | None:
        """When the first generated text was here."""
        return self.pieces[0].ns if self.pieces else None

    @property
    def last_ns(self) -> int | None:
        """When the last generated text was here."""
        return self.pieces[-1].ns if self.pieces else None


def chat_body(
    model: str | None,
    messages: Messages,
    max_tokens: int | None,
    *,
    ignore_eos: bool = False,
    seed: int | None = None,
) -> bytes:
    """A streamed request with usage. `max_tokens` None: the answer ends by itself. `ignore_eos` only for
    engines that know it."""
    body: dict[str, Any] = {
        "messages": list(messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    if model is not None:
        body["model"] = model
    if ignore_eos:
        body["ignore_eos"] = True
    if seed is not None:
        body["seed"] = seed
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


async def chat(
    connection: Connection, body: bytes, timeout_s: float, accept_encoding: str = "identity"
) -> Response:
    """One streamed chat completion, not yet read: give it to `parse_chat` when time no longer matters."""
    return await connection.request(
        "POST",
        "/v1/chat/completions",
        body,
        headers={"Accept": "text/event-stream", "Accept-Encoding": accept_encoding},
        timeout_s=timeout_s,
    )


async def first_model(target: Target, timeout_s: float) -> str | None:
    """The first model that /v1/models names; None where the route does not answer. Raises `WireError`
    when there is no connection."""
    connection = await Connection.open(target, timeout_s)
    try:
        response = await connection.request("GET", "/v1/models", timeout_s=timeout_s)
    finally:
        connection.close()
    if response.error is not None:
        raise response.error
    try:
        model = json.loads(response.body())["data"][0]["id"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError, WireError):
        return None
    return model if response.status == 200 and isinstance(model, str) else None


def parse_chat(response: Response, api_key: str | None = None) -> ChatStream:
    """Read what came. Never raises: what is wrong is in `error`."""
    stream = ChatStream(response)
    stream.is_sse = response.content_type == "text/event-stream"
    try:
        reads = response.reads()
        if response.status is not None and response.status != 200:
            stream.reads = len(reads)
            raise _http_error(response, api_key)
        _read_events(stream, reads, api_key)
        if response.error is not None:
            raise response.error
        _check_end(stream)
    except WireError as error:
        stream.error = error
    return stream


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: None = None
    tool_calls: None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    finish_reason: None = None


class _TextChunk(msgspec.Struct, gc=False):
    """An event with generated text and nothing else. Any other does not fit: it is read the long way."""

    choices: tuple[_Choice]
    object: Literal["chat.completion.chunk"] | None = None
    error: None = None
    usage: None = None


_text_chunk = msgspec.json.Decoder(_TextChunk).decode


def _read_events(stream: ChatStream, reads: list[tuple[int, bytes]], api_key: str | None) -> None:
    stream.reads = len(reads)
    if not stream.is_sse and reads and b"".join(piece for _, piece in reads).lstrip()[:1] == b"{":
        _read_document(stream, reads, api_key)
        return
    parser, pieces = Parser(), stream.pieces
    idle = parser.idle
    for number, (ns, data) in enumerate(reads):
        text = _plain_text(data) if idle else None
        if text:  # one whole event, as nearly always
            stream.events += 1
            pieces.append(Piece(ns, number, text))
            continue
        for part in _events(data):
            text = _plain_text(part) if idle else None
            if text:
                stream.events += 1
                pieces.append(Piece(ns, number, text))
                continue
            for event in parser.feed(part):
                _take_event(stream, ns, number, event, api_key)
            idle = parser.idle
    for event in parser.close():
        _take_event(stream, reads[-1][0], len(reads) - 1, event, api_key)


def _events(data: bytes) -> list[bytes]:
    """`data` cut after each empty line."""
    *whole, rest = data.split(b"\n\n")
    return [*(part + b"\n\n" for part in whole), *((rest,) if rest else ())]


def _plain_text(part: bytes) -> str | None:
    """The text of a whole event that carries nothing else; None for any other."""
    if part[:7] != b"data: {" or part.find(b"\n") != len(part) - 2 or b"\r" in part:
        return None
    try:
        delta = _text_chunk(part[6:]).choices[0].delta
    except ValueError:
        return None
    if delta.reasoning_content or delta.reasoning:
        texts = [text for text in (delta.content, delta.reasoning_content, delta.reasoning) if text]
        return texts[0] if len(texts) == 1 else None
    return delta.content


def _take_event(stream: ChatStream, ns: int, number: int, event: Event, api_key: str | None) -> None:
    stream.events += 1
    if event.data.strip() == "[DONE]":
        stream.done = True
    else:
        _read_event(stream, ns, number, event, api_key)


def _read_event(stream: ChatStream, ns: int, number: int, event: Event, api_key: str | None) -> None:
    try:
        chunk = json.loads(event.data)
    except (ValueError, RecursionError):
        if event.name == "error":
            raise WireError(
                "engine", f"the engine reports inside the stream: {clean(event.data, api_key)}"
            ) from None
        shown = clean(event.data, api_key)
        raise WireError("content", f"event {stream.events} of the stream is not JSON: {shown}") from None
    problem = _in_band_error(chunk, event.name)
    if problem is not None:
        raise WireError("engine", f"the engine reports inside the stream: {clean(problem, api_key)}")
    if not isinstance(chunk, dict):
        raise WireError("content", f"event {stream.events} of the stream is not a JSON object")
    _read_chunk(stream, ns, number, chunk)


def _read_chunk(stream: ChatStream, ns: int, number: int, chunk: dict[str, Any]) -> None:
    if isinstance(chunk.get("model"), str):
        stream.model = chunk["model"]
    _read_usage(stream, chunk.get("usage"))
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        delta = choice.get("delta")
        generated = _generated(delta) if isinstance(delta, dict) else None
        if generated is not None:
            stream.pieces.append(Piece(ns, number, generated))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            stream.finish_reason, stream.finish_ns = reason, ns


def _generated(delta: dict[str, Any]) -> str | None:
    """Generated text of a delta; None for one that carries none (a role, an empty string)."""
    parts = [value for key in ("reasoning_content", "reasoning", "content", "refusal")
             if isinstance(value := delta.get(key), str) and value]  # fmt: skip
    if parts and delta.get("reasoning_content") == delta.get("reasoning") is not None:
        parts = parts[1:]  # the same text under its old and its new name
    called = False
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            for key in ("name", "arguments"):
                if isinstance(value := function.get(key), str) and value:
                    called = True
                    parts.append(value if key == "arguments" else "")
    return "".join(parts) if parts or called else None


def _read_usage(stream: ChatStream, usage: object) -> None:
    if not isinstance(usage, dict):
        return
    stream.prompt_tokens = _count(usage.get("prompt_tokens"), stream.prompt_tokens)
    stream.output_tokens = _count(usage.get("completion_tokens"), stream.output_tokens)
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        stream.cached_tokens = _count(details.get("cached_tokens"), stream.cached_tokens)


def _count(value: object, otherwise: int | None) -> int | None:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
        else otherwise
    )


def _in_band_error(chunk: object, event_name: str) -> str | None:
    """The error that a chunk carries, in the shapes that engines and gateways use."""
    if not isinstance(chunk, dict):
        return str(chunk) if event_name == "error" else None
    error = chunk.get("error")
    if error:
        if isinstance(error, dict):
            return str(error.get("message") or json.dumps(error))
        return str(error)
    if chunk.get("object") == "error" or event_name == "error":
        return str(chunk.get("message") or json.dumps(chunk))
    return None


def _read_document(stream: ChatStream, reads: list[tuple[int, bytes]], api_key: str | None) -> None:
    """A JSON body where a stream was asked for: an error, or a whole answer at once."""
    try:
        document = json.loads(b"".join(piece for _, piece in reads))
    except (ValueError, RecursionError):
        kind = stream.response.content_type or "no content type"
        raise WireError("content", f"the answer is neither a stream nor JSON ({clean(kind)})") from None
    problem = _in_band_error(document, "message")
    if problem is not None:
        raise WireError("engine", f"HTTP 200 with an error in its body: {clean(problem, api_key)}")
    ns, last = reads[-1][0], len(reads) - 1
    _read_usage(stream, document.get("usage"))
    choices = document.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            message = choice.get("message")
            generated = _generated(message) if isinstance(message, dict) else None
            if generated is not None:
                stream.pieces.append(Piece(ns, last, generated))
            if isinstance(choice.get("finish_reason"), str):
                stream.finish_reason, stream.finish_ns = choice["finish_reason"], ns


def _check_end(stream: ChatStream) -> None:
    if stream.finish_reason in _FAILED_FINISH:
        raise WireError("engine", f"the engine gave up: finish_reason {stream.finish_reason}")
    if stream.finish_reason is None:
        got = f"after {len(stream.pieces)} pieces of text" if stream.pieces else "without any text"
        raise WireError("closed", f"the stream ended {got} and without a finish_reason: it was cut off")


def _http_error(response: Response, api_key: str | None) -> WireError:
    said = ""
    try:
        body = response.body()
        try:
            said = _in_band_error(json.loads(body), "error") or ""
        except (ValueError, RecursionError):
            said = body[:2000].decode("utf-8", "replace")
    except WireError:
        said = ""
    if response.status is not None and 300 <= response.status < 400:
        place = response.headers.get("location", "").partition("?")[0]
        said = f"it redirects to {place or 'nowhere'}; give that URL instead"
    said = clean(said, api_key)
    return WireError("http", f"HTTP {response.status}{': ' + said if said else ''}")
