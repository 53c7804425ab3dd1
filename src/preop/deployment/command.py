"""From the words of a command to the engine's own command: wrappers, containers and shells taken off."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from preop.deployment import shell
from preop.deployment.container import CONTAINER_COMMANDS, ContainerRun
from preop.deployment.tokens import HOLE, Source, Token, environment_word, variable
from preop.deployment.types import GpuRequest, Launch, MountedText
from preop.deployment.wrappers import after_wrapper
from preop.errors import InputError
from preop.facts import Origin, Word
from preop.secrets import mask_text

if TYPE_CHECKING:
    from preop.engines.images import ImageRule

__all__ = ["Found", "from_argv", "launches", "read_text_commands", "starts_engine", "unwrap"]

MAX_WRAPPERS = 16

_SHELL_NUMBERS = count(1)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh"})
_QUESTIONS = frozenset({"--version", "--help", "-h", "--list-devices"})
_COMMAND_OPTION = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*\Z")


@dataclass(frozen=True)
class Found:
    """A command on its way to a launch: what is left of it, and what the parts taken off have said."""

    tokens: tuple[Token, ...]
    environment: Mapping[str, Word] = field(default_factory=dict)
    image: Token | None = None
    is_built: bool = False
    """The image is built here: its name states neither a version nor what it starts."""
    own_entrypoint: bool = False
    """The image's entrypoint is replaced, so the image says nothing of the command."""
    gpus: GpuRequest | None = None
    name: str | None = None
    hidden: tuple[str, ...] = ()
    """Why flags or environment may exist that cannot be seen."""
    hidden_environment: tuple[str, ...] = ()
    """Why environment variables, and no flags, may exist that cannot be seen."""
    texts: Mapping[str, MountedText] = field(default_factory=dict)
    """Texts that a container sees as files, by their path inside."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Folders of this machine that a container sees, by their path inside."""
    folder: Path | None = Path()
    """Where relative paths begin; None where that cannot be seen."""
    is_inner: bool = False
    """One of the commands of a shell text: the image's own command does not stand for it."""
    branches: tuple[tuple[int, int], ...] = ()
    """The branches of that shell text in which it stands."""
    shells: tuple[int, ...] = ()
    """The shells around it, by number."""
    ends: tuple[int, ...] = ()
    """Those of them whose place it takes (`exec`): what follows there runs only where this does not."""

    def launch(self, name: str, source: str, rules: Sequence[ImageRule] = ()) -> Launch | None:
        """The launch, or None where no engine that preop knows is started. `rules` are the team's own images.

        An image whose entrypoint is an engine stands for that engine's command. Raises `InputError` where
        two engines are started at once.
        """
        from preop.engines import identify
        from preop.engines.images import command_by_name, command_of_image

        words = _numbered(self.tokens, 0)
        hidden = list(self.hidden)
        if len(words) == 2 and words[1].text in _QUESTIONS:
            return None
        if identify(words) is None:
            if self.image is None or self.is_inner:
                return None
            entry = command_of_image(_repository(self.image), rules)
            is_release = bool(entry) and not self.is_built
            if not entry and not self.own_entrypoint:
                entry = command_by_name(_repository(self.image), words, self.environment)
            if not entry:
                return None
            if not is_release:
                hidden.append("the image's own entrypoint may pass flags that cannot be seen")
            if self.own_entrypoint or (words and _is_script(words[0])):
                what = words[0].text if words and words[0].text is not None else "its entrypoint"
                hidden.append(f"{what} is not read: the flags that it passes on cannot be seen")
                words = []
            else:
                words = _numbered(self.tokens, len(entry))
            words = [Word(text, self.image.origin) for text in entry] + words
        return Launch(
            name=self.name or name,
            source=source,
            words=tuple(words),
            environment=dict(self.environment),
            image=self._image_word(),
            gpus=self.gpus,
            hidden=tuple(dict.fromkeys(hidden)),
            hidden_environment=self.hidden_environment,
            texts=dict(self.texts),
            mounts=self._mounts_here(),
        )

    def _image_word(self) -> Word | None:
        image = self.image
        if image is None:
            return None
        if self.is_built and image.visible is not None:
            why = f"the image {mask_text(image.text)} is built here, and its tag states no version"
            return Word(None, image.origin, why)
        return Word(image.visible, image.origin, image.note)

    def _mounts_here(self) -> dict[str, str]:
        folder = self.folder
        if folder is None:
            return {inside: here for inside, here in self.mounts.items() if here.startswith("/")}
        return {inside: str(folder / _home(here)) for inside, here in self.mounts.items()}


