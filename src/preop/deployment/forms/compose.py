"""Docker compose files."""

from __future__ import annotations

import re
from pathlib import Path

from preop.deployment.command import unwrap
from preop.deployment.forms.compose_file import read_compose
from preop.deployment.forms.strangers import stranger
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.yaml_nodes import Map
from preop.errors import InputError
from preop.facts import Note

__all__ = ["COMPOSE"]

MAX_REPLICAS = 8
_NAMES = frozenset({"compose.yml", "compose.yaml", "docker-compose.yml", "docker-compose.yaml"})
_SERVICES = re.compile(r"""^\s*["']?services["']?[ \t]*:|^\s*\{\s*"services"[ \t]*:""", re.MULTILINE)


def _reads(file: File) -> bool:
    if not _SERVICES.search(file.text):
        return False
    try:
        first = file.documents[0] if file.documents else None
    except InputError:
        return False
    return isinstance(first, Map) and "services" in first.entries and "apiVersion" not in first.entries


def _read(file: File, context: Context) -> Reading:
    document = file.documents[0]
    assert isinstance(document, Map)
    if len(file.documents) > 1:
        raise InputError(f"{file.documents[1].where}: a second document; expected one compose file")
    path = file.path or Path("compose.yml")
    found = read_compose(document, path, context.options.environment)
    started: list[Started] = []
    others: list[str] = []
    shared = [Note("hidden", reason) for reason in found.hidden] + _override(path)
    once = list(found.parked)
    for name, service in found.services.items():
        commands = unwrap(service)
        # every replica is an engine of its own on the GPUs that the service asks for
        copies = min(found.replicas[name], MAX_REPLICAS)
        if copies < found.replicas[name]:
            text = f"service {name} has {found.replicas[name]} replicas; the first {copies} are judged"
            once.append(Note("other", text))
        started.append(
            Started(
                name,
                f"{file.name}: service {name}",
                commands,
                otherwise=stranger(f"service {name}", service),
                copies=copies,
            )
        )
        others.append(name)
    said = [f"{', '.join(others)} start no engine that preop knows"] if others else []
    said += [note.message for note in found.parked]
    silent = f"no service to judge: {'; '.join(said) or 'there are none'}"
    return Reading(started, shared, once, silent)


def _override(path: Path) -> list[Note]:
    """The file that `docker compose up` would lay over this one by itself."""
    if path.name not in _NAMES:
        return []
    for suffix in (".yml", ".yaml"):
        beside = path.with_name(f"{path.stem}.override{suffix}")
        if beside.is_file():
            text = (
                f"{beside.name} is beside {path.name}: `docker compose up` lays it over, and it is not read"
            )
            return [Note("other", text, suggestion="docker compose config > all.yml, and check all.yml")]
    return []


COMPOSE = Form("a docker compose file", _reads, _read)
