"""What a user hands to `preop check`, as deployments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from preop.deployment.options import ReadOptions
from preop.deployment.types import Deployment
from preop.errors import InputError
from preop.facts import Note

if TYPE_CHECKING:
    from preop.deployment.command import Found
    from preop.deployment.yaml_nodes import Map

__all__ = ["ReadOptions", "read_targets"]

MAX_REPLICAS = 8
_EXPECTED = "a docker compose file or a shell script with a serve command"
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh"})
_COMPOSE_NAMES = frozenset({"compose.yml", "compose.yaml", "docker-compose.yml", "docker-compose.yaml"})
_ENGINE_KEYS = frozenset(
    {"model", "max-model-len", "max_model_len", "tensor-parallel-size", "model-path", "served-model-name"}
)
_YAML_SUFFIXES = frozenset({".yml", ".yaml", ".json"})
_SHELL_SUFFIXES = frozenset({".sh", ".bash", ".zsh", ".txt", ".cmd", ""})
_MAPPING = re.compile(r"^(services|apiVersion|kind|x-[\w-]+|version|name)[ \t]*:", re.MULTILINE)


def read_targets(
    paths: Sequence[str], command: Sequence[str] | None, options: ReadOptions
) -> list[Deployment]:
    """The deployments in files and in the command after `--`, in the order given; names are unique.

    Raises `InputError` with one sentence where a file is none that preop reads, or starts no engine.
    """
    found: list[Deployment] = []
    for path in paths:
        found += _read_file(Path(path), options)
    if command is not None:
        found += _read_command(command, options)
    return _unique(found)


def _read_command(command: Sequence[str], options: ReadOptions) -> list[Deployment]:
    from preop.deployment.command import from_argv, launches
    from preop.deployment.resolve import resolve

    launched = launches(from_argv(command), "command line")
    if not launched:
        raise InputError(
            "the command after `--` starts no engine that preop knows; expected one such as "
            "`vllm serve MODEL`, `llama-server -m FILE` or `sglang serve --model-path MODEL`"
        )
    return [resolve(launch, options, folder) for launch, folder in launched]


def _read_file(path: Path, options: ReadOptions) -> list[Deployment]:
    from preop.deployment.environment import read_text

    text = read_text(path, _EXPECTED)
    program = _interpreter(text)
    suffix = path.suffix.lower()
    if program is not None:
        if program not in _SHELLS:
            raise InputError(f"{path}: a {program} program; expected {_EXPECTED}")
        return _read_script(text, path, options)
    named = re.match(r"(?i)(.*\.)?(dockerfile|containerfile)(\..*)?\Z", path.name)
    if named or (suffix == "" and re.search(r"^FROM\s+\S+", text, re.MULTILINE)):
        raise InputError(f"{path}: a Dockerfile, which preop does not read yet; expected {_EXPECTED}")
    if re.search(r"^ExecStart\s*=", text, re.MULTILINE):
        raise InputError(f"{path}: a systemd unit, which preop does not read yet; expected {_EXPECTED}")
    if suffix in _YAML_SUFFIXES or (suffix in _SHELL_SUFFIXES and _MAPPING.search(text)):
        return _read_yaml(text, path, options)
    if suffix in _SHELL_SUFFIXES:
        return _read_script(text, path, options)
    raise InputError(f"{path}: not a kind of file that preop reads; expected {_EXPECTED}")


def _interpreter(text: str) -> str | None:
    """The program that a script's `#!` line names; None where there is no such line."""
    if not text.startswith("#!"):
        return None
    names = [word.rpartition("/")[2] for word in text[2:].partition("\n")[0].split() if word[0] != "-"]
    return next((name for name in names if name != "env"), "")


def _read_script(text: str, path: Path, options: ReadOptions) -> list[Deployment]:
    from preop.deployment.command import Found, launches, read_text_commands
    from preop.deployment.resolve import resolve
    from preop.deployment.tokens import Lines, Source

    place = Lines(text, str(path))
    launched = launches(read_text_commands(Source(text, place), Found((), folder=path.parent)), str(path))
    if not launched:
        raise InputError(f"{path}: starts no engine that preop knows; expected {_EXPECTED}")
    return [resolve(launch, options, folder) for launch, folder in launched]


