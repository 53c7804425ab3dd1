"""A real engine on a CPU: llama.cpp's server (from the wheel `xllamacpp`) in a child process.

`python -m preop.demo.engine --model FILE --context 8192 --parallel 8` serves until it is told to stop and
prints one JSON line with its URL; `running_engine` does that in a child that never outlives its parent.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from preop.errors import PreopError

__all__ = ["Engine", "running_engine", "serve"]

_START_S = 120.0
_STOP_S = 10.0


@dataclass(frozen=True)
class Engine:
    """A running engine. `argv` is the llama-server command that is equivalent to it."""

    url: str
    argv: list[str]
    pid: int


def _argv(model: Path, context: int, parallel: int, kv_unified: bool, alias: str) -> list[str]:
    argv = ["llama-server", "-m", str(model), "--alias", alias, "-c", str(context), "-np", str(parallel)]
    if kv_unified:
        argv.append("--kv-unified")
    return [*argv, "--device", "none", "--cache-ram", "0", "--metrics"]


@contextmanager
def running_engine(
    model: Path | None = None,
    *,
    context: int = 8192,
    parallel: int = 8,
    kv_unified: bool = False,
    port: int = 0,
    alias: str | None = None,
) -> Iterator[Engine]:
    """An engine on loopback for as long as the block runs, on SmolLM2 unless `model` names a GGUF file.

    `context` is tokens for all slots together; each of the `parallel` slots gets its share unless the KV
    cache is unified. The child ends with the block, on Ctrl-C, and when this process dies.
    Raises `PreopError` when the engine does not come up, with its last word.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise PreopError("the demo engine needs the package xllamacpp: pip install 'preop[demo]'")
    if model is None:
        from preop.demo.model import smollm2_path

        model = smollm2_path()
    alias = alias or model.stem
    command = [sys.executable, "-m", "preop.demo.engine", "--model", str(model), "--context", str(context)]
    command += ["--parallel", str(parallel), "--port", str(port), "--alias", alias, "--until-stdin-closes"]
    if kv_unified:
        command.append("--kv-unified")
    with tempfile.TemporaryFile() as log:
        # A session of its own: Ctrl-C reaches the parent alone, which then ends the child in order.
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
        try:
            url = _announced_url(child, log)
            yield Engine(url=url, argv=_argv(model, context, parallel, kv_unified, alias), pid=child.pid)
        finally:
            _end(child)


def _announced_url(child: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    late = threading.Timer(_START_S, child.kill)
    late.start()
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
    finally:
        late.cancel()
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError, TypeError):
        child.wait(timeout=_STOP_S)
        log.seek(0)
        said = [text.strip() for text in log.read().decode("utf-8", "replace").splitlines() if text.strip()]
        last = said[-1] if said else f"it ended with status {child.returncode}"
        raise PreopError(f"the demo engine did not start: {last}") from None


def _end(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def serve(
    model: Path, *, context: int, parallel: int, kv_unified: bool, port: int, alias: str, announce: IO[str]
) -> None:
    """Serve on loopback until SIGTERM or SIGINT; the URL goes to `announce` as one JSON line."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.model_alias = {alias}
    parameters.n_ctx = context
    parameters.n_parallel = parallel
    parameters.kv_unified = kv_unified
    parameters.port = port
    parameters.endpoint_metrics = True
    parameters.cache_ram_mib = 0
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError:
        raise PreopError(f"{model}: llama.cpp cannot load this model") from None
    announce.write(json.dumps({"url": server.listening_address}) + "\n")
    announce.flush()
    while not stop.wait(1.0):
        pass
    # llama.cpp's own shutdown waits for open streams; nothing here is worth waiting for.
    os._exit(0)


def _die_with_parent() -> None:
    """End this process when its standard input closes: the parent is gone."""

    def watch() -> None:
        while os.read(0, 4096):  # not sys.stdin: its lock would upset an exit while this thread waits
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m preop.demo.engine", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--context", type=int, default=8192, help="tokens for all slots together")
    parser.add_argument("--parallel", type=int, default=8, help="slots")
    parser.add_argument("--kv-unified", action="store_true", help="one KV cache shared by all slots")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--alias", default=None, help="the model's name; default: the file's name")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input closes")
    arguments = parser.parse_args()
    # Native code may write to file descriptor 1: the announcement keeps it, all else goes to standard error.
    announce = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if arguments.until_stdin_closes:
        _die_with_parent()
    try:
        serve(
            arguments.model,
            context=arguments.context,
            parallel=arguments.parallel,
            kv_unified=arguments.kv_unified,
            port=arguments.port,
            alias=arguments.alias or arguments.model.stem,
            announce=announce,
        )
    except PreopError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
