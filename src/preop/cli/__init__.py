"""The command line: parse, call, print, exit code. Each command lives in a module of its own."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from preop import __version__
from preop.errors import PreopError

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
    """Run preop and leave with its exit code: 0 GO, 1 NO-GO, 3 HOLD, 2 when the call itself is wrong."""
    words = sys.argv[1:] if arguments is None else arguments
    own, served = _split(words)
    try:
        code = preop.main(own, prog_name="preop", standalone_mode=False, obj=served)
    except click.exceptions.Abort:
        click.echo("preop: interrupted", err=True)
        sys.exit(130)
    except click.NoSuchOption as error:
        hint = _missing_separator(own)
        click.echo(f"preop: {hint or error.format_message()}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        click.echo(f"preop: {error.format_message()}", err=True)
        sys.exit(2)
    except PreopError as error:
        click.echo(f"preop: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output has gone (`preop check | head`): nothing more to say to it.
        sys.stderr.close()
        sys.exit(141)
    sys.exit(code if isinstance(code, int) else 0)


def _split(words: list[str]) -> tuple[list[str], list[str] | None]:
    """What stands after the first `--` is the serve command, not preop's."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _missing_separator(words: list[str]) -> str | None:
    for word in words[1:]:
        if word in _SERVERS:
            return f"put `--` before the serve command: preop {words[0]} -- {word} ..."
    return None
