"""Signals that ask preop to stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType

__all__ = ["ignore_interrupts", "interrupt_on_termination"]


def interrupt_on_termination() -> None:
    """SIGTERM stops a run as Ctrl-C does, so that its folder says so.

    It is passed on as SIGINT, which an event loop handles in order where one is running. Where SIGINT is
    ignored (a background job of a script) SIGTERM still counts.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, frame: FrameType | None) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def ignore_interrupts() -> None:
    """preop is leaving: a second Ctrl-C would only cost the documents and end it with a traceback."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
