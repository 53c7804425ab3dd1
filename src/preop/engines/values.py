"""One value of a flag, read as its engine reads it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from preop.engines.types import Flag

__all__ = ["human_int", "loads", "read"]

_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|[kKmMgGtT])")
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}
_C_INTEGER = re.compile(r"\s*[+-]?\d+")
_C_FLOAT = re.compile(r"\s*[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)", re.I)
_RUST_COUNT = re.compile(r"\+?[0-9]+")
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')
_LONGEST_NUMBER = 400
"""Digits: what is longer is no number that an engine could use, and int() refuses it from 4300 on."""
_WIDEST = 2**63
"""Engines count in 64 bits: a larger number is a mistake, and would break every formula that it enters."""
_DEEPEST = 64
"""Levels of lists and objects in one value; real ones have about six."""


def human_int(text: str, engine: str) -> int:
    """An integer with a suffix. Raises `ValueError`.

    vLLM: k, m, g, t are powers of 1000 (decimals allowed), K, M, G, T powers of 1024 (whole numbers only).
    SGLang: k, M, G, T are powers of 1000, Ki, Mi, Gi, Ti powers of 1024.
    """
    text = text.strip()
    match = _SUFFIXED.fullmatch(text)
    if match is None:
        return int(text)
    number, suffix = match.groups()
    if engine == "sglang":
        if len(suffix) == 1 and suffix not in "kMGT":
            raise ValueError("SGLang has the suffixes k, M, G, T and Ki, Mi, Gi, Ti")
        is_binary = len(suffix) == 2
    else:
        if len(suffix) == 2:
            raise ValueError("vLLM has the suffixes k, m, g, t (1000) and K, M, G, T (1024)")
        is_binary = suffix.isupper()
    if is_binary and "." in number:
        raise ValueError(f"decimals go only with powers of 1000, not with {suffix}")
    power = _POWER[suffix[0].lower()]
    try:
        return int(number) * 1024**power if is_binary else int(float(number) * 1000**power)
    except OverflowError:
        raise ValueError("it must be a whole number of 64 bits") from None


def read(flag: Flag, text: str, engine: str) -> Any:
    """The value that `text` gives the flag; None where it says none. Raises `ValueError` with the reason."""
    if text in flag.null:
        return None
    value = _typed(flag, text, engine)
    if isinstance(value, int) and not -_WIDEST <= value < _WIDEST:
        raise ValueError("it must be a whole number of 64 bits")
    if flag.choices is not None:
        parts = value.split(",") if flag.repeats and isinstance(value, str) else [value]
        for part in parts:
            if part not in flag.choices:
                raise ValueError(f"it must be one of {', '.join(map(str, flag.choices))}")
    return value


def _typed(flag: Flag, text: str, engine: str) -> Any:
    if flag.kind in ("int", "human-int", "human-int-or-auto", "float") and len(text) > _LONGEST_NUMBER:
        raise ValueError("it must be a number")
    match flag.kind:
        case "int":
            return _integer(text, engine)
        case "human-int" | "human-int-or-auto":
            if flag.kind == "human-int-or-auto" and text.strip().lower() in ("-1", "auto"):
                return -1
            try:
                return human_int(text, engine)
            except ValueError as error:
                raise ValueError(_reason(error, "it must be a whole number, as 8192 or 8k")) from None
        case "float":
            return _float(text, engine)
        case "bool":  # of vLLM's StoreBoolean
            if text.lower() not in ("true", "false"):
                raise ValueError("it must be true or false")
            return text.lower() == "true"
        case "truthy":  # type=bool, of vLLM 0.4.0
            return bool(text)
        case "json":
            return _json(text)
        case "json-or-str":
            return _json(text) if re.fullmatch(r"(?s)\s*\{.*\}\s*", text) else text
        case _:
            return text


def _reason(error: ValueError, otherwise: str) -> str:
    return otherwise if str(error).startswith(("invalid literal", "Exceeds")) else str(error)


def _integer(text: str, engine: str) -> int:
    if engine == "llama.cpp":  # std::stoi: leading digits count, the rest is dropped
        match = _C_INTEGER.match(text)
        if match is None or not -(2**31) <= int(match[0]) < 2**31:
            raise ValueError("it must be a whole number of 32 bits")
        return int(match[0])
    if engine in ("tgi", "tei") and not _RUST_COUNT.fullmatch(text):
        raise ValueError("it must be a whole number from 0 on")
    try:
        return int(text)
    except ValueError:
        raise ValueError("it must be a whole number") from None


def _float(text: str, engine: str) -> float:
    if engine == "llama.cpp":
        match = _C_FLOAT.match(text)
        text = match[0] if match else ""
    try:
        value = float(text)
    except ValueError:
        raise ValueError("it must be a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("it must be a finite number")
    return value


def _json(text: str) -> Any:
    try:
        return loads(text)
    except ValueError as error:
        expanded = _expand(text)
        if expanded != text:
            try:
                return loads(expanded)
            except ValueError:
                pass  # the first reason is about the text as it was written
        raise ValueError(f"it must be JSON ({error})") from None


def loads(text: str) -> Any:
    """A JSON value that an engine could use: finite numbers of 64 bits, at most 64 levels deep.

    Raises `ValueError` with the reason.
    """

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is no JSON value")

    try:
        value = json.loads(text, parse_constant=refuse, parse_int=_json_int, parse_float=_json_float)
    except RecursionError:
        raise ValueError("nested too deep") from None
    level, depth = [value], 0
    while level := [inner for outer in level if isinstance(outer, dict | list) for inner in _inside(outer)]:
        depth += 1
        if depth > _DEEPEST:
            raise ValueError("nested too deep")
    return value


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _json_int(text: str) -> int:
    if len(text) > 20 or not -_WIDEST <= int(text) < 2 * _WIDEST:
        raise ValueError("a number is wider than 64 bits")
    return int(text)


def _json_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is not finite")
    return value


def _expand(text: str) -> str:
    """Bare 80g or 1k in JSON, as vLLM expands them outside of strings."""
    parts = _QUOTED.split(text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(
            r"\b\d{1,30}(?:\.\d{1,30})?[kKmMgGtT]\b", lambda match: _expanded(match[0]), parts[i]
        )
    return "".join(parts)


def _expanded(text: str) -> str:
    try:
        return str(human_int(text, "vllm"))
    except ValueError:
        return text
