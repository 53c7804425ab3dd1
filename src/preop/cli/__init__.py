"""The command line: parse, call, print, exit code. Each command lives in a module of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from preop import __version__
from preop.errors import InputError, PreopError
from preop.signals import ignore_interrupts, interrupt_on_termination

__all__ = ["main"]

_COMMANDS = {
    "check": "Judge a deployment: a file, a serve command, a running engine.",
    "measure": "Run one instrument by itself.",
    "explain": "Print a pitfall's page: symptom, cause, proof, fix.",
    "init": "Write a commented preop.toml for what is found here.",
    "demo": "Judge a real engine and model on this machine's CPU.",
}
_SERVERS = ("vllm", "llama-server", "sglang", "python", "python3", "docker", "text-generation-launcher")


class _Commands(click.Group):
    """Imports a command's module when it is called, so that `preop --help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"preop.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="preop")
def preop() -> None:
    """The pre-operative checklist for LLM inference deployments.

    Reads what is about to be deployed, measures what can be measured, and answers GO, NO-GO or HOLD with
    the evidence for each of fifteen pitfalls.

    \b
    preop check -- vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 32768
    preop check docker-compose.yml --endpoint http://127.0.0.1:8000 --measure all
    preop explain P05
    """


def main(arguments: list[str] | None = None) -> None:
    """Run preop and leave with its exit code: 0 GO, 1 NO-GO, 3 HOLD, 2 when the call itself is wrong.

    141 when the reader of the output has gone, 130 on Ctrl-C or SIGTERM, 70 on a defect of preop itself.
    """
    interrupt_on_termination()
    # Python has None where the caller closed it (`preop check >&-`): the exit code alone is asked for.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 open until the process ends
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    words = sys.argv[1:] if arguments is None else arguments
    own, served = _split(words)
    try:
        code = preop.main(own, prog_name="preop", standalone_mode=False, obj=served)
        sys.stdout.flush()  # here, where a full disk can still be told
    except (click.exceptions.Abort, KeyboardInterrupt):
        ignore_interrupts()
        _stop("interrupted", 130)
    except click.NoSuchOption as error:
        _stop(_missing_separator(own) or error.format_message())
    except click.ClickException as error:
        _stop(error.format_message())
    except InputError as error:
        _stop(_missing_separator(own) or str(error))
    except PreopError as error:
        _stop(str(error))
    except BrokenPipeError:
        # The reader of our output has gone (`preop check | head`): nothing more to say to it.
        _abandon_output()
        sys.exit(141)
    except OSError as error:
        _abandon_output()
        _stop(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except Exception as crash:  # noqa: BLE001 Python would leave with 1, which scripts read as NO-GO
        _stop(f"a defect of preop, please report it: {_told(crash)}", 70)
    if code == 130:
        ignore_interrupts()
    sys.exit(code if isinstance(code, int) else 0)


def _abandon_output() -> None:
    """What could not be written is dropped; Python would try again on its way out and leave with 120."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(message: str, code: int = 2) -> NoReturn:
    """Say one sentence and leave. It may quote what others wrote: no secret, no control character."""
    from preop.report.plain import plain
    from preop.secrets import mask_text

    with contextlib.suppress(OSError):  # standard error may be full, too
        click.echo(f"preop: {plain(mask_text(message), 2000)}", err=True)
    sys.exit(code)


def _told(crash: Exception) -> str:
    """A crash in one line: what, and where in preop."""
    import traceback

    frames = [f for f in traceback.extract_tb(crash.__traceback__) if "preop" in f.filename]
    where = f" (preop {__version__}, {Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(crash).__name__}: {crash}{where}"


def _split(words: list[str]) -> tuple[list[str], list[str] | None]:
    """What stands after the first `--` is the serve command, not preop's."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _missing_separator(words: list[str]) -> str | None:
    for word in words[1:]:
        if word in _SERVERS and not Path(word).is_file():
            return f"put `--` before the serve command: preop {words[0]} -- {word} ..."
    return None
