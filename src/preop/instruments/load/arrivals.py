"""When requests are to start in an open loop: constant, Poisson, gamma, or the times of a trace.

Offsets are seconds from the start. They are laid down before anything is sent, so that a slow engine cannot
slow down what asks it (coordinated omission).
"""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from preop.errors import InputError, UsageError

__all__ = ["Arrival", "Process", "parse_process", "read_trace"]

_MOST_BYTES = 1 << 30
_TIMES = ("timestamp", "time", "ts", "arrival_time", "arrival_timestamp", "arrived_at", "arrived")
_PROMPTS = ("contexttokens", "request tokens", "input_length", "prompt_tokens", "input_tokens",
            "num_prefill_tokens")  # fmt: skip
_OUTPUTS = ("generatedtokens", "response tokens", "output_length", "output_tokens", "completion_tokens",
            "num_decode_tokens")  # fmt: skip
_EXPECTED = "expected CSV with a header or JSON Lines, each row with a timestamp (seconds, or ISO 8601)"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a trace."""

    offset_s: float
    prompt_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class Process:
    """Independent gaps between arrivals: gamma distributed with coefficient of variation `cv`.

    cv 0 is constant, 1 is Poisson (exponential gaps), above 1 comes in bursts.
    """

    name: str
    cv: float

    def offsets(self, per_s: float, seed: int) -> Iterator[float]:
        """Start times at `per_s` requests a second on average, without end."""
        mean, draw, now = 1 / per_s, random.Random(seed), 0.0
        shape = 1 / self.cv**2 if self.cv else math.inf
        while True:
            now += mean if self.cv == 0 else draw.gammavariate(shape, mean / shape)
            yield now


def parse_process(text: str) -> Process:
    """`constant`, `poisson`, or `gamma:CV`. Raises `UsageError`."""
    name, _, given = text.partition(":")
    if name in ("constant", "poisson") and not given:
        return Process(name, 0.0 if name == "constant" else 1.0)
    try:
        cv = float(given) if name == "gamma" else math.nan
    except ValueError:
        cv = math.nan
    if not 0 < cv <= 20:
        raise UsageError(f"--arrivals {text}: expected constant, poisson, or gamma:CV with CV from 0 to 20")
    return Process(text, cv)


def read_trace(path: str) -> list[Arrival]:
    """The arrivals of a trace, first at 0, in order of time.

    Columns are found by the names that public traces use (Azure LLM inference: TIMESTAMP, ContextTokens,
    GeneratedTokens; BurstGPT: Timestamp, Request tokens, Response tokens; Mooncake: timestamp in ms,
    input_length, output_length). Raises `InputError` with the line of what is no arrival.
    """
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: is larger than {_MOST_BYTES >> 30} GiB; give a part of it")
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}; {_EXPECTED}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no UTF-8 text; {_EXPECTED}") from None
    rows = _json_lines(path, text) if text.lstrip()[:1] == "{" else _csv(path, text)
    seen: list[tuple[float, Arrival]] = []
    for where, row in rows:
        at = _time(_one_of(row, _TIMES), where)
        if "hash_ids" in row:  # Mooncake's own unit
            at /= 1e3
        prompt, output = (_tokens(_one_of(row, names), where) for names in (_PROMPTS, _OUTPUTS))
        if output == 0:
            continue  # a request that failed there has no answer to ask for
        seen.append((at, Arrival(0.0, prompt, output)))
    if not seen:
        raise InputError(f"{path}: there is no arrival in it; {_EXPECTED}")
    seen.sort(key=lambda pair: pair[0])
    first = seen[0][0]
    return [Arrival(at - first, each.prompt_tokens, each.output_tokens) for at, each in seen]


def _csv(path: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(text))
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if not set(header) & set(_TIMES):
            raise InputError(f"{path}:1: no column of this header is a timestamp; {_EXPECTED}")
        for row in reader:
            if row:
                yield f"{path}:{reader.line_num}", dict(zip(header, row, strict=False))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: is no CSV: {error}") from None


def _json_lines(path: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}:{number}: is no JSON; {_EXPECTED}") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: is no JSON object; {_EXPECTED}")
        yield f"{path}:{number}", {str(key).strip().lower(): value for key, value in row.items()}


def _one_of(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if name in row), None)


def _time(value: Any, where: str) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = _calendar(value)
    if isinstance(value, bool) or not math.isfinite(seconds) or abs(seconds) > 1e12:
        raise InputError(f"{where}: has no timestamp that can be read; {_EXPECTED}")
    return seconds


def _calendar(value: Any) -> float:
    if not isinstance(value, str):
        return math.nan
    # Azure's traces have seven digits of a second; Python reads six.
    head, point, rest = value.strip().partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    text = f"{head}.{rest[: min(digits, 6)]}{rest[digits:]}" if point else head
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _tokens(value: Any, where: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        count = float(value)
    except (TypeError, ValueError, OverflowError):
        count = math.nan
    if isinstance(value, bool) or not 0 <= count <= 1e7 or count != int(count):
        raise InputError(f"{where}: {str(value)[:40]!r} is no number of tokens")
    return int(count)
