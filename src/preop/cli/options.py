"""Options that several commands share, and how they are merged with preop.toml: a flag wins over the file."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from preop.errors import UsageError
from preop.inputs import Inputs
from preop.instruments.prompts import read_prompts
from preop.instruments.types import MOST_CONCURRENT, Access
from preop.settings import Accelerator, Settings, load_settings
from preop.text import Language

if TYPE_CHECKING:
    from preop.cli.progress import Progress
    from preop.deployment.read import ReadOptions
    from preop.deployment.types import Deployment
    from preop.engines.images import ImageRule

__all__ = [
    "access_options",
    "accesses",
    "concurrency",
    "declared_deployments",
    "endpoint_url",
    "input_options",
    "language_of",
    "language_option",
    "merged_inputs",
    "read_options",
    "reading_options",
    "settings_of",
    "settings_option",
    "writable",
    "write_output",
]

F = TypeVar("F", bound=Callable[..., Any])


def _stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


settings_option = click.option(
    "--config", type=click.Path(path_type=Path), help="Settings file (default: preop.toml, if it is there)."
)
language_option = click.option("--lang", type=click.Choice(["en", "zh"]), help="Language of the answer.")

input_options = _stack(
    click.option(
        "--reference",
        help="Model or endpoint before the change (this release takes its tokenizer from it, no more).",
    ),
    click.option("--prompts", help="Your real prompts, JSON Lines."),
    click.option("--tokenizer", help="The training side's tokenizer: a folder, tokenizer.json or GGUF."),
    click.option("--onnx", help="The exported ONNX model (this release notes it, and compares nothing)."),
    click.option("--lock", help="The lock of the software stack (this release notes it only)."),
    click.option("--access-log", help="The gateway's access log (this release notes it only)."),
    click.option("--evidence", help="A folder of earlier runs to read besides .preop/runs."),
)

access_options = _stack(
    click.option(
        "--endpoint", "endpoints", multiple=True, metavar="URL|NAME=URL", help="A running engine to read."
    ),
    click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the endpoint's key."),
    click.option("--ca-bundle", metavar="FILE", help="Certificates to trust for the endpoint."),
    click.option("--insecure", is_flag=True, help="Do not verify the endpoint's certificate."),
    click.option(
        "--timeout",
        type=click.FloatRange(0.1, 600),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="For each request that reads an endpoint.",
    ),
)

read_options = _stack(
    click.option("--engine-version", help="Version of the engine, where nothing states it."),
    click.option("--gpu", help="GPU of the target machine, e.g. h100-80gb."),
    click.option(
        "--gpu-count", type=click.IntRange(1, 4096), help="How many of them the target machine has."
    ),
    click.option(
        "--accelerator", type=click.Choice(get_args(Accelerator)), help="What it runs on; none for a CPU."
    ),
    click.option(
        "--exclude", multiple=True, metavar="GLOB", help="Paths that the search of a folder passes over."
    ),
    click.option("--model-path", help="Folder or GGUF of the model's files on this machine."),
    click.option("--fetch", is_flag=True, help="Ask the model hub for what is not on this machine."),
    click.option("--offline", is_flag=True, help="Never ask the network; endpoints that are named excepted."),
)


def settings_of(config: Path | None) -> Settings:
    """preop.toml, or the file that `--config` names."""
    return load_settings(config)


def language_of(flag: str | None, settings: Settings) -> Language:
    """The flag, else the file, else English."""
    return "zh" if (flag or settings.lang) == "zh" else "en"


def merged_inputs(settings: Settings, flags: Mapping[str, Any]) -> Inputs:
    """Inputs by flag, else by file. A path that does not exist, or holds no prompts, is refused at once."""
    values = {}
    for name in Inputs.__struct_fields__:
        value = flags.get(name) or getattr(settings.inputs, name)
        if value and "://" not in value:
            path = Path(os.path.expanduser(value))  # noqa: PTH111 Path's own raises for ~nobody
            if path.exists():
                value = str(path)
            elif name != "reference":
                raise UsageError(f"--{name.replace('_', '-')} {value}: no such file or folder")
        values[name] = value
    inputs = Inputs(**values)
    if inputs.prompts:
        read_prompts(inputs.prompts)
    if inputs.evidence and not Path(inputs.evidence).is_dir():
        raise UsageError(f"--evidence {inputs.evidence}: no folder, expected one of run folders")
    return inputs


def accesses(settings: Settings, flags: Mapping[str, Any]) -> dict[str, Access]:
    """`--endpoint URL` and `--endpoint NAME=URL` by deployment name ("" where no name is given)."""
    texts = list(flags["endpoints"]) or (
        [settings.deployment.endpoint] if settings.deployment.endpoint else []
    )
    found: dict[str, Access] = {}
    for text in texts:
        name, url = _endpoint(text)
        if name in found:
            raise UsageError(f"--endpoint: {name or url} is given twice")
        found[name] = _access(settings, flags, url)
    if len(found) > 1 and "" in found:
        raise UsageError("--endpoint: with several endpoints each needs its deployment: --endpoint NAME=URL")
    return found


def _access(settings: Settings, flags: Mapping[str, Any], url: str) -> Access:
    """How to reach `url` with the key and certificates that the flags or the file name."""
    variable = flags.get("api_key_env") or settings.deployment.api_key_env
    key = None
    if variable:
        key = os.environ.get(variable)
        if not key:
            # What does not look like a name may be the key itself.
            name = variable if re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable) else "NAME"
            raise UsageError(f"--api-key-env {name}: that environment variable is not set")
    bundle = flags.get("ca_bundle") or settings.deployment.ca_bundle
    if bundle and not Path(bundle).is_file():
        raise UsageError(f"--ca-bundle {bundle}: no such file")
    verify: bool | str = False if flags.get("insecure") else (bundle or True)
    return Access(url, api_key=key, timeout_s=flags.get("timeout") or 10.0, verify_tls=verify)


def declared_deployments(
    settings: Settings,
    flags: Mapping[str, Any],
    served: list[str] | None,
    endpoints: Mapping[str, Access],
    watcher: Progress,
) -> tuple[list[Deployment], list[str]]:
    """The deployments of the files and the serve command; with an endpoint alone, what the options say of it.
    And a sentence for each file of a folder that looks like a deployment and cannot be read.

    Raises `InputError` for what cannot be read.
    """
    options, targets = reading_options(settings, flags), flags.get("targets") or ()
    if targets or served is not None:
        from preop.deployment.read import read_targets

        unread: list[str] = []
        found = read_targets(
            targets,
            served,
            options,
            progress=lambda line: watcher.passing(f"reading {line}"),
            message=watcher.message,
            unread=unread,
        )
        watcher.passing("")
        return found, unread
    if "" not in endpoints:
        return [], []
    from preop.deployment.resolve import stated

    told = stated(options, endpoints[""].url)
    return ([told] if told is not None else []), []


def reading_options(settings: Settings, flags: Mapping[str, Any]) -> ReadOptions:
    """What the flags or the file say of the deployment that its own files do not."""
    from preop.deployment.read import ReadOptions

    facts = settings.deployment
    offline = bool(flags.get("offline")) or settings.offline
    if offline and flags["fetch"]:
        raise UsageError("--fetch asks the model hub, and --offline (or offline in preop.toml) forbids that")
    return ReadOptions(
        engine_version=flags["engine_version"] or facts.engine_version,
        gpu=flags["gpu"] or facts.gpu,
        gpu_count=flags["gpu_count"] or facts.gpu_count,
        accelerator=flags["accelerator"] or facts.accelerator,
        model_path=flags["model_path"] or facts.model_path,
        models=settings.models.root,
        exclude=(*settings.exclude, *(flags.get("exclude") or ())),
        fetch=flags["fetch"],
        environment=os.environ,
        images=_image_rules(settings),
    )


def _image_rules(settings: Settings) -> tuple[ImageRule, ...]:
    from preop.engines.images import ImageRule

    return tuple(
        ImageRule(
            pattern, image.engine, image.version, None if image.command is None else tuple(image.command)
        )
        for pattern, image in settings.images.items()
    )


def endpoint_url(text: str) -> str:
    """A URL as the user wrote it, made a base URL. Raises `UsageError`."""
    return _endpoint(text)[1]


def _endpoint(text: str) -> tuple[str, str]:
    from preop.instruments.endpoint.address import base_url

    scheme, rest = text.partition("://")[0], text.partition("://")[1:]
    name, _, scheme = scheme.rpartition("=")  # a deployment's name may hold its file's path, `=` and all
    text = scheme + "".join(rest)
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise UsageError(
            "--endpoint: leave the key out of the URL; name its environment variable: --api-key-env NAME"
        )
    return name, base_url(text)


def concurrency(text: str | None) -> list[int] | None:
    """`1,8,64` as levels, each once, rising. Raises `UsageError`."""
    if text is None:
        return None
    try:
        levels = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UsageError(f"--concurrency {text}: expected whole numbers such as 1,8,64") from None
    if levels[0] < 1 or levels[-1] > MOST_CONCURRENT:
        raise UsageError(f"--concurrency {text}: expected levels from 1 to {MOST_CONCURRENT}")
    return levels


def writable(*outputs: Path | None) -> None:
    """Refuse, before anything is measured, what could not be written afterwards. Raises `UsageError`."""
    for output in outputs:
        if output is None or output.is_symlink():
            continue
        if output.is_dir():
            raise UsageError(f"{output}: is a folder, expected the name of a file to write")
        if not output.parent.is_dir():
            raise UsageError(f"{output}: cannot be written: there is no folder {output.parent}")
        if not os.access(output.parent, os.W_OK | os.X_OK):
            raise UsageError(f"{output}: cannot be written: {output.parent} is not yours to write in")


def write_output(text: str, output: Path | None) -> None:
    """To `output`, whole or not at all; to standard output where it is None or `-`."""
    if output is None or str(output) == "-":
        click.echo(text, nl=not text.endswith("\n"))
        return
    text = text if text.endswith("\n") else text + "\n"
    # A device, a pipe or a link (/dev/null, /dev/stdout) is written through, never replaced.
    through = output.is_symlink() or (output.exists() and not output.is_file())
    temporary = output if through else output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        if not through:
            temporary.replace(output)
    except OSError as error:
        if not through:
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from None
