"""`{{.Name}}` and its like, which KServe's controllers fill in from the object: no template of Helm's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import overload

from preop.deployment.kubernetes.manifest import Manifest, at, text
from preop.deployment.yaml_nodes import Map, Node, Scalar, Seq, mapping, scalar, seq
from preop.facts import Word

__all__ = ["filled", "metadata", "unseen"]

_PLACEHOLDER = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_NAME = "KSERVE_PLACEHOLDER"


def unseen(owner: Manifest) -> dict[str, Word]:
    """The variable that stands for what a placeholder asks for and the file does not say."""
    return {_NAME: Word(None, owner.node.origin, "KServe fills it in", single=True)}


def metadata(owner: Manifest, path: str) -> str | None:
    """What a path such as `.Name` or `.Labels.model` is of an object; None where it is not stated."""
    path = path.removeprefix(".ObjectMeta").lstrip(".")
    if path == "Name":
        return owner.name
    if path == "Namespace":
        return owner.namespace
    part, _, key = path.partition(".")
    known = part in ("Labels", "Annotations") and key
    return text(at(owner.node, "metadata", part.lower(), key)) if known else None


@overload
def filled(node: Node, value: Callable[[str], str | None]) -> Node: ...
@overload
def filled(node: None, value: Callable[[str], str | None]) -> None: ...
def filled(node: Node | None, value: Callable[[str], str | None]) -> Node | None:
    """The node with its placeholders replaced; `value` is asked for what stands in one (`.Name`), and what it
    does not know cannot be seen."""
    if isinstance(node, Seq):
        return seq((filled(item, value) for item in node.items), node)
    if isinstance(node, Map):
        return mapping({key: filled(inner, value) for key, inner in node.items()}, node)
    if isinstance(node, Scalar) and "{{" in node.text:
        return scalar(_PLACEHOLDER.sub(lambda match: value(match[1]) or f"$({_NAME})", node.text), node)
    return node
