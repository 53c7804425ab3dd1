"""The published JSON Schemas, made from the documents' own types.

`python -m preop.report.schema docs/schema` writes them; a test holds the committed files against these.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec

from preop.evidence import Payload
from preop.report.documents import CheckDocument, MeasureDocument

__all__ = ["schemas", "write"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """Each schema by its file name."""
    return {"check-1.json": _check(), "measure-1.json": _measure()}


def _check() -> dict[str, Any]:
    (top,), parts = msgspec.json.schema_components([CheckDocument], ref_template="#/$defs/{name}")
    schema = {"$schema": _DIALECT, "title": "preop.check/1", **top, "$defs": _sorted(parts)}
    return _finite(schema)


def _measure() -> dict[str, Any]:
    payloads = get_args(Payload)
    (frame, *kinds), parts = msgspec.json.schema_components(
        [MeasureDocument, *payloads], ref_template="#/$defs/{name}"
    )
    nothing = {"properties": {"kind": {"const": None}, "error": {"type": "string"}}}
    schema = {
        "$schema": _DIALECT,
        "title": "preop.measure/1",
        **frame,
        "oneOf": [*kinds, nothing],
        "$defs": _sorted(parts),
    }
    return _finite(schema)


def _finite(schema: dict[str, Any]) -> dict[str, Any]:
    """A number that is NaN or infinite (a gauge may be) is written as null: each number may be null."""

    def widen(part: Any) -> Any:
        if isinstance(part, dict):
            return {
                key: ["number", "null"] if key == "type" and value == "number" else widen(value)
                for key, value in part.items()
            }
        return [widen(item) for item in part] if isinstance(part, list) else part

    return {key: widen(value) for key, value in schema.items()}


def _sorted(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: parts[name] for name in sorted(parts)}


def write(folder: Path) -> None:
    """Write each schema into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False)
        (folder / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
