"""Progress on standard error: one line that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time

from preop.run import Watcher

__all__ = ["Progress"]

_EVERY_S = 0.1
"""Between two passing lines."""


class Progress(Watcher):
    """Shows each instrument's newest line. Safe to call from several threads."""

    def __init__(self, quiet: bool = False) -> None:
        """`quiet` shows nothing but messages."""
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._lines: dict[str, str] = {}
        self._lock = threading.Lock()
        self._drawn = 0.0

    def progress(self, name: str, line: str) -> None:
        """Replace the line on a terminal; elsewhere say only that an instrument began."""
        with self._lock:
            began = name not in self._lines
            self._lines[name] = line
            if self._quiet:
                return
            if self._terminal:
                self._draw()
            elif began:
                self._print(f"{name}: {line}")

    def done(self, name: str, line: str) -> None:
        """An instrument has ended."""
        with self._lock:
            self._lines.pop(name, None)
            if not self._quiet:
                self._print(f"{name}: {line}")

    def passing(self, line: str) -> None:
        """A line that only a terminal shows, until the next one; the empty line ends it."""
        with self._lock:
            now = time.monotonic()
            if self._quiet or not self._terminal or (line and now - self._drawn < _EVERY_S):
                return
            self._drawn = now if line else 0.0
            if line:
                self._lines[""] = line
            else:
                self._lines.pop("", None)
            self._draw()

    def message(self, line: str) -> None:
        """One line that stays."""
        with self._lock:
            self._print(f"preop: {line}")

    def _draw(self) -> None:
        text = " | ".join(f"{name}: {line}" if name else line for name, line in self._lines.items())
        width = shutil.get_terminal_size((80, 24)).columns  # a line that wraps could not be replaced
        _write("\r\x1b[2K" + _plain(text)[: width - 1])

    def _print(self, line: str) -> None:
        clear = "\r\x1b[2K" if self._terminal else ""
        _write(clear + _plain(line) + "\n")


def _write(text: str) -> None:
    # Nobody reads any more, or the disk is full: no reason to lose a measurement.
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _plain(text: str) -> str:
    """Server answers end up in messages: no control character reaches the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
