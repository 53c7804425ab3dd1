"""Places in the user's own files, as machines read them: path, line, column; and the path as a URI."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote

import msgspec

__all__ = ["Place", "file_of", "places", "repository_root", "uri"]

_PLACE = re.compile(r"(?P<path>.+?):(?P<line>[1-9]\d{0,8})(?::(?P<column>[1-9]\d{0,8}))?", re.DOTALL)
_NO_FILE = {"-", "standard input", "command line"}
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


class Place(msgspec.Struct, frozen=True):
    """One place in a file; line and column count from 1."""

    path: str
    line: int
    column: int | None = None


def places(where: str | None) -> list[Place]:
    """`a.yml:9:9, b.yml:31` as places; none of text that names no line of a file (a URL, standard input)."""
    if not where:
        return []
    found = [_place(part) for part in where.split(", ")]
    if None not in found:
        return [place for place in found if place is not None and file_of(place.path)]
    whole = _place(where)  # a path with ", " in it
    return [whole] if whole is not None and file_of(whole.path) else []


def _place(text: str) -> Place | None:
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    column = found["column"]
    return Place(found["path"], int(found["line"]), int(column) if column else None)


def file_of(source: str) -> str | None:
    """The file of a deployment's source (`compose.yml` of `compose.yml: service chat`); None for the command
    line, standard input and a URL."""
    file = source.partition(": ")[0]
    return None if not file or file in _NO_FILE or "://" in file else file


def repository_root(folder: Path) -> Path:
    """The folder of the git repository that `folder` is in, else `folder` itself."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), folder)


def uri(path: str, folder: Path, root: Path) -> tuple[str, bool]:
    """`path`, seen from `folder`, as a percent-encoded URI; and whether it is relative to `root`."""
    if _DRIVE.match(path) and os.name != "nt":  # read on Windows, shown here
        drive, rest = path[:2], path[2:].replace("\\", "/")
        return f"file:///{drive}{_quoted(rest)}", False
    absolute = Path(os.path.normpath(folder / path))
    for place, base in ((absolute, root), (_resolved(absolute), _resolved(root))):
        if place.is_relative_to(base):
            return _quoted(place.relative_to(base).as_posix()), True
    text = absolute.as_posix()
    return f"file://{'' if text.startswith('/') else '/'}{_quoted(text)}", False


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL, a loop of links: it is only a name then
        return path


def _quoted(text: str) -> str:
    try:
        raw = text.encode("utf-8", "surrogateescape")  # a name that is no UTF-8: its own bytes
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "replace")
    return quote(raw, safe="/")
