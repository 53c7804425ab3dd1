"""Docker compose files: every service that runs here, as a command on its way to a launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from preop.deployment import gpus, shell
from preop.deployment.command import Found
from preop.deployment.container import mount
from preop.deployment.environment import parse_env, read_env_file, read_text
from preop.deployment.interpolate import interpolate
from preop.deployment.tokens import Token, environment_word, unseen_token, variable
from preop.deployment.types import GpuRequest
from preop.deployment.yaml_nodes import Map, Node, Scalar, Seq, load
from preop.errors import InputError
from preop.facts import Note, Word

__all__ = ["ComposeFile", "read_compose"]

MAX_EXTENDS = 16


@dataclass(frozen=True)
class ComposeFile:
    """What a compose file starts."""

    services: dict[str, Found]
    """By service name: those that run, engines or not."""
    replicas: dict[str, int]
    """How many containers each of them has."""
    parked: tuple[Note, ...]
    """Why services do not run."""
    hidden: tuple[str, ...] = ()


def read_compose(document: Map, path: Path, environment: Mapping[str, str]) -> ComposeFile:
    """The services of a compose document read from `path`.

    Variables come from the `.env` beside the file, and over it from `environment`, as compose takes them.
    Raises `InputError`, with the place, on what compose would refuse too.
    """
    return _Reader(document, path, environment).read()


@dataclass
class _Service:
    """A service with those that it extends, the farthest first."""

    name: str
    layers: list[Map]
    hidden: list[str] = field(default_factory=list)

    def get(self, key: str) -> Node | None:
        """The value nearest to the service."""
        for layer in reversed(self.layers):
            if key in layer.entries:
                value = layer.get(key)
                return None if isinstance(value, Scalar) and value.is_null else value
        return None

    def all(self, key: str) -> Iterator[Node]:
        """Every layer's value, the farthest first; `!override` and `!reset` forget what came before."""
        found: list[Node] = []
        for layer in self.layers:
            if key in layer.entries:
                value = layer.entries[key][1]
                if value.tag in ("!reset", "!override"):
                    found = []
                if value.tag != "!reset":
                    found.append(value)
        return iter(found)


