"""The documents in a file or a folder: JSON, JSON Lines or YAML, told apart by content."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from preop.errors import InputError

__all__ = ["MAX_BYTES", "MAX_FILES", "MAX_YAML_BYTES", "documents", "result_files"]

MAX_BYTES = 256 << 20
"""Largest file read: guidellm writes some 8 kB for each request."""
MAX_YAML_BYTES = 32 << 20
"""YAML takes some 20 times longer than JSON."""
MAX_FILES = 1000
_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")
_NO_JSON_NUMBER = re.compile(rb"\b(?:NaN|Infinity)\b")
_ALIAS = re.compile(rb"(?:^|[\s\[{,:-])\*\w", re.MULTILINE)


def result_files(path: Path) -> list[Path]:
    """`path` itself, or the files below the folder that may hold results, in order of their names.

    Raises `InputError` where there is nothing to read or far too much.
    """
    if not path.is_dir():
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        if not path.is_file():
            raise InputError(f"{path}: neither a file nor a folder")
        return [path]
    found: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders.sort()
        found += [
            Path(folder, name)
            for name in sorted(names)
            if name.lower().endswith(_SUFFIXES) and name[0] != "."
        ]
        if len(found) > MAX_FILES:
            raise InputError(f"{path}: more than {MAX_FILES} files; give the folder of one measurement")
    found = [each for each in found if each.is_file()]
    if not found:
        raise InputError(f"{path}: no .json, .jsonl or .yaml file in this folder")
    return found


def documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Each document with its place: one of a JSON or YAML file, one a line of JSON Lines.

    Raises `InputError` on what cannot be read. Lines are parsed as they are asked for.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path}: {size >> 20} MiB, and the largest file read has {MAX_BYTES >> 20} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    text = data.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        raise InputError(f"{path}: empty")
    if text[:1] not in (b"{", b"["):
        yield str(path), _yaml(text, path)
        return
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if len(lines) > 1 and _is_document(lines[0][1]):
        for number, line in lines:
            yield f"{path}:{number}", _json(line.removeprefix(b"\xef\xbb\xbf"), f"{path}:{number}")
    else:
        yield str(path), _json(text, str(path))


def _is_document(line: bytes) -> bool:
    """Whether a first line is whole by itself, so that the others are, too."""
    try:
        return isinstance(_json(line, ""), dict)
    except InputError:
        return False


def _json(data: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = str(error)
        if isinstance(error, msgspec.MsgspecError) and _NO_JSON_NUMBER.search(data):
            # Python's own json writes these for floats that JSON has no number for.
            try:
                return json.loads(data)
            except (ValueError, RecursionError) as other:
                why = str(other)
        raise InputError(f"{where}: not valid JSON, or only a part of it: {why}") from error


def _yaml(data: bytes, path: Path) -> Any:
    import yaml

    if len(data) > MAX_YAML_BYTES:
        raise InputError(f"{path}: more than {MAX_YAML_BYTES >> 20} MiB of YAML; let the tool write JSON")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Aliases can make a small file a huge document; none of these tools writes any.
        if _ALIAS.search(data) and any(
            isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, Loader=loader)
        ):
            raise InputError(f"{path}: a YAML alias (*name), which none of the tools known here writes")
        return yaml.load(data, Loader=loader)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        # Some of these are what PyYAML's constructors raise on a date or a number that cannot be.
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: neither JSON nor valid YAML: {first}") from error
