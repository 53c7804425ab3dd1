"""`preop explain`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from preop.cli.options import language_of, language_option, settings_of, settings_option

__all__ = ["command"]

_WIDEST = 100


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
        _show(text)
    else:
        click.echo(text, nl=False)
    return 0


def _show(text: str) -> None:
    """The page as a person reads it. Table cells fold: by itself rich would cut them."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class Folding(TableElement):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options):
                if isinstance(part, Table):
                    for column in part.columns:
                        column.overflow = "fold"
                yield part

    class Page(Markdown):
        elements = {**Markdown.elements, "table_open": Folding}  # noqa: RUF012 as its parent declares it

    console = Console()
    console.print(Page(text), width=min(_WIDEST, console.width))