def _home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # `~nobody`
        return Path(path)


def from_argv(argv: Sequence[str]) -> list[Found]:
    """The commands in the words after `preop check --`. One word with blanks in it is a shell text."""
    if not argv or not any(word.strip() for word in argv):
        raise InputError(
            "the command after `--` is empty; expected one such as `vllm serve MODEL --max-model-len 8192`"
        )
    origin = Origin("argument", "the command")
    if len(argv) == 1 and re.search(r"\s", argv[0].strip()):
        return read_text_commands(Source(argv[0], lambda at: origin), Found(()))
    return unwrap(Found(tuple(_typed(word, origin) for word in argv)))


_UNEXPANDED = re.compile(r"(--?[\w.-]+=)?\$(\{)?([A-Za-z_]\w*)(?(2)\})")


def _typed(word: str, origin: Origin) -> Token:
    """A word as the user's shell handed it over. `$EXTRA_ARGS` in it was quoted, or no shell ran: unseen."""
    match = _UNEXPANDED.fullmatch(word)
    if match is None:
        return Token(word, origin)
    hole = variable(match[3], "was not expanded")
    flag = match[1] or ""
    return Token(flag + HOLE, origin, {len(flag): hole}, many=hole.many and not flag)


def read_text_commands(source: Source, outer: Found) -> list[Found]:
    """The commands that a shell text runs. Raises `InputError` where it cannot be read."""
    return _from_shell(source, outer, 0)


def launches(
    found: Sequence[Found], source: str, rules: Sequence[ImageRule] = ()
) -> list[tuple[Launch, Path | None]]:
    """The launch among commands that one shell runs, and where its relative paths begin; none where no
    engine is started. Of commands of which one runs, what they have in common.

    Raises `InputError` where two engines are started at once.
    """
    from preop.engines.commands import NotServing

    started: list[tuple[Found, Launch]] = []
    refused: NotServing | None = None
    for each in found:
        try:
            launch = each.launch("", source, rules)
        except NotServing as error:  # `vllm bench` beside `vllm serve` in one script
            refused = refused or error
            continue
        started += [(each, launch)] if launch else []
    if not started and refused is not None:
        raise refused
    if not started:  # an image of an engine, and a shell text in which nothing names it
        whole = (replace(each, is_inner=False) for each in found if each.is_inner and each.own_entrypoint)
        started = [(each, launch) for each in whole if (launch := each.launch("", source, rules))][:1]
    if len(started) > 1:
        one = _one_of([launch for _, launch in started]) if _only_one_runs([f for f, _ in started]) else None
        if one is None:
            places = " and ".join(_begin(launch) for _, launch in started[:2])
            raise InputError(f"{source}: starts two engines at once: {places}; expected one")
        return [(one, started[0][0].folder)]
    return [(launch, each.folder) for each, launch in started]


def _only_one_runs(found: Sequence[Found]) -> bool:
    """Whether each of the commands keeps those after it from running."""
    for at, first in enumerate(found):
        for second in found[at + 1 :]:
            apart = any(
                block == other and branch != way
                for block, branch in first.branches
                for other, way in second.branches
            )
            if not apart and not set(first.ends) & set(second.shells):
                return False
    return True


def _one_of(launches: Sequence[Launch]) -> Launch | None:
    """What is sure where one of several commands runs: the engine, and the words in which all of them end.
    The words before may set anything. None where they start different engines."""
    from preop.engines import identify

    found = [identify(launch.words) for launch in launches]
    first, words = launches[0], launches[0].words
    if any(each is None or found[0] is None or each.engine != found[0].engine for each in found):
        return None
    at = found[0].arguments_at if found[0] else 0
    texts = [[(word.text, word.note) for word in launch.words] for launch in launches]
    if all(each == texts[0] for each in texts):
        return first
    most = min(
        len(each) - (start.arguments_at if start else 0) for each, start in zip(texts, found, strict=True)
    )
    same = 0
    while same < most and len({each[-1 - same] for each in texts}) == 1:
        same += 1
    why = f"which of {len(launches)} commands runs cannot be seen"
    unseen = Word(None, words[0].origin, why)
    return msgspec.structs.replace(first, words=(*words[:at], unseen, *words[len(words) - same :]))


