"""Engine knowledge: which engine a command starts, its flags, and what they make of a deployment.

Names are imported when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from preop.engines.commands import NotServing, Routing, identify
    from preop.engines.defaults import Accelerator
    from preop.engines.images import version_of_image
    from preop.engines.parsing import Unreadable, parse
    from preop.engines.resolve import facts
    from preop.engines.tables import ENGINES, table, versions, vocabulary
    from preop.engines.types import Flag, Given, Identified, ParsedFlags, Table

__all__ = [
    "ENGINES",
    "Accelerator",
    "Flag",
    "Given",
    "Identified",
    "NotServing",
    "ParsedFlags",
    "Routing",
    "Table",
    "Unreadable",
    "facts",
    "identify",
    "parse",
    "table",
    "version_of_image",
    "versions",
    "vocabulary",
]

_HOME = {
    "Accelerator": "defaults",
    "NotServing": "commands",
    "Routing": "commands",
    "identify": "commands",
    "version_of_image": "images",
    "Unreadable": "parsing",
    "parse": "parsing",
    "facts": "resolve",
    "ENGINES": "tables",
    "table": "tables",
    "versions": "tables",
    "vocabulary": "tables",
    "Flag": "types",
    "Given": "types",
    "Identified": "types",
    "ParsedFlags": "types",
    "Table": "types",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
