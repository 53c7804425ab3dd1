"""`preop demo`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from preop.cli.options import language_of, language_option, settings_of, settings_option

__all__ = ["command"]


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
    from preop.findings import Verdict
    from preop.report.words import ADVICE, VERDICTS

    language = language_of(lang, settings_of(config))
    zh = language == "zh"
    click.echo(
        "starting llama.cpp with SmolLM2-135M-Instruct ..."
        if not zh
        else "正在启动 llama.cpp 与 SmolLM2-135M-Instruct ……",
        err=True,
    )
    with running_engine(context=context, parallel=parallel) as engine:
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
        click.echo(f"$ {shlex.join(['preop', 'check', *arguments, '--', *engine.argv])}\n", err=True)
        code = check.command.main(arguments, prog_name="preop check", standalone_mode=False, obj=engine.argv)
    verdict = next((each for each in Verdict if each.exit_code == code), None)
    if verdict is None:
        return int(code)
    if zh:
        click.echo(f"\npreop check 的退出码是 {code}。{VERDICTS[verdict].zh}：{ADVICE[verdict].zh}")
        click.echo(
            f"演示已完成：报告在 {report}；`preop explain P04 --lang zh` 解释一个陷阱，P01 到 P15 都有。"
        )
    else:
        click.echo(f"\nThe exit code of that `preop check` was {code}. {verdict}: {ADVICE[verdict].en}")
        click.echo(f"The demo itself ran: the report is {report}; `preop explain P04` explains a pitfall.")
    return 0
