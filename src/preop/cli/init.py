"""`preop init`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from preop.cli.options import write_output
from preop.errors import UsageError
from preop.settings import SETTINGS_FILE

__all__ = ["command"]

_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_PROMPTS = ("prompts.jsonl", "business_prompts.jsonl")
_LOCAL_PORTS = (8000, 8080, 30000)
"""Where vLLM, llama-server and SGLang listen unless told otherwise."""


@click.command("init", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--force", is_flag=True, help="Replace a preop.toml that is there.")
@click.option("--print", "show", is_flag=True, help="Print it instead of writing it.")
def command(force: bool, show: bool) -> int:
    """Write a commented preop.toml from what is found here: models, prompts, running engines."""
    target = Path(SETTINGS_FILE)
    if target.exists() and not (force or show):
        raise UsageError(
            f"{target} is there already: --force replaces it, --print shows what would be written"
        )
    here = Path()
    compose = [name for name in _COMPOSE if (here / name).is_file()]
    models = _models(here)
    prompts = next((name for name in _PROMPTS if (here / name).is_file()), None)
    endpoint = _running_engine()
    text = _settings(models, prompts, endpoint)
    if show:
        click.echo(text, nl=False)
        return 0
    write_output(text, target)
    click.echo(f"wrote {target}")
    words = [*compose[:1], *(["--measure all"] if endpoint else [])] or ["-- vllm serve ..."]
    click.echo(f"next: preop check {' '.join(words)}")
    return 0


def _models(here: Path) -> list[str]:
    found = [str(path) for path in sorted(here.glob("*.gguf")) if path.is_file()]
    found += [str(path.parent) for path in sorted(here.glob("*/config.json")) if _is_model(path)]
    return [name for name in found if name.isprintable()][:5]


def _is_model(path: Path) -> bool:
    try:
        if not path.is_file():  # opening a pipe would wait for ever
            return False
        with path.open("rb") as file:
            return "architectures" in json.loads(file.read(1_000_000))
    except (ValueError, TypeError, OSError, RecursionError):
        return False


def _running_engine() -> str | None:
    """An engine that answers on this machine at its usual port."""
    from preop.deployment.types import Deployment
    from preop.errors import InstrumentError
    from preop.evidence import Live
    from preop.instruments import find_instrument
    from preop.instruments.types import Access, Job

    for port in _LOCAL_PORTS:
        if not _listens(port):
            continue
        url = f"http://127.0.0.1:{port}"
        try:
            live = find_instrument("endpoint").run(
                Job(Deployment(url, "unknown", url, {}), Access(url, timeout_s=2.0))
            )
        except (InstrumentError, ImportError):
            continue
        if isinstance(live, Live) and live.engine != "unknown":
            return url
    return None


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _settings(models: list[str], prompts: str | None, endpoint: str | None) -> str:
    from preop.thresholds import THRESHOLDS

    def line(key: str, value: str | None, example: str, comment: str) -> str:
        text = f"{'' if value else '# '}{key} = {json.dumps(value or example, ensure_ascii=False)}"
        return f"{text:<44} # {comment}"

    def example(text: str, comment: str) -> str:
        return f"{'# ' + text:<44} # {comment}"

    other = f" (also here: {', '.join(models[1:])})" if len(models) > 1 else ""
    lines = [
        "# preop.toml: what `preop check` cannot read in the deployment's own files. Flags win over it.",
        "# Every key is optional; an unknown key is an error.",
        "",
        '# lang = "en"                                # or "zh"',
        line(
            "waivers", None, "preop-waivers.toml", "who accepted what until when; a file with its own owners"
        ),
        example('exclude = ["charts/*"]', "paths that the search of a folder passes over"),
        example("offline = true", "--fetch becomes an error"),
        "",
        "[deployment]",
        line("gpu", None, "h100-80gb", "the target machine's GPU"),
        example("gpu_count = 1", "how many it has"),
        line("engine_version", None, "0.32.0", "where no image tag and no endpoint tells"),
        line(
            "model_path",
            models[0] if models else None,
            "models/mine",
            f"the model's files on this machine{other}",
        ),
        line("endpoint", endpoint, "http://127.0.0.1:8000", "a running engine"),
        line("api_key_env", None, "ENGINE_API_KEY", "the variable that holds its key, never the key"),
        "",
        "[inputs]",
        line("prompts", prompts, "prompts.jsonl", "about 200 real prompts"),
        line("tokenizer", None, "tokenizer/", "the training side's tokenizer"),
        line("reference", None, "http://127.0.0.1:8001", "the engine before the change"),
        "",
        "[measure]",
        example("concurrency = [1, 2, 4, 8]", "levels of the load measurement"),
        example("budget_s = 300", "most time it may take"),
        "",
        "[images]                                     # what is inside images of your own registry",
        '# "registry.corp/llm/vllm-*" = { engine = "vllm", version = "tag" }',
        "",
        "[models]",
        line("root", None, "/mnt/models", "models by their hub id: /mnt/models/ORG/NAME/config.json"),
        "",
        "[cost]                                       # for the change-approval page",
        example("gpu_hour = 2.5", "price of one GPU for an hour"),
        line("currency", None, "USD", "of that price"),
        "",
        "[approval]",
        line("rollback", None, "helm rollback chat", "how to go back, in words"),
        "",
        "# The thresholds in force, each with where its default comes from.",
    ]
    group = ""
    for threshold in THRESHOLDS.values():
        section, name = threshold.key.split(".", 1)
        if section != group:
            group = section
            lines += ["", f"[thresholds.{section}]"]
        lines.append(f"# {threshold.meaning} ({threshold.unit}); source: {threshold.source}")
        lines.append(f"# {name} = {threshold.default:g}")
    return "\n".join(lines) + "\n"
