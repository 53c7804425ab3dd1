"""Model folders made by hand for the tests."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

__all__ = ["LLAMA", "folder", "safetensors"]

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
"""Llama 3.2 1B."""


def folder(path: Path, config: Any, **files: Any) -> Path:
    """A model's folder: config.json, and other files by name (`__` is a dot), JSON unless bytes."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in {"config__json": config, **files}.items():
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (path / name.replace("__", ".")).write_bytes(raw)
    return path


def safetensors(**shapes: list[int]) -> bytes:
    """A safetensors file of 16-bit zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        size = 2
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(at)
