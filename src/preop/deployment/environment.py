"""Files of `NAME=value` lines: `docker run --env-file`, compose's `env_file` and `.env`."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

from preop.deployment.tokens import Token, environment_word, unseen_token
from preop.errors import InputError
from preop.facts import Origin, Word

__all__ = ["MAX_BYTES", "decoded", "parse_env", "read_env_file", "read_text"]

MAX_BYTES = 20 * 1024 * 1024
_DOLLAR = "\ue000"
"""Stands for a `\\$` while variables are replaced."""
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "$": _DOLLAR}
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


def parse_env(
    text: str, file: str, *, quotes: bool, variables: Mapping[str, str] | None = None
) -> dict[str, Token]:
    """The variables of an environment file, the last of equal names.

    With `quotes` values are unquoted and trailing comments cut as compose does; without, they are taken as
    they stand, as `docker run` does. With `variables`, `$NAME` in a value is replaced by those and by the
    ones before it in the file, except in single quotes. A name without `=` comes from the caller and cannot
    be seen.
    """
    found: dict[str, Token] = {}
    own: dict[str, str] = {}
    known = ChainMap(dict(variables or {}), own)
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
        literal = value[:1] == "'"
        if quotes:
            value = _unquoted(value)
        if variables is not None and not literal and "$" in value:
            found[name] = _expanded(value, origin, known)
        else:
            found[name] = Token(value.replace(_DOLLAR, "$"), origin)
        own.pop(name, None)
        if not found[name].holes:
            own[name] = found[name].text
    return found


def _expanded(value: str, origin: Origin, variables: Mapping[str, str]) -> Token:
    from preop.deployment.interpolate import interpolate
    from preop.deployment.yaml_nodes import Scalar

    file, line, column = origin.where.rsplit(":", 2)
    token = interpolate(Scalar(file, int(line), int(column), value, False, value), variables)
    return Token(token.text.replace(_DOLLAR, "$"), origin, token.holes)


def _unquoted(value: str) -> str:
    quoted = re.match(r"'([^']*)'", value) or re.match(r'"((?:[^"\\]|\\.)*)"', value)
    if quoted is None:
        return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()
    if value[0] == "'":
        return quoted[1]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[1])


def read_env_file(
    path: Token, folder: Path | None, *, quotes: bool = False, variables: Mapping[str, str] | None = None
) -> tuple[dict[str, Word], list[str]]:
    """The variables of an environment file, read as `parse_env` does, and why some may be hidden: the file is
    not here."""
    if path.visible is None:
        return {}, [f"an environment file cannot be seen: {path.note}"]
    at = (folder or Path("/")) / path.text
    try:
        there = (folder is not None or at == Path(path.text)) and at.exists()
    except (OSError, ValueError):
        there = False
    if not there:
        return {}, [f"environment file {path.text} is not here"]
    text = read_text(at, "an environment file", may_be_empty=True)
    tokens = parse_env(text, path.text, quotes=quotes, variables=variables)
    return {name: environment_word(name, value) for name, value in tokens.items()}, []
