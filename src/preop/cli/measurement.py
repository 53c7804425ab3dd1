"""What every `preop measure NAME` does: its options, the run of one instrument, the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from preop.cli.options import (
    access_options,
    accesses,
    declared_deployments,
    language_of,
    language_option,
    merged_inputs,
    read_options,
    settings_of,
    settings_option,
    writable,
    write_output,
)
from preop.errors import UsageError
from preop.evidence import Comparison, Live, Load, Payload, Record, Streaming, Tokens
from preop.inputs import Inputs

if TYPE_CHECKING:
    from preop.report.documents import MeasureOutcome
    from preop.settings import Settings
    from preop.text import Language

__all__ = ["common", "print_record", "run_measurement"]

_EXIT: dict[MeasureOutcome, int] = {"pass": 0, "measured": 0, "fail": 1, "not-proven": 3}


def common(function: Any) -> Any:
    """The options that every `preop measure NAME` has."""
    decorators = (
        access_options,
        read_options,
        click.option(
            "--format", "form", type=click.Choice(["text", "json", "html"]), default="text", show_default=True
        ),
        click.option("--output", "-o", type=click.Path(path_type=Path), help="Write the answer there."),
        language_option,
        settings_option,
        click.option("--quiet", "-q", is_flag=True, help="No progress."),
        click.pass_obj,
    )
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def run_measurement(
    name: str,
    served: list[str] | None,
    flags: dict[str, Any],
    options: Callable[[Settings], dict[str, object]] = lambda settings: {},
) -> int:
    """Run the instrument `name` on the endpoint that the flags name, and print its record.

    `options` are the instrument's own, by the names of its flags.
    """
    from preop.cli.progress import Progress
    from preop.instruments import find_instrument
    from preop.instruments.types import Job
    from preop.run import measure_one, read_endpoint

    settings = settings_of(flags["config"])
    language = language_of(flags["lang"], settings)
    writable(flags["output"])
    targets = accesses(settings, flags)
    if len(targets) != 1:
        raise UsageError("give one running engine: --endpoint URL")
    (target,) = targets.values()
    watcher = Progress(quiet=flags["quiet"])
    deployments, _ = declared_deployments(settings, flags, served, {"": target}, watcher)
    if len(deployments) > 1:
        raise UsageError("the command after `--` starts several engines, expected the one at the endpoint")
    declared = deployments[0] if deployments else None
    deployment, record = read_endpoint(declared, target, watcher)
    if name != "endpoint":
        instrument = find_instrument(name)
        job = Job(
            deployment,
            target,
            _inputs(settings, flags),
            options={"model": flags.get("model"), **options(settings)},
        )
        missing = instrument.missing(job)
        if missing is not None:
            raise UsageError(f"{name}: {missing.in_(language)}")
        if name.startswith("load"):
            from preop.instruments.load.options import options_of

            options_of(job)  # a flag that cannot be is a usage error, not a measurement that failed
        so_far: list[Record] = []
        try:
            record = measure_one(instrument, job, watcher, so_far.append)
        except KeyboardInterrupt:
            if so_far:  # what had finished is not lost
                cut = msgspec.structs.replace(so_far[-1], error="interrupted: only what had finished by then")
                print_record(cut, flags, settings, language)
            raise
    return print_record(record, flags, settings, language)


def print_record(record: Record, flags: dict[str, Any], settings: Settings, language: Language) -> int:
    """Show a measurement as the flags ask for it; gives the exit code."""
    from preop import report
    from preop.thresholds import Thresholds

    outcome = _outcome(record.payload)
    if flags["form"] == "json":
        answer = report.to_json(report.measure_document(record, outcome))
    elif flags["form"] == "html":
        answer = report.render_measurement(record, outcome, Thresholds(settings.thresholds), language)
    else:
        answer = report.render_record(record, outcome, language)
    write_output(answer, flags["output"])
    return _EXIT[outcome]


def _inputs(settings: Settings, flags: dict[str, Any]) -> Inputs:
    """`--reference` of tokens is the tokenizer, and its `--texts` are prompts."""
    for flag in ("reference", "texts"):
        path = flags.get(flag)
        if path and not Path(path).exists():
            raise UsageError(f"--{flag} {path}: no such file or folder")
    named = {"prompts": flags.get("prompts") or flags.get("texts"), "tokenizer": flags.get("reference")}
    merged = merged_inputs(settings, named)
    # Synthetic prompts were asked for: those of preop.toml stay out.
    return msgspec.structs.replace(merged, prompts=None) if flags.get("prompt_tokens") else merged


def _outcome(payload: Payload | None) -> MeasureOutcome:
    """What a measurement by itself says."""
    match payload:
        case Live():
            return "measured"
        case Streaming(verdict=verdict):
            return "pass" if verdict == "streams" else "not-proven" if verdict == "failed" else "fail"
        case Load(levels=levels, slo=slo):
            if not any(level.valid for level in levels):
                return "not-proven"
            return "fail" if slo is not None and slo.concurrency == 0 else "measured"
        case Comparison(pairs=pairs):
            return "measured" if any(pair.ratio is not None for pair in pairs) else "not-proven"
        case Tokens(differences=differences, compared=compared):
            return "fail" if differences else "pass" if compared else "not-proven"
        case _:
            return "not-proven"
