"""The fifteen pitfalls. Importing this imports no judge: `all_pitfalls()` does."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from preop.errors import UsageError
from preop.pitfalls.types import Case, Pitfall
from preop.text import Language

__all__ = ["FOLDERS", "Case", "Pitfall", "all_pitfalls", "find_pitfall", "page"]

FOLDERS = (
    "p01_quantization_quality",
    "p02_tokenizer_parity",
    "p03_weight_only_quantization",
    "p04_concurrency_latency",
    "p05_kv_cache_capacity",
    "p06_gpu_utilization",
    "p07_batch_cap",
    "p08_speculative_decoding",
    "p09_gpu_temperature",
    "p10_onnx_drift",
    "p11_engine_upgrade",
    "p12_stack_lock",
    "p13_gpu_sharing",
    "p14_streaming",
    "p15_long_context",
)
"""One folder for each, named by id and subject."""


@cache
def all_pitfalls() -> tuple[Pitfall, ...]:
    """All fifteen, P01 first."""
    return tuple(import_module(f"{__name__}.{folder}").PITFALL for folder in FOLDERS)


def find_pitfall(name: str) -> Pitfall:
    """A pitfall by id ("P05", "p5", "5") or slug. Raises `UsageError` for any other name."""
    wanted = name.strip().lower()
    digits = wanted.removeprefix("p")
    if digits.isascii() and digits.isdigit() and len(digits) <= 2:
        wanted = f"p{int(digits):02d}"
    for pitfall in all_pitfalls():
        if wanted in (pitfall.id.lower(), pitfall.slug):
            return pitfall
    slugs = ", ".join(pitfall.slug for pitfall in all_pitfalls())
    raise UsageError(f"{name!r} is no pitfall: expected P01 to P15 or one of {slugs}")


def page(pitfall: Pitfall, language: Language) -> str:
    """The pitfall's page, Markdown."""
    folder = next(f for f in FOLDERS if f.startswith(pitfall.id.lower()))
    return (Path(__file__).parent / folder / f"{language}.md").read_text(encoding="utf-8")
