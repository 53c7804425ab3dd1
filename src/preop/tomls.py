"""TOML files that a team writes: read within bounds, and refused in one sentence."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from preop.errors import UsageError

__all__ = ["read_toml"]

_MAX_BYTES = 1_000_000


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file. Raises `UsageError` where it cannot be read, is none, or is over 1 MB."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for ever
            raise UsageError(f"{path}: no ordinary file, expected a TOML file")
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{path}: larger than 1 MB, expected a settings file")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text, expected a TOML file") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply, expected a settings file") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
