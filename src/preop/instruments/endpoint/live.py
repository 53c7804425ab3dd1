"""A running engine, read through its read-only routes.

None of them makes a token: /health of SGLang and of TGI may generate one, so it is asked only of engines
that are known not to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from preop.errors import InstrumentError
from preop.evidence import Live, Route
from preop.facts import Fact
from preop.instruments.endpoint import llama_cpp, models, sglang, tgi, vllm
from preop.instruments.endpoint.address import base_url, shown
from preop.instruments.endpoint.client import Answer, get_all
from preop.instruments.endpoint.exposition import Exposition, canonical, parse
from preop.instruments.endpoint.told import mapping, rows
from preop.instruments.types import Access

__all__ = ["interpret", "read_endpoint"]

_METRICS = "/metrics"
_HEALTH = "/health"
_ROUTES = ("/v1/models", _METRICS, "/version", "/props", "/slots", "/server_info?config_format=json", "/info")
_OLD_SERVER_INFO = "/get_server_info"  # SGLang before 0.5
# What each engine has by itself; elsewhere a 404 is no news.
_OWN_ROUTES = {
    "vllm": ("/v1/models", _METRICS, "/version", _HEALTH),
    "sglang": ("/v1/models", _METRICS, "/server_info", _OLD_SERVER_INFO),
    "llama.cpp": ("/v1/models", _METRICS, "/props", "/slots", _HEALTH),
    "tgi": ("/v1/models", _METRICS, "/info"),
}
_HEALTH_IS_FREE = ("vllm", "llama.cpp")

# `owned_by` in /v1/models and the header `Server` are the engine naming itself.
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp"}
_SERVERS = {"llama.cpp": "llama.cpp"}

# Which failure is told where routes fail in different ways, the most telling first.
_TELLING = ("certificate", "auth", "redirect", "html", "tls", "not-http", "half", "timeout", "body", "status")


def read_endpoint(access: Access) -> Live:
    """What the engine at `access.url` says of itself.

    Raises `UsageError` for a URL, key or certificate bundle that cannot be used, `InstrumentError` with one
    sentence when nothing there is an engine's answer. A route that fails is a note in `Live.routes`.
    Takes about `access.timeout_s` where nothing answers, three times that at most. Starts an event loop of
    its own: not to be called from within one.
    """
    base = base_url(access.url)
    answers = get_all(access, base, _ROUTES)
    if _may_be_old_sglang(answers):
        answers += get_all(access, base, [_OLD_SERVER_INFO])
    live = interpret(shown(base), answers)
    if live.engine in _HEALTH_IS_FREE:
        health = get_all(access, base, [_HEALTH])[0]
        live = Live(live.url, live.engine, live.facts, live.metrics, [*live.routes, _route(health)])
    return live


def interpret(url: str, answers: Sequence[Answer]) -> Live:
    """The facts in a set of answers. Raises `InstrumentError` when none of them is an engine's."""
    answers = [replace(answer, path=answer.path.split("?")[0]) for answer in answers]
    jsons, routes = {}, []
    exposition = Exposition()
    for answer in answers:
        if answer.body is not None and answer.path == _METRICS:
            exposition = parse(answer.body)
            answer = replace(answer, note=exposition.note)
        elif answer.body is not None:
            value = _json(answer.body)
            if value is None:
                answer = replace(answer, note="answers with no JSON object or list")
            else:
                jsons[answer.path] = value
        routes.append(_route(answer))
    signs = _signs(answers, jsons, exposition)
    if not signs and not models.base_models(jsons.get("/v1/models")):
        raise InstrumentError(_nothing(url, answers))
    engine = signs.pop() if len(signs) == 1 else "unknown"
    if signs and engine == "unknown":
        names = ", ".join(sorted(signs))
        routes = _noted(
            routes, "/v1/models", f"signs of several engines ({names}): a gateway? None is assumed"
        )
    own = _OWN_ROUTES.get(engine, _ROUTES)
    routes = [r if r.status != 404 or r.path in own else Route(r.path, r.status) for r in routes]
    facts = _facts(engine, jsons, exposition)
    metrics, note = canonical(exposition, engine, _version(facts))
    if note:
        routes = _noted(routes, _METRICS, note)
    return Live(url=url, engine=engine, facts=facts, metrics=metrics, routes=routes)


