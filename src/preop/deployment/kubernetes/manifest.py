"""The objects of a stream of manifests, and how one finds another: a pod its ConfigMap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from preop.deployment.forms.types import File
from preop.deployment.yaml_nodes import Map, Node, Scalar, Seq
from preop.errors import InputError

__all__ = ["Manifest", "Resources", "at", "entries", "items", "manifests", "text", "whole"]


@dataclass(frozen=True)
class Manifest:
    """One object: its kind, its name, and where it stands."""

    file: File
    node: Map
    api_version: str
    kind: str
    name: str
    namespace: str | None

    @property
    def group(self) -> str:
        """`apps` of `apps/v1`; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """For messages: `serve.yaml: Deployment chat`."""
        return f"{self.file.name}: {self.kind} {self.name}"

    @property
    def spec(self) -> Map:
        """Its spec. Raises `InputError` where it is no mapping."""
        spec = self.node.get("spec")
        if spec is None or (isinstance(spec, Scalar) and spec.is_null):
            return _EMPTY
        if not isinstance(spec, Map):
            raise InputError(f"{spec.where}: spec of {self.kind} {self.name}: expected a mapping")
        return spec


_EMPTY = Map("", 1, 1, {})


def manifests(file: File) -> Iterator[Manifest]:
    """The objects in a file, those of a List one by one. Raises `InputError` where one has no kind's name in
    words, or where Lists are nested without end."""
    for document in file.documents:
        yield from _objects(file, document, 0)


def _objects(file: File, node: Node, depth: int) -> Iterator[Manifest]:
    if not isinstance(node, Map):
        return
    version, kind = text(node.get("apiVersion")), text(node.get("kind"))
    if version is None or kind is None:
        return
    if kind.endswith("List") and isinstance(node.get("items"), Seq):
        if depth > 8:
            raise InputError(f"{node.where}: Lists in Lists deeper than 8 levels")
        for item in items(node.get("items")):
            yield from _objects(file, item, depth + 1)
        return
    metadata = node.get("metadata")
    name = text(at(metadata, "name")) or text(at(metadata, "generateName")) or "(no name)"
    yield Manifest(file, node, version, kind, name, text(at(metadata, "namespace")))


class Resources:
    """All objects of a check, by kind and name."""

    def __init__(self, found: Iterable[Manifest]) -> None:
        """Later ones of the same kind, name and namespace make the name ambiguous."""
        self._by_name: dict[tuple[str, str], list[Manifest]] = {}
        self._by_kind: dict[str, list[Manifest]] = {}
        for each in found:
            self._by_name.setdefault((each.kind, each.name), []).append(each)
            self._by_kind.setdefault(each.kind, []).append(each)

    def find(self, kind: str, name: str, namespace: str | None) -> Manifest | None:
        """The object of that name in that namespace, else one without a namespace: it goes where the rest is
        put. None where there is none, or several that are not the same."""
        every = self._by_name.get((kind, name), ())
        found = [each for each in every if each.namespace == namespace]
        found = found or [each for each in every if each.namespace is None]
        if len(found) > 1 and any(not _is_same(each.node, found[0].node) for each in found):
            return None
        return found[0] if found else None

    def of_kind(self, *kinds: str) -> Iterator[Manifest]:
        """All objects of those kinds."""
        for kind in kinds:
            yield from self._by_kind.get(kind, ())


def _is_same(one: Node, other: Node) -> bool:
    if isinstance(one, Map) and isinstance(other, Map):
        return one.entries.keys() == other.entries.keys() and all(
            _is_same(one.entries[key][1], other.entries[key][1]) for key in one.entries
        )
    if isinstance(one, Seq) and isinstance(other, Seq):
        return len(one.items) == len(other.items) and all(map(_is_same, one.items, other.items))
    return isinstance(one, Scalar) and isinstance(other, Scalar) and one.text == other.text


# Values, forgiving: what is of another type than expected is not there.


def at(node: Node | None, *path: str) -> Node | None:
    """The value under `path`; None where some step of it is no mapping or has no such key."""
    for key in path:
        if not isinstance(node, Map):
            return None
        node = node.get(key)
    return None if isinstance(node, Scalar) and node.is_null else node


def text(node: Node | None) -> str | None:
    """The text of a scalar."""
    return node.text if isinstance(node, Scalar) and not node.is_null else None


def whole(node: Node | None) -> int | None:
    """A whole number of 0 or more, quoted or not."""
    found = (text(node) or "").strip()
    return int(found) if found.isascii() and found.isdigit() and len(found) < 10 else None


def items(node: Node | None) -> tuple[Node, ...]:
    """The items of a list."""
    return node.items if isinstance(node, Seq) else ()


def entries(node: Node | None) -> Iterator[tuple[str, Node]]:
    """Keys and values of a mapping."""
    if isinstance(node, Map):
        yield from node.items()
