"""GGUF files: header, metadata, vocabulary, tensor table.

The format is llama.cpp's (ggml's docs/gguf.md): magic, version, counts, key-value pairs, tensor table, data.
Versions 2 and 3, little-endian. Only the header is read, never the weights. Every length in the file is
held against the bytes that are left before anything is kept, so a hostile header costs nothing.
"""

from __future__ import annotations

import math
import stat
import struct
from pathlib import Path
from typing import IO, Any

import msgspec

from preop.errors import InputError

__all__ = [
    "ArrayShape",
    "Header",
    "TensorInfo",
    "Vocabulary",
    "read_header",
    "read_metadata",
    "read_vocabulary",
]

_MAGIC = b"GGUF"
_CHUNK = 1 << 20
_LARGEST_HEADER = 1 << 29
"""512 MiB: the largest vocabularies in use take about 20 MiB."""
_LONG_ARRAY = 4096
"""Arrays up to this length are always kept (heads of each layer); longer ones only when asked for."""
_DEEPEST_ARRAY = 4
_MOST_DIMENSIONS = 8
_DEFAULT_ALIGNMENT = 32

_SCALARS = {
    0: ("uint8", struct.Struct("<B")),
    1: ("int8", struct.Struct("<b")),
    2: ("uint16", struct.Struct("<H")),
    3: ("int16", struct.Struct("<h")),
    4: ("uint32", struct.Struct("<I")),
    5: ("int32", struct.Struct("<i")),
    6: ("float32", struct.Struct("<f")),
    7: ("bool", struct.Struct("<?")),
    10: ("uint64", struct.Struct("<Q")),
    11: ("int64", struct.Struct("<q")),
    12: ("float64", struct.Struct("<d")),
}
_STRING, _ARRAY = 8, 9
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""ggml tensor types: name, elements in a block, bytes of a block."""


class ArrayShape(msgspec.Struct, frozen=True):
    """Stands for a long array that was not asked for."""

    element_type: str
    length: int


class TensorInfo(msgspec.Struct, frozen=True):
    """One line of the tensor table."""

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int
    """From the start of the data."""
    size: int | None
    """Bytes; None for a tensor type that preop does not know."""

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


class Header(msgspec.Struct, frozen=True):
    """Everything before the weights."""

    version: int
    metadata: dict[str, Any]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    file_size: int


class Vocabulary(msgspec.Struct, frozen=True):
    """The tokenizer inside a GGUF file (tokenizer.ggml.*). Ids are positions in `tokens`."""

    model: str
    """gpt2 (byte-level BPE), llama (SentencePiece), bert (WordPiece), t5 (Unigram), rwkv, none."""
    pre: str | None
    """Name of the pre-tokenizer, as llama.cpp calls it: smollm, qwen2, llama-bpe, ..."""
    tokens: list[str]
    merges: list[str]
    scores: list[float]
    token_types: list[int]
    """1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte."""
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None
    add_bos: bool | None
    """None: the file does not say, the engine decides."""
    add_eos: bool | None
    add_space_prefix: bool | None
    chat_template: str | None
    huggingface_json: str | None
    """tokenizer.huggingface.json, where the file carries it."""


def read_metadata(path: str | Path, *, arrays: bool = False) -> dict[str, Any]:
    """The key-value pairs of a GGUF file.

    Arrays of more than 4096 elements are an `ArrayShape` unless `arrays`. Raises InputError for a file that
    is not a whole GGUF header of version 2 or 3.
    """
    with _open(path) as file:
        return _Reader(file, path).metadata(arrays)


def read_header(path: str | Path) -> Header:
    """Metadata (long arrays as `ArrayShape`) and the tensor table.

    Raises InputError as `read_metadata` does, and for a file that ends before its last tensor does.
    """
    with _open(path) as file:
        reader = _Reader(file, path)
        metadata = reader.metadata(False)
        return reader.tensors(metadata)


def read_vocabulary(path: str | Path) -> Vocabulary:
    """The tokenizer inside a GGUF file. Raises InputError where there is none."""
    data = read_metadata(path, arrays=True)
    prefix = "tokenizer.ggml."
    model = data.get(f"{prefix}model")
    tokens = data.get(f"{prefix}tokens")
    if (
        not isinstance(model, str)
        or not isinstance(tokens, list)
        or not all(isinstance(t, str) for t in tokens)
    ):
        raise InputError(
            f"{path}: carries no tokenizer (tokenizer.ggml.model and tokenizer.ggml.tokens expected)"
        )

    def items(key: str, kind: type) -> list[Any]:
        found = data.get(prefix + key, [])
        if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
            raise InputError(f"{path}: {prefix}{key} is not a list of {kind.__name__}")
        return found

    def one(key: str, kind: type) -> Any:
        found = data.get(key)
        return found if isinstance(found, kind) else None

    token_types = items("token_type", int)
    if token_types and len(token_types) != len(tokens):
        raise InputError(f"{path}: {len(token_types)} token types for {len(tokens)} tokens")
    return Vocabulary(
        model=model,
        pre=one(f"{prefix}pre", str),
        tokens=tokens,
        merges=items("merges", str),
        scores=items("scores", float),
        token_types=token_types,
        bos_id=one(f"{prefix}bos_token_id", int),
        eos_id=one(f"{prefix}eos_token_id", int),
        unknown_id=one(f"{prefix}unknown_token_id", int),
        add_bos=one(f"{prefix}add_bos_token", bool),
        add_eos=one(f"{prefix}add_eos_token", bool),
        add_space_prefix=one(f"{prefix}add_space_prefix", bool),
        chat_template=one("tokenizer.chat_template", str),
        huggingface_json=one("tokenizer.huggingface.json", str),
    )


def _open(path: str | Path) -> IO[bytes]:
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # opening a pipe would wait for ever
            raise InputError(f"{path}: not a regular file, a GGUF file expected")
        return Path(path).open("rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a valid path"
        raise InputError(f"{path}: cannot be read ({reason}), a GGUF file expected") from None


class _Reader:
    """Reads forward. `_need(n)` is the only place that makes memory grow, and never past the file's end."""

    def __init__(self, file: IO[bytes], path: str | Path) -> None:
        self._file, self._path = file, path
        self._size = file.seek(0, 2)
        file.seek(0)
        self._data = bytearray()
        self._at = 0
        self._version, self._tensor_count, self._pair_count = self._preamble()

    def _error(self, what: str) -> InputError:
        return InputError(f"{self._path}: {what}")

    def _need(self, count: int) -> int:
        """Has `count` bytes from here in memory, and steps over them; returns where they begin."""
        start, end = self._at, self._at + count
        if end > self._size:
            raise self._error(
                f"the GGUF header ends too early: {count} bytes wanted at byte {start} of {self._size}"
            )
        if end > _LARGEST_HEADER:
            raise self._error(f"the GGUF header is larger than {_LARGEST_HEADER >> 20} MiB")
        while len(self._data) < end:
            more = self._file.read(max(_CHUNK, end - len(self._data)))
            if not more:
                raise self._error("the file became shorter while it was read")
            self._data += more
        self._at = end
        return start

    def _u32(self) -> int:
        return int(_U32.unpack_from(self._data, self._need(4))[0])

    def _u64(self) -> int:
        return int(_U64.unpack_from(self._data, self._need(8))[0])

    def _string(self) -> str:
        start = self._need(self._u64())
        return self._data[start : self._at].decode("utf-8", "replace")

    def _preamble(self) -> tuple[int, int, int]:
        start = bytes(self._file.read(64))
        self._file.seek(0)
        if start[:4] != _MAGIC:
            raise self._error(_not_gguf(start))
        self._need(4)
        version = self._u32()
        if version in (0x02000000, 0x03000000):
            raise self._error("big-endian GGUF; engines here read little-endian files only")
        if version not in (2, 3):
            raise self._error(f"GGUF version {version}; versions 2 and 3 are read")
        tensors, pairs = self._u64(), self._u64()
        # The smallest pair takes 13 bytes (key length, type, one byte), the smallest tensor line 24.
        if pairs * 13 + tensors * 24 > self._size:
            raise self._error(f"the header claims {pairs} pairs and {tensors} tensors in {self._size} bytes")
        return version, tensors, pairs

    def metadata(self, arrays: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self._pair_count):
            key = self._string()
            if key in found:
                raise self._error(f"the key {key[:80]!r} is there twice")
            found[key] = self._value(self._u32(), arrays, 0)
        return found

    def _value(self, kind: int, arrays: bool, depth: int) -> Any:
        if kind in _SCALARS:
            scalar = _SCALARS[kind][1]
            return scalar.unpack_from(self._data, self._need(scalar.size))[0]
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY and depth < _DEEPEST_ARRAY:
            return self._array(arrays, depth)
        raise self._error(f"unknown value type {kind} at byte {self._at - 4}")

    def _array(self, arrays: bool, depth: int) -> Any:
        kind, length = self._u32(), self._u64()
        keep = arrays or length <= _LONG_ARRAY
        if kind in _SCALARS:
            name, scalar = _SCALARS[kind]
            start = self._need(length * scalar.size)
            if not keep:
                return ArrayShape(name, length)
            return list(struct.unpack_from(f"<{length}{scalar.format[-1:]}", self._data, start))
        if kind not in (_STRING, _ARRAY):
            raise self._error(f"unknown array type {kind} at byte {self._at - 12}")
        if length * 8 > self._size - self._at:  # each takes at least its own length word
            raise self._error(f"an array claims {length} elements, more than the file has room for")
        if kind == _ARRAY or keep:
            return [self._value(kind, arrays, depth + 1) for _ in range(length)]
        self._skip_strings(length)
        return ArrayShape("string", length)

    def _skip_strings(self, length: int) -> None:
        """Steps over `length` texts, the bulk of most headers, without a call for each."""
        unpack = _U64.unpack_from
        for _ in range(length):
            at = self._at
            if at + 8 <= len(self._data):
                end = at + 8 + unpack(self._data, at)[0]
                if end <= len(self._data):
                    self._at = end
                    continue
            self._need(self._u64())

    def tensors(self, metadata: dict[str, Any]) -> Header:
        tensors = tuple(self._tensor() for _ in range(self._tensor_count))
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if (
            not isinstance(alignment, int)
            or alignment <= 0
            or alignment & (alignment - 1)
            or alignment > 1 << 20
        ):
            raise self._error(f"general.alignment is {alignment!r}, a power of two expected")
        data_offset = (
            min(-(-self._at // alignment) * alignment, self._size)
            if not tensors
            else (-(-self._at // alignment) * alignment)
        )
        end = data_offset + max((t.offset + (t.size or 0) for t in tensors), default=0)
        if end > self._size:
            raise self._error(
                f"the file ends {end - self._size} bytes before its last tensor does; an incomplete download?"
            )
        return Header(self._version, metadata, tensors, data_offset, self._size)

    def _tensor(self) -> TensorInfo:
        name, dimensions = self._string(), self._u32()
        if dimensions > _MOST_DIMENSIONS:
            raise self._error(f"tensor {name[:80]!r} claims {dimensions} dimensions")
        shape = tuple(self._u64() for _ in range(dimensions))
        kind, offset = self._u32(), self._u64()
        elements = math.prod(shape)
        type_name, block, size = TENSOR_TYPES.get(kind, (f"type {kind}", 1, 0))
        return TensorInfo(name, shape, type_name, offset, -(-elements // block) * size if size else None)


def _not_gguf(start: bytes) -> str:
    if not start:
        return "an empty file, a GGUF file expected"
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself; fetch it with git lfs pull"
    if start[:4] in (b"lmgg", b"tjgg", b"fmgg", b"algg"):
        return "the GGML format of before GGUF, which engines no longer read; convert it to GGUF"
    return f"not a GGUF file: it begins with {start[:4]!r}, b'GGUF' expected"
