"""systemd service units, with the drop-ins beside them, and Quadlet's `.container` units.

Source: systemd.service(5), systemd.exec(5), systemd.syntax(7), podman-systemd.unit(5). An empty assignment
takes back what stood before; drop-ins are laid over in the order of their names; several `ExecStart=` are for
`Type=oneshot` alone; `$NAME` as a word of its own is cut at blanks, `${NAME}` is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from preop.deployment.command import Found, unwrap
from preop.deployment.environment import lay_over, parse_env, read_text
from preop.deployment.forms.scripts import script_text, through_script
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.forms.unit_words import Unit, Value, assignments, exec_words, expanded, values_of
from preop.deployment.tokens import Hole, Token, environment_word, unseen_token
from preop.errors import InputError
from preop.facts import Note, Word
from preop.secrets import mask_text

__all__ = ["SYSTEMD"]

_SECTION = re.compile(r"^\[(Service|Container)\][ \t]*$", re.MULTILINE)
_STARTS = re.compile(r"^(ExecStart|Image)[ \t]*=", re.MULTILINE)
_EXEC_PREFIX = re.compile(r"[-@:+!|]+")
_MAX_DROP_INS = 64


def _reads(file: File) -> bool:
    if file.path is not None and (file.path.suffix in (".service", ".container") or _is_drop_in(file.path)):
        return True
    return bool(_SECTION.search(file.text) and _STARTS.search(file.text))


def _read(file: File, context: Context) -> Reading:
    if file.path is not None and _is_drop_in(file.path):
        unit = file.path.parent.name.removesuffix(".d")
        raise InputError(
            f"{file.name}: a drop-in of {unit}; expected that unit: it is read with its drop-ins"
        )
    values = values_of(file.text, file.name)
    once: list[Note] = []
    for path in _drop_ins(file.path):
        text = read_text(path, "a drop-in of a unit", may_be_empty=True)
        values += values_of(text, str(path))
        once.append(Note("other", f"{path.name} is laid over {file.path.name if file.path else file.name}"))
    named = Unit(file.path.name if file.path is not None else "")
    section = "Container" if any(value.section == "Container" for value in values) else "Service"
    own = _Section([value for value in values if value.section == section])
    read = _container if section == "Container" else _service
    return replace(read(file, own, named), once=once)


def _is_drop_in(path: Path) -> bool:
    return path.suffix == ".conf" and path.parent.name.endswith((".service.d", ".container.d"))


def _drop_ins(path: Path | None) -> list[Path]:
    """The files of `x.service.d` beside `x.service`; of `x@y.service` those of the template first, of which
    one of the same name in the instance's own folder takes the place."""
    if path is None:
        return []
    stem, at, _ = path.stem.partition("@")
    folders = [path.with_name(f"{stem}@{path.suffix}.d")] if at else []
    folders.append(path.with_name(f"{path.name}.d"))
    found: dict[str, Path] = {}
    for folder in folders:
        try:
            found |= {each.name: each for each in folder.iterdir() if each.suffix == ".conf"}
        except OSError:
            continue
    return [found[name] for name in sorted(found)][:_MAX_DROP_INS]


@dataclass(frozen=True)
class _Section:
    values: list[Value]

    def all(self, key: str) -> list[Value]:
        """The assignments that count: those after the last empty one."""
        found: list[Value] = []
        for value in self.values:
            if value.key == key:
                found = [*found, value] if value.text.strip() else []
        return found

    def last(self, key: str) -> Value | None:
        """Of a key that holds one value."""
        found = [value for value in self.values if value.key == key]
        return found[-1] if found and found[-1].text.strip() else None


def _environment(section: _Section, unit: Unit, folder: Path | None) -> tuple[dict[str, Word], list[str]]:
    """The variables, and why there may be more: a file wins over `Environment=`, a later one over it."""
    found: dict[str, Word] = {}
    unseen: list[str] = []
    for value in section.all("Environment"):
        found |= {name: environment_word(name, word) for name, word in assignments(value, unit)}
    for value in section.all("PassEnvironment"):
        for name in value.text.split():
            found.setdefault(name, Word(None, value.origin, f"{name} comes from systemd's own environment"))
    for value in section.all("EnvironmentFile"):
        (path, *_) = [*exec_words(value, unit), unseen_token("no path", value.origin)]
        words, why = _environment_file(path, folder)
        found = lay_over(found, words, why)  # it wins over `Environment=` as well
        unseen += why
    return found, unseen


