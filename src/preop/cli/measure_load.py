"""`preop measure load`: latency against concurrency or rate, and two engines under the same load."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from preop.cli.measurement import common, print_record, run_measurement
from preop.cli.options import concurrency, endpoint_url, language_of, settings_of, writable, write_output
from preop.errors import UsageError
from preop.instruments.types import MOST_CONCURRENT

if TYPE_CHECKING:
    from preop.settings import Settings

__all__ = ["command"]

_WORKLOAD = (
    "prompt_tokens_stdev", "turns", "shared_prefix_tokens", "prefix_groups", "cache_hits",
    "adapters", "natural_end",
)  # fmt: skip


@click.command("load")
@click.option("--model", help="Name of the model to ask for (default: the one it serves).")
@click.option("--prompts", help="Your prompts: JSONL, CSV, Parquet, ShareGPT, OpenAI messages or batch.")
@click.option("--concurrency", metavar="1,2,4", help="Levels.")
@click.option("--rate", metavar="1,2,4", help="Open loop: requests a second, whatever becomes of them.")
@click.option("--arrivals", metavar="PROCESS", help="With --rate: poisson (default), constant, gamma:CV.")
@click.option(
    "--trace", metavar="FILE", help="Open loop: start requests at the times of a trace (CSV, JSONL)."
)
@click.option(
    "--trace-speed", type=click.FloatRange(0.001, 1000), help="With --trace: so many times as fast."
)
@click.option(
    "--import",
    "imported",
    metavar="FILE",
    help="Take results of guidellm, AIPerf, vllm bench, inference-perf, SGLang bench or llm-d instead.",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="URL_A URL_B",
    help="Two engines in turns: the ratio of their times per token at each level, and the break-even.",
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
@click.option("--prompt-tokens-stdev", type=click.IntRange(0, 1_000_000), help="Their spread (log-normal).")
@click.option(
    "--turns",
    metavar="N|recorded",
    help="Conversations whose history grows by the live answers: of N turns, or as they are in --prompts.",
)
@click.option(
    "--shared-prefix",
    "shared_prefix_tokens",
    type=click.IntRange(1, 1_000_000),
    metavar="TOKENS",
    help="A system prompt of that length that requests share.",
)
@click.option("--prefix-groups", type=click.IntRange(1, 10_000), help="How many such prompts there are.")
@click.option("--cache-hits", is_flag=True, help="No salts: let the engine's prefix cache help.")
@click.option("--adapters", metavar="A,B", help="LoRA adapters to ask for in turn.")
@click.option("--natural-end", is_flag=True, help="Let answers end by themselves (long reasoning).")
@click.option("--output-tokens", type=click.IntRange(1, 100_000), help="Length of the answers asked for.")
@click.option(
    "--budget", metavar="LIMITS", help="Most it may spend: 300s, or 300s,5000req,2Mtok,5usd (default: 120s)."
)
@click.option("--resume", is_flag=True, help="Keep the levels that an interrupted run had measured.")
@click.option("--workers", metavar="N|ray[:ADDRESS]", help="Spread the clients over processes or Ray.")
@click.option("--self-test", is_flag=True, help="What this machine itself can measure; needs no endpoint.")
@click.option("--yes-load", metavar="HOST", help="Put load on this host although it is not this machine.")
@common
def command(served: list[str] | None, **flags: Any) -> int:
    """Latency against concurrency. Exit 1 where not even one request alone keeps --slo."""
    if flags["self_test"]:
        return _self_test(flags)
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
    if flags["imported"]:
        return _import(flags)
    from preop.instruments.load.options import workload_options

    workload_options({name: value or None for name, value in flags.items()})
    if flags["compare"]:
        return _compare(served, flags)
    return run_measurement("load", served, flags, lambda settings: _options(settings, flags))


def _self_test(flags: dict[str, Any]) -> int:
    """This machine's own ceiling. Exit 3 where not even the lowest level could be looked at."""
    from preop.cli.progress import Progress
    from preop.instruments.load.self_test import self_test, self_test_lines

    if flags["endpoints"] or flags["compare"] or flags["imported"]:
        raise UsageError("--self-test measures this machine alone: leave out the endpoint")
    if flags["form"] == "html":
        raise UsageError("--self-test prints text or json")
    settings = settings_of(flags["config"])
    writable(flags["output"])
    watcher = Progress(quiet=flags["quiet"])
    result = self_test(progress=lambda line: watcher.progress("load", line))
    if flags["form"] == "json":
        import msgspec

        from preop import report

        answer = report.to_json(msgspec.to_builtins(result))
    else:
        answer = "\n".join(self_test_lines(result, language_of(flags["lang"], settings)))
    write_output(answer, flags["output"])
    return 0 if any(level.events_per_s is not None for level in result.levels) else 3


