"""The files that make up one compose project: what is laid over the first, extended and included.

As `docker compose up` takes them: the files that COMPOSE_FILE names, else the override that lies beside a
file of a default name; then `include`, each with its own folder and variables. Source: the Compose
Specification ("Merge", "Extend", "Include") and Docker's "Merge Compose files".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from preop.deployment.environment import parse_env, read_text
from preop.deployment.forms.compose_merge import lay_over
from preop.deployment.forms.types import File
from preop.deployment.interpolate import interpolate
from preop.deployment.yaml_nodes import Map, Node, Scalar, Seq, load
from preop.errors import InputError

__all__ = ["Project", "load_project", "mapping"]

MAX_EXTENDS = 64
MAX_FILES = 200
_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
_OVERRIDES = (
    *("compose.override.yml", "compose.override.yaml"),
    *("docker-compose.override.yml", "docker-compose.override.yaml"),
)


@dataclass
class Project:
    """Files that are merged into one application, and what they include."""

    variables: Mapping[str, str]
    """What `${NAME}` stands for."""
    folder: Path | None
    """Where relative paths begin; None where that cannot be seen."""
    services: dict[str, Map] = field(default_factory=dict)
    """By name, with what they extend."""
    configs: Map | None = None
    hidden: dict[str, list[str]] = field(default_factory=dict)
    """By service: why some of it may not be seen."""
    unseen: list[str] = field(default_factory=list)
    """Why there may be services that are not seen."""
    included: list[Project] = field(default_factory=list)
    parts: list[Path] = field(default_factory=list)
    """Files that belong to it besides the first: laid over it, or included."""
    bases: list[Path] = field(default_factory=list)
    """Files of which services are extended."""
    folders: dict[str, Path] = field(default_factory=dict)
    """Where the paths begin that stand in a file that is extended, by that file's name."""

    def folder_of(self, node: Node) -> Path | None:
        """Where a relative path begins that stands there."""
        return self.folders.get(node.file, self.folder)

    def all(self) -> Iterator[Project]:
        """It and those that it includes, all the way down."""
        yield self
        for each in self.included:
            yield from each.all()


@dataclass(frozen=True)
class _File:
    """A compose file of the project: its services' mapping, where it is, and how it is shown."""

    document: Map
    path: Path | None
    shown: str


def load_project(file: File, environment: Mapping[str, str], here: Path) -> Project:
    """The project of a compose file, the first document of which is a mapping.

    Variables come from the `.env` beside it, and over it from `environment`, as compose takes them. `here`:
    where paths in `environment` begin. Raises `InputError`, with the place, on what compose would refuse.
    """
    document = mapping(file.documents[0] if file.documents else None, file.name)
    first = _File(document, file.path, file.name)
    variables = {**_dotenv(file.folder, {}, environment), **environment}
    loader = _Loader(environment)
    files = loader.files(first, variables, here)
    return loader.load(files, file.folder, variables, ())


