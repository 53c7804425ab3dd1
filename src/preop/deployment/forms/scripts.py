"""A command that runs a script which can be seen: the script's text in the place of its path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from preop.deployment.command import Found
from preop.deployment.environment import read_text
from preop.deployment.tokens import Lines, Token
from preop.errors import InputError

__all__ = ["script_text", "through_script"]

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})


def through_script(found: Found, text_of: Callable[[str], Token | None]) -> Found:
    """`sh -c TEXT NAME ARGUMENTS` for `[sh] NAME ARGUMENTS`; `text_of` gives the text by the script's path.

    A shell before a script that cannot be seen is taken off: what is then run is named by the script.
    """
    tokens = found.tokens
    if tokens and PurePosixPath(tokens[0].visible or "").name in _SHELLS:
        if len(tokens) < 2 or tokens[1].head.startswith("-"):
            return found
        tokens = tokens[1:]
    path = tokens[0].visible if tokens else None
    text = text_of(path) if path else None
    if text is None:
        return replace(found, tokens=tokens)
    at = tokens[0].origin
    return replace(found, tokens=(Token("sh", at), Token("-c", at), text, *tokens))


def script_text(path: Path, shown: str) -> Token | None:
    """The text of a shell script, each character with its place; None where none can be read."""
    from preop.deployment.forms.shell_script import interpreter

    try:
        text = read_text(path, "a script") if path.is_file() else ""
    except (InputError, OSError, ValueError):
        return None
    program = interpreter(text)
    if not text or not (program in _SHELLS or (program is None and path.suffix in (".sh", ".bash"))):
        return None
    place = Lines(text, shown)
    return Token(text, place(0), {}, tuple(range(len(text))), place)
