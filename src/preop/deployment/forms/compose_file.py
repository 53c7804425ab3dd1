"""Compose projects: every service that runs here, as a command on its way to a launch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from preop.deployment import gpus, shell
from preop.deployment.command import Found
from preop.deployment.environment import lay_over, read_env_file
from preop.deployment.forms.compose_merge import by_name
from preop.deployment.forms.compose_project import Project
from preop.deployment.interpolate import interpolate
from preop.deployment.tokens import Token, environment_word, unseen_token, variable
from preop.deployment.types import GpuRequest, MountedText
from preop.deployment.yaml_nodes import Map, Node, Scalar, Seq
from preop.errors import InputError
from preop.facts import Note, Word

__all__ = ["Services", "services_of"]


@dataclass(frozen=True)
class Services:
    """What a compose project starts."""

    running: dict[str, Found]
    """By service name: those that run, engines or not."""
    replicas: dict[str, int]
    """How many containers each of them has."""
    parked: tuple[Note, ...]
    """Why services do not run."""
    partial: tuple[str, ...]
    """Services without image and build: compose runs them only with another file under them."""


def services_of(project: Project) -> Services:
    """The services of a project and of those that it includes. Raises `InputError`, with the place, on what
    compose would refuse too."""
    active = {name.strip() for name in project.variables.get("COMPOSE_PROFILES", "").split(",")}
    running: dict[str, Found] = {}
    replicas: dict[str, int] = {}
    parked: list[Note] = []
    partial: list[str] = []
    for each in project.all():
        for name, node in each.services.items():
            service = _Service(name, node, each)
            why = service.parked(active)
            if why:
                parked.append(Note("other", f"service {name} does not run: {why}", node.where))
                continue
            running[name] = service.found()
            replicas[name] = service.replicas()
            if service.is_partial:
                partial.append(name)
    return Services(running, replicas, tuple(parked), tuple(partial))


class _Service:
    """One service of a project, merged with all that lies over and under it."""

    def __init__(self, name: str, node: Map, project: Project) -> None:
        self._name = name
        self._node = node
        self._project = project
        self._variables = project.variables

    @property
    def is_partial(self) -> bool:
        """Whether it has neither an image nor a build."""
        return self._get("image") is None and self._get("build") is None

    def _get(self, key: str) -> Node | None:
        value = self._node.get(key)
        return None if isinstance(value, Scalar) and value.is_null else value

    def parked(self, active: set[str]) -> str | None:
        """Why it does not run; None where it does. What depends on it activates no profile."""
        profiles = [self._text(item) or "" for item in _items(self._get("profiles"))]
        if profiles and "*" not in active and not active.intersection(profiles):
            return (
                f"only in profile {', '.join(profiles)}, which is not active (COMPOSE_PROFILES turns one on)"
            )
        return "it has 0 replicas" if self.replicas() == 0 else None

    def replicas(self) -> int:
        """How many containers it has: `scale` or `deploy.replicas`, 1 where that cannot be told. One on each
        node (`mode: global`) is one on this one."""
        deploy = self._get("deploy")
        asked = deploy if isinstance(deploy, Map) else None
        if asked is not None and self._text(asked.get("mode")) == "global":
            return 1
        for value in (self._get("scale"), asked.get("replicas") if asked is not None else None):
            text = self._text(value)
            if text is not None and re.fullmatch(r"\d{1,6}", text):
                return int(text)
        return 1

    def found(self) -> Found:
        """Its command, as far as the file says it."""
        hidden = list(self._project.hidden.get(self._name, ()))
        hidden_environment: list[str] = []
        environment = self._environment(hidden, hidden_environment)
        entrypoint = self._words(self._get("entrypoint"), hidden)
        command = self._words(self._get("command"), hidden)
        mounts, texts = self._mounts()
        return Found(
            tokens=(*(entrypoint or ()), *(command or ())),
            environment=environment,
            image=self._image(),
            is_built=self._get("build") is not None,
            own_entrypoint=entrypoint is not None,
            gpus=self._gpus(environment),
            name=self._name,
            hidden=tuple(hidden),
            hidden_environment=tuple(hidden_environment),
            texts=texts,
            mounts=mounts,
            folder=self._project.folder,
        )

    def _image(self) -> Token:
        image = self._get("image")
        if isinstance(image, Scalar):
            return interpolate(image, self._variables)
        origin = (image or self._get("build") or self._node).origin
        if self.is_partial:
            return unseen_token(f"service {self._name} has neither image nor build in this file", origin)
        return unseen_token(f"the image of service {self._name} is built here and states no version", origin)

    # values

    def _text(self, node: Node | None) -> str | None:
        return interpolate(node, self._variables).visible if isinstance(node, Scalar) else None

    def _words(self, node: Node | None, hidden: list[str]) -> list[Token] | None:
        """The words of `command` or `entrypoint`; None where it is not given."""
        if node is None:
            return None
        if isinstance(node, Seq):
            return [interpolate(_scalar(item, "a list of words"), self._variables) for item in node.items]
        text = interpolate(_scalar(node, "a string or a list"), self._variables)
        return self._without_comments(shell.words(text.source()), hidden)

    def _without_comments(self, words: list[Token], hidden: list[str]) -> list[Token]:
        """A string command knows no comments: compose hands `#` and what follows to the engine. What its
        writer did not mean is not taken for a fact, nor for nothing."""
        kept: list[Token] = []
        commented: str | None = None
        for word in words:
            line = word.origin.where.split(":")[-2:-1]
            if commented is not None and line == [commented]:
                continue
            commented = None
            if word.head.startswith("#"):
                commented = line[0] if line else ""
                hidden.append(
                    f"{word.origin}: `#` starts no comment here; compose passes on the words after it"
                )
            else:
                kept.append(word)
        return kept

    def _environment(self, hidden: list[str], hidden_environment: list[str]) -> dict[str, Word]:
        found: dict[str, Word] = {}
        for item in _items(self._get("env_file")):
            path, form = (item.get("path"), item.get("format")) if isinstance(item, Map) else (item, None)
            token = interpolate(_scalar(path, "the path of an environment file"), self._variables)
            raw = self._text(form) == "raw"
            words, missing = read_env_file(
                token,
                self._project.folder_of(item),
                quotes=not raw,
                variables=None if raw else self._variables,
            )
            missing = [f"{item.where}: {reason}" for reason in missing]
            found = lay_over(found, words, missing)
            hidden += missing
        node = self._get("environment")
        for name, value in by_name(node).items() if node is not None else ():
            scalar = _scalar(value, f"the value of {name}")
            if "$" in name:
                hidden_environment.append(f"{scalar.where}: the name of a variable, {name}, cannot be seen")
                continue
            token = self._caller(name, scalar) if scalar.is_null else interpolate(scalar, self._variables)
            found[name] = environment_word(name, token)
        return found

    def _caller(self, name: str, node: Scalar) -> Token:
        """The value that the caller of compose has for the name."""
        if name in self._variables:
            return Token(self._variables[name], node.origin)
        return unseen_token(variable(name), node.origin)

    def _mounts(self) -> tuple[dict[str, str], dict[str, MountedText]]:
        """What the container sees as files: folders and files of this machine, and texts of the project."""
        mounts: dict[str, str] = {}
        for item in _items(self._get("volumes")):
            inside, here = self._volume(item)
            if inside is not None:
                mounts.pop(inside, None)  # the last of a target counts
                if here is not None:
                    mounts[inside] = self._here(here, item)
        texts: dict[str, MountedText] = {}
        for item in _items(self._get("configs")):
            source = self._text(item.get("source") if isinstance(item, Map) else item) or ""
            target = self._text(item.get("target")) if isinstance(item, Map) else None
            config = self._project.configs.get(source) if self._project.configs is not None else None
            inside = target if target and target.startswith("/") else f"/{target or source}"
            if not isinstance(config, Map):
                continue
            file, content = config.get("file"), config.get("content")
            if (path := self._text(file)) and file is not None:
                mounts[inside] = self._here(path, file)
            elif isinstance(content, Scalar) and (text := self._text(content)) is not None:
                texts[inside] = MountedText(text, content.file, content.line, content.column)
        return mounts, texts

    def _volume(self, item: Node) -> tuple[str | None, str | None]:
        """Path inside and path here; no path here where it is no folder of this machine."""
        if isinstance(item, Map):
            inside, here = self._text(item.get("target")), self._text(item.get("source"))
            return inside, here if self._text(item.get("type")) == "bind" else None
        here, colon, rest = (self._text(item) or "").partition(":")
        inside = rest.partition(":")[0]
        if not colon or not inside.startswith("/"):
            return (here or None), None
        return inside, here if here.startswith(("/", ".", "~")) else None

    def _here(self, path: str, node: Node) -> str:
        """A path that stands in a file that is extended begins there."""
        own, folder = self._project.folder_of(node), self._project.folder
        return str(own / path) if own != folder and own is not None and path[:1] != "~" else path

    # GPUs

    def _gpus(self, environment: Mapping[str, Word]) -> GpuRequest | None:
        asked: list[GpuRequest | None] = []
        deploy = self._get("deploy")
        resources = deploy.get("resources") if isinstance(deploy, Map) else None
        reservations = resources.get("reservations") if isinstance(resources, Map) else None
        devices = reservations.get("devices") if isinstance(reservations, Map) else None
        asked += [self._reservation(item) for item in _items(devices)]
        flag = self._get("gpus")
        if isinstance(flag, Scalar):
            asked.append(gpus.from_gpus_flag(interpolate(flag, self._variables)))
        else:
            asked += [self._reservation(item, is_gpu=True) for item in _items(flag)]
        sources = [
            item.get("source") if isinstance(item, Map) else item for item in _items(self._get("devices"))
        ]
        asked += gpus.from_devices(
            interpolate(source, self._variables) for source in sources if isinstance(source, Scalar)
        )
        runtime = self._get("runtime")
        if isinstance(runtime, Scalar):
            asked.append(gpus.from_runtime(interpolate(runtime, self._variables), environment))
        return gpus.pick(asked) or gpus.from_nvidia_variable(environment)

    def _reservation(self, node: Node, is_gpu: bool = False) -> GpuRequest | None:
        """One entry under `reservations.devices`; None where it is no GPU."""
        if not isinstance(node, Map):
            raise InputError(
                f"{node.where}: expected a device with driver, count or device_ids, and capabilities"
            )
        driver = self._text(node.get("driver"))
        capabilities = {self._text(item) for part in _items(node.get("capabilities")) for item in _flat(part)}
        vendor = gpus.vendor_of(driver) if driver else "nvidia"
        if not is_gpu and vendor == "unknown" and "gpu" not in capabilities:
            return None
        if not driver and not is_gpu and "gpu" not in capabilities:
            return None
        ids = node.get("device_ids")
        if ids is not None:
            tokens = [interpolate(_scalar(item, "a device id"), self._variables) for item in _items(ids)]
            if driver == "cdi":
                return gpus.pick(gpus.from_devices(tokens))
            if any(token.holes for token in tokens):
                return GpuRequest(vendor, None, None, ids.origin)
            return gpus.named(vendor, (token.text for token in tokens), ids.origin)
        count = node.get("count")
        if count is None:
            return GpuRequest(vendor, None, gpus.ALL, node.origin)
        text = self._text(count)
        if text == "all":
            return GpuRequest(vendor, None, gpus.ALL, count.origin)
        if text is None:
            return GpuRequest(vendor, None, None, count.origin)
        try:
            return gpus.counted(vendor, int(text), count.origin)
        except ValueError:
            raise InputError(f"{count.where}: count {text!r}; expected a whole number or `all`") from None


def _scalar(node: Node | None, expected: str) -> Scalar:
    if isinstance(node, Scalar):
        return node
    where = f"{node.where}: " if node is not None else ""
    raise InputError(f"{where}expected {expected}")


def _items(node: Node | None) -> tuple[Node, ...]:
    if isinstance(node, Seq):
        return node.items
    return () if node is None or (isinstance(node, Scalar) and node.is_null) else (node,)


def _flat(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, Seq) else (node,)
