"""Shell scripts, and files that hold nothing but a command."""

from __future__ import annotations

from preop.deployment.command import Found, read_text_commands
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.tokens import Lines, Source

__all__ = ["SHELL_SCRIPT", "interpreter"]

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh"})
_SUFFIXES = frozenset({".sh", ".bash", ".zsh", ".txt", ".cmd", ""})


def interpreter(text: str) -> str | None:
    """The program that a script's `#!` line names; None where there is no such line."""
    if not text.startswith("#!"):
        return None
    names = [word.rpartition("/")[2] for word in text[2:].partition("\n")[0].split() if word[0] != "-"]
    return next((name for name in names if name != "env"), "")


def _reads(file: File) -> bool:
    program = interpreter(file.text)
    if program is not None:
        return program in _SHELLS
    return file.path is None or file.path.suffix.lower() in _SUFFIXES


def _read(file: File, context: Context) -> Reading:
    place = Lines(file.text, file.name)
    outer = Found((), folder=file.folder)
    commands = read_text_commands(Source(file.text, place), outer)
    return Reading([Started("", file.name, commands)])


SHELL_SCRIPT = Form("a shell script with a serve command", _reads, _read)
