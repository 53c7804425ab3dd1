"""Arguments of an engine that stand in a mapping instead of on a command line."""

from __future__ import annotations

import json
from collections.abc import Collection

from preop.deployment.yaml_nodes import Map, Node, Scalar, Seq, scalar, to_python

__all__ = ["arguments_of"]


def arguments_of(values: Map, engine: str, skip: Collection[str] = ()) -> list[Node]:
    """The words that say the same on the engine's command line, each at its value's place.

    Keys are the engine's own names with `_` or `-`. True is the flag alone; false its negation where the
    engine has one, and nothing where it has none; null is nothing; a list is several words, a mapping JSON.
    """
    from preop.engines.tables import find, table

    known = table(engine)
    words: list[Node] = []
    for key, node in values.items():
        name = key.replace("_", "-")
        if key in skip or (isinstance(node, Scalar) and node.is_null):
            continue
        value = to_python(node)
        found = find(known, name) if known is not None else None
        if value is True:
            words.append(scalar(f"--{name}", node))
        elif value is False:
            if found is not None and found[1].negations:
                words.append(scalar(found[1].negations[0], node))
        elif isinstance(node, Seq) and all(isinstance(item, Scalar) for item in node.items):
            words += [scalar(f"--{name}", node), *node.items]
        elif isinstance(node, Scalar):
            words += [scalar(f"--{name}", node), node]
        else:
            words += [scalar(f"--{name}", node), scalar(json.dumps(value, default=str), node)]
    return words
