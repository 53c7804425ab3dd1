"""Helm charts and kustomizations: files of which only a tool makes what is deployed.

Their parts are not judged as they stand: a patch is no deployment, and a base whose image or arguments an
overlay replaces never runs so. What is said instead is how to build them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from preop.deployment.environment import read_text
from preop.deployment.forms.types import File
from preop.deployment.search import KUSTOMIZATIONS, may_serve
from preop.deployment.yaml_nodes import Map, Node, Scalar, Seq
from preop.errors import InputError

__all__ = ["Kustomizations", "chart_serves"]

# With these alone a kustomization deploys its resources as far as an engine is concerned.
_HARMLESS = frozenset(
    {
        *("apiVersion", "kind", "metadata", "resources", "bases", "namespace", "namePrefix", "nameSuffix"),
        *("labels", "commonLabels", "commonAnnotations", "sortOptions", "buildMetadata", "crds"),
    }
)
_PATCHES = ("patches", "patchesStrategicMerge", "patchesJson6902")


def chart_serves(templates: Iterable[Path], values: Iterable[File]) -> bool:
    """Whether a chart starts an engine, as far as its templates and its values tell."""
    if any(may_serve(file.text) for file in values):
        return True
    return any(may_serve(_text(path)) for path in templates if path.suffix in (".yaml", ".yml", ".tpl"))


class Kustomizations:
    """The kustomizations among files, and what they refer to, in the folder searched or outside it."""

    def __init__(self, files: Sequence[File]) -> None:
        """`files`: all of the search, those that refer to nothing included."""
        own = [file for file in files if file.path is not None and file.path.name in KUSTOMIZATIONS]
        self._documents: dict[Path, Map | None] = {}
        self._shown = {file.path.parent.resolve(): file for file in own if file.path is not None}
        self.files = frozenset(file.path.resolve() for file in own if file.path is not None)
        """Of the kustomizations themselves."""
        self.patches: set[Path] = set()
        """Files that only change others."""
        self.covered: set[Path] = set()
        """Files that do not run as they stand."""
        self.said: list[str] = []
        """A sentence for each that has to be built: it starts an engine."""
        for folder in self._shown:
            self.patches.update(self._patches(folder))
        referred = {path for folder in self._shown for path in self._resources(folder)}
        for folder, file in self._shown.items():
            reached = set(self._reached(folder, set()))
            if not any(self._transforms(each) for each in reached if each.is_dir()):
                continue
            parts = {each for each in reached if not each.is_dir()}
            self.covered |= parts
            if folder not in referred and any(
                may_serve(text) for text in (file.text, *(_text(each) for each in sorted(parts)))
            ):
                where = os.path.dirname(file.name) or "."  # noqa: PTH120 as it is shown, `./` and all
                self.said.append(
                    f"{where}: a kustomization that changes what it is made of; build it first: "
                    f"kustomize build {where} | preop check -"
                )

    def _document(self, folder: Path) -> Map | None:
        if folder not in self._documents:
            self._documents[folder] = None
            for name in sorted(KUSTOMIZATIONS):
                path = folder / name
                try:
                    if path.is_file():
                        shown = self._shown.get(folder)
                        file = shown or File(str(path), read_text(path, "a kustomization"), path)
                        self._documents[folder] = file.mappings[0] if file.mappings else None
                        break
                except (InputError, OSError):
                    break
        return self._documents[folder]

    def _paths(self, node: Node | None, folder: Path) -> Iterator[Path]:
        """The paths of this machine in a list."""
        for item in node.items if isinstance(node, Seq) else ():
            named = item.get("path") if isinstance(item, Map) else item
            if (
                isinstance(named, Scalar)
                and named.text
                and "\n" not in named.text
                and "://" not in named.text
            ):
                path = Path(os.path.normpath(folder / named.text))
                try:
                    if path.exists():
                        yield path.resolve()
                except (OSError, ValueError):
                    continue

    def _resources(self, folder: Path) -> list[Path]:
        document = self._document(folder)
        if document is None:
            return []
        keys = ("resources", "bases", "components")
        return [path for key in keys for path in self._paths(document.get(key), folder)]

    def _patches(self, folder: Path) -> list[Path]:
        document = self._document(folder)
        if document is None:
            return []
        return [path for key in _PATCHES for path in self._paths(document.get(key), folder)]

    def _transforms(self, folder: Path) -> bool:
        document = self._document(folder)
        return document is not None and any(key not in _HARMLESS for key, _ in document.items())

    def _reached(self, folder: Path, met: set[Path]) -> Iterator[Path]:
        """A kustomization's folder with all files and kustomizations that it is made of."""
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            if here in met:
                continue
            met.add(here)
            yield here
            if here.is_dir():
                waiting += [*self._resources(here), *self._patches(here)]


def _text(path: Path) -> str:
    try:
        return read_text(path, "a manifest", may_be_empty=True)
    except InputError:
        return ""
