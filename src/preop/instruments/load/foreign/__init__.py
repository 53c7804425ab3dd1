"""Results of other load generators as evidence: somebody else's measurement, with what it cannot show.

One module a tool: its schema, its definitions and how they become ours. A value that cannot be converted
exactly is left out, and `Load.cannot_show` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from preop.errors import InputError
from preop.evidence import Load
from preop.instruments.load.foreign import aiperf, guidellm, inference_perf, llm_d, sglang, vllm_bench
from preop.instruments.load.foreign.files import documents, result_files
from preop.instruments.load.foreign.result import Result, median_of
from preop.secrets import mask_text

__all__ = ["KNOWN", "read_results"]

KNOWN = "guidellm, AIPerf, vllm bench serve, inference-perf, sglang bench_serving or llm-d-benchmark"

_READERS: tuple[Callable[[dict[str, Any], str], list[Result] | None], ...] = (
    guidellm.read,
    aiperf.read,
    vllm_bench.read,
    inference_perf.read,
    sglang.read,
    llm_d.read,
)
_FIRST_WAVE = "Its first requests, all started at once, are part of its numbers; ours leave them out."
_MOST_NAMED = 5


def read_results(path: str) -> Load:
    """The levels in a result file, or in a folder of them.

    Raises `InputError` in one sentence: what is no result of a known tool, is broken or only a part, does not
    say its level, or mixes models, endpoints, tools or several results for one level.
    """
    root = Path(path)
    try:
        files = result_files(root)
    except (OSError, ValueError) as error:
        raise InputError(f"{path[:200]!r}: cannot be read: {error}") from error
    folder = files != [root]
    results: list[Result] = []
    unread: list[str] = []
    named: tuple[str | None, str | None] = (None, None)
    for file in files:
        name = str(file.relative_to(root)) if folder else file.name
        before = len(results)
        for where, document in documents(file):
            config = inference_perf.read_config(document, where) if folder else None
            if config is not None:
                named = config
                break
            pooled = folder and inference_perf.is_summary(document)
            found = None if pooled else _read(document, where)
            if found is None and len(results) > before:
                raise InputError(f"{where}: not a result of {KNOWN}, as the lines above it are")
            if found is None or _again(found, results):
                unread.append(name)
                break
            results += found
    if not results:
        raise InputError(f"{root}: not a result of {KNOWN}")
    return _load(results, named, unread, root)


def _read(document: Any, where: str) -> list[Result] | None:
    if not isinstance(document, dict):
        return None
    for reader in _READERS:
        found = reader(document, where)
        if found is not None:
            return found
    return None


def _again(found: list[Result], results: list[Result]) -> bool:
    """Whether this is a run that was read already: some tools write one in several files."""
    known = {result.run for result in results}
    return any(result.run is not None and result.run in known for result in found)


def _load(results: list[Result], named: tuple[str | None, str | None], unread: list[str], root: Path) -> Load:
    tool = _one("tools", ((result.tool, result) for result in results), root) or ""
    model = _one("models", ((result.model, result) for result in results), root)
    url = _one("endpoints", ((result.url, result) for result in results), root)
    notes = [f"imported from {root.name}"]
    kept = _one_loop(results, notes)
    by_load: dict[float, Result] = {}
    for result in kept:
        level = result.level
        load = level.concurrency if level.offered_per_s is None else level.offered_per_s
        other = by_load.setdefault(load, result)
        if other is not result:
            what = "requests/s" if level.offered_per_s is not None else "concurrent requests"
            raise InputError(
                f"{root}: two results at {load:g} {what} ({other.where} and {result.where}): keep one"
            )
    levels = [by_load[load].level for load in sorted(by_load)]
    prompts = [level.prompt_tokens for level in levels if level.prompt_tokens is not None]
    outputs = [level.output_tokens for level in levels if level.output_tokens is not None]
    for name, lengths in (("prompts", prompts), ("answers", outputs)):
        if lengths and max(lengths) > 1.5 * min(lengths) + 8:
            notes.append(
                f"the levels differ in more than load: {name} of {min(lengths)} to {max(lengths)} tokens"
            )
    if unread:
        more = f" and {len(unread) - _MOST_NAMED} more" if len(unread) > _MOST_NAMED else ""
        first = ", ".join(unread[:_MOST_NAMED])
        notes.append(f"not read, since no result of one level or one already read: {first}{more}")
    cannot_show = list(dict.fromkeys(said for result in kept for said in result.cannot_show))
    if kept[0].loop == "closed":
        cannot_show.append(_FIRST_WAVE)
    measured = Load(
        url=mask_text(url or named[1] or "unknown"),
        model=model or named[0],
        prompt_tokens=_middle(prompts),
        output_tokens=_middle(outputs),
        levels=levels,
        loop=kept[0].loop,
        tool=tool,
        cannot_show=cannot_show,
        notes=notes,
    )
    try:
        # What was computed from numbers in range may be out of it.
        return msgspec.convert(msgspec.to_builtins(measured), Load)
    except msgspec.ValidationError as error:
        raise InputError(f"{root}: its numbers cannot be those of a measurement: {error}") from error


def _one(what: str, named: Iterable[tuple[str | None, Result]], root: Path) -> str | None:
    """The name that all results have; those without any do not contradict."""
    found: dict[str, Result] = {}
    for name, result in named:
        if name is not None:
            found.setdefault(name, result)
    if len(found) > 1:
        (first, one), (second, other) = list(found.items())[:2]
        raise InputError(
            f"{root}: results of several {what}: "
            f"{first[:80]!r} ({one.where}) and {second[:80]!r} ({other.where})"
        )
    return next(iter(found), None)


def _one_loop(results: list[Result], notes: list[str]) -> list[Result]:
    """The results of the loop that has more of them: a curve is over concurrency or over rate."""
    closed = [result for result in results if result.loop == "closed"]
    opened = [result for result in results if result.loop == "open"]
    kept, left = (closed, opened) if len(closed) >= len(opened) else (opened, closed)
    if left:
        plural = "s" if len(left) > 1 else ""
        notes.append(
            f"{len(left)} level{plural} of the {left[0].loop} loop left out: {kept[0].loop} ones are more"
        )
    return kept


def _middle(values: list[int]) -> int | None:
    middle = median_of(values)
    return None if middle is None else round(middle)
