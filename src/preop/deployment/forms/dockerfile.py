"""Dockerfiles and Containerfiles: what the image of their last stage starts.

Source: docs.docker.com, "Dockerfile reference": an ENTRYPOINT takes back the CMD of the stage it is built on;
in the shell form the words go to `/bin/sh -c`, and the shell form of ENTRYPOINT leaves CMD out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from preop.deployment.command import Found, unwrap
from preop.deployment.forms.dockerfile_text import Instruction, instructions, listed, pairs, replaced
from preop.deployment.forms.package_pins import pinned
from preop.deployment.forms.scripts import script_text, through_script
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.tokens import Lines, Token, environment_word
from preop.errors import InputError
from preop.facts import Fact, known, unknown
from preop.secrets import mask_text

__all__ = ["DOCKERFILE"]

_FROM = re.compile(
    r"^[ \t]*FROM[ \t]+(--platform=\S+[ \t]+)?[\w$\"'][^\s]*([ \t]+AS[ \t]+\S+)?[ \t]*$", re.I | re.M
)
_NAMED = re.compile(r"(?i)^(dockerfile|containerfile)([.-].*)?$|\.(dockerfile|containerfile)$")
_COMMENTS = re.compile(r"(?:\s*#[^\n]*\n|\s*ARG[^\n]*\n|\s*\n)*\s*FROM\s", re.I)
_BUILDS = re.compile(r"^\s+build[ \t]*:", re.MULTILINE)
_STAGE = re.compile(r"(?:--platform=\S+\s+)?(\S+)(?:\s+[Aa][Ss]\s+(\S+))?\s*\Z")


def _reads(file: File) -> bool:
    if file.path is not None and _NAMED.search(file.path.name):
        return True
    if file.path is not None and file.path.suffix:
        return False
    return bool(_COMMENTS.match(file.text) and _FROM.search(file.text))


@dataclass(frozen=True)
class _Stage:
    """What is known of an image at the end of a stage."""

    base: Token
    """The image that all of it is built on, from outside this file."""
    environment: Mapping[str, Token] = field(default_factory=dict)
    entrypoint: tuple[Token, ...] | None = None
    """None: the base's own."""
    is_shell_entrypoint: bool = False
    command: tuple[Token, ...] | None = None
    folder: str = "/"
    shell: tuple[str, ...] = ("/bin/sh", "-c")
    copied: tuple[tuple[str, str], ...] = ()
    """Paths inside, and what was copied there, below the folder of the build."""
    texts: Mapping[str, Token] = field(default_factory=dict)
    """Here-documents by their path inside."""
    runs: tuple[tuple[Instruction, Mapping[str, Token]], ...] = ()
    """With the variables that each sees."""


def _read(file: File, context: Context) -> Reading:
    composed = _built_by(file, context)
    if composed is not None:
        return Reading(silent=f"{composed} builds the image and says what it runs")
    stage = _last_stage(file)
    started = _started(file, stage, context)
    if started is None:
        base = mask_text(stage.base.text)
        return Reading(
            silent=f"it builds an image on {base} and names no command (CMD or ENTRYPOINT): what it serves "
            "is said where it is run; expected that compose file, manifest or `docker run`"
        )
    return Reading([started], silent=_silent(stage))


def _built_by(file: File, context: Context) -> str | None:
    """The compose file of the same check, beside the Dockerfile or above it, that builds images."""
    for other in context.files:
        if file.path is None or other.path is None or other is file:
            continue
        if file.path.is_relative_to(other.path.parent) and _BUILDS.search(other.text):
            return other.name
    return None


def _silent(stage: _Stage) -> str:
    words = (token.visible or "..." for token in (*(stage.entrypoint or ()), *(stage.command or ())))
    shown = mask_text(" ".join(words))[:80]
    return f"the image that it builds runs `{shown}`, which starts no engine that preop knows"


