"""`$(NAME)` in commands, arguments and environment values, as Kubernetes replaces it.

Source: kubernetes/third_party/forked/golang/expansion/expand.go: `$(NAME)` is the variable's value; one that
is not defined stays as it stands; `$$` is a dollar sign and starts no reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from preop.deployment.interpolate import Places
from preop.deployment.tokens import HOLE, Hole, Token
from preop.deployment.yaml_nodes import Scalar
from preop.errors import InputError
from preop.facts import Word

__all__ = ["expand"]

MAX_LENGTH = 1_500_000
"""Characters that a value may grow to; an object of Kubernetes has at most 1.5 MiB."""
_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_TEMPLATE = re.compile(r"\{\{|\{%")


def expand(node: Scalar, environment: Mapping[str, Word], unseen: str | None = None) -> Token:
    """The value with its references in place. A variable that cannot be seen stands for one word.

    `unseen` says why there may be more variables than those of `environment`: a name that is not among them
    then cannot be seen, where Kubernetes would leave it as it stands. Raises `InputError` on a template that
    was not rendered, and on a value that grows without bound.
    """
    if _TEMPLATE.search(node.text):
        raise InputError(
            f"{node.where}: a template that is not rendered; render it first: "
            "helm template CHART | preop check -"
        )
    chars: list[str] = []
    places: list[int] = []
    holes: dict[int, Hole] = {}
    end = 0
    for found in _REFERENCE.finditer(node.text):
        _put(chars, places, node.text[end : found.start()], end)
        end = found.end()
        if found[1]:
            _put(chars, places, "$", found.start(), still=True)
            continue
        word = environment.get(found[2])
        if word is None and unseen is None:
            _put(chars, places, found[0], found.start())
        elif word is None or word.text is None:
            why = (word.note if word else unseen) or "cannot be seen"
            holes[len(chars)] = Hole(f"$({found[2]}): {why}"[:300])
            _put(chars, places, HOLE, found.start(), still=True)
        else:
            _put(chars, places, word.text, found.start(), still=True)
        if len(chars) > MAX_LENGTH:
            raise InputError(f"{node.where}: longer than {MAX_LENGTH:,} characters with its variables")
    _put(chars, places, node.text[end:], end)
    return Token("".join(chars), node.origin, holes, tuple(places), Places(node))


def _put(chars: list[str], places: list[int], text: str, start: int, still: bool = False) -> None:
    chars.extend(text)
    places.extend([start] * len(text) if still else range(start, start + len(text)))