def _read_yaml(text: str, path: Path, options: ReadOptions) -> list[Deployment]:
    from preop.deployment.yaml_nodes import Map, load

    try:
        documents = load(text, str(path))
    except InputError:
        if "{{" in text:
            raise InputError(
                f"{path}: a template (it holds `{{{{`), not YAML; expected {_EXPECTED}, or the rendered form"
            ) from None
        raise
    if not documents:
        raise InputError(f"{path}: holds no value; expected {_EXPECTED}")
    first = documents[0]
    if not isinstance(first, Map):
        raise InputError(f"{path}: holds no mapping; expected {_EXPECTED}")
    if "services" in first.entries and "apiVersion" not in first.entries:
        if len(documents) > 1:
            raise InputError(f"{documents[1].where}: a second document; expected one compose file")
        return _read_compose(first, path, options)
    raise InputError(f"{path}: {_other_form(frozenset(first.entries))}; expected {_EXPECTED}")


def _other_form(names: frozenset[str]) -> str:
    """What a mapping with these keys is, that is no compose file."""
    if {"apiVersion", "kind"} <= names:
        return "a Kubernetes manifest, which preop does not read yet"
    if names & {"apiVersion", "servingEngineSpec"}:
        return "a Helm chart or its values, which preop does not read yet"
    if names & {"applications", "llm_configs"}:
        return "a Ray Serve config, which preop does not read yet"
    if names & {"architectures", "model_type", "hidden_size"}:
        return "a model's config.json (--model-path takes its folder)"
    if names & _ENGINE_KEYS:
        return "an engine's own config file (give the command: preop check -- vllm serve --config FILE)"
    return "no form that preop knows"


def _read_compose(document: Map, path: Path, options: ReadOptions) -> list[Deployment]:
    from preop.deployment.command import launches, unwrap
    from preop.deployment.compose import read_compose
    from preop.deployment.resolve import resolve
    from preop.engines.commands import NotServing

    file = read_compose(document, path, options.environment)
    found: list[Deployment] = []
    others: list[str] = []
    once = list(file.parked)
    shared = [Note("hidden", reason) for reason in file.hidden] + _override(path)
    for name, service in file.services.items():
        try:
            launched = launches(unwrap(service), f"{path}: service {name}")
        except NotServing:  # a benchmark beside the servers
            launched = []
        for launch, folder in launched:
            # every replica is an engine of its own on the GPUs that the service asks for
            copies = min(file.replicas[name], MAX_REPLICAS)
            found += [resolve(launch, options, folder)] * copies
            if copies < file.replicas[name]:
                text = f"service {name} has {file.replicas[name]} replicas; the first {copies} are judged"
                once.append(Note("other", text))
        if not launched:
            others.append(name)
            shared += _stranger(name, service)
    if not found:
        said = [f"{', '.join(others)} start no engine that preop knows"] if others else []
        said += [note.message for note in file.parked]
        raise InputError(f"{path}: no service to judge: {'; '.join(said) or 'there are none'}")
    noted = [msgspec.structs.replace(each, notes=(*each.notes, *shared)) for each in found]
    noted[0] = msgspec.structs.replace(noted[0], notes=(*noted[0].notes, *once))
    return noted


def _stranger(name: str, service: Found) -> list[Note]:
    """A service that may be an engine, and no command says so; and one that takes a GPU for something preop
    does not know. Those that only watch the GPU do not count."""
    from preop.engines.images import engine_by_name
    from preop.engines.tables import label

    image = service.image.head if service.image else ""
    engine = engine_by_name(image)
    if engine is not None and (not service.tokens or service.tokens[0].head.startswith("-")):
        text = (
            f"service {name} is not judged: its image may be one of {label(engine)}, and no command says so"
        )
        return [Note("other", text)]
    if service.gpus is None or re.search(r"exporter|dcgm|nvitop|nvidia-smi", image):
        return []
    text = f"service {name} takes a GPU too, and preop does not know what it runs"
    return [Note("other-tenant", text, str(service.gpus.origin) if service.gpus.origin else None)]


def _override(path: Path) -> list[Note]:
    """The file that `docker compose up` would lay over this one by itself."""
    if path.name not in _COMPOSE_NAMES:
        return []
    for suffix in (".yml", ".yaml"):
        beside = path.with_name(f"{path.stem}.override{suffix}")
        if beside.is_file():
            text = (
                f"{beside.name} is beside {path.name}: `docker compose up` lays it over, and it is not read"
            )
            return [Note("other", text, suggestion="docker compose config > all.yml, and check all.yml")]
    return []


def _unique(found: list[Deployment]) -> list[Deployment]:
    taken: set[str] = set()
    unique = []
    for deployment in found:
        name, number = deployment.name, 2
        while name in taken:
            name, number = f"{deployment.name}-{number}", number + 1
        taken.add(name)
        unique.append(msgspec.structs.replace(deployment, name=name))
    return unique
