"""`preop check`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from preop.cli.history import baseline, waivers
from preop.cli.options import (
    access_options,
    accesses,
    concurrency,
    declared_deployments,
    endpoint_url,
    input_options,
    language_of,
    language_option,
    merged_inputs,
    read_options,
    reading_options,
    settings_of,
    settings_option,
    writable,
    write_output,
)
from preop.errors import UsageError
from preop.gates import DEFAULT_GATE, GATES

if TYPE_CHECKING:
    from preop.ledger.runs import Run
    from preop.report import Approval, Report
    from preop.run import Watcher
    from preop.settings import Settings
    from preop.text import Language

__all__ = ["command"]


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("targets", nargs=-1, metavar="[FILE|FOLDER|-]... [-- SERVE COMMAND]")
@access_options
@click.option("--measure", metavar="LIST|all", help="Send requests to the endpoint: streaming, load, tokens.")
@input_options
@read_options
@click.option(
    "--gate",
    type=click.Choice(list(GATES)),
    default=DEFAULT_GATE,
    show_default=True,
    help="The occasion: which pitfalls must be shut. pr: those that files alone decide.",
)
@click.option(
    "--baseline", metavar="REF|RUN", help="Only findings that are new since this git ref or run count."
)
@click.option(
    "--waivers", type=click.Path(path_type=Path), help="Waivers file (default: preop-waivers.toml)."
)
@click.option("--concurrency", metavar="1,2,4", help="Levels of the load measurement.")
@click.option("--requests", type=click.IntRange(1, 1_000_000), help="Requests at each level.")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(1, 86_400),
    metavar="SECONDS",
    help="Most time that the load measurement may take.",
)
@click.option("--yes-load", metavar="HOST", help="Put load on this host although it is not this machine.")
@click.option("--without-speculation", metavar="URL", help="Compare with the same model without it (P08).")
@click.option("--unquantized", metavar="URL", help="Compare with the same model in 16 bits (P03).")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown", "html", "junit", "sarif", "approval"]),
    default="text",
    show_default=True,
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write the answer there.")
@click.option("--report", type=click.Path(path_type=Path), help="Write the HTML report there as well.")
@click.option(
    "--approval", type=click.Path(path_type=Path), help="Write the change-approval page there, too."
)
@language_option
@settings_option
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of the run documents.")
@click.option("--keep/--no-keep", default=True, help="Keep this run's documents (default) or not.")
@click.option("--verbose", "-v", is_flag=True, help="Say in full what each unproven pitfall needs.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.pass_obj
def command(served: list[str] | None, /, **flags: Any) -> int:
    """Judge a deployment and answer GO (exit 0), NO-GO (1) or HOLD (3).

    Reads only, unless --measure is given: FILEs (Kubernetes manifests, compose files, scripts,
    ...), FOLDERs, which are searched for them, standard input (-), the serve command after `--`, and the
    read-only routes of a running --endpoint. A folder with something that looks like a deployment and
    cannot be read, or has to be built first, is HOLD at best.
    """
    from preop import __version__
    from preop.cli.progress import Progress
    from preop.instruments import parse_names
    from preop.ledger.runs import DEFAULT_RUNS, start_run
    from preop.run import Interrupted, Plan, check
    from preop.thresholds import Thresholds

    settings = settings_of(flags["config"])
    language = language_of(flags["lang"], settings)
    endpoints = accesses(settings, flags)
    measure = parse_names(flags["measure"]) if flags["measure"] is not None else ()
    levels = concurrency(flags["concurrency"])
    against = _against(flags)
    measure = (*measure, "load-comparison") if against else measure
    _refuse_without_load(flags, measure)
    writable(flags["output"], flags["report"], flags["approval"])
    if measure and not endpoints:
        raise UsageError("--measure needs a running engine: add --endpoint URL")
    inputs = merged_inputs(settings, flags)
    watcher = Progress(quiet=flags["quiet"])
    deployments, unread = declared_deployments(settings, flags, served, endpoints, watcher)
    if not deployments and not endpoints:
        raise UsageError("nothing to check: give a file, `--endpoint URL`, or a serve command after `--`")
    runs = flags["runs"] or Path(settings.runs or DEFAULT_RUNS)
    plan = Plan(
        deployments=deployments,
        endpoints=endpoints,
        gate=GATES[flags["gate"]],
        inputs=inputs,
        measure=measure,
        options={
            **_load_shape(levels, settings),
            "requests": flags["requests"] or settings.measure.requests,
            "budget_s": flags["budget_s"] or settings.measure.budget_s,
            "yes_load": flags["yes_load"] or settings.measure.yes_load,
            "limits": settings.measure.limits,
            **against,
        },
        thresholds=Thresholds(settings.thresholds),
        evidence_roots=[runs, *([Path(inputs.evidence)] if inputs.evidence else [])],
        waivers=waivers(flags["waivers"], settings),
        unread=unread,
    )
    if flags["baseline"] is not None:
        options = reading_options(settings, flags)
        base, known, remarks = baseline(flags["baseline"], plan, flags["targets"], options, runs)
        unread = [said for said in unread if said not in known]
        plan = replace(plan, base=base, unread=unread, remarks=remarks)
    run = None
    if flags["keep"]:
        asked = {
            "targets": list(flags["targets"]),
            "endpoints": [a.url for a in endpoints.values()],
            "measure": list(measure),
        }
        try:
            run = start_run(runs, __version__, asked)
        except OSError as error:
            watcher.message(f"{runs}: this run is not kept: {error.strerror or error}")
    try:
        report = check(plan, run, watcher)
    except Interrupted:
        kept = f"; what had finished is in {run.path}" if run is not None else ""
        watcher.message(f"interrupted{kept}")
        return 130
    answered = run is not None and _finish(run, report, language, watcher)
    try:
        _show(report, language, flags, settings, watcher)
    except UsageError as error:
        where = f"; the answer is kept in {run.path / 'check.json'}" if run is not None and answered else ""
        raise UsageError(f"{error}{where}") from None
    return report.verdict.exit_code


def _against(flags: dict[str, Any]) -> dict[str, object]:
    """The engine to compare with, and what it is without."""
    given = {
        "speculation": flags["without_speculation"],
        "quantization": flags["unquantized"],
    }
    urls = {about: url for about, url in given.items() if url is not None}
    if len(urls) > 1:
        raise UsageError("--without-speculation and --unquantized: one comparison a run")
    return next(({"compare": endpoint_url(url), "about": about} for about, url in urls.items()), {})


def _load_shape(levels: list[int] | None, settings: Settings) -> dict[str, object]:
    """The levels asked for; without any a search for the user's own objective up to the cap, where there is
    one."""
    from preop.pitfalls.objective import objective_of
    from preop.thresholds import Thresholds

    levels = levels or settings.measure.concurrency
    objective = objective_of(Thresholds(settings.thresholds))
    if levels or not objective:
        return {"concurrency": levels}
    return {"slo": ",".join(f"{name}={limit!r}ms" for name, limit in objective.items()), "to_cap": True}


def _refuse_without_load(flags: dict[str, Any], measure: Sequence[str]) -> None:
    """An option of the load measurement says nothing without it, and is not passed over in silence."""
    names = {
        "concurrency": "--concurrency",
        "requests": "--requests",
        "budget_s": "--budget",
        "yes_load": "--yes-load",
    }
    given = [flag for name, flag in names.items() if flags[name] is not None]
    if given and not {"load", "load-comparison"} & set(measure):
        raise UsageError(f"{given[0]} is for the load measurement: add --measure load")


def _finish(run: Run, report: Report, language: Language, watcher: Watcher) -> bool:
    """Write the answer into the run's folder; whether that could be done."""
    from preop.report import document

    try:
        run.finish(report.verdict.value, document(report, language))
    except OSError as error:
        watcher.message(f"{run.path}: the answer is not kept: {error.strerror or error}")
        return False
    return True


