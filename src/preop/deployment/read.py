"""What a user hands to `preop check`, as deployments.

targets -> files -> the form of each -> what it starts -> launches -> deployments
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from preop.deployment.options import ReadOptions
from preop.deployment.types import Deployment
from preop.errors import InputError

if TYPE_CHECKING:
    from preop.deployment.forms import File, Reading, Started

__all__ = ["STANDARD_INPUT", "ReadOptions", "read_targets"]

STANDARD_INPUT = "-"

Progress = Callable[[str], None]


def read_targets(
    paths: Sequence[str],
    command: Sequence[str] | None,
    options: ReadOptions,
    progress: Progress = lambda line: None,
) -> list[Deployment]:
    """The deployments in files and in the command after `--`, in the order given; names are unique.

    `-` is standard input. `progress` takes one short line that replaces the one before. Raises `InputError`
    with one sentence where a file is none that preop reads, or starts no engine.
    """
    found: list[Deployment] = []
    if paths:
        found += _read_files(paths, options)
    if command is not None:
        found += _read_command(command, options)
    return _unique(found)


def _read_command(command: Sequence[str], options: ReadOptions) -> list[Deployment]:
    from preop.deployment.command import from_argv, launches
    from preop.deployment.resolve import resolve

    launched = launches(from_argv(command), "command line", options.images)
    if not launched:
        raise InputError(
            "the command after `--` starts no engine that preop knows; expected one such as "
            "`vllm serve MODEL`, `llama-server -m FILE` or `sglang serve --model-path MODEL`"
        )
    return [resolve(launch, options, folder) for launch, folder in launched]


def _read_files(paths: Sequence[str], options: ReadOptions) -> list[Deployment]:
    from preop.deployment.forms import Context, expected, form_of
    from preop.deployment.forms.refused import what_it_is

    files = [_file(path, options) for path in paths]
    context = Context(options, files)
    found: list[Deployment] = []
    for file in files:
        form = form_of(file)
        if form is None:
            raise InputError(f"{file.name}: {what_it_is(file)}; expected {expected()}")
        reading = form.read(file, context)
        deployments = list(_deployments(reading, options))
        if not deployments:
            why = reading.silent or f"starts no engine that preop knows; expected {expected()}"
            raise InputError(f"{file.name}: {why}")
        found += deployments
    return found


def _file(target: str, options: ReadOptions) -> File:
    from preop.deployment.environment import read_text
    from preop.deployment.forms import File, expected

    path = Path(target) if options.root is None else options.root / target
    return File(target, read_text(path, expected()), path)


def _deployments(reading: Reading, options: ReadOptions) -> Iterator[Deployment]:
    """What a file starts, as deployments."""
    from preop.engines.commands import NotServing

    found: list[Deployment] = []
    shared, refused = list(reading.shared), None
    for started in reading.started:
        try:
            own = _started(started, options)
        except NotServing as error:  # a benchmark beside the servers
            own, refused = [], refused or error
        if not own:
            shared += started.otherwise
        found += own
    if not found and refused is not None:
        raise refused
    for at, each in enumerate(found):
        notes = (*each.notes, *shared, *(reading.once if at == 0 else ()))
        yield msgspec.structs.replace(each, notes=notes)


def _started(started: Started, options: ReadOptions) -> list[Deployment]:
    from preop.deployment.command import launches
    from preop.deployment.resolve import resolve

    found: list[Deployment] = []
    for launch, folder in launches(started.commands, started.source, options.images):
        launch = msgspec.structs.replace(
            launch, name=launch.name or started.name, facts={**launch.facts, **started.facts}
        )
        deployment = resolve(launch, options, folder)
        deployment = msgspec.structs.replace(deployment, notes=(*deployment.notes, *started.notes))
        found += [deployment] * started.copies
    return found


def _unique(found: list[Deployment]) -> list[Deployment]:
    taken: set[str] = set()
    unique = []
    for deployment in found:
        name, number = deployment.name, 2
        while name in taken:
            name, number = f"{deployment.name}-{number}", number + 1
        taken.add(name)
        unique.append(msgspec.structs.replace(deployment, name=name, own_name=deployment.name))
    return unique
