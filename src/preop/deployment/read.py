"""What a user hands to `preop check`, as deployments.

targets -> files -> the form of each -> what it starts -> launches -> deployments
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from preop.deployment.options import STANDARD_INPUT, ReadOptions
from preop.deployment.types import Deployment
from preop.errors import InputError

__all__ = ["STANDARD_INPUT", "ReadOptions", "read_targets"]

Say = Callable[[str], None]


def read_targets(
    paths: Sequence[str],
    command: Sequence[str] | None,
    options: ReadOptions,
    *,
    progress: Say = lambda line: None,
    message: Say = lambda line: None,
    unread: list[str] | None = None,
) -> list[Deployment]:
    """The deployments in files, folders and the command after `--`, in the order given; names are unique.

    `-` is standard input; a folder is searched (`preop.deployment.search`). `progress` takes one short line
    that replaces the one before, `message` a line about files of a folder that are no text. `unread` takes a
    sentence for each thing in a folder that looks like a deployment and cannot be read, or has to be built
    first; where it is None the first of them is raised. Raises `InputError` with one sentence where a file
    is none that preop reads, or starts no engine, or where nothing in a folder does.
    """
    found: list[Deployment] = []
    if paths:
        from preop.deployment.targets import read_files

        found += read_files(paths, options, progress, message, unread)
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


def _unique(found: list[Deployment]) -> list[Deployment]:
    """Names of their own: of equal ones in several files each is told apart by its file, of equal ones in one
    file by a number."""
    files: dict[str, set[str]] = {}
    for deployment in found:
        files.setdefault(deployment.name, set()).add(_file_of(deployment))
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    unique = []
    for deployment in found:
        own = deployment.name
        if len(files[own]) > 1:
            own = f"{own} ({_file_of(deployment)})"
        name = own
        while name in taken:
            numbers[own] = numbers.get(own, 1) + 1
            name = f"{own}-{numbers[own]}"
        taken.add(name)
        unique.append(msgspec.structs.replace(deployment, name=name, own_name=deployment.name))
    return unique


def _file_of(deployment: Deployment) -> str:
    return deployment.source.partition(": ")[0]
