"""Files of `NAME=value` lines: `docker run --env-file`, compose's `env_file` and `.env`."""

from __future__ import annotations

import re
from pathlib import Path

from preop.deployment.tokens import Token, environment_word, unseen_token
from preop.errors import InputError
from preop.facts import Origin, Word

__all__ = ["MAX_BYTES", "decoded", "parse_env", "read_env_file", "read_text"]

MAX_BYTES = 20 * 1024 * 1024
_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*(=)?[ \t]*(.*)\Z")


def read_text(path: Path, expected: str, *, may_be_empty: bool = False) -> str:
    """The text of a file.

    Raises `InputError` where there is no such file, or it is a folder, no ordinary file, over `MAX_BYTES`,
    binary, or empty unless it may be. `expected` says what should have been there.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; expected {expected}")
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is no ordinary file; expected {expected}")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path}: {size / 2**20:,.0f} MiB; expected {expected} of at most 20 MiB")
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; expected {expected}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}; expected {expected}") from None
    return decoded(str(path), data, expected, may_be_empty=may_be_empty)


def decoded(name: str, data: bytes, expected: str, *, may_be_empty: bool = False) -> str:
    """The bytes as text. Raises `InputError` as `read_text` does."""
    if len(data) > MAX_BYTES:
        raise InputError(f"{name}: more than 20 MiB; expected {expected}")
    if not data.strip() and not may_be_empty:
        raise InputError(f"{name}: is empty; expected {expected}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name}: is not UTF-8 text; expected {expected}") from None
    if "\x00" in text:
        raise InputError(f"{name}: is a binary file; expected {expected}")
    return text


def parse_env(text: str, file: str, *, quotes: bool) -> dict[str, Token]:
    """The variables of an environment file, the last of equal names.

    With `quotes` values are unquoted and trailing comments cut as compose does; without, they are taken as
    they stand, as `docker run` does. A name without `=` comes from the caller and cannot be seen.
    """
    found: dict[str, Token] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        match = None if stripped.startswith("#") else _LINE.match(stripped)
        if not match:
            continue
        name, equals, value = match[1], match[2], match[3]
        origin = Origin("file", f"{file}:{number}:{line.index(name) + 1}")
        if not equals:
            found[name] = unseen_token(f"{name} comes from the caller", origin)
            continue
        if quotes:
            value = _unquoted(value)
        found[name] = Token(value, origin)
    return found


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"'):
        close = value.find(value[0], 1)
        if close > 0:
            return value[1:close]
    return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()


def read_env_file(
    path: Token, folder: Path | None, *, quotes: bool = False
) -> tuple[dict[str, Word], list[str]]:
    """The variables of an environment file, and why some may be hidden: the file is not here."""
    if path.visible is None:
        return {}, [f"an environment file cannot be seen: {path.note}"]
    at = (folder or Path("/")) / path.text
    try:
        there = (folder is not None or at == Path(path.text)) and at.exists()
    except (OSError, ValueError):
        there = False
    if not there:
        return {}, [f"environment file {path.text} is not here"]
    tokens = parse_env(read_text(at, "an environment file", may_be_empty=True), path.text, quotes=quotes)
    return {name: environment_word(name, value) for name, value in tokens.items()}, []