def _pages(language: Language) -> dict[str, str]:
    from preop.pitfalls import all_pitfalls, page

    return {pitfall.id: page(pitfall, language) for pitfall in all_pitfalls()}


def _approval(settings: Settings) -> Approval:
    from preop.report import Approval

    said, cost = settings.approval, settings.cost
    return Approval(said.service, said.change, said.rollback, cost.gpu_hour, cost.currency)


def _show(
    report: Report, language: Language, flags: dict[str, Any], settings: Settings, watcher: Watcher
) -> None:
    from preop import report as reports

    beside: dict[str, Callable[[], str]] = {
        "report": lambda: reports.render_html(report, language),
        "approval": lambda: reports.render_approval(report, language, _approval(settings)),
    }
    for name, page in beside.items():
        if flags[name] is not None:
            try:
                write_output(page(), flags[name])
            except UsageError as error:  # the disk is full: no reason to keep the answer back, too
                watcher.message(str(error))
    form, output = flags["form"], flags["output"]
    if form == "json":
        write_output(reports.to_json(reports.document(report, language)), output)
    elif form == "markdown":
        write_output(reports.render_markdown(report, language), output)
    elif form == "html":
        write_output(reports.render_html(report, language), output)
    elif form == "approval":
        write_output(reports.render_approval(report, language, _approval(settings)), output)
    elif form == "junit":
        write_output(reports.render_junit(report, language), output)
    elif form == "sarif":
        write_output(reports.render_sarif(report, language, _pages(language)), output)
    else:
        write_output(
            reports.render_terminal(report, language, to_file=output is not None, verbose=flags["verbose"]),
            output,
        )
