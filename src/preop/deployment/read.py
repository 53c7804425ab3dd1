"""What a user hands to `preop check`, as deployments.

targets -> files -> the form of each -> what it starts -> launches -> deployments
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from preop.deployment.environment import MAX_BYTES
from preop.deployment.options import ReadOptions
from preop.deployment.search import MAX_FILES
from preop.deployment.types import Deployment
from preop.errors import InputError

if TYPE_CHECKING:
    from preop.deployment.forms import Context, File, Reading, Started
    from preop.deployment.search import Search

__all__ = ["STANDARD_INPUT", "ReadOptions", "read_targets"]

STANDARD_INPUT = "-"

Progress = Callable[[str], None]


def read_targets(
    paths: Sequence[str],
    command: Sequence[str] | None,
    options: ReadOptions,
    *,
    progress: Progress = lambda line: None,
    unread: list[str] | None = None,
) -> list[Deployment]:
    """The deployments in files, folders and the command after `--`, in the order given; names are unique.

    `-` is standard input; a folder is searched. `progress` takes one short line that replaces the one before.
    `unread` takes a sentence for each file of a folder that looks like a deployment and cannot be read; where
    it is None the first of them is raised. Raises `InputError` with one sentence where a file is none that
    preop reads, or starts no engine, or where nothing in a folder does.
    """
    found: list[Deployment] = []
    if paths:
        found += _read_files(paths, options, progress, unread)
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


def _read_files(
    paths: Sequence[str], options: ReadOptions, progress: Progress, unread: list[str] | None
) -> list[Deployment]:
    from preop.deployment.forms import Context

    targets = [_target(path, options, unread) for path in paths]
    context = Context(options, [file for target in targets for file in target.files])
    count = 0
    found: list[Deployment] = []
    for target in targets:
        own: list[Deployment] = []
        for file in target.files:
            count += 1
            if len(context.files) > 1:
                progress(f"{count:,} of {len(context.files):,} files, {len(found) + len(own):,} deployments")
            if target.searched is None:
                own += _read_file(file, context)
            elif file.may_serve:
                own += _read_quietly(file, context, unread)
        if not own and not (unread and target.searched is not None):
            _nothing_in(target)
        found += own
    return found


@dataclass(frozen=True)
class _Target:
    """One thing that the user named: a file, or a folder with what was found in it."""

    name: str
    files: Sequence[File]
    searched: Search | None = None


def _target(name: str, options: ReadOptions, unread: list[str] | None) -> _Target:
    from preop.deployment.environment import read_text
    from preop.deployment.forms import File, expected
    from preop.deployment.search import search

    if name == STANDARD_INPUT:
        return _Target(name, [File("standard input", _standard_input(), None)])
    path = Path(name) if options.root is None else options.root / name
    if not _is_folder(path):
        return _Target(name, [File(name, read_text(path, expected()), path)])
    searched = search(path, options.exclude)
    files = []
    for each in searched.files:
        shown = str(Path(name) / each.relative_to(path))
        try:
            file = File(shown, read_text(each, expected(), may_be_empty=True), each)
        except InputError as error:
            gone = not each.is_file() or not os.access(each, os.R_OK)
            if gone and unread is not None:
                unread.append(str(error))
            continue  # else it is binary, or too large for any deployment
        if file.may_serve or file.may_be_referred_to:
            files.append(file)
    if unread is not None:
        unread += searched.unreadable
        if searched.too_many:
            unread.append(f"{name}: more than {MAX_FILES:,} files; the search stopped there")
    return _Target(name, files, searched)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _standard_input() -> str:
    from preop.deployment.environment import decoded
    from preop.deployment.forms import expected

    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise InputError(
            "-: standard input is a terminal; expected a pipe: helm template CHART | preop check -"
        )
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    return decoded("standard input", data, expected())


def _read_file(file: File, context: Context) -> list[Deployment]:
    from preop.deployment.forms import expected, form_of
    from preop.deployment.forms.refused import what_it_is

    form = form_of(file)
    if form is None:
        raise InputError(f"{file.name}: {what_it_is(file)}; expected {expected()}")
    reading = form.read(file, context)
    found = list(_deployments(reading, context.options))
    if not found:
        why = reading.silent or f"starts no engine that preop knows; expected {expected()}"
        raise InputError(f"{file.name}: {why}")
    return found


def _read_quietly(file: File, context: Context, unread: list[str] | None) -> list[Deployment]:
    """A file of a folder: one of no form, and one that starts no engine, is passed over; one that cannot be
    read is not."""
    from preop.deployment.forms import form_of
    from preop.engines.commands import NotServing

    form = form_of(file)
    if form is None:
        return []
    try:
        return list(_deployments(form.read(file, context), context.options))
    except NotServing:
        return []
    except InputError as error:
        if unread is None:
            raise
        unread.append(str(error))
        return []


def _nothing_in(target: _Target) -> None:
    from preop.deployment.forms import expected

    searched = target.searched
    if searched is not None:
        raise InputError(
            f"{target.name}: nothing here starts an engine that preop knows ({searched.seen:,} files seen); "
            f"expected {expected()}"
        )


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
    """Names of their own: of equal ones in several files each is told apart by its file, of equal ones in one
    file by a number."""
    files: dict[str, set[str]] = {}
    for deployment in found:
        files.setdefault(deployment.name, set()).add(deployment.source.partition(": ")[0])
    taken: set[str] = set()
    unique = []
    for deployment in found:
        own = deployment.name
        if len(files[own]) > 1:
            own = f"{own} ({deployment.source.partition(': ')[0]})"
        name, number = own, 2
        while name in taken:
            name, number = f"{own}-{number}", number + 1
        taken.add(name)
        unique.append(msgspec.structs.replace(deployment, name=name, own_name=deployment.name))
    return unique
