"""Objects laid over one another, as KServe lays a service over its runtime: the later wins, mappings are
merged key by key, containers and variables by their names."""

from __future__ import annotations

from preop.deployment.kubernetes.manifest import at, items, text
from preop.deployment.yaml_nodes import Map, Node, Seq, mapping, seq

__all__ = ["merged"]

_BY_NAME = frozenset({"containers", "initContainers", "env", "volumes"})
_BY_PATH = frozenset({"volumeMounts"})


def merged(base: Node | None, over: Node | None, key: str = "") -> Node | None:
    """`over` laid over `base`; one that is None leaves the other."""
    if base is None or over is None:
        return over if over is not None else base
    if isinstance(base, Map) and isinstance(over, Map):
        keys = [*base.entries, *(name for name in over.entries if name not in base.entries)]
        return mapping({name: merged(base.get(name), over.get(name), name) for name in keys}, over)
    by = "name" if key in _BY_NAME else "mountPath" if key in _BY_PATH else None
    if isinstance(base, Seq) and isinstance(over, Seq) and by is not None:
        return _by(by, base, over)
    return over


def _by(by: str, base: Seq, over: Seq) -> Seq:
    named = {text(at(item, by)): item for item in items(over)}
    kept = [merged(item, named.pop(text(at(item, by)), None)) or item for item in items(base)]
    return seq([*kept, *named.values()], over)
