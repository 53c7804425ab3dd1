"""YAML and JSON files as nodes that know their line and column.

Nodes are built from parser events: no tag is ever constructed, aliases share their node, and both nesting
and the size that aliases expand to are bounded, so that a hostile file ends in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from preop.errors import InputError
from preop.facts import Origin

if TYPE_CHECKING:
    import yaml

__all__ = ["Map", "Node", "Scalar", "Seq", "load", "mapping", "scalar", "seq", "to_python"]

MAX_DEPTH = 64
MAX_NODES = 500_000
"""Nodes of one file, and nodes that its aliases may expand to."""

_CORE_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge")
)
_COMPOSE_TAGS = frozenset({"!reset", "!override"})


@dataclass(frozen=True)
class _Base:
    file: str
    line: int
    """From 1, like `column`."""
    column: int
    tag: str | None = field(default=None, kw_only=True)
    """As written: `!reset`, `tag:yaml.org,2002:str`; None where there is none."""
    weight: int = field(default=1, kw_only=True)
    """Nodes below, aliases expanded, this one included."""

    @property
    def where(self) -> str:
        """`compose.yml:14:9`."""
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def origin(self) -> Origin:
        """The place as a fact's origin."""
        return Origin("file", self.where)


@dataclass(frozen=True)
class Scalar(_Base):
    """One value. `raw` is its text in the file, quotes included."""

    text: str
    plain: bool
    raw: str

    @property
    def is_null(self) -> bool:
        """Whether YAML reads it as null."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL") and self.tag in (None, "!reset")


@dataclass(frozen=True)
class Seq(_Base):
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Map(_Base):
    """A mapping, merge keys already merged: what is written beside `<<` wins."""

    entries: dict[str, tuple[Scalar, Node]]
    """By key: the key's node and the value's."""

    def get(self, key: str) -> Node | None:
        """The value, or None where there is none. A value tagged `!reset` is none."""
        entry = self.entries.get(key)
        return None if entry is None or entry[1].tag == "!reset" else entry[1]

    def items(self) -> Iterator[tuple[str, Node]]:
        """Keys and values, without those that `!reset` takes away."""
        for key, (_, value) in self.entries.items():
            if value.tag != "!reset":
                yield key, value


Node = Scalar | Seq | Map


def load(text: str, file: str) -> list[Node]:
    """The documents in `text`, empty ones left out. `file` is the name used in places.

    Raises `InputError` on what is no YAML, on duplicate keys (with both lines), on nesting deeper than
    `MAX_DEPTH`, on more than `MAX_NODES` nodes (aliases expanded), and on tags that are not plain YAML.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(text, file).documents(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        raise InputError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{file}: not valid YAML: {first}") from None


def to_python(node: Node) -> Any:
    """The node as PyYAML's safe loader would give it (YAML 1.1: `yes` is true)."""
    if isinstance(node, Seq):
        return [to_python(item) for item in node.items]
    if isinstance(node, Map):
        return {key: to_python(value) for key, value in node.items()}
    import yaml

    loader: Any = yaml.SafeLoader("")
    try:
        tag = node.tag or loader.resolve(yaml.ScalarNode, node.text, (node.plain, not node.plain))
        if tag == "!reset":
            return None
        return loader.construct_object(yaml.ScalarNode(tag, node.text))
    except (ValueError, yaml.YAMLError):
        return node.text
    finally:
        loader.dispose()


@dataclass
class _Open:
    """A collection whose end has not come yet."""

    event: yaml.CollectionStartEvent
    is_map: bool
    children: list[Node] = field(default_factory=list)


class _Builder:
    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._anchors: dict[str, Node] = {}
        self._count = 0

    def documents(self, events: Iterator[Any]) -> list[Node]:
        import yaml

        found: list[Node] = []
        stack: list[_Open] = []
        for event in events:
            node: Node | None = None
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
            elif isinstance(event, yaml.ScalarEvent):
                node = self._scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                node = self._alias(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                if len(stack) >= MAX_DEPTH:
                    raise InputError(f"{self._where(event)}: nested deeper than {MAX_DEPTH} levels")
                stack.append(_Open(event, isinstance(event, yaml.MappingStartEvent)))
            elif isinstance(event, yaml.CollectionEndEvent):
                done = stack.pop()
                node = self._map(done) if done.is_map else self._seq(done)
            if node is None:
                continue
            if not isinstance(event, yaml.AliasEvent):
                self._count += 1
                anchor = (done.event if isinstance(event, yaml.CollectionEndEvent) else event).anchor
                if anchor:
                    self._anchors[anchor] = node
            if self._count > MAX_NODES or node.weight > MAX_NODES:
                raise InputError(
                    f"{self._file}: more than {MAX_NODES:,} values, aliases expanded; "
                    "no deployment has that many"
                )
            if stack:
                stack[-1].children.append(node)
            elif not (isinstance(node, Scalar) and node.is_null):
                found.append(node)
        return found

    def _where(self, event: Any) -> str:
        return f"{self._file}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"

    def _tag(self, event: Any) -> str | None:
        tag: str | None = event.tag
        if tag in (None, "!"):
            return None
        if tag not in _CORE_TAGS and tag not in _COMPOSE_TAGS:
            raise InputError(f"{self._where(event)}: tag {tag!r} is not read; expected plain YAML")
        return tag

    def _scalar(self, event: Any) -> Scalar:
        mark = event.start_mark
        return Scalar(
            self._file,
            mark.line + 1,
            mark.column + 1,
            event.value,
            event.implicit[0],
            self._text[mark.index : event.end_mark.index],
            tag=self._tag(event),
        )

    def _alias(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise InputError(
                f"{self._where(event)}: alias *{event.anchor} has no anchor before it; "
                f"expected &{event.anchor} above"
            )
        return node

    def _seq(self, done: _Open) -> Seq:
        mark: Any = done.event.start_mark
        weight = 1 + sum(child.weight for child in done.children)
        return Seq(
            self._file,
            mark.line + 1,
            mark.column + 1,
            tuple(done.children),
            tag=self._tag(done.event),
            weight=weight,
        )

    def _map(self, done: _Open) -> Map:
        entries: dict[str, tuple[Scalar, Node]] = {}
        merges: list[Map] = []
        weight = 1
        for key, value in zip(done.children[::2], done.children[1::2], strict=True):
            weight += 1 + value.weight
            if not isinstance(key, Scalar):
                raise InputError(f"{key.where}: a key that is a list or a mapping; expected a word")
            if key.plain and key.text == "<<":
                merges += self._merged(value)
                continue
            if key.text in entries:
                first = entries[key.text][0]
                raise InputError(
                    f"{key.where}: key {_short(key.text)} is there twice (first in line {first.line}); "
                    "expected each key once"
                )
            entries[key.text] = (key, value)
        for merge in merges:
            for name, entry in merge.entries.items():
                entries.setdefault(name, entry)
        mark: Any = done.event.start_mark
        return Map(
            self._file,
            mark.line + 1,
            mark.column + 1,
            entries,
            tag=self._tag(done.event),
            weight=weight,
        )

    def _merged(self, value: Node) -> list[Map]:
        parts = value.items if isinstance(value, Seq) else (value,)
        maps = [part for part in parts if isinstance(part, Map)]
        if len(maps) != len(parts):
            raise InputError(f"{value.where}: `<<` merges something that is no mapping")
        return maps


def _short(text: str, limit: int = 60) -> str:
    return repr(text if len(text) <= limit else text[:limit] + "...")


# Nodes that a reader makes out of others, at the place of one of them.


def scalar(text: str, like: Node) -> Scalar:
    """A value with that text where `like` stands."""
    return Scalar(like.file, like.line, like.column, text, False, text)


def seq(items: Iterable[Node], like: Node) -> Seq:
    """A list of those nodes."""
    return Seq(like.file, like.line, like.column, tuple(items))


def mapping(values: Mapping[str, Node | None], like: Node) -> Map:
    """A mapping of those values, without those that are None."""
    entries = {key: (scalar(key, value), value) for key, value in values.items() if value is not None}
    return Map(like.file, like.line, like.column, entries)