def _begin(launch: Launch) -> str:
    words = " ".join(mask_text(word.text or "...") for word in launch.words[:3])
    place = launch.words[0].origin
    return f"`{words}`" + (f" ({place})" if place.kind == "file" else "")


def unwrap(found: Found, depth: int = 0) -> list[Found]:
    """Take off wrappers until the engine's own command is left: several where a shell runs several.

    Raises `InputError` on nesting without end.
    """
    while found.tokens:
        found = replace(found, tokens=(_program(found.tokens[0]), *found.tokens[1:]))
        if depth > MAX_WRAPPERS:
            raise InputError(
                f"more than {MAX_WRAPPERS} wrappers around a command; expected the engine's command"
            )
        depth += 1
        first = found.tokens[0]
        assigned = first.assignment()
        name = PurePosixPath(first.visible or "").name.removesuffix(".exe")
        if assigned:
            depth -= 1  # any number of assignments
            found = _assign(found, *assigned, rest=found.tokens[1:])
        elif name == "env":
            found = _env(found)
        elif name == "eval":
            return _from_shell(_joined(found.tokens[1:]), found, depth)
        elif name in _SHELLS and (script := _shell_script(found.tokens)) is not None:
            return _from_shell(script[0].source(), found, depth, script[1])
        elif name in CONTAINER_COMMANDS:
            inside = _container(found)
            if inside is None:
                break
            found = inside
        elif name == "command" and found.tokens[1:2] and found.tokens[1].text in ("-v", "-V"):
            return []  # it asks whether a program is there
        elif (rest := after_wrapper(name, found.tokens)) is not None:
            found = replace(found, tokens=rest)
        elif (inner := _behind_script(found)) is not None:
            found = inner
        else:
            break
    return [found]


def _program(token: Token) -> Token:
    """A program of which only the folder cannot be seen: `${LLAMA_DIR}/bin/llama-server`, by its name."""
    slash = token.text.rfind("/")
    tail = token.text[slash + 1 :]
    if not token.holes or slash < max(token.holes) or not tail or token.assignment() is not None:
        return token
    return Token(tail, token.origin)


def starts_engine(tokens: Sequence[Token]) -> bool:
    """Whether the words start an engine, wrappers taken off. Raises `InputError` as `unwrap` does."""
    from preop.engines import identify

    return any(identify(_numbered(each.tokens, 0)) for each in unwrap(Found(tuple(tokens))))


def _from_shell(source: Source, outer: Found, depth: int, arguments: Sequence[Token] = ()) -> list[Found]:
    found = []
    unseen = next(iter((*outer.hidden, *outer.hidden_environment)), None)
    number = next(_SHELL_NUMBERS)
    for command in shell.commands(source, outer.environment, unseen, arguments):
        exported = {name: environment_word(name, value) for name, value in command.exported.items()}
        if command.words[0].visible in ("cd", "pushd") and len(command.words) > 1:
            outer = replace(outer, folder=_changed(outer.folder, command.words[1]))
            continue
        inner = replace(
            outer,
            tokens=command.words,
            environment={**outer.environment, **exported},
            is_inner=True,
            branches=(*outer.branches, *command.branches),
            shells=(*outer.shells, number),
            ends=(*outer.ends, number) if command.ends_shell else outer.ends,
        )
        found += unwrap(inner, depth)
    return found


def _behind_script(found: Found) -> Found | None:
    """The engine's command that a script is handed: `bash /entrypoint.sh vllm serve ...`."""
    at = 0
    if PurePosixPath(found.tokens[0].visible or "").name in _SHELLS:
        at = next((i for i, token in enumerate(found.tokens) if i and not token.head.startswith("-")), 0)
    script, rest = found.tokens[at], found.tokens[at + 1 :]
    name = PurePosixPath(script.visible or "").name
    if not (name.endswith(".sh") or "entrypoint" in name) or not starts_engine(rest):
        return None
    why = f"{script.text} is not read: it may change the command that it is given"
    return replace(found, tokens=rest, hidden=(*found.hidden, why))


def _joined(tokens: Sequence[Token]) -> Source:
    """The words as one text, as `eval` joins them."""
    text, holes, places = "", {}, []
    for token in tokens:
        source = token.source()
        holes.update({len(text) + index: hole for index, hole in source.holes.items()})
        places += [source.place(index) for index in range(len(source.text))] + [token.origin]
        text += f"{source.text} "
    return Source(
        text, lambda at: places[min(at, len(places) - 1)] if places else Origin("argument", "eval"), holes
    )


