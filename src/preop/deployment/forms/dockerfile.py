"""Dockerfiles: what the container of the last stage starts.

Source: the Dockerfile reference: ENTRYPOINT and CMD of the last stage or of the stage it is FROM; CMD is
dropped where ENTRYPOINT is set anew; the shell form runs `/bin/sh -c`; ARG before FROM counts in FROM alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from preop.deployment.command import Found, read_text_commands, unwrap
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.tokens import HOLE, Source, Token, environment_word, variable
from preop.facts import Fact, Origin, Word, known, unknown

__all__ = ["DOCKERFILE"]

_NAME = re.compile(r"(?i)(.*\.)?(dockerfile|containerfile)(\..*)?\Z")
_FROM = re.compile(r"(?i)^\s*FROM\s+\S+", re.MULTILINE)
_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)\Z", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-+])([^}]*))?\}|\$(\w+)", re.ASCII)
_PAIR = re.compile(r"""(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|\S*)""")
_PINNED = re.compile(r"(?<![\w-])(vllm|sglang)(?:\[[\w,-]*\])?\s*==\s*([\w.+]+)")
_INSTALLED = re.compile(r"(?<![\w-])(?:pip3?|uv)\b.*\binstall\b.*(?<![\w/.-])(vllm|sglang)(?![\w/.-])")


@dataclass
class _Stage:
    image: Token
    entrypoint: list[Token] | Source | None = None
    command: list[Token] | Source | None = None
    environment: dict[str, Word] = field(default_factory=dict)
    installed: Fact | None = None


def _reads(file: File) -> bool:
    if file.path is None or _NAME.match(file.path.name) or file.path.suffix == "":
        return bool(_FROM.search(file.text)) and "services:" not in file.text
    return False


def _read(file: File, context: Context) -> Reading:
    stages: dict[str, _Stage] = {}
    last: _Stage | None = None
    arguments: dict[str, str] = {}
    for keyword, rest, origin in _instructions(file):
        if keyword == "FROM":
            last = _stage(rest, origin, arguments, stages)
        elif keyword == "ARG" and (match := re.match(r"(\w+)=(.*)", rest)):
            arguments[match[1]] = match[2].strip("\"'")
        elif last is not None:
            _take(last, keyword, rest, origin)
    if last is None:
        return Reading((), silent="it has no FROM")
    name = file.path.parent.resolve().name if file.path is not None else ""
    facts = {"engine_version": last.installed or _version(last.image, context)}
    return Reading([Started(name or "image", file.name, _commands(last, context), facts)])


def _version(image: Token, context: Context) -> Fact:
    """That of the image that this one is made from."""
    from preop.engines.images import version_of_image

    if image.visible is None:
        return unknown(image.note or "the image it is made from cannot be seen", origin=image.origin)
    return version_of_image(image.text, image.origin, context.options.images)


def _instructions(file: File) -> Iterator[tuple[str, str, Origin]]:
    """Keyword, the rest, and the place: lines that end in the escape character go on, comments left out."""
    directive = re.match(r"\s*#\s*escape\s*=\s*(\S)", file.text)
    escape = directive[1] if directive else "\\"
    waiting, begin = "", 0
    heredoc: str | None = None
    for number, line in enumerate(file.text.splitlines(), start=1):
        if heredoc is not None:
            if line.strip() == heredoc:
                heredoc = None
            continue
        if line.lstrip().startswith("#"):
            continue
        begin = begin if waiting else number
        if line.rstrip().endswith(escape):
            waiting += line.rstrip()[:-1] + " "
            continue
        whole, waiting = waiting + line, ""
        match = _INSTRUCTION.match(whole)
        if match is None:
            continue
        yield match[1].upper(), match[2].strip(), Origin("file", f"{file.name}:{begin}:1")
        opened = re.search(r"<<-?\s*[\"']?(\w+)", whole)
        if opened and match[1].upper() in ("RUN", "COPY"):
            heredoc = opened[1]


def _stage(rest: str, origin: Origin, arguments: dict[str, str], stages: dict[str, _Stage]) -> _Stage:
    words = [word for word in rest.split() if not word.startswith("--")]
    base = words[0] if words else ""
    known_stage = stages.get(base.lower())
    if known_stage is not None:
        stage = replace(known_stage, environment=dict(known_stage.environment))
    else:
        stage = _Stage(_filled(base, origin, arguments))
    if len(words) >= 3 and words[1].upper() == "AS":
        stages[words[2].lower()] = stage
    return stage


def _filled(text: str, origin: Origin, values: dict[str, str]) -> Token:
    chars, holes, end = "", {}, 0
    for match in _VARIABLE.finditer(text):
        chars += text[end : match.start()]
        end = match.end()
        name = match[1] or match[4]
        value = values.get(name)
        if value is None and match[2] == "-":
            value = match[3]
        if value is None:
            holes[len(chars)] = variable(name)
            value = HOLE
        chars += value
    return Token(chars + text[end:], origin, holes)


def _take(stage: _Stage, keyword: str, rest: str, origin: Origin) -> None:
    if keyword == "ENTRYPOINT":
        stage.entrypoint, stage.command = _words(rest, origin), None
    elif keyword == "CMD":
        stage.command = _words(rest, origin)
    elif keyword == "ENV":
        for name, value in _PAIR.findall(rest) or [tuple(rest.partition(" ")[::2])]:
            stage.environment[name] = environment_word(name, Token(value.strip("\"'"), origin))
    elif keyword == "RUN":
        pinned = _PINNED.search(rest)
        if pinned:
            stage.installed = known(pinned[2], "user", origin, note=f"{pinned[1]}=={pinned[2]} is installed")
        elif _INSTALLED.search(rest):
            stage.installed = unknown("an engine is installed without its version", origin=origin)


def _words(rest: str, origin: Origin) -> list[Token] | Source:
    """The exec form as words; the shell form as the text that a shell is given."""
    if rest.startswith("["):
        try:
            words = json.loads(rest)
        except ValueError:
            words = None
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return [Token(word, origin) for word in words]
    return Source(rest, lambda at: origin)


def _commands(stage: _Stage, context: Context) -> list[Found]:
    """What the container runs; the image it is made from gives the entrypoint where no other is set."""
    from preop.engines.images import command_of_image

    entrypoint, command = stage.entrypoint, stage.command
    if entrypoint is None:
        base = command_of_image(stage.image.visible or "", context.options.images)
        entrypoint = [Token(word, stage.image.origin) for word in base]
    outer = Found((), stage.environment, image=stage.image, is_built=True, own_entrypoint=True, folder=None)
    if isinstance(entrypoint, Source):
        return read_text_commands(entrypoint, outer)
    if isinstance(command, Source):
        # an entrypoint would be handed `/bin/sh -c ...`, and make of it what it will
        return read_text_commands(command, outer) if not entrypoint else unwrap(outer)
    return unwrap(replace(outer, tokens=(*entrypoint, *(command or ()))))


DOCKERFILE = Form("a Dockerfile", _reads, _read)
