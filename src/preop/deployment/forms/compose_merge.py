"""How compose lays one file over another, and a service over the one that it extends.

Source: the Compose Specification, "Merge and override": mappings are merged key by key, lists are appended,
`command`, `entrypoint` and a health check's `test` are replaced, environment and labels are merged by name
in either of their forms, `!reset` takes a value away and `!override` replaces it.
"""

from __future__ import annotations

from preop.deployment.yaml_nodes import Map, Node, Scalar, Seq
from preop.errors import InputError

__all__ = ["by_name", "lay_over"]

_REPLACED = frozenset({("command",), ("entrypoint",), ("healthcheck", "test")})
_BY_NAME = frozenset({("environment",), ("labels",), ("annotations",), ("build", "args")})
_ONE_OR_MORE = frozenset({("env_file",), ("dns",), ("dns_search",), ("tmpfs",)})


def lay_over(base: Map, over: Map, path: tuple[str, ...] = ()) -> Map:
    """The mapping that compose makes of both. `path` leads from the document to it: ("services", "chat").

    Values keep their places. Raises `InputError` where an environment is neither a mapping nor a list.
    """
    entries = {key: entry for key, entry in base.entries.items() if entry[1].tag != "!reset"}
    for key, (name, value) in over.entries.items():
        below = entries.get(key)
        if value.tag == "!reset":
            entries.pop(key, None)
        elif below is None or value.tag == "!override" or key.startswith("x-"):
            entries[key] = (name, value)
        else:
            entries[key] = (name, _one_over_another(below[1], value, (*path, key)))
    return Map(over.file, over.line, over.column, entries)


def _one_over_another(base: Node, over: Node, path: tuple[str, ...]) -> Node:
    within = path[2:] if path[0] == "services" else ()
    if within in _REPLACED:
        return over
    if isinstance(over, Scalar) and over.is_null and not isinstance(base, Scalar):
        return base
    if within in _BY_NAME:
        return lay_over(by_name(base), by_name(over), path)
    if isinstance(base, Map) and isinstance(over, Map):
        return lay_over(base, over, path)
    if within in _ONE_OR_MORE:
        base, over = _as_list(base), _as_list(over)
    if isinstance(base, Seq) and isinstance(over, Seq):
        return Seq(over.file, over.line, over.column, (*base.items, *over.items))
    return over


def _as_list(node: Node) -> Node:
    return Seq(node.file, node.line, node.column, (node,)) if isinstance(node, Scalar) else node


def by_name(node: Node) -> Map:
    """`NAME: value` or a list of `NAME=value` as one mapping; a name alone has the value null.

    Raises `InputError` where it is neither.
    """
    if isinstance(node, Map):
        return node
    if isinstance(node, Scalar) and node.is_null:
        return Map(node.file, node.line, node.column, {})
    if not isinstance(node, Seq):
        raise InputError(f"{node.where}: expected a mapping or a list of NAME=value")
    entries: dict[str, tuple[Scalar, Node]] = {}
    for item in node.items:
        if not isinstance(item, Scalar):
            raise InputError(f"{item.where}: expected NAME=value")
        name, equals, value = item.text.partition("=")
        if name:
            entries.pop(name, None)
            entries[name] = (item, _value(item, value) if equals else _null(item))
    return Map(node.file, node.line, node.column, entries)


def _value(item: Scalar, value: str) -> Scalar:
    """The part of `NAME=value` behind the equals sign, with its own place where it is on one line."""
    before, equals, raw = item.raw.partition("=")
    if not equals or "\n" in before:
        return Scalar(item.file, item.line, item.column, value, False, item.raw)
    return Scalar(item.file, item.line, item.column + len(before) + 1, value, False, raw)


def _null(item: Scalar) -> Scalar:
    return Scalar(item.file, item.line, item.column, "", True, "")
