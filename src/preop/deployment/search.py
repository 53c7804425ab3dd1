"""The files below a folder that may describe deployments.

Looked for by name and a glance at the text; whether a file is one is seen by its reader. Folders that hold
tools' own things are not entered, and `.gitignore` is not asked: what is deployed need not be committed. A
folder or file that links lead to is read once, under the first name met.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preop.engines.images import ImageRule

__all__ = ["KUSTOMIZATIONS", "MAX_FILES", "Search", "may_serve", "search"]

MAX_FILES = 100_000
KUSTOMIZATIONS = frozenset({"kustomization.yaml", "kustomization.yml", "Kustomization"})
_SUFFIXES = frozenset(
    {".yml", ".yaml", ".json", ".sh", ".bash", ".zsh", ".service", ".container", ".pbtxt", ".dockerfile"}
)
_NAMES = ("dockerfile", "containerfile")
_NOT_ENTERED = frozenset(
    {
        *("node_modules", "__pycache__", "venv", "site-packages", "vendor"),
        *(".git", ".hg", ".svn", ".venv", ".venvs", ".tox", ".preop", ".terraform", ".cache"),
    }
)
_NOT_READ = frozenset({"package-lock.json", "package.json", "tsconfig.json", "pnpm-lock.yaml"})
_SIGNS = (
    *("llm", "sglang", "llama", "text-generation", "text-embeddings", "huggingface", "/tgi", "lmdeploy"),
    *("tensorrt", "triton", "dynamo", "servingruntime", "inferenceservice", "servingengine", "ray.serve"),
    *("rayservice", "aibrix", "\nservices:"),
)
"""A text without any of these names no engine. Compose files always count: what they extend may."""


@dataclass
class Search:
    """What was found below a folder."""

    files: list[Path] = field(default_factory=list)
    """In the order of their names, folders after files."""
    charts: dict[Path, list[Path]] = field(default_factory=dict)
    """Folders of Helm charts, and the templates in them."""
    seen: int = 0
    """Files of any kind."""
    unreadable: list[str] = field(default_factory=list)
    """Folders that could not be entered, and why."""
    too_many: bool = False
    """Whether it stopped at `MAX_FILES`."""


def may_serve(text: str, images: Sequence[ImageRule] = ()) -> bool:
    """Whether a text names anything that serves models, the team's own `images` included."""
    low = "\n" + text.lower()
    if any(sign in low for sign in _SIGNS):
        return True
    return any(max(rule.pattern.lower().split("*"), key=len) in low for rule in images)


def search(folder: Path, exclude: Sequence[str] = ()) -> Search:
    """The files below `folder` that may describe deployments, without those whose path below it matches a
    pattern of `exclude` (`*` stands for any part of the path, `charts/*` for all below charts)."""
    found = Search()
    met: set[tuple[int, int]] = set()
    for path, chart in _walk(folder, met, found):
        found.seen += 1
        if found.seen > MAX_FILES:
            found.too_many = True
            break
        below = path.relative_to(folder).as_posix()
        if any(fnmatchcase(below, pattern) for pattern in exclude):
            continue
        if chart is not None:
            found.charts.setdefault(chart, []).append(path)
        elif path.name == "Chart.yaml":
            found.charts.setdefault(path.parent, []).append(path)
        elif _may_describe(path) and _is_new(path, met):
            found.files.append(path)
    return found


def _walk(folder: Path, entered: set[tuple[int, int]], found: Search) -> Iterator[tuple[Path, Path | None]]:
    """Every file, and the chart of which it is a template or a part."""
    waiting: list[tuple[Path, Path | None]] = [(folder, None)]
    while waiting:
        here, chart = waiting.pop()
        try:
            if not _is_new(here, entered):
                continue
            with os.scandir(here) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            found.unreadable.append(f"{here}: cannot be searched: {error.strerror or error}")
            continue
        is_chart = any(entry.name == "Chart.yaml" for entry in inside)
        folders: list[tuple[Path, Path | None]] = []
        for entry in inside:
            path = here / entry.name
            try:
                if entry.is_dir():
                    if entry.name not in _NOT_ENTERED:
                        part = chart or (here if is_chart and entry.name in ("templates", "charts") else None)
                        folders.append((path, part))
                elif entry.is_file():
                    yield path, chart
            except OSError:  # a link in a circle
                continue
        waiting += reversed(folders)


def _is_new(path: Path, met: set[tuple[int, int]]) -> bool:
    """Whether no name of it was met before. Raises `OSError` where a folder cannot be seen."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return True  # gone since: its reader says so
    if (status.st_dev, status.st_ino) in met:
        return False
    met.add((status.st_dev, status.st_ino))
    return True


def _may_describe(path: Path) -> bool:
    name = path.name.lower()
    if name in _NOT_READ:
        return False
    if path.suffix.lower() in _SUFFIXES or name.startswith(_NAMES) or path.name in KUSTOMIZATIONS:
        return True
    return not path.suffix and _is_script(path)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
