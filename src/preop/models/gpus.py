"""The GPU sheet: memory, bandwidth and dense peaks, each row with its source."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from preop.errors import InputError

__all__ = ["Gpu", "find_gpu"]

_NOISE = frozenset({"nvidia", "geforce", "tesla", "amd", "instinct", "gpu", "accelerator"})
_COUNT = re.compile(r"^\s*\d{1,3}\s*[xX]\s+")
_MIB_IN_GIB = 1024


class Gpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of GPU. None: not stated, or the variants that the name fits differ."""

    id: str
    name: str
    vendor: str
    source: str
    memory_gb: float | None = None
    """As sold; not a number of bytes to compute with."""
    memory_mib: int | None = None
    """Total that nvidia-smi shows."""
    visible_gib: tuple[float, float] | None = None
    """Lowest and highest total seen in engines' logs."""
    bandwidth_gb_s: float | None = None
    """Memory bandwidth, 1e9 bytes a second."""
    fp16_tflops: float | None = None
    int8_tops: float | None = None
    fp8_tflops: float | None = None
    fp4_tflops: float | None = None
    not_verified: tuple[str, ...] = ()
    """Fields whose source is weak."""

    @property
    def total_gib(self) -> float | None:
        """Memory that an engine sees, GiB: the lowest figure observed. None where nobody stated one."""
        if self.visible_gib is not None:
            return self.visible_gib[0]
        return self.memory_mib / _MIB_IN_GIB if self.memory_mib is not None else None


class _Row(NamedTuple):
    gpu: Gpu
    require: frozenset[str]
    allow: frozenset[str]


@cache
def _sheet() -> dict[str, _Row]:
    import tomllib

    text = (Path(__file__).parent / "data/gpus.toml").read_text(encoding="utf-8")
    rows: dict[str, _Row] = {}
    for id, row in tomllib.loads(text).items():
        require, allow = frozenset(row.pop("require")), frozenset(row.pop("allow"))
        rows[id] = _Row(msgspec.convert({"id": id, **row}, Gpu), require, allow)
    return rows


def find_gpu(name: str) -> Gpu | None:
    """The GPU that `name` names: an id of the sheet, a name as nvidia-smi prints it, or a part of one.

    None for a name that the sheet does not have (a word it does not know, as in "H100 NVL", is enough).
    Where several variants fit and have the same memory, what they differ in is None. Raises InputError where
    they differ in memory: the name must say more.
    """
    if name in _sheet():
        return _sheet()[name].gpu
    words = frozenset(
        re.findall(r"[a-z0-9]+", re.sub(r"(\d)\s+g(i?)b", r"\1gb", _COUNT.sub("", name[:200]).lower()))
    )
    words -= _NOISE
    found = [
        row.gpu for row in _sheet().values() if row.require <= words and words <= row.require | row.allow
    ]
    if not found:
        return None
    if len({gpu.memory_gb for gpu in found}) > 1:
        listed = ", ".join(gpu.id for gpu in found)
        raise InputError(f"{name!r} names GPUs with different memory; say which: {listed}")
    return found[0] if len(found) == 1 else _common(found)


def _common(gpus: list[Gpu]) -> Gpu:
    """What the variants share."""
    first = gpus[0]
    same = {
        field: getattr(first, field) if len({getattr(gpu, field) for gpu in gpus}) == 1 else None
        for field in Gpu.__struct_fields__
        if field not in ("id", "name", "source", "not_verified", "vendor")
    }
    return Gpu(
        id=" or ".join(gpu.id for gpu in gpus),
        name=" or ".join(gpu.name for gpu in gpus),
        vendor=first.vendor,
        source="; ".join(dict.fromkeys(gpu.source for gpu in gpus)),
        not_verified=tuple(sorted({field for gpu in gpus for field in gpu.not_verified})),
        **same,
    )
