"""Signals that ask preop to stop."""

from __future__ import annotations

import signal
import threading

__all__ = ["ignore_interrupts", "interrupt_on_termination"]


def interrupt_on_termination() -> None:
    """SIGTERM stops a run as Ctrl-C does, so that its folder says so.

    It is passed on as SIGINT, which an event loop handles in order where one is running.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))


def ignore_interrupts() -> None:
    """preop is leaving: a second Ctrl-C would only cost the documents and end it with a traceback."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
