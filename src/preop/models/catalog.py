"""Published models whose facts ship with preop, so that a command is judged without a network.

`data/catalog.json` holds the fields of each config.json that preop reads, unchanged, with the public
place they were read from; they go through the same parser as a file. Only what a source states is there: a
quantized model is listed only where its own config was seen, whole or in part.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from preop.facts import Origin
from preop.models.types import Model

__all__ = ["find_in_catalog"]


@cache
def _catalog() -> dict[str, Any]:
    text = (Path(__file__).parent / "data/catalog.json").read_text(encoding="utf-8")
    catalog: dict[str, Any] = json.loads(text)
    return catalog


def find_in_catalog(name: str) -> Model | None:
    """The model with this hub id (case does not matter), or None."""
    catalog = _catalog()
    models = catalog["models"]
    entry = models.get(name)
    if entry is None:
        lowered = name.lower()
        match = next((known for known in models if known.lower() == lowered), None)
        if match is None:
            return None
        name, entry = match, models[match]
    from preop.models.huggingface import parse_config
    from preop.models.safetensors import Weights

    source = catalog["sources"][entry["source"]]
    return parse_config(
        entry["config"],
        name=name,
        origin=Origin("catalog", f"config.json of {name}: {source}"),
        beside=entry.get("beside"),
        whole=entry["whole"],
        weights=Weights(entry["weight_bytes"], None) if "weight_bytes" in entry else None,
        parameters=entry.get("parameters"),
    )