def _changed(folder: Path | None, into: Token) -> Path | None:
    """The folder after `cd`."""
    if into.visible is None or (folder is None and not into.text.startswith(("/", "~"))):
        return None
    return (folder or Path()) / _home(into.text)


def _assign(found: Found, name: str, value: Token, rest: Sequence[Token]) -> Found:
    return replace(
        found, tokens=tuple(rest), environment={**found.environment, name: environment_word(name, value)}
    )


def _env(found: Found) -> Found:
    """`env [-i] [-u NAME] [-S STRING] [NAME=value...] command`."""
    tokens = list(found.tokens[1:])
    while tokens:
        text = tokens[0].head
        assigned = tokens[0].assignment()
        if assigned:
            found = _assign(found, *assigned, rest=tokens)
            tokens.pop(0)
        elif text in ("-i", "-", "--ignore-environment"):
            found = replace(found, environment={})
            tokens.pop(0)
        elif text in ("-u", "--unset", "-C", "--chdir"):
            if text in ("-u", "--unset") and len(tokens) > 1:
                kept = {key: word for key, word in found.environment.items() if key != tokens[1].text}
                found = replace(found, environment=kept)
            del tokens[:2]
        elif text in ("-S", "--split-string") and len(tokens) > 1:
            tokens[:2] = shell.words(tokens[1].source())
        elif text == "--":
            tokens.pop(0)
            break
        elif text.startswith("-"):
            tokens.pop(0)
        else:
            break
    return replace(found, tokens=tuple(tokens))


def _shell_script(tokens: Sequence[Token]) -> tuple[Token, Sequence[Token]] | None:
    """What `sh -c` is given: the text, and the arguments behind its name; None where there is no `-c`."""
    i = 1
    while i < len(tokens) and tokens[i].head.startswith(("-", "+")):
        text = tokens[i].text
        if _COMMAND_OPTION.match(text):
            i += 1
            while i < len(tokens) and tokens[i].head.startswith("-"):
                i += 2 if tokens[i].text in ("-o", "-O") else 1
            return (tokens[i], tokens[i + 2 :]) if i < len(tokens) else None
        # the letter o at the end of a cluster takes a name: `bash -euo pipefail -c ...`
        i += 2 if re.fullmatch(r"[-+][a-zA-Z]*[oO]", text) or text in ("--rcfile", "--init-file") else 1
    return None


def _container(found: Found) -> Found | None:
    """What `docker run` or `docker exec` runs inside; None where it is another subcommand."""
    run = ContainerRun(found.tokens, found.folder)
    if not run.is_run:
        return None
    # a container starts from its own environment, not from the one around `docker run`
    return Found(
        tokens=run.tokens,
        environment=run.environment,
        image=run.image,
        own_entrypoint=run.entrypoint is not None,
        gpus=run.gpus or found.gpus,
        name=run.name or found.name,
        hidden=(*found.hidden, *run.hidden),
        mounts=run.mounts,
        folder=found.folder,
    )


def _repository(image: Token) -> str:
    """The image up to what cannot be seen of its last part: `${REGISTRY}/vllm-openai` is still a name."""
    slash = image.text.rfind("/")
    unseen = [at for at in image.holes if at > slash]
    return image.text[: min(unseen)].rstrip(":@") if unseen else image.text


def _is_script(word: Word) -> bool:
    """Whether the first word is a script or a shell rather than a flag or a model."""
    text = word.text or ""
    return PurePosixPath(text).name in _SHELLS or text.endswith(".sh")


def _numbered(tokens: Sequence[Token], start: int) -> list[Word]:
    """The words of a command. Places of typed ones are counted from the engine's command, which is 0;
    `start` is how many words stand before."""
    words: list[Word] = []
    flag = ""
    for index, token in enumerate(tokens, start):
        if re.match(r"--?[A-Za-z]", token.head):
            flag = token.head.partition("=")[0]
        named = f", {flag}" if flag else ""
        typed = Origin("argument", f"argument {index}{named}")
        for word in token.words():
            is_typed = word.origin.kind == "argument"
            words.append(msgspec.structs.replace(word, origin=typed) if is_typed else word)
        if not token.head.startswith("-") or "=" in token.head:
            flag = ""
    return words
