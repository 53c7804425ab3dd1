"""Files of `NAME=value` lines: `docker run --env-file`, compose's `env_file` and `.env`."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path

from preop.deployment.tokens import Lines, Token, environment_word, unseen_token
from preop.errors import InputError
from preop.facts import Origin, Word

__all__ = ["MAX_BYTES", "decoded", "lay_over", "parse_env", "read_env_file", "read_text"]

MAX_BYTES = 20 * 1024 * 1024
_DOLLAR = "\ue000"
"""Stands for a `\\$` while variables are replaced."""
_ESCAPES = {
    **{"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"},
    **{'"': '"', "\\": "\\", "$": _DOLLAR},
}
_LINE = re.compile(r"[^\S\n]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.-]*)[ \t]*(?P<by>[=:])?[^\S\n]*")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


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
    text: str,
    file: str,
    *,
    quotes: bool,
    systemd: bool = False,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Token]:
    """The variables of an environment file, the last of equal names.

    Without `quotes` each line is taken as it stands, as `docker run` does. With them a value in quotes may go
    on over several lines; compose takes comments behind a value, and `:` for `=` (Docker's manual,
    "Interpolation", `.env` file syntax), `systemd` neither (systemd.exec(5), EnvironmentFile=).

    With `variables`, `$NAME` in a value is replaced by those and by the ones before it in the file, except in
    single quotes. A name alone comes from the caller and cannot be seen; systemd knows none. Raises
    `InputError` where a quote is never closed.
    """
    found: dict[str, Token] = {}
    own: dict[str, str] = {}
    known = ChainMap(dict(variables or {}), own)
    place = Lines(text, file)
    is_compose = quotes and not systemd
    at = 0
    while at < len(text):
        match = _LINE.match(text, at)
        if match is None:
            at = _next_line(text, at)
            continue
        name, origin = match["name"], place(match.start("name"))
        if not match["by"] or (match["by"] == ":" and not is_compose):
            if not systemd:
                found[name] = unseen_token(f"{name} comes from the caller", origin)
                own.pop(name, None)
            at = _next_line(text, match.end())
            continue
        literal = False
        if quotes and text[match.end() : match.end() + 1] in ("'", '"'):
            quoted = _QUOTED.match(text, match.end())
            if quoted is None:
                quote = text[match.end()]
                raise InputError(f"{place(match.end())}: {quote} is opened and never closed")
            literal = quoted[0][0] == "'"
            value = _unescaped(quoted[0])
            at = _next_line(text, quoted.end())
        else:
            at = _next_line(text, match.end())
            value = text[match.end() : at].strip()
            if is_compose:
                value = re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()
        if variables is not None and not literal and "$" in value:
            found[name] = _expanded(value, origin, known)
        else:
            found[name] = Token(value.replace(_DOLLAR, "$"), origin)
        own.pop(name, None)
        if not found[name].holes:
            own[name] = found[name].text
    return found


def _next_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _unescaped(quoted: str) -> str:
    """What stands between quotes. In single ones a backslash does nothing but before a single quote."""
    if quoted[0] == "'":
        return quoted[1:-1].replace("\\'", "'")
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), quoted[1:-1], flags=re.DOTALL)


def _expanded(value: str, origin: Origin, variables: Mapping[str, str]) -> Token:
    from preop.deployment.interpolate import interpolate
    from preop.deployment.yaml_nodes import Scalar

    file, line, column = origin.where.rsplit(":", 2)
    token = interpolate(Scalar(file, int(line), int(column), value, False, value), variables)
    return Token(token.text.replace(_DOLLAR, "$"), origin, token.holes)


def lay_over(found: Mapping[str, Word], words: Mapping[str, Word], missing: Sequence[str]) -> dict[str, Word]:
    """The variables of a later file over those of the files before it: of two equal names the last counts.
    A later file that is not here (`missing` says so) may set any of them again."""
    if missing:
        again = f"{missing[0]}, and it may set this again"
        found = {name: Word(None, word.origin, again, single=True) for name, word in found.items()}
    return {**found, **words}


def read_env_file(
    path: Token,
    folder: Path | None,
    *,
    quotes: bool = False,
    variables: Mapping[str, str] | None = None,
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