def _dotenv(folder: Path | None, below: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    return _variables([folder / ".env"], below, over) if folder and _is_file(folder / ".env") else {}


def _variables(paths: Sequence[Path], below: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """The variables of environment files that can be told, later ones first."""
    found: dict[str, str] = {}
    for path in paths:
        text = read_text(path, "an environment file", may_be_empty=True)
        known = {**below, **found, **over}
        for name, value in parse_env(text, str(path), quotes=True, variables=known).items():
            if value.holes:
                found.pop(name, None)
            else:
                found[name] = value.text
    return found


class _Loader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._files: dict[Path, _File] = {}
        self._projects = 0

    def files(self, first: _File, variables: Mapping[str, str], here: Path) -> list[_File]:
        """The files that `docker compose up` merges where the first is given."""
        path = first.path
        if path is None:
            return [first]
        listed = variables.get("COMPOSE_FILE", "")
        folder = here if "COMPOSE_FILE" in self._environment else path.parent
        names = [name for name in listed.split(variables.get("COMPOSE_PATH_SEPARATOR") or os.pathsep) if name]
        paths = [folder / name for name in names]
        if any(_is_same(each, path) for each in paths):
            return [
                first if _is_same(each, path) else self._file(each, _beside(first, each), "COMPOSE_FILE")
                for each in paths
            ]
        if path.name in _NAMES:
            for name in _OVERRIDES:
                if _is_file(path.with_name(name)):
                    over = path.with_name(name)
                    return [first, self._file(over, _beside(first, over), first.shown)]
        return [first]

    def load(
        self,
        files: Sequence[_File],
        folder: Path | None,
        variables: Mapping[str, str],
        trail: tuple[Path, ...],
    ) -> Project:
        """The files merged, and what they include."""
        project = Project(variables, folder)
        self._projects += 1
        if self._projects > MAX_FILES:
            raise InputError(f"{files[0].shown}: more than {MAX_FILES} files are included")
        merged: Map | None = None
        for file in files:
            own = self._with_bases(file, project, merged)
            merged = own if merged is None else lay_over(merged, own)
            if file is not files[0] and file.path is not None:
                project.parts.append(file.path)
        assert merged is not None
        services = merged.get("services")
        if services is not None or merged.get("include") is None:
            project.services = {
                name: mapping(node, f"service {name}") for name, node in mapping(services, "services").items()
            }
        configs = merged.get("configs")
        project.configs = configs if isinstance(configs, Map) else None
        for item in _items(merged.get("include")):
            self._include(item, files[0], project, trail)
        return project

    # extends

    def _with_bases(self, file: _File, project: Project, before: Map | None) -> Map:
        """The document with every service laid over those that it extends."""
        node = file.document.get("services")
        if node is None:
            return file.document
        services = mapping(node, "services")
        below = before.get("services") if before is not None else None
        known = {**(below.entries if isinstance(below, Map) else {}), **services.entries}
        entries = dict(services.entries)
        for name, (key, value) in services.entries.items():
            if isinstance(value, Map) and value.tag != "!reset" and value.get("extends") is not None:
                hidden: list[str] = []
                entries[name] = (key, self._extended(name, known, file, project, (), hidden))
                project.hidden.setdefault(name, []).extend(hidden)
        whole = Map(services.file, services.line, services.column, entries, tag=services.tag)
        key = file.document.entries["services"][0]
        document = file.document
        return Map(
            document.file,
            document.line,
            document.column,
            {**document.entries, "services": (key, whole)},
            tag=document.tag,
        )

    def _extended(
        self,
        name: str,
        services: Mapping[str, tuple[Scalar, Node]],
        file: _File,
        project: Project,
        trail: tuple[tuple[str, str], ...],
        hidden: list[str],
    ) -> Map:
        """A service laid over the one that it extends."""
        node = mapping(services[name][1] if name in services else None, f"service {name}")
        base = node.get("extends")
        if base is None:
            return node
        step = (file.shown, name)
        if step in trail:
            circle = " -> ".join([*(each for _, each in trail[trail.index(step) :]), name])
            raise InputError(f"{base.where}: service {name} extends itself: {circle}")
        if len(trail) >= MAX_EXTENDS:
            raise InputError(f"{base.where}: more than {MAX_EXTENDS} services that extend each other")
        target = base.get("service") if isinstance(base, Map) else base
        named = base.get("file") if isinstance(base, Map) else None
        wanted = _text(target, project.variables)
        where, known = file, services
        if named is not None:
            other = self._other(named, file, project)
            if other is None:
                hidden.append(f"{base.where}: the file that service {name} extends is not here")
                return node
            where = other
            known = mapping(other.document.get("services"), f"{other.shown}: services").entries
        if wanted not in known:
            raise InputError(f"{base.where}: service {name} extends {wanted!r}, which is not there")
        below = self._extended(wanted or "", known, where, project, (*trail, step), hidden)
        merged = lay_over(below, node, ("services", name))
        merged.entries.pop("extends", None)
        return merged

    def _other(self, named: Node, file: _File, project: Project) -> _File | None:
        text = _text(named, project.variables)
        if not text or file.path is None:
            return None
        path = file.path.parent / text
        if not _is_file(path):
            return None
        other = self._file(path, _beside(file, path), f"{named.where}: extends")
        project.bases.append(path)
        project.folders[other.shown] = path.parent
        return other

    # include

    def _include(self, item: Node, file: _File, project: Project, trail: tuple[Path, ...]) -> None:
        long = item if isinstance(item, Map) else None
        named = long.get("path") if long is not None else item
        paths: list[Path] = []
        for each in _items(named):
            text = _text(each, project.variables)
            path = project.folder / text if text and project.folder is not None else None
            if path is None or not _is_file(path):
                project.unseen.append(f"{each.where}: {text or 'a file'} is included and is not here")
                return
            paths.append(path)
        if not paths or file.path is None:
            raise InputError(f"{item.where}: expected the path of a compose file to include")
        real = paths[0].resolve()
        around = trail or (file.path.resolve(),)
        if real in around:
            circle = " -> ".join(each.name for each in (*around[around.index(real) :], real))
            raise InputError(f"{item.where}: {real.name} includes itself: {circle}")
        folder = paths[0].parent
        directory = _text(long.get("project_directory"), project.variables) if long is not None else None
        if directory and project.folder is not None:
            folder = project.folder / directory
        files = [self._file(path, _beside(file, path), f"{item.where}: include") for path in paths]
        variables = self._included_variables(long, folder, project)
        included = self.load(files, folder, variables, (*around, real))
        self._refuse_conflicts(project, included)
        project.included.append(included)
        project.parts.append(paths[0])

    def _included_variables(self, long: Map | None, folder: Path, project: Project) -> dict[str, str]:
        """Those of the including project, over those of the included one's own environment files."""
        named = _items(long.get("env_file")) if long is not None else ()
        if not named:
            own = _dotenv(folder, {}, project.variables)
        else:
            paths = []
            for each in named:
                text = _text(each, project.variables)
                path = (project.folder or Path()) / (text or "?")
                if not text or not _is_file(path):
                    project.unseen.append(f"{each.where}: environment file {text or '?'} is not here")
                    continue
                paths.append(path)
            own = _variables(paths, {}, project.variables)
        return {**own, **project.variables}

    def _refuse_conflicts(self, project: Project, included: Project) -> None:
        here = {name: node for each in project.all() for name, node in each.services.items()}
        for each in included.all():
            for name, node in each.services.items():
                if name in here and here[name].where != node.where:
                    raise InputError(
                        f"{node.where}: service {name} is included and is in {here[name].where} too; "
                        "expected each name once"
                    )

    def _file(self, path: Path, shown: str, asked: str) -> _File:
        if path in self._files:
            return self._files[path]
        if len(self._files) >= MAX_FILES:
            raise InputError(f"{asked}: more than {MAX_FILES} files in one project")
        try:
            documents = load(read_text(path, "a compose file"), shown)
        except InputError as error:
            raise InputError(f"{error} (read for {asked})") from None
        self._files[path] = _File(mapping(documents[0] if documents else None, shown), path, shown)
        return self._files[path]


def _beside(file: _File, path: Path) -> str:
    """How another file of the project is shown: as the first one is."""
    if file.path is None:
        return str(path)
    return os.path.normpath(Path(file.shown).parent / os.path.relpath(path, file.path.parent))


def _text(node: Node | None, variables: Mapping[str, str]) -> str | None:
    return interpolate(node, variables).visible if isinstance(node, Scalar) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def mapping(node: Node | None, what: str) -> Map:
    """The node as a mapping. Raises `InputError` where it is none."""
    if isinstance(node, Map):
        return node
    where = f"{node.where}: " if node is not None else ""
    raise InputError(f"{where}{what}: expected a mapping")


def _items(node: Node | None) -> tuple[Node, ...]:
    if isinstance(node, Seq):
        return node.items
    return () if node is None or (isinstance(node, Scalar) and node.is_null) else (node,)
