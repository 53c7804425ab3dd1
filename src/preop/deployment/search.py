"""The files below a folder that may describe deployments.

Looked for by name and size alone; whether a file is one is seen from its text. Folders that hold tools'
own things are not entered. A folder that a link leads to is read once, under the first name met.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

__all__ = ["Search", "search"]

MAX_FILES = 100_000
_SUFFIXES = frozenset(
    {".yml", ".yaml", ".json", ".sh", ".bash", ".service", ".container", ".pbtxt", ".dockerfile"}
)
_NAMES = ("dockerfile", "containerfile")
_NOT_ENTERED = frozenset(
    {
        *("node_modules", "__pycache__", "venv", "site-packages", "vendor", "target", "dist"),
        *(".git", ".hg", ".svn", ".venv", ".venvs", ".tox", ".preop", ".terraform", ".cache"),
    }
)
_NOT_READ = frozenset({"package-lock.json", "package.json", "tsconfig.json", "pnpm-lock.yaml"})


@dataclass
class Search:
    """What was found below a folder."""

    files: list[Path] = field(default_factory=list)
    """In the order of their names, folders after files."""
    seen: int = 0
    """Files of any kind."""
    unreadable: list[str] = field(default_factory=list)
    """Folders that could not be entered, and why."""
    too_many: bool = False
    """Whether it stopped at `MAX_FILES`."""


def search(folder: Path, exclude: Sequence[str] = ()) -> Search:
    """The files below `folder` that may describe deployments, without those whose path below it matches a
    pattern of `exclude` (`*` stands for any part of the path, `charts/*` for all below charts)."""
    found = Search()
    entered: set[tuple[int, int]] = set()
    for path in _walk(folder, entered, found):
        found.seen += 1
        if found.seen > MAX_FILES:
            found.too_many = True
            break
        below = path.relative_to(folder).as_posix()
        if _may_describe(path) and not any(fnmatchcase(below, pattern) for pattern in exclude):
            found.files.append(path)
    return found


def _walk(folder: Path, entered: set[tuple[int, int]], found: Search) -> Iterator[Path]:
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            status = here.stat()
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            with os.scandir(here) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            found.unreadable.append(f"{here}: {error.strerror or error}")
            continue
        folders = []
        for entry in inside:
            try:
                if entry.is_dir():
                    if entry.name not in _NOT_ENTERED:
                        folders.append(here / entry.name)
                elif entry.is_file():
                    yield here / entry.name
            except OSError:  # a link in a circle
                continue
        waiting += reversed(folders)


def _may_describe(path: Path) -> bool:
    name = path.name.lower()
    if name in _NOT_READ:
        return False
    return path.suffix.lower() in _SUFFIXES or name.startswith(_NAMES)
