"""Reading values out of files that anybody may have written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from preop.errors import InputError

__all__ = ["Fields", "read_json"]

_LARGEST_JSON = 64 << 20
_LARGEST_NUMBER = 10**12


class Fields:
    """A JSON object whose values are taken only when they are what they should be.

    A value that is there and wrong is None, and a sentence about it joins `notes`. Null counts as absent.
    """

    def __init__(self, data: Mapping[str, Any], notes: list[str], where: str = "config.json") -> None:
        self.data, self.notes, self.where = data, notes, where

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def _note(self, key: str, expected: str) -> None:
        shown = repr(self.data[key])
        sentence = (
            f"{self.where}: {key} is {shown if len(shown) <= 60 else shown[:57] + '...'}, {expected} expected"
        )
        if sentence not in self.notes:
            self.notes.append(sentence)

    def integer(self, *keys: str, low: int = 1, high: int = _LARGEST_NUMBER) -> int | None:
        """The first of `keys` that is there, as a whole number in [low, high]."""
        key = self.first(keys)
        if key is None:
            return None
        value = self.data[key]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self._note(key, f"a whole number from {low}" + (f" to {high}" if high < _LARGEST_NUMBER else ""))
        return None

    def number(self, *keys: str) -> float | None:
        """The first of `keys` that is there, as a finite number above zero."""
        key = self.first(keys)
        if key is None:
            return None
        value = self.data[key]
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LARGEST_NUMBER:
            return float(value)
        self._note(key, "a number above zero")
        return None

    def boolean(self, *keys: str) -> bool | None:
        """The first of `keys` that is there, as true or false."""
        key = self.first(keys)
        if key is None:
            return None
        value = self.data[key]
        if isinstance(value, bool):
            return value
        self._note(key, "true or false")
        return None

    def text(self, *keys: str) -> str | None:
        """The first of `keys` that is there, as a text that is not empty."""
        key = self.first(keys)
        if key is None:
            return None
        value = self.data[key]
        if isinstance(value, str) and value:
            return value
        self._note(key, "a text")
        return None

    def items(self, *keys: str) -> list[Any] | None:
        """The first of `keys` that is there, as a list."""
        key = self.first(keys)
        if key is None:
            return None
        value = self.data[key]
        if isinstance(value, list):
            return value
        self._note(key, "a list")
        return None

    def object(self, *keys: str) -> Fields | None:
        """The first of `keys` that is there, as an object; its notes join these."""
        key = self.first(keys)
        if key is None:
            return None
        value = self.data[key]
        if isinstance(value, dict):
            return Fields(value, self.notes, f"{self.where}: {key}")
        self._note(key, "an object")
        return None

    def first(self, keys: Iterable[str]) -> str | None:
        """The first of `keys` that is there."""
        return next((key for key in keys if self.data.get(key) is not None), None)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of up to 64 MiB. Raises InputError, one sentence, for anything else."""
    try:
        if not path.is_file():
            raise InputError(
                f"{path}: {'not a regular file' if path.exists() else 'not found'}, a JSON file expected"
            )
        size = path.stat().st_size
        if size > _LARGEST_JSON:
            raise InputError(f"{path}: {size} bytes, a JSON file of up to {_LARGEST_JSON >> 20} MiB expected")
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a valid path"
        raise InputError(f"{path}: cannot be read ({reason})") from None
    if raw.startswith(b"version https://git-lfs"):
        raise InputError(f"{path}: a Git LFS pointer, not the file itself; fetch it with git lfs pull")
    if raw.startswith(b"\xef\xbb\xbf"):
        raise InputError(f"{path}: begins with a byte order mark, which the engines' JSON readers refuse")
    try:
        data = json.loads(raw.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON ({error.msg})") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply to be a model's file") from None
    except ValueError as error:  # not UTF-8, or a number of thousands of digits
        reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "a number is too long"
        raise InputError(f"{path}: not JSON ({reason})") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: holds {_kind(data)}, a JSON object expected")
    return data


def _kind(data: object) -> str:
    if data is None or isinstance(data, bool):
        return json.dumps(data)
    if isinstance(data, float) and not math.isfinite(data):
        return "a number that is not finite"
    return "a list" if isinstance(data, list) else "a text" if isinstance(data, str) else "a number"
