"""Files, folders and standard input: which form each is of, and what it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from preop.deployment.environment import MAX_BYTES, decoded, read_text
from preop.deployment.forms import Context, File, Reading, Started, expected, form_of
from preop.deployment.forms.refused import what_it_is
from preop.deployment.options import STANDARD_INPUT, ReadOptions
from preop.deployment.search import MAX_FILES, Search, may_serve, search
from preop.deployment.types import Deployment
from preop.deployment.unbuilt import Kustomizations, chart_serves
from preop.errors import InputError

__all__ = ["read_files"]

Say = Callable[[str], None]

_SHOWN = 3


@dataclass
class _Target:
    """One thing that the user named: a file, or a folder with what was found in it."""

    name: str
    path: Path
    files: list[File] = field(default_factory=list)
    searched: Search | None = None
    unread: list[str] = field(default_factory=list)
    silent: str | None = None
    """Why the file starts nothing, where others may refer to what it holds."""

    def shown(self, path: Path) -> str:
        """A path below it as the user would write it."""
        return str(Path(self.name) / path.relative_to(self.path))


def read_files(
    names: Sequence[str], options: ReadOptions, progress: Say, message: Say, unread: list[str] | None
) -> list[Deployment]:
    """The deployments of `preop.deployment.read.read_targets` without the command."""
    if names.count(STANDARD_INPUT) > 1:
        raise InputError("-: standard input is given twice; it can be read once")
    targets = _targets(names, options, message)
    context = Context(options, [file for target in targets for file in target.files])
    found: list[tuple[_Target, File, list[Deployment]]] = []
    parts: set[Path] = set()
    bases: set[Path] = set()
    judged = 0
    for target in targets:
        for file in target.files:
            if len(context.files) > 1:
                progress(f"{len(found) + 1:,} of {len(context.files):,} files, {judged:,} deployments")
            reading, own = _read(file, context, target)
            found.append((target, file, own))
            judged += len(own)
            parts.update(path.resolve() for path in reading.parts if path != file.path)
            bases.update(path.resolve() for path in reading.bases)
    silent = next((target.silent for target in targets if target.silent), None)
    if silent is not None and not judged:  # named for the sake of others, and there are none
        raise InputError(silent)
    kept = []
    for target, file, own in found:
        real = file.path.resolve() if file.path is not None else None
        is_part = real in parts or (target.searched is not None and real in bases)
        kept.append((target, file, [] if is_part else own))
    for target in targets:
        if target.searched is not None:
            own = [each for owner, _, found_there in kept if owner is target for each in found_there]
            folders = {
                file.path.parent for owner, file, there in kept if owner is target and there and file.path
            }
            target.unread += _charts(target, folders)
            _say(target, bool(own), unread)
    return [deployment for _, _, own in kept for deployment in own]


def _say(target: _Target, found: bool, unread: list[str] | None) -> None:
    """Hand on what could not be read. Raises `InputError` where nothing else is there."""
    assert target.searched is not None
    if target.unread and (unread is None or not found):
        more = f" (and {len(target.unread) - 1:,} more)" if len(target.unread) > 1 else ""
        raise InputError(f"{target.unread[0]}{more}")
    if unread is not None:
        unread += target.unread
    if not found:
        seen = f"{target.searched.seen:,} file{'' if target.searched.seen == 1 else 's'} seen"
        raise InputError(
            f"{target.name}: nothing here starts an engine that preop knows ({seen}); expected {expected()}"
        )


# targets


def _targets(names: Sequence[str], options: ReadOptions, message: Say) -> list[_Target]:
    """Each with its files; what is named by itself is not met by a search again."""
    targets: list[_Target] = []
    met: set[Path] = set()
    paths = [Path(name) if options.root is None else options.root / name for name in names]
    for name, path in zip(names, paths, strict=True):
        if name == STANDARD_INPUT:
            targets.append(_Target(name, path, [File("standard input", _standard_input(), None)]))
        elif not _is_folder(path):
            targets.append(_Target(name, path, [File(name, read_text(path, expected()), path)]))
            met.add(path.resolve())
        else:
            targets.append(_Target(name, path, [], search(path, options.exclude)))
    for target in targets:
        if target.searched is not None:
            _fill(target, met, options, message)
    return targets


def _fill(target: _Target, met: set[Path], options: ReadOptions, message: Say) -> None:
    """The texts of a folder that may serve or are referred to."""
    searched = target.searched
    assert searched is not None
    target.unread += searched.unreadable
    if searched.too_many:
        target.unread.append(f"{target.name}: more than {MAX_FILES:,} files; the search stopped there")
    texts: list[File] = []
    no_text: list[str] = []
    for path in searched.files:
        if (real := path.resolve()) in met:
            continue
        met.add(real)
        shown = target.shown(path)
        try:
            texts.append(File(shown, read_text(path, "a deployment", may_be_empty=True), path))
        except InputError as error:
            if _is_no_text(path):
                no_text.append(shown)
            else:
                target.unread.append(str(error))
    built = Kustomizations(texts)
    target.unread += built.said
    left_out = built.files | built.patches | built.covered
    for file in texts:
        if file.path is not None and file.path.resolve() in left_out:
            continue
        if may_serve(file.text, options.images) or file.may_be_referred_to:
            target.files.append(file)
    if no_text:
        more = f" and {len(no_text) - _SHOWN:,} more" if len(no_text) > _SHOWN else ""
        message(f"passed over, too large or no text: {', '.join(no_text[:_SHOWN])}{more}")


def _is_no_text(path: Path) -> bool:
    """Whether a file that could not be read holds data, and is not merely gone, forbidden or UTF-16."""
    try:
        with path.open("rb") as file:
            return file.read(2) not in (b"\xff\xfe", b"\xfe\xff")
    except OSError:
        return False


def _charts(target: _Target, judged: set[Path]) -> Iterator[str]:
    """A sentence for each chart that starts an engine and of which no values are judged."""
    assert target.searched is not None
    for chart, templates in target.searched.charts.items():
        values = [file for file in target.files if file.path is not None and file.path.parent == chart]
        if chart not in judged and chart_serves(templates, values):
            shown = target.shown(chart)
            yield f"{shown}: a Helm chart; render it first: helm template {shown} -f VALUES | preop check -"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _standard_input() -> str:
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("-: standard input is closed; expected a pipe: helm template CHART | preop check -")
    if sys.stdin.isatty():
        raise InputError(
            "-: standard input is a terminal; expected a pipe: helm template CHART | preop check -"
        )
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"-: standard input cannot be read: {error.strerror or error}") from None
    return decoded("standard input", data, expected())


# one file


def _read(file: File, context: Context, target: _Target) -> tuple[Reading, list[Deployment]]:
    """What the file says, and its deployments.

    One of a folder that is of no form, or starts no engine, is passed over, and one that cannot be read is
    noted in `target.unread`. Raises `InputError` for one that the user named.
    """
    form = form_of(file)
    if target.searched is not None:
        from preop.engines.commands import NotServing

        try:
            if form is not None and may_serve(file.text, context.options.images):
                reading = form.read(file, context)
                target.unread += reading.unread
                return reading, list(_deployments(reading, context.options))
        except NotServing:
            pass
        except InputError as error:
            target.unread.append(str(error))
        return Reading(), []
    if form is None:
        raise InputError(f"{file.name}: {what_it_is(file)}; expected {expected()}")
    reading = form.read(file, context)
    found = list(_deployments(reading, context.options))
    if not found:
        why = reading.silent or f"starts no engine that preop knows; expected {expected()}"
        target.silent = f"{file.name}: {why}"
        if not file.may_be_referred_to:
            raise InputError(target.silent)
    return reading, found


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