def _environment_file(path: Token, folder: Path | None) -> tuple[dict[str, Word], list[str]]:
    if path.text.startswith("-"):
        path = path.after(1)
    if path.visible is None:
        return {}, [f"an environment file cannot be seen: {path.note}"]
    at = Path(path.text) if folder is None else folder / path.text
    try:
        is_here = at.is_absolute() and at.is_file()
    except (OSError, ValueError):
        is_here = False
    if not is_here and not (folder is not None and at.is_file()):
        return {}, [f"environment file {path.text} is not here"]
    text = read_text(at, "an environment file", may_be_empty=True)
    found = parse_env(re.sub(r"\\\r?\n", "", text), path.text, quotes=True, systemd=True)
    return {name: environment_word(name, value) for name, value in found.items()}, []


def _service(file: File, section: _Section, unit: Unit) -> Reading:
    starts = section.all("ExecStart")
    kind = section.last("Type")
    if len(starts) > 1 and (kind is None or kind.text.strip() != "oneshot"):
        raise InputError(
            f"{starts[1].origin}: a second ExecStart=, which systemd takes for Type=oneshot alone; "
            "expected one, or an empty `ExecStart=` before the one that replaces it"
        )
    if not starts:
        return Reading(silent="a unit without ExecStart=: it starts nothing")
    environment, unseen = _environment(section, unit, None)
    commands: list[Found] = []
    for start in starts:
        for words in _commands(exec_words(start, unit)):
            tokens = _executable(words, environment, unseen)
            found = Found(
                tokens=tokens,
                environment=environment,
                hidden_environment=tuple(unseen),
                folder=_folder(section.last("WorkingDirectory"), unit),
            )
            commands += unwrap(through_script(found, _script))
    started = Started(unit.name, f"{file.name}: unit {unit.name or 'service'}", commands)
    told = mask_text(starts[-1].text)[:80]
    return Reading([started], silent=f"its ExecStart runs `{told}`, which starts no engine that preop knows")


def _script(path: str) -> Token | None:
    """The script where it is on this machine: systemd wants the whole path."""
    return script_text(Path(path), path) if path.startswith("/") else None


def _commands(words: list[Token]) -> Iterator[list[Token]]:
    """The command lines of one `ExecStart=`: a `;` as a word of its own parts them."""
    part: list[Token] = []
    for word in words:
        if word.visible == ";":
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _executable(words: list[Token], environment: Mapping[str, Word], unseen: list[str]) -> tuple[Token, ...]:
    """The words with what stands before the program's path taken off, and variables put in place."""
    if not words:
        return ()
    prefix = _EXEC_PREFIX.match(words[0].text)
    signs = prefix[0] if prefix else ""
    words = [words[0].after(len(signs)), *words[1:]]
    if "@" in signs:  # the next word is what the program sees as its own name
        words = [words[0], *words[2:]]
    if ":" in signs:
        return tuple(words)
    return (words[0], *(each for word in words[1:] for each in expanded(word, environment, unseen)))


def _folder(value: Value | None, unit: Unit) -> Path | None:
    """Where relative paths begin: systemd's own is `/`."""
    if value is None:
        return Path("/")
    text = value.text.strip().removeprefix("-")
    return Path(text) if text.startswith("/") and "%" not in text else None


# --- Quadlet

_RUN_OPTIONS = (("Volume", "--volume"), ("AddDevice", "--device"), ("EnvironmentFile", "--env-file"))


def _container(file: File, section: _Section, unit: Unit) -> Reading:
    """A `.container` unit is the `podman run` that Quadlet writes of it."""
    image = section.last("Image")
    if image is None:
        raise InputError(f"{file.name}: a [Container] without Image=; expected the image to run")
    name = next(iter(exec_words(image, unit)), unseen_token("the image is not stated", image.origin))
    is_built = name.text.endswith((".build", ".image"))
    if is_built:
        name = unseen_token(Hole(f"the image is what {name.text} says"), image.origin)
    words = [Token(text, image.origin) for text in ("podman", "run")]
    for value in section.all("Environment"):
        for key, word in assignments(value, unit):
            words += [Token("--env", value.origin), _joined(key, word)]
    for key, option in _RUN_OPTIONS:
        for value in section.all(key):
            for word in exec_words(value, unit):
                words += [Token(option, value.origin), word]
    entry = section.last("Entrypoint")
    if entry is not None:
        words += [Token("--entrypoint", entry.origin), *exec_words(entry, unit)[:1]]
    for value in section.all("PodmanArgs"):
        words += exec_words(value, unit)
    words.append(name)
    command = section.last("Exec")
    if command is not None:
        words += [each for word in exec_words(command, unit) for each in expanded(word, {}, [])]
    commands = unwrap(Found(tuple(words), folder=file.folder))
    return Reading([Started(unit.name, f"{file.name}: unit {unit.name or 'container'}", commands)])


def _joined(name: str, value: Token) -> Token:
    shift = len(name) + 1
    holes = {index + shift: hole for index, hole in value.holes.items()}
    return Token(f"{name}={value.text}", value.origin, holes)


SYSTEMD = Form("a systemd unit", _reads, _read)
