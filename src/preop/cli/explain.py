"""`preop explain`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from preop.cli.options import language_of, language_option, settings_of, settings_option

__all__ = ["command"]


@click.command("explain", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("pitfall", required=False)
@language_option
@settings_option
def command(pitfall: str | None, lang: str | None, config: Path | None) -> int:
    """Print the page of a PITFALL (P05, or its name): symptom, cause, proof, fix. Without one, list all."""
    from preop.pitfalls import all_pitfalls, find_pitfall, page

    language = language_of(lang, settings_of(config))
    if pitfall is None:
        for one in all_pitfalls():
            click.echo(f"{one.id}  {one.slug:<28} {one.title.in_(language)}")
        return 0
    text = page(find_pitfall(pitfall), language)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console(width=min(100, Console().width)).print(Markdown(text))
    else:
        click.echo(text, nl=False)
    return 0
