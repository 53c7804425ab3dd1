"""From a name to a `Model`: files here, the local hub cache, the catalog, and the hub only when asked."""

from __future__ import annotations

import os
import re
from pathlib import Path

from preop.errors import InputError
from preop.models.types import Model

__all__ = ["find_model"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
_SMALL_FILES = ("config.json", "hf_quant_config.json", "quantize_config.json", "quant_config.json",
                "tokenizer_config.json", "modules.json", "config_sentence_transformers.json",
                "model.safetensors.index.json")  # fmt: skip
_HUB_TIMEOUT_S = 15.0
_SPLIT = re.compile(r"-(\d{5})-of-\d{5}\.gguf$")


def find_model(
    name: str, *, path: str | None = None, root: str | None = None, fetch: bool = False
) -> Model | None:
    """What is known of the model `name`, or None.

    Looks, in this order, at `path`; at `name` as a folder or a GGUF file; at `root/ORG/NAME`; at the local
    hub cache; at the catalog; and, only with `fetch`, at the Hugging Face hub (small files, never weights).

    Raises InputError where `path` is not there, where files that are there cannot be read, and where `fetch`
    was asked for and could not be done. A `name` that looks like a path and is not there is None: it may be a
    path inside a container.
    """
    if path is not None:
        model = _read_local(_expanded(path), name)
        if model is None:
            raise InputError(f"{path}: no such file or folder, a model's folder or a GGUF file expected")
        return model
    if "\0" in name or not name:
        return None
    if _looks_local(name) or _is_there(name):
        return _read_local(_expanded(name), name)
    if not _HUB_ID.fullmatch(name):
        return None
    if (mirrored := _mirrored(name, root)) is not None:
        return _read_local(mirrored, name)
    if (snapshot := _cached(name)) is not None:
        # It may hold a part: without weights, what is missing here may yet be in the repository.
        return _read_local(snapshot, name, complete=any(snapshot.glob("*.safetensors*")))
    from preop.models.catalog import find_in_catalog

    model = find_in_catalog(name)
    return _fetch(name) if model is None and fetch else model


def _mirrored(name: str, root: str | None) -> Path | None:
    """The model's folder below a team's own mirror."""
    folder = _expanded(root) / name if root is not None else None
    try:
        return folder if folder is not None and (folder / "config.json").is_file() else None
    except (OSError, ValueError):
        return None


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # "~nobody/..."
        return Path(path)


def _looks_local(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or name in (".", "..") or name.endswith(".gguf")


def _is_there(name: str) -> bool:
    """A relative path counts as a model only if it holds one: `Qwen` may be any folder."""
    try:
        return (Path(name) / "config.json").is_file()
    except OSError:
        return False


def _read_local(path: Path, name: str, *, complete: bool = True) -> Model | None:
    try:
        if not path.exists():
            return None
        is_folder = path.is_dir()
    except (OSError, RuntimeError, ValueError):
        return None
    if not is_folder:
        from preop.models.gguf_model import read_gguf

        return read_gguf(path)
    if (path / "config.json").exists():
        from preop.models.huggingface import read_folder

        return read_folder(path, name=name, complete=complete)
    files = sorted(
        file for file in path.glob("*.gguf") if file.is_file() and not file.name.startswith("mmproj")
    )
    firsts = [file for file in files if (match := _SPLIT.search(file.name)) is None or match[1] == "00001"]
    if len(firsts) == 1:
        from preop.models.gguf_model import read_gguf

        return read_gguf(firsts[0])
    if firsts:
        raise InputError(f"{path}: holds {len(firsts)} GGUF models; name one of them")
    raise InputError(f"{path}: no config.json and no GGUF file here, so it is not a model's folder")


def _hub_cache() -> Path:
    if cache := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(cache).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "huggingface" / "hub"


def _cached(name: str) -> Path | None:
    """The snapshot that `main` points to in the local hub cache, if it holds one model."""
    try:
        repository = _hub_cache() / ("models--" + name.replace("/", "--"))
        revision = (repository / "refs" / "main").read_text(encoding="ascii").strip()[:200]
        if not re.fullmatch(r"[0-9a-zA-Z._-]+", revision) or revision in (".", ".."):
            return None
        snapshot = repository / "snapshots" / revision
        is_one_gguf = len(list(snapshot.glob("*.gguf"))) == 1
        return snapshot if (snapshot / "config.json").is_file() or is_one_gguf else None
    except (OSError, ValueError, RuntimeError):
        return None


def _fetch(name: str) -> Model | None:
    """config.json and the small files beside it, into the local hub cache."""
    try:
        from huggingface_hub import HfApi, hf_hub_download
    except ImportError:
        raise InputError(
            f"{name}: --fetch needs the package huggingface_hub (pip install huggingface_hub)"
        ) from None
    try:
        # Asked first: without a network it fails at once, where a download would try for half a minute.
        siblings = HfApi().model_info(name, timeout=_HUB_TIMEOUT_S).siblings or []
        there = {sibling.rfilename for sibling in siblings}
        for file in _SMALL_FILES:
            if file in there:
                hf_hub_download(name, file)
    except Exception as error:  # noqa: BLE001 - the hub's client raises its own, requests' and httpx's errors
        reason = str(error).strip().splitlines()
        raise InputError(
            f"{name}: could not be fetched from the Hugging Face hub ({type(error).__name__}"
            f"{': ' + reason[0][:160] if reason else ''}); without a network put its config.json and the "
            f"small files beside it into FOLDER/{name}, and FOLDER under [models] root in preop.toml"
        ) from None
    snapshot = _cached(name)
    return _read_local(snapshot, name) if snapshot else None