class _Reader:
    def __init__(self, document: Map, path: Path, environment: Mapping[str, str]) -> None:
        self._path = path
        self._services = _mapping(document.get("services"), "services")
        self._included = document.get("include")
        self._variables = self._dotenv(environment)

    def _dotenv(self, environment: Mapping[str, str]) -> dict[str, str]:
        beside = self._path.parent / ".env"
        variables: dict[str, str] = {}
        if beside.is_file():
            text = read_text(beside, "an environment file", may_be_empty=True)
            found = parse_env(text, str(beside), quotes=True)
            variables = {name: value.text for name, value in found.items() if not value.holes}
        return {**variables, **environment}

    def read(self) -> ComposeFile:
        active = {name.strip() for name in self._variables.get("COMPOSE_PROFILES", "").split(",")}
        services: dict[str, Found] = {}
        replicas: dict[str, int] = {}
        parked: list[Note] = []
        for name, node in self._services.items():
            service = self._service(name, _mapping(node, f"service {name}"))
            why = self._parked(service, active)
            if why:
                parked.append(Note("other", f"service {name} does not run: {why}", node.where))
            else:
                services[name] = self._found(service)
                replicas[name] = self._replicas(service)
        hidden = (f"{self._included.where}: included files are not read",) if self._included else ()
        return ComposeFile(services, replicas, tuple(parked), hidden)

    # services

    def _service(self, name: str, node: Map) -> _Service:
        service = _Service(name, [node])
        services, path = self._services, self._path
        while (base := service.layers[0].get("extends")) is not None:
            if len(service.layers) > MAX_EXTENDS:
                raise InputError(
                    f"{base.where}: service {name} extends more than {MAX_EXTENDS} others, or itself"
                )
            if isinstance(base, Map):
                file, target = base.get("file"), base.get("service")
            else:
                file, target = None, base
            wanted = self._text(target) if isinstance(target, Scalar) else None
            if file is not None:
                other = path.parent / (self._text(file) or "?")
                if not other.is_file():
                    service.hidden.append(f"{base.where}: the file that service {name} extends is not here")
                    break
                services, path = self._other(other), other
            found = services.get(wanted or "")
            if found is None:
                raise InputError(f"{base.where}: service {name} extends {wanted!r}, which is not there")
            service.layers.insert(0, _mapping(found, f"service {wanted}"))
        return service

    def _other(self, path: Path) -> Map:
        documents = load(read_text(path, "a compose file"), str(path))
        first = documents[0] if documents else None
        return _mapping(first.get("services") if isinstance(first, Map) else None, f"{path}: services")

    def _parked(self, service: _Service, active: set[str]) -> str | None:
        profiles = [self._text(item) or "" for item in _items(service.get("profiles"))]
        if profiles and "*" not in active and not active.intersection(profiles):
            return (
                f"only in profile {', '.join(profiles)}, which is not active (COMPOSE_PROFILES turns one on)"
            )
        return "it has 0 replicas" if self._replicas(service) == 0 else None

    def _replicas(self, service: _Service) -> int:
        """How many containers the service has: `scale` or `deploy.replicas`, 1 where that cannot be told."""
        deploy = service.get("deploy")
        for value in (service.get("scale"), deploy.get("replicas") if isinstance(deploy, Map) else None):
            text = self._text(value)
            if text is not None and re.fullmatch(r"\d{1,6}", text):
                return int(text)
        return 1

    def _found(self, service: _Service) -> Found:
        hidden = list(service.hidden)
        environment = self._environment(service, hidden)
        entrypoint = self._words(service.get("entrypoint"), hidden)
        command = self._words(service.get("command"), hidden)
        return Found(
            tokens=(*(entrypoint or ()), *(command or ())),
            environment=environment,
            image=self._image(service),
            is_built=service.get("build") is not None,
            own_entrypoint=entrypoint is not None,
            gpus=self._gpus(service, environment),
            name=service.name,
            hidden=tuple(hidden),
            mounts=self._mounts(service),
            folder=self._path.parent,
        )

    def _image(self, service: _Service) -> Token:
        image = service.get("image")
        if isinstance(image, Scalar):
            return interpolate(image, self._variables)
        origin = (image or service.get("build") or service.layers[-1]).origin
        return unseen_token(
            f"the image of service {service.name} is built here and states no version", origin
        )

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

    def _environment(self, service: _Service, hidden: list[str]) -> dict[str, Word]:
        found: dict[str, Word] = {}
        for node in service.all("env_file"):
            for item in node.items if isinstance(node, Seq) else (node,):
                path = item.get("path") if isinstance(item, Map) else item
                token = interpolate(_scalar(path, "the path of an environment file"), self._variables)
                words, missing = read_env_file(token, self._path.parent, quotes=True)
                found.update(words)
                hidden += [f"{item.where}: {reason}" for reason in missing]
        for node in service.all("environment"):
            for name, value in self._pairs(node):
                found[name] = environment_word(name, value)
        return found

    def _pairs(self, node: Node) -> Iterator[tuple[str, Token]]:
        if isinstance(node, Map):
            for name, value in node.items():
                scalar = _scalar(value, f"the value of {name}")
                yield (
                    name,
                    self._caller(name, scalar) if scalar.is_null else interpolate(scalar, self._variables),
                )
        elif isinstance(node, Seq):
            for item in node.items:
                token = interpolate(_scalar(item, "NAME=value"), self._variables)
                name, equals, _ = token.head.partition("=")
                if equals:
                    yield name, token.after(len(name) + 1)
                elif name:
                    yield name, self._caller(name, _scalar(item, "a name"))
        elif not node.is_null:
            raise InputError(f"{node.where}: expected a mapping or a list of NAME=value")

    def _caller(self, name: str, node: Scalar) -> Token:
        """The value that the caller of compose has for the name."""
        if name in self._variables:
            return Token(self._variables[name], node.origin)
        return unseen_token(variable(name), node.origin)

    def _mounts(self, service: _Service) -> dict[str, str]:
        found: dict[str, str] = {}
        for node in service.all("volumes"):
            for item in _items(node):
                if isinstance(item, Map):
                    here, inside = self._text(item.get("source")), self._text(item.get("target"))
                    if self._text(item.get("type")) == "bind" and here and inside:
                        found[inside] = here
                elif (pair := mount(self._text(item) or "")) is not None:
                    found.update([pair])
        return found

    # GPUs

    def _gpus(self, service: _Service, environment: Mapping[str, Word]) -> GpuRequest | None:
        asked: list[GpuRequest | None] = []
        for deploy in service.all("deploy"):
            resources = deploy.get("resources") if isinstance(deploy, Map) else None
            reservations = resources.get("reservations") if isinstance(resources, Map) else None
            devices = reservations.get("devices") if isinstance(reservations, Map) else None
            asked += [self._reservation(item) for item in _items(devices)]
        for node in service.all("gpus"):
            if isinstance(node, Scalar):
                asked.append(gpus.from_gpus_flag(interpolate(node, self._variables)))
            else:
                asked += [self._reservation(item, is_gpu=True) for item in _items(node)]
        sources = [
            item.get("source") if isinstance(item, Map) else item
            for node in service.all("devices")
            for item in _items(node)
        ]
        asked += gpus.from_devices(
            interpolate(source, self._variables) for source in sources if isinstance(source, Scalar)
        )
        runtime = service.get("runtime")
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


def _mapping(node: Node | None, what: str) -> Map:
    if isinstance(node, Map):
        return node
    where = f"{node.where}: " if node is not None else ""
    raise InputError(f"{where}{what}: expected a mapping")


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
