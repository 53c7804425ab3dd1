"""Docker compose files."""

from __future__ import annotations

import re
from pathlib import Path

from preop.deployment.command import unwrap
from preop.deployment.forms.compose_file import services_of
from preop.deployment.forms.compose_project import load_project
from preop.deployment.forms.strangers import stranger
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.yaml_nodes import Map, Seq
from preop.errors import InputError
from preop.facts import Note

__all__ = ["COMPOSE"]

MAX_REPLICAS = 8
_SERVICES = re.compile(r"""^\s*["']?services["']?[ \t]*:|^\s*\{\s*"services"[ \t]*:""", re.MULTILINE)
_INCLUDE = re.compile(r"^include[ \t]*:", re.MULTILINE)
_PARTIAL = (
    "has neither image nor build: compose runs it only over another file; "
    "COMPOSE_FILE=base.yml:this.yml reads both as one"
)
_NAMED = re.compile(r"(docker-)?compose\b.*\.ya?ml\Z")


def _reads(file: File) -> bool:
    named = file.path is not None and _NAMED.match(file.path.name) is not None
    if not _SERVICES.search(file.text) and not (named and _INCLUDE.search(file.text)):
        return False
    try:
        first = file.documents[0] if file.documents else None
    except InputError:
        # broken: what is told of it is worth more than silence, where it is one beyond doubt
        return named or (re.search(r"^services[ \t]*:", file.text, re.MULTILINE) is not None)
    if not isinstance(first, Map) or "apiVersion" in first.entries:
        return False
    if named:
        return "services" in first.entries or isinstance(first.get("include"), Seq)
    return isinstance(first.get("services"), Map)  # a list of them is a CI pipeline's


def _read(file: File, context: Context) -> Reading:
    try:
        documents = file.documents
    except InputError:
        if re.search(r"\{\{|\{%", file.text):
            raise InputError(
                f"{file.name}: a template (it holds `{{{{` or `{{%`), not YAML: render it first"
            ) from None
        raise
    if len(documents) > 1:
        raise InputError(f"{documents[1].where}: a second document; expected one compose file")
    options = context.options
    project = load_project(file, options.environment, options.root or Path())
    found = services_of(project)
    started: list[Started] = []
    others: list[str] = []
    shared = [Note("hidden", reason) for each in project.all() for reason in each.unseen]
    once = list(found.parked)
    for name, service in found.running.items():
        # every replica is an engine of its own on the GPUs that the service asks for
        copies = min(found.replicas[name], MAX_REPLICAS)
        if copies < found.replicas[name]:
            text = f"service {name} has {found.replicas[name]} replicas; the first {copies} are judged"
            once.append(Note("other", text))
        what = f"service {name}"
        notes = (Note("other", f"{what} {_PARTIAL}"),) if name in found.partial else ()
        started.append(
            Started(
                name,
                f"{file.name}: {what}",
                unwrap(service),
                notes=notes,
                otherwise=stranger(what, service),
                copies=copies,
            )
        )
        others.append(name)
    said = [f"{', '.join(others)} start no engine that preop knows"] if others else []
    said += [note.message for note in found.parked]
    said += [f"service {name} {_PARTIAL}" for name in found.partial]
    said += [reason for each in project.all() for reason in each.unseen]
    silent = f"no service to judge: {'; '.join(said) or 'there are none'}"
    return Reading(
        started,
        shared,
        once,
        silent,
        parts=tuple(part for each in project.all() for part in each.parts),
        bases=tuple(base for each in project.all() for base in each.bases),
    )


COMPOSE = Form("a docker compose file", _reads, _read)