def _import(flags: dict[str, Any]) -> int:
    """Somebody else's measurement, marked as that."""
    for name in (
        "endpoints",
        "compare",
        "concurrency",
        "rate",
        "trace",
        "requests",
        "duration",
        "slo",
        "prompts",
    ):
        if flags[name]:
            told = "endpoint" if name == "endpoints" else name
            raise UsageError(f"--import reads results and measures nothing: leave out --{told}")
    from preop import __version__
    from preop.evidence import RECORD_SCHEMA, Record, Strength
    from preop.instruments.load.foreign import read_results
    from preop.ledger.runs import utc_now

    settings = settings_of(flags["config"])
    writable(flags["output"])
    load = read_results(flags["imported"])
    record = Record(
        schema=RECORD_SCHEMA,
        instrument="load",
        deployment=load.model or load.url,
        strength=Strength.MEASURED,
        taken_at=utc_now().isoformat(),
        took_s=0.0,
        fingerprint={},
        conditions={"preop": __version__, "tool": load.tool, "imported_from": str(flags["imported"])},
        payload=load,
    )
    return print_record(record, flags, settings, language_of(flags["lang"], settings))


def _compare(served: list[str] | None, flags: dict[str, Any]) -> int:
    for name in ("endpoints", "rate", "trace", "slo"):
        if flags[name]:
            raise UsageError(f"--compare measures levels of concurrency of its two URLs, without --{name}")
    a, b = flags["compare"]
    flags["endpoints"] = (a,)

    def options(settings: Settings) -> dict[str, object]:
        return {**_options(settings, flags), "compare": endpoint_url(b)}

    return run_measurement("load-comparison", served, flags, options)


def _options(settings: Settings, flags: dict[str, Any]) -> dict[str, object]:
    measure = settings.measure
    return {
        "concurrency": concurrency(flags["concurrency"]) or (None if flags["slo"] else measure.concurrency),
        "requests": flags["requests"] or (None if flags["duration"] else measure.requests),
        "duration_s": _seconds(flags["duration"]),
        "slo": flags["slo"],
        "rate": flags["rate"],
        "arrivals": flags["arrivals"],
        "trace": flags["trace"],
        "trace_speed": flags["trace_speed"],
        "max_concurrency": flags["max_concurrency"],
        **{name: flags[name] or None for name in _WORKLOAD},
        "prompt_tokens": flags["prompt_tokens"],
        "output_tokens": flags["output_tokens"],
        "resume": flags["resume"],
        "workers": flags["workers"],
        "budget": flags["budget"],
        "budget_s": measure.budget_s,
        "per_million_output_tokens": settings.cost.per_million_output_tokens,
        "limits": measure.limits,
        "yes_load": flags["yes_load"] or measure.yes_load,
    }


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m)?", text)
    if not found or float(found[1]) == 0:
        raise UsageError(f"--duration {text}: expected a time such as 10s")
    return float(found[1]) * {"ms": 1e-3, "s": 1.0, "m": 60.0}[found[2] or "s"]
