"""`preop measure NAME`: one instrument by itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from preop.cli.options import (
    access_options,
    accesses,
    concurrency,
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
from preop.evidence import Live, Load, Payload, Streaming, Tokens
from preop.inputs import Inputs
from preop.instruments.types import MOST_CONCURRENT

if TYPE_CHECKING:
    from preop.report.documents import MeasureOutcome
    from preop.settings import Settings

__all__ = ["command"]

_EXIT: dict[MeasureOutcome, int] = {"pass": 0, "measured": 0, "fail": 1, "not-proven": 3}


@click.group("measure", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Run one instrument by itself. Exit 0 pass or measured, 1 fail, 2 usage, 3 not proven."""


def _common(function: Any) -> Any:
    decorators = (
        access_options,
        read_options,
        click.option(
            "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
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


@command.command("endpoint")
@_common
def endpoint(served: list[str] | None, **flags: Any) -> int:
    """What a running engine says of itself on its read-only routes."""
    return _measure("endpoint", served, flags)


@command.command("streaming")
@click.option("--model", help="Name of the model to ask for (default: the one it serves).")
@_common
def streaming(served: list[str] | None, **flags: Any) -> int:
    """Whether the endpoint really streams."""
    return _measure("streaming", served, flags)


@command.command("load")
@click.option("--model", help="Name of the model to ask for (default: the one it serves).")
@click.option("--prompts", help="Your real prompts, JSON Lines.")
@click.option("--concurrency", metavar="1,2,4", help="Levels.")
@click.option("--rate", metavar="1,2,4", help="Open loop: requests a second, whatever becomes of them.")
@click.option("--arrivals", metavar="PROCESS", help="With --rate: poisson (default), constant, gamma:CV.")
@click.option(
    "--trace", metavar="FILE", help="Open loop: start requests at the times of a trace (CSV, JSONL)."
)
@click.option(
    "--trace-speed", type=click.FloatRange(0.001, 1000), help="With --trace: so many times as fast."
)
@click.option("--requests", type=click.IntRange(1, 1_000_000), help="Requests at each level.")
@click.option("--duration", metavar="10s", help="Time at each level, instead of --requests.")
@click.option(
    "--slo",
    metavar="LIMITS",
    help="Find the highest concurrency that keeps these: ttft_p99=500ms,tpot_p99=50ms.",
)
@click.option(
    "--max-concurrency",
    type=click.IntRange(1, MOST_CONCURRENT),
    help="Highest level (default: 256 with --slo; else 8, or the engine's own cap below that).",
)
@click.option("--prompt-tokens", type=click.IntRange(1, 1_000_000), help="Length of synthetic prompts.")
@click.option("--output-tokens", type=click.IntRange(1, 100_000), help="Length of the answers asked for.")
@click.option(
    "--budget", "budget_s", type=click.FloatRange(1, 86_400), metavar="SECONDS", help="Most time it may take."
)
@click.option("--yes-load", metavar="HOST", help="Put load on this host although it is not this machine.")
@_common
def load(served: list[str] | None, **flags: Any) -> int:
    """Latency against concurrency. Exit 1 where not even one request alone keeps --slo."""
    if flags["requests"] and flags["duration"]:
        raise UsageError("--requests and --duration: give one of them")
    if flags["prompts"] and flags["prompt_tokens"]:
        raise UsageError("--prompts and --prompt-tokens: give one of them (your prompts stay as they are)")
    loops = [name for name in ("concurrency", "rate", "trace") if flags[name]]
    if len(loops) > 1:
        raise UsageError(f"--{loops[0]} and --{loops[1]}: give one of them")
    for name, needed in (("arrivals", "rate"), ("trace_speed", "trace")):
        if flags[name] and not flags[needed]:
            raise UsageError(f"--{name.replace('_', '-')} goes with --{needed}")
    return _measure("load", served, flags)


@command.command("tokens")
@click.option(
    "--reference",
    help="The training side's tokenizer: a folder, tokenizer.json or GGUF (else llama.cpp's own model file).",
)
@click.option("--candidate", metavar="URL", help="The serving side (same as --endpoint).")
@click.option("--texts", help="Your own texts, JSON Lines, besides the built-in ones.")
@_common
def tokens(served: list[str] | None, **flags: Any) -> int:
    """Token ids of the training side held against the engine's."""
    if flags["candidate"]:
        if flags["endpoints"]:
            raise UsageError("--candidate and --endpoint: give one of them")
        flags["endpoints"] = (flags["candidate"],)
    return _measure("tokens", served, flags)


def _measure(name: str, served: list[str] | None, flags: dict[str, Any]) -> int:
    from preop import report
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
        job = Job(deployment, target, _inputs(settings, flags), options=_options(settings, flags))
        missing = instrument.missing(job)
        if missing is not None:
            raise UsageError(f"{name}: {missing.in_(language)}")
        record = measure_one(instrument, job, watcher)
    outcome = _outcome(record.payload)
    if flags["form"] == "json":
        answer = report.to_json(report.measure_document(record, outcome))
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


def _options(settings: Settings, flags: dict[str, Any]) -> dict[str, object]:
    measure = settings.measure
    return {
        "model": flags.get("model"),
        "concurrency": concurrency(flags.get("concurrency"))
        or (None if flags.get("slo") else measure.concurrency),
        "requests": flags.get("requests") or (None if flags.get("duration") else measure.requests),
        "duration_s": _seconds(flags.get("duration")),
        "slo": flags.get("slo"),
        "rate": flags.get("rate"),
        "arrivals": flags.get("arrivals"),
        "trace": flags.get("trace"),
        "trace_speed": flags.get("trace_speed"),
        "max_concurrency": flags.get("max_concurrency"),
        "prompt_tokens": flags.get("prompt_tokens"),
        "output_tokens": flags.get("output_tokens"),
        "budget_s": flags.get("budget_s") or measure.budget_s,
        "yes_load": flags.get("yes_load") or measure.yes_load,
    }


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m)?", text)
    if not found or float(found[1]) == 0:
        raise UsageError(f"--duration {text}: expected a time such as 10s")
    return float(found[1]) * {"ms": 1e-3, "s": 1.0, "m": 60.0}[found[2] or "s"]


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
        case Tokens(differences=differences, compared=compared):
            return "fail" if differences else "pass" if compared else "not-proven"
        case _:
            return "not-proven"
