"""What preop raises on purpose. Each message is one clear sentence: what, where, what was expected."""

from __future__ import annotations

__all__ = ["InputError", "InstrumentError", "PreopError", "UsageError"]


class PreopError(Exception):
    """Anything that preop says no to. The message is shown to the user as it is, without a traceback."""


class UsageError(PreopError):
    """The call itself is wrong (flag, preop.toml): exit code 2, nothing on standard output."""


class InputError(PreopError):
    """A file or a text that the user gave cannot be read as what it should be: exit code 2."""


class InstrumentError(PreopError):
    """A measurement could not be taken. Its pitfalls become ERROR; the others are judged all the same."""
