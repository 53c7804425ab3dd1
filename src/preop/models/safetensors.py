"""What a folder's weight files weigh and hold, from their sizes and headers (the weights are never read).

A safetensors file begins with the length of its header as a 64-bit number, then the header in JSON: for each
tensor its dtype and shape.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from preop.errors import InputError
from preop.models.fields import Fields, read_json

__all__ = ["Weights", "weights_in"]

_LARGEST_HEADER = 64 << 20
_MOST_SHARDS = 2000
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


class Weights:
    """Bytes and parameters of the weight files, None where the files do not tell."""

    def __init__(self, size: int | None, elements: int | None) -> None:
        self.size = size
        """Bytes of all tensors."""
        self.elements = elements
        """Numbers stored. In packed formats this is not the number of parameters."""


def weights_in(folder: Path, notes: list[str]) -> Weights:
    """The index's total_size, or the sum of the weight files that are there."""
    for name in _INDEXES:
        path = folder / name
        if path.is_file():
            return _from_index(path, notes)
    shards = _shards(folder, ".safetensors")
    if shards:
        headers = [_header(shard, notes) for shard in shards]
        size, elements = sum(shard.stat().st_size for shard in shards), 0
        for header in headers:
            count = _elements(header) if header is not None else None
            if count is None:
                return Weights(size, None)
            elements += count
        # The header itself is not weights: the end of the last tensor is where the data ends.
        data = [_data_size(header) for header in headers if header is not None]
        return Weights(sum(d for d in data if d is not None) if None not in data else size, elements)
    others = _shards(folder, ".bin")
    return Weights(sum(shard.stat().st_size for shard in others) if others else None, None)


def _from_index(path: Path, notes: list[str]) -> Weights:
    try:
        index = Fields(read_json(path), notes, path.name)
    except InputError as error:
        notes.append(str(error))
        return Weights(None, None)
    metadata = index.object("metadata")
    if metadata is None:
        return Weights(None, None)
    size = metadata.integer("total_size", high=10**15)
    elements = metadata.integer("total_parameters", high=10**15)
    if elements is None and path.name.endswith("safetensors.index.json"):
        elements = _from_shards(path, index, notes)
    return Weights(size, elements)


def _from_shards(path: Path, index: Fields, notes: list[str]) -> int | None:
    """The sum over the index's shards, if all of them are here."""
    mapping = index.object("weight_map")
    names = {name for name in mapping.data.values() if isinstance(name, str)} if mapping else set()
    if not names or len(names) > _MOST_SHARDS or any("/" in name or "\\" in name for name in names):
        return None
    total = 0
    for name in sorted(names):
        shard = path.parent / name
        header = _header(shard, notes) if shard.is_file() else None
        count = _elements(header) if header is not None else None
        if count is None:
            return None
        total += count
    return total


def _shards(folder: Path, suffix: str) -> list[Path]:
    names = ("model", "pytorch_model") if suffix == ".bin" else ("",)
    found = [
        path
        for path in sorted(folder.glob(f"*{suffix}"))
        if path.is_file() and path.name.startswith(names) and not path.name.startswith("adapter")
    ]
    # Mistral ships the same weights twice: consolidated and sharded.
    sharded = [path for path in found if not path.name.startswith("consolidated")]
    return (sharded or found)[:_MOST_SHARDS]


def _header(path: Path, notes: list[str]) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(_LARGEST_HEADER, max(path.stat().st_size - 8, 0)):
                notes.append(f"{path.name}: not a whole safetensors file")
                return None
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError):
        notes.append(f"{path.name}: its safetensors header cannot be read")
        return None
    return header if isinstance(header, dict) else None


def _elements(header: dict[str, Any]) -> int | None:
    total = 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        shape = tensor.get("shape") if isinstance(tensor, dict) else None
        if not isinstance(shape, list) or not all(type(d) is int and 0 <= d < 2**48 for d in shape):
            return None
        total += math.prod(shape)
    return total


def _data_size(header: dict[str, Any]) -> int | None:
    end = 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        offsets = tensor.get("data_offsets") if isinstance(tensor, dict) else None
        if not isinstance(offsets, list) or len(offsets) != 2 or type(offsets[1]) is not int:
            return None
        end = max(end, offsets[1])
    return end
