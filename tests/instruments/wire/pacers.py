"""The pacer of bench/pacer, compiled once and started on a free port."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "bench" / "pacer" / "pacer.c"


@cache
def pacer_binary() -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build the pacer with")
    folder = Path(tempfile.mkdtemp(prefix="pacer-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    binary = folder / "pacer"
    subprocess.run([compiler, "-O2", "-o", str(binary), str(SOURCE)], check=True)
    return binary


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def pacing(**options: object) -> Iterator[str]:
    """A pacer's URL. Options as its flags: `base_us=10_000`, `open=True`."""
    port = free_port()
    command = [str(pacer_binary()), "--port", str(port)]
    for name, value in options.items():
        command.append("--" + name.replace("_", "-"))
        if value is not True:
            command.append(str(value))
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(10)