def _facts(engine: str, jsons: Mapping[str, Any], exposition: Exposition) -> dict[str, Fact]:
    listed = models.facts(jsons.get("/v1/models"), engine)
    if engine == "vllm":
        return listed | vllm.facts(jsons, exposition)
    if engine == "sglang":
        for route in ("/server_info", _OLD_SERVER_INFO):
            if sglang.is_server_info(jsons.get(route)):
                # The list's length is the resolved one; the argument may be null.
                return sglang.metrics_facts(exposition) | sglang.facts(jsons[route], route) | listed
        return sglang.metrics_facts(exposition) | listed
    if engine == "llama.cpp":
        return listed | llama_cpp.facts(jsons)
    if engine == "tgi" and tgi.is_info(jsons.get("/info")):
        return listed | tgi.facts(jsons["/info"])
    return listed


def _signs(answers: Sequence[Answer], jsons: Mapping[str, Any], exposition: Exposition) -> set[str]:
    """The engines that an answer names, or that an answer's shape belongs to. A status, a bare version or
    a list of models names none."""
    found = {
        _OWNERS[owner]
        for entry in rows(mapping(jsons.get("/v1/models")).get("data"))
        if isinstance(owner := entry.get("owned_by"), str) and owner in _OWNERS
    }
    found |= {engine for engine in ("vllm", "sglang", "llama.cpp", "tgi") if exposition.of(engine)}
    found |= {_SERVERS[answer.server] for answer in answers if answer.body and answer.server in _SERVERS}
    if llama_cpp.is_props(jsons.get("/props")):
        found.add("llama.cpp")
    if any(sglang.is_server_info(jsons.get(route)) for route in ("/server_info", _OLD_SERVER_INFO)):
        found.add("sglang")
    if tgi.is_info(jsons.get("/info")):
        found.add("tgi")
    return found


def _may_be_old_sglang(answers: Sequence[Answer]) -> bool:
    by_path = {answer.path.split("?")[0]: answer for answer in answers}
    listing = by_path["/v1/models"].body or b""
    metrics = by_path[_METRICS].body or b""
    return by_path["/server_info"].status == 404 and (b'"sglang"' in listing or b"sglang:" in metrics)


def _version(facts: Mapping[str, Fact]) -> str | None:
    fact = facts.get("engine_version")
    return fact.value if fact is not None and isinstance(fact.value, str) else None


def _json(body: bytes) -> Any:
    """The object or list in a body; None for all else."""
    import msgspec

    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _route(answer: Answer) -> Route:
    return Route(answer.path, answer.status, answer.note)


def _noted(routes: list[Route], path: str, note: str) -> list[Route]:
    return [
        Route(route.path, route.status, f"{route.note}; {note}" if route.note else note)
        if route.path == path
        else route
        for route in routes
    ]


def _nothing(url: str, answers: Sequence[Answer]) -> str:
    """One sentence for an endpoint that gave nothing to read."""
    failed = [answer for answer in answers if answer.failure]
    silent = [answer for answer in failed if answer.status is None]
    if silent and len(silent) == len(answers):
        return f"{url}: {_most_telling(silent).note}"
    telling = [answer for answer in failed if answer.status != 404]
    if telling:
        worst = _most_telling(telling)
        return f"{url}{worst.path}: {worst.note}"
    if all(answer.status == 404 for answer in answers):
        return f"{url}: answers 404 on every route of an engine: expected its base URL, with its path prefix"
    return f"{url}: answers, but nothing there is an inference engine's (no model list, no known metrics)"


def _most_telling(failed: Sequence[Answer]) -> Answer:
    order = {word: position for position, word in enumerate(_TELLING)}
    return min(failed, key=lambda answer: order.get(answer.failure or "", -1))
