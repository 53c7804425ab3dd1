"""`preop.toml`: what a team writes down once. An unknown key is an error with the nearest real key."""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from preop.errors import UsageError
from preop.inputs import Inputs
from preop.instruments.load.limits import LoadLimits
from preop.instruments.types import MOST_CONCURRENT
from preop.thresholds import THRESHOLDS
from preop.tomls import read_toml

__all__ = [
    "SETTINGS_FILE",
    "Accelerator",
    "ApprovalSettings",
    "CostSettings",
    "DeploymentSettings",
    "ImageSettings",
    "MeasureSettings",
    "ModelSettings",
    "Settings",
    "load_settings",
]

SETTINGS_FILE = "preop.toml"

Accelerator = Literal["nvidia", "amd", "intel", "google", "habana", "apple", "none"]
Level = Annotated[int, msgspec.Meta(ge=1, le=MOST_CONCURRENT)]


class DeploymentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the deployment's own files do not say. Same names as the flags of `preop check`."""

    engine_version: str | None = None
    gpu: str | None = None
    gpu_count: Annotated[int, msgspec.Meta(ge=1, le=4096)] | None = None
    accelerator: Accelerator | None = None
    model_path: str | None = None
    endpoint: str | None = None
    api_key_env: str | None = None
    ca_bundle: str | None = None


class MeasureSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits and shape of what puts load on an engine."""

    concurrency: Annotated[list[Level], msgspec.Meta(min_length=1)] | None = None
    requests: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    budget_s: Annotated[float, msgspec.Meta(ge=1, le=86_400)] | None = None
    yes_load: str | None = None
    limits: LoadLimits = LoadLimits()


class ImageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is inside an image of the team's own."""

    engine: Literal["vllm", "sglang", "llama.cpp", "tgi", "tensorrt-llm"]
    version: Annotated[str, msgspec.Meta(pattern=r"^(tag|b\d+|v?\d+(\.\d+)+\S*)$", max_length=60)] | None = (
        None
    )
    """`tag`: the tag states it."""
    command: list[str] | None = None


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where models are on this machine."""

    root: str | None = None
    """Folder with `ORG/NAME/config.json` below it."""


class CostSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the hardware costs."""

    gpu_hour: Annotated[float, msgspec.Meta(gt=0, le=100_000)] | None = None
    """Price of one GPU for an hour."""
    currency: Annotated[str, msgspec.Meta(min_length=1, max_length=8)] = "USD"
    per_million_output_tokens: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] | None = None
    """Price of a million output tokens at a provider, for --budget."""


class ApprovalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the change-approval page says that nothing measures."""

    service: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    change: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    """What the change is and why, in words."""
    rollback: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    """How to go back."""


class Settings(msgspec.Struct, frozen=True):
    """The whole of `preop.toml`."""

    lang: str | None = None
    runs: str | None = None
    """Folder of the run documents; `.preop/runs` by default."""
    waivers: str | None = None
    """The waivers' file; `preop-waivers.toml` by default, where there is one."""
    offline: bool = False
    """Nothing may ask the network."""
    exclude: tuple[str, ...] = ()
    """Patterns of paths that the search of a folder passes over."""
    images: dict[str, ImageSettings] = {}
    """By repository, with `*` for any part of its name."""
    models: ModelSettings = ModelSettings()
    cost: CostSettings = CostSettings()
    approval: ApprovalSettings = ApprovalSettings()
    deployment: DeploymentSettings = DeploymentSettings()
    inputs: Inputs = Inputs()
    measure: MeasureSettings = MeasureSettings()
    thresholds: dict[str, float] = {}
    """By threshold key, e.g. `P04.ttft_p99_ms`."""


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "deployment": DeploymentSettings,
    "inputs": Inputs,
    "measure": MeasureSettings,
    "models": ModelSettings,
    "cost": CostSettings,
    "approval": ApprovalSettings,
}


def load_settings(path: Path | None = None) -> Settings:
    """Read `path`, or `preop.toml` in the current folder if there is one.

    Raises `UsageError` with the file and the key when something in it cannot be.
    """
    if path is None:
        path = Path(SETTINGS_FILE)
        if not path.is_file():
            return Settings()
    table = read_toml(path)
    known_keys = {"lang", "runs", "waivers", "offline", "exclude", "images", "thresholds", *_SECTIONS}
    _refuse_unknown(path, "", table, known_keys)
    sections = {name: _section(path, name, table.get(name, {}), kind) for name, kind in _SECTIONS.items()}
    lang = table.get("lang")
    if lang not in (None, "en", "zh"):
        raise UsageError(f'{path}: lang is {lang!r}, expected "en" or "zh"')
    offline = table.get("offline", False)
    if not isinstance(offline, bool):
        raise UsageError(f"{path}: offline is {offline!r}, expected true or false")
    exclude = table.get("exclude", [])
    if not isinstance(exclude, list) or not all(isinstance(each, str) for each in exclude):
        raise UsageError(f'{path}: exclude is {exclude!r}, expected a list of patterns such as ["charts/*"]')
    return Settings(
        lang=lang,
        offline=offline,
        exclude=tuple(exclude),
        images=_images(path, table.get("images", {})),
        thresholds=_thresholds(path, table.get("thresholds", {})),
        runs=_path(path, "runs", table.get("runs"), "a folder's path"),
        waivers=_path(path, "waivers", table.get("waivers"), "a file's path"),
        **sections,
    )


def _path(path: Path, key: str, value: Any, expected: str) -> str | None:
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        raise UsageError(f"{path}: {key} is {value!r}, expected {expected}")
    return value


def _images(path: Path, table: Any) -> dict[str, ImageSettings]:
    if not isinstance(table, dict):
        raise UsageError(f'{path}: images is {table!r}, expected entries such as "registry/vllm" = {{...}}')
    return {name: _section(path, f'images."{name}"', entry, ImageSettings) for name, entry in table.items()}


def _section(path: Path, name: str, table: Any, kind: type[msgspec.Struct]) -> Any:
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {name} is {table!r}, expected a section [{name}]")
    _refuse_unknown(path, name, table, set(kind.__struct_fields__))
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: [{name}]: {error}") from None


def _thresholds(path: Path, table: Any) -> dict[str, float]:
    if not isinstance(table, dict):
        raise UsageError(f"{path}: thresholds is {table!r}, expected sections such as [thresholds.P04]")
    groups: dict[str, set[str]] = {}
    for key in THRESHOLDS:
        group, name = key.split(".", 1)
        groups.setdefault(group, set()).add(name)
    _refuse_unknown(path, "thresholds", table, set(groups))
    found: dict[str, float] = {}
    for group, values in table.items():
        if not isinstance(values, dict):
            raise UsageError(
                f"{path}: thresholds.{group} is {values!r}, expected a section [thresholds.{group}]"
            )
        _refuse_unknown(path, f"thresholds.{group}", values, groups[group])
        for name, value in values.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < 0:
                raise UsageError(
                    f"{path}: thresholds.{group}.{name} is {value!r}, expected a number of 0 or more"
                )
            found[f"{group}.{name}"] = float(value)
    return found


def _refuse_unknown(path: Path, section: str, table: dict[str, Any], allowed: set[str]) -> None:
    for key in table:
        if key not in allowed:
            nearest = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
            where = f"{section}.{key}" if section else key
            hint = (
                f"did you mean {nearest[0]}?" if nearest else f"expected one of {', '.join(sorted(allowed))}"
            )
            raise UsageError(f"{path}: {where} is not a key of preop.toml; {hint}")
