"""`preop demo`."""

from __future__ import annotations

from pathlib import Path

import click

from preop.cli.options import language_of, language_option, settings_of, settings_option

__all__ = ["command"]

_MEANS = {
    0: ("GO: every pitfall is shut or cannot arise here", "GO:每个陷阱都已关闭,或在此不会出现"),
    1: ("NO-GO: at least one pitfall is proven open", "NO-GO:至少有一个陷阱已证实敞开"),
    3: (
        "HOLD: nothing is proven open, but not everything is proven shut",
        "HOLD:没有证实敞开的,但并非全部证实关闭",
    ),
}


@click.command("demo", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--context",
    type=click.IntRange(256, 65536),
    default=8192,
    show_default=True,
    help="Tokens of context for all slots together.",
)
@click.option("--parallel", type=click.IntRange(1, 32), default=4, show_default=True, help="Slots.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="Where the HTML report goes.",
)
@language_option
@settings_option
def command(context: int, parallel: int, report: Path, lang: str | None, config: Path | None) -> int:
    """Judge a real engine and model on this machine's CPU: llama.cpp with SmolLM2-135M-Instruct.

    Downloads the model once (93 MB), starts the engine on loopback, measures it, ends it. Exits 0 when the
    demo ran, whatever the verdict, and says what preop's own exit code was.
    """
    from preop.cli import check
    from preop.demo.engine import running_engine

    language = language_of(lang, settings_of(config))
    zh = language == "zh"
    click.echo(
        "starting llama.cpp with SmolLM2-135M-Instruct ..."
        if not zh
        else "正在启动 llama.cpp 与 SmolLM2-135M-Instruct ……",
        err=True,
    )
    with running_engine(context=context, parallel=parallel) as engine:
        shown = (
            f"preop check --endpoint {engine.url} --measure all --report {report} -- {_shell(engine.argv)}"
        )
        click.echo(f"$ {shown}\n", err=True)
        arguments = [
            "--endpoint",
            engine.url,
            "--measure",
            "all",
            "--report",
            str(report),
            "--lang",
            language,
        ]
        if config is not None:
            arguments += ["--config", str(config)]
        code = check.command.main(arguments, prog_name="preop check", standalone_mode=False, obj=engine.argv)
    if code not in _MEANS:
        return int(code)
    means = _MEANS[code][1 if zh else 0]
    if zh:
        click.echo(f"\npreop check 的退出码是 {code}({means})。")
        click.echo(f"演示已完成:报告在 {report};`preop explain P04 --lang zh` 解释每个陷阱。")
    else:
        click.echo(f"\nThe exit code of that `preop check` was {code} ({means}).")
        click.echo(f"The demo itself ran: the report is {report}; `preop explain P04` explains each pitfall.")
    return 0


def _shell(words: list[str]) -> str:
    import shlex

    return shlex.join(words)