def _last_stage(file: File) -> _Stage:
    """The stage that a build without --target ends in."""
    arguments: dict[str, Token] = {}
    outer: dict[str, Token] = {}
    stages: dict[str, _Stage] = {}
    stage: _Stage | None = None
    name, commanded = "", False
    for each in instructions(file.text, file.name):
        if each.keyword == "FROM":
            if stage is not None and name:
                stages[name] = stage
            stage, name = _from(each, outer, stages)
            arguments, commanded = {}, False
            continue
        if each.keyword == "ARG":
            for key, value in pairs(each):
                told = replaced(value, {**outer, **arguments} if stage is None else arguments)
                (outer if stage is None else arguments)[key] = told
            if stage is not None and "=" not in each.text and each.text.strip() in outer:
                arguments[each.text.strip()] = outer[each.text.strip()]
            continue
        if stage is None:
            raise InputError(f"{each.origin}: {each.keyword} before FROM; expected FROM first")
        stage = _after(stage, each, arguments, commanded)
        commanded |= each.keyword == "CMD"
    if stage is None:
        raise InputError(f"{file.name}: no FROM; expected a Dockerfile")
    return stage


def _from(each: Instruction, outer: Mapping[str, Token], stages: Mapping[str, _Stage]) -> tuple[_Stage, str]:
    match = _STAGE.match(each.text)
    if match is None:
        raise InputError(f"{each.origin}: FROM without an image; expected FROM IMAGE")
    begin = match.start(1)
    at = each.at[begin : match.end(1)]
    image = replaced(Token(match[1].strip("\"'"), each.place(at[0]), {}, None, each.place), outer)
    earlier = stages.get(image.text.lower())
    return earlier or _Stage(image), (match[2] or "").lower()


def _after(stage: _Stage, each: Instruction, arguments: Mapping[str, Token], commanded: bool) -> _Stage:
    """The stage after one more instruction."""
    variables = {**arguments, **stage.environment}
    if each.keyword == "ENV":
        own = {name: replaced(value, variables) for name, value in pairs(each)}
        return replace(stage, environment={**stage.environment, **own})
    if each.keyword in ("ENTRYPOINT", "CMD"):
        words = listed(each)
        is_shell = words is None
        if words is None:
            words = [*(Token(word, each.origin) for word in stage.shell), each.token()]
        if each.keyword == "CMD":
            return replace(stage, command=tuple(words))
        command = stage.command if commanded else None
        return replace(stage, entrypoint=tuple(words), is_shell_entrypoint=is_shell, command=command)
    if each.keyword == "SHELL":
        return replace(stage, shell=tuple(word.text for word in listed(each) or ()) or stage.shell)
    if each.keyword == "WORKDIR":
        told = replaced(each.token(), variables)
        folder = str(PurePosixPath(stage.folder) / told.text) if told.visible else "/\x00"
        return replace(stage, folder=folder)
    if each.keyword == "RUN":
        return replace(stage, runs=(*stage.runs, (each, variables)))
    if each.keyword in ("COPY", "ADD"):
        return _copied(stage, each, variables)
    return stage


def _copied(stage: _Stage, each: Instruction, variables: Mapping[str, Token]) -> _Stage:
    words = [word.text for word in listed(each) or ()] or each.text.split()
    options = [word for word in words if word.startswith("--")]
    paths = [replaced(Token(word, each.origin), variables) for word in words if not word.startswith("--")]
    if len(paths) < 2 or any(path.visible is None for path in paths):
        return stage
    *sources, target = (path.text for path in paths)
    inside = str(PurePosixPath(stage.folder) / target)
    is_folder = target.endswith("/") or target in (".", "..") or len(sources) > 1
    if each.documents:
        place = Lines(each.documents[0].text, "")
        texts = dict(stage.texts)
        for document in each.documents:
            path = f"{inside}/{document.name}" if is_folder else inside
            place = Lines(
                document.text, str(each.origin).rpartition(":")[0].rpartition(":")[0], document.line
            )
            at = tuple(range(len(document.text)))
            texts[path] = Token(document.text, place(0), {}, at, place)
        return replace(stage, texts=texts)
    if any(option.startswith("--from") for option in options):
        return stage
    copied = []
    for source in sources:
        name = PurePosixPath(source.rstrip("/")).name
        copied.append((f"{inside}/{name}" if is_folder and name and "*" not in source else inside, source))
        if is_folder:  # a folder's contents, not the folder itself
            copied.append((inside, source))
    return replace(stage, copied=(*stage.copied, *copied))


