"""`preop measure NAME`: one instrument by itself."""

from __future__ import annotations

from typing import Any

import click

from preop.cli import measure_load
from preop.cli.measurement import common, run_measurement
from preop.errors import UsageError

__all__ = ["command"]


@click.group("measure", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Run one instrument by itself. Exit 0 pass or measured, 1 fail, 2 usage, 3 not proven."""


@command.command("endpoint")
@common
def endpoint(served: list[str] | None, **flags: Any) -> int:
    """What a running engine says of itself on its read-only routes."""
    return run_measurement("endpoint", served, flags)


@command.command("streaming")
@click.option("--model", help="Name of the model to ask for (default: the one it serves).")
@common
def streaming(served: list[str] | None, **flags: Any) -> int:
    """Whether the endpoint really streams."""
    return run_measurement("streaming", served, flags)


@command.command("tokens")
@click.option(
    "--reference",
    help="The training side's tokenizer: a folder, tokenizer.json or GGUF (else llama.cpp's own model file).",
)
@click.option("--candidate", metavar="URL", help="The serving side (same as --endpoint).")
@click.option("--texts", help="Your own texts, JSON Lines, besides the built-in ones.")
@common
def tokens(served: list[str] | None, **flags: Any) -> int:
    """Token ids of the training side held against the engine's."""
    if flags["candidate"]:
        if flags["endpoints"]:
            raise UsageError("--candidate and --endpoint: give one of them")
        flags["endpoints"] = (flags["candidate"],)
    return run_measurement("tokens", served, flags)


command.add_command(measure_load.command)