def _started(file: File, stage: _Stage, context: Context) -> Started | None:
    from preop.engines.images import command_of_image

    base = stage.base
    own = stage.entrypoint
    words = tuple(own or ())
    if not stage.is_shell_entrypoint:
        words += stage.command or ()
    if not words:
        return None
    if own is None and base.visible is not None:
        entry = command_of_image(base.text, context.options.images)
        words = (*(Token(text, base.origin) for text in entry), *words)
    environment = {name: environment_word(name, value) for name, value in stage.environment.items()}
    found = Found(
        tokens=words,
        environment=environment,
        image=base,
        is_built=True,
        own_entrypoint=own is not None,
        folder=file.folder,
        mounts=dict(_mounts(stage, file.folder)),
    )
    commands = unwrap(through_script(found, lambda path: _script(found, stage, path)))
    name = file.path.resolve().parent.name if file.path is not None else ""
    return Started(
        name or "image", f"{file.name}: the image it builds", commands, _facts(stage, commands, file, context)
    )


def _mounts(stage: _Stage, folder: Path | None) -> Iterator[tuple[str, str]]:
    """What was copied from the folder of the build, as if it were mounted."""
    for inside, source in stage.copied:
        here = (folder or Path()) / source.lstrip("/")
        try:
            if folder is not None and here.exists():
                yield inside, str(here.resolve())
        except (OSError, ValueError):
            continue


def _script(found: Found, stage: _Stage, path: str) -> Token | None:
    """The text of a script inside the image: a here-document, or a file that was copied."""
    inside = PurePosixPath(stage.folder) / path
    told = stage.texts.get(str(inside))
    if told is not None:
        return told
    for mounted, here in sorted(found.mounts.items(), key=lambda pair: -len(pair[0])):
        if inside.is_relative_to(mounted):
            path_here = Path(here) / inside.relative_to(mounted)
            shown = path_here.relative_to(Path.cwd()) if path_here.is_relative_to(Path.cwd()) else path_here
            text = script_text(path_here, str(shown))
            if text is not None:
                return text
    return None


def _facts(stage: _Stage, commands: Sequence[Found], file: File, context: Context) -> dict[str, Fact]:
    """The image has no name yet; the version is that of the base unless a RUN line installs another."""
    base = mask_text(stage.base.visible or stage.base.head or "an image that cannot be seen")
    image = unknown(f"it is built here, from {base}", origin=stage.base.origin)
    found = {"image": image, "image_digest": image}
    version = _version(stage, commands, file, context)
    return {**found, "engine_version": version} if version is not None else found


def _version(stage: _Stage, commands: Sequence[Found], file: File, context: Context) -> Fact | None:
    from preop.engines import version_of_image

    engine = _engine(commands)
    if engine is None:
        return None
    base = stage.base
    version = unknown(base.note or "the base image cannot be seen", origin=base.origin)
    if base.visible is not None:
        version = version_of_image(base.text, base.origin, context.options.images)
        if version.is_known:
            version = known(version.value, "user", base.origin, note="by the base image")
    for run, variables in stage.runs:
        told = pinned(engine, run, variables, file.folder)
        version = told if told is not None else version
    return version


def _engine(commands: Sequence[Found]) -> str | None:
    from preop.engines.commands import NotServing

    for each in commands:
        try:
            launch = each.launch("", "")
        except (NotServing, InputError):
            continue
        if launch is not None:
            from preop.engines import identify

            found = identify(launch.words)
            return found.engine if found else None
    return None


DOCKERFILE = Form("a Dockerfile", _reads, _read)
