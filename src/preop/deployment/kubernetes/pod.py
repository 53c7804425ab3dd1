"""The containers of a pod, as commands on their way to launches.

Kubernetes: `command` replaces the image's entrypoint and its arguments, `args` the arguments alone; of two
variables of one name in `env` and `envFrom` that of `env` counts; `initContainers` end before the others
start, unless their `restartPolicy` is Always. Source: the API reference of core/v1 Container.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from preop.deployment.command import Found, read_text_commands, unwrap
from preop.deployment.forms.strangers import stranger
from preop.deployment.forms.types import Started
from preop.deployment.kubernetes.claims import claimed
from preop.deployment.kubernetes.devices import Devices, devices_of, gpu_of_node, unasked
from preop.deployment.kubernetes.expand import expand
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, entries, items, text
from preop.deployment.kubernetes.volumes import volume_texts
from preop.deployment.tokens import Lines, Source, Token, environment_word, unseen_token
from preop.deployment.types import MountedText
from preop.deployment.yaml_nodes import Map, Node, Scalar
from preop.errors import InputError
from preop.facts import Fact, Note, Word

__all__ = ["Extra", "read_pod"]

_LEFT_OVER = re.compile(r"\$\{[A-Za-z_]\w*(?::?[-?+=][^}]*)?\}", re.ASCII)
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})


@dataclass(frozen=True)
class Extra:
    """What the object around a pod adds to its containers."""

    environment: Mapping[str, Word] = field(default_factory=dict)
    """Variables that a controller injects: those that cannot be seen have no text."""
    hidden: tuple[str, ...] = ()
    """Why flags may exist that cannot be seen."""


_NOTHING = Extra()
_IN_IMAGE = re.compile(r"\$[{(](\w+)[^})]*[})]", re.ASCII)
_RUNTIME = (
    "runtimeClassName nvidia without a GPU request: the image may be given GPUs that Kubernetes does not "
    "count and gives to others too"
)


def read_pod(
    pod: Map,
    owner: Manifest,
    resources: Resources,
    *,
    name: str,
    facts: Mapping[str, Fact],
    extra: Extra = _NOTHING,
) -> list[Started]:
    """One `Started` for each container that runs as long as the pod.

    `name` is the deployment's; `facts` are those that the object around the pod states (role, replicas).
    Raises `InputError` where a container is none.
    """
    found: list[Started] = []
    for container in _running(pod, owner):
        label = text(container.get("name")) or f"container {len(found) + 1}"
        found.append(_container(container, pod, owner, resources, label, name, facts, extra))
    engines = [each for each in found if _is_engine(each)]
    if len(engines) > 1:  # each by its own name
        labels = [each.source.rpartition(": container ")[2] for each in found]
        pairs = zip(found, labels, strict=True)
        found = [replace(each, name=f"{name}/{label}") if each in engines else each for each, label in pairs]
    return found


def _is_engine(started: Started) -> bool:
    from preop.deployment.command import launches

    try:
        return bool(launches(started.commands, started.source))
    except InputError:  # it is said where the commands are read
        return False


def _running(pod: Map, owner: Manifest) -> list[Map]:
    sidecars = (
        node for node in items(pod.get("initContainers")) if text(at(node, "restartPolicy")) == "Always"
    )
    return [_mapping(node, owner) for node in (*sidecars, *items(pod.get("containers")))]


def _mapping(node: Node, owner: Manifest) -> Map:
    if not isinstance(node, Map):
        raise InputError(f"{node.where}: a container of {owner.kind} {owner.name}: expected a mapping")
    return node


def _container(
    container: Map,
    pod: Map,
    owner: Manifest,
    resources: Resources,
    label: str,
    name: str,
    facts: Mapping[str, Fact],
    extra: Extra,
) -> Started:
    environment, unseen = _environment(container, owner, resources, extra)
    devices = devices_of(container.get("resources"))
    claim = claimed(container, pod, owner, resources) if devices.request is None else None
    notes: tuple[Note, ...] = ()
    if claim is not None:
        devices = Devices(*claim)
    elif devices.request is None:
        devices = unasked(environment)
        runtime = pod.get("runtimeClassName")
        if runtime is not None and text(runtime) == "nvidia" and devices.request is None:
            notes = (Note("other", _RUNTIME, runtime.where),)
    node_gpu = gpu_of_node(pod) if devices.request is not None else None
    is_shell = _runs_shell(container)
    command = _words(container.get("command"), environment, unseen, is_shell)
    arguments = _words(container.get("args"), environment, unseen, is_shell) or []
    whole = Found(
        tokens=(*(command or ()), *arguments),
        environment=environment,
        image=_image(container, environment),
        own_entrypoint=command is not None,
        gpus=devices.request,
        hidden=extra.hidden,
        hidden_environment=unseen,
        texts=volume_texts(container, pod, owner, resources),
        folder=None,
    )
    what = f"container {label} of {owner.kind} {owner.name}"
    own = {**facts, **devices.facts, **({"gpu": node_gpu} if node_gpu else {})}
    return Started(
        name=name,
        source=f"{owner.title}: container {label}",
        commands=_commands(whole),
        facts=own,
        notes=notes,
        otherwise=stranger(what, whole),
    )


def _commands(found: Found) -> list[Found]:
    """The commands that the container runs; a script out of a ConfigMap is read where that is here."""
    script = _script(found)
    if script is None:
        return unwrap(found)
    place = Lines(script.text, script.file, script.line, script.column)
    return read_text_commands(Source(script.text, place), replace(found, tokens=()))


def _script(found: Found) -> MountedText | None:
    tokens = [token for token in found.tokens if not token.head.startswith("-")]
    if tokens and PurePosixPath(tokens[0].visible or "").name in _SHELLS:
        if any(token.head.startswith("-") and "c" in token.head for token in found.tokens[1:2]):
            return found.texts.get(_only_script(tokens[1].visible or "") or "") if len(tokens) > 1 else None
        tokens = tokens[1:]
    return found.texts.get(tokens[0].visible or "") if tokens else None


def _only_script(command: str) -> str | None:
    """The script of a shell text that runs nothing else: `/scripts/x.sh`, `exec bash /scripts/x.sh`."""
    words = [word.strip("'\"") for word in command.split()]
    while words and (words[0] == "exec" or PurePosixPath(words[0]).name in _SHELLS):
        words = words[1:]
    return words[0] if len(words) == 1 else None


def _runs_shell(container: Map) -> bool:
    """Whether `sh -c` is given the text: then `${NAME}` is the shell's to replace."""
    words = [text(item) or "" for key in ("command", "args") for item in items(container.get(key))]
    is_shell = any(PurePosixPath(word).name in _SHELLS for word in words[:3])
    return is_shell and any(re.fullmatch(r"-[a-z]*c[a-z]*", word) for word in words)


def _words(
    node: Node | None, environment: Mapping[str, Word], unseen: tuple[str, ...], is_shell: bool
) -> list[Token] | None:
    """The words of `command` or `args`; None where it is not given, or empty.

    Kubernetes replaces no `${NAME}`: where no shell does either, something else was to fill it in (envsubst).
    """
    if node is None or (isinstance(node, Scalar) and node.is_null):
        return None
    if isinstance(node, Scalar):
        if node.text.lstrip().startswith(("{{", "{%")):
            expand(node, {})  # says that it is a template
        raise InputError(f"{node.where}: expected a list of words")
    words = []
    for item in items(node):
        if not isinstance(item, Scalar):
            raise InputError(f"{item.where}: expected a word of a command")
        left = None if is_shell else _LEFT_OVER.search(item.text)
        if left is not None:
            words.append(unseen_token(f"{left[0]} is not filled in: render it first", item.origin))
            continue
        words.append(expand(item, environment, unseen[0] if unseen else None))
    return words or None


def _image(container: Map, environment: Mapping[str, Word]) -> Token | None:
    image = container.get("image")
    if not isinstance(image, Scalar) or not image.text.strip():
        return None
    # Left over from envsubst or a template of a pipeline: only that part of the name cannot be seen.
    names = set(_IN_IMAGE.findall(image.text))
    left = {
        name: Word(None, image.origin, "not filled in: render the file first", single=True) for name in names
    }
    return expand(replace(image, text=_IN_IMAGE.sub(r"$(\1)", image.text)), left)


def _environment(
    container: Map, owner: Manifest, resources: Resources, extra: Extra
) -> tuple[dict[str, Word], tuple[str, ...]]:
    """The variables of a container, and why there may be more that cannot be seen."""
    found: dict[str, Word] = dict(extra.environment)
    unseen: list[str] = []
    for source in items(container.get("envFrom")):
        prefix = text(at(source, "prefix")) or ""
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            reference = at(source, key)
            if reference is None:
                continue
            target_name = text(at(reference, "name")) or "?"
            target = resources.find(kind, target_name, owner.namespace)
            if target is None:
                unseen.append(f"{kind} {target_name} is not among the files: it may set variables")
                continue
            for key_, value in _data(target):
                found[prefix + key_] = environment_word(prefix + key_, value)
    for item in items(container.get("env")):
        name = text(at(item, "name"))
        if name is not None:
            found[name] = environment_word(name, _value(item, found, unseen, owner, resources))
    return found, tuple(dict.fromkeys(unseen))


def _data(target: Manifest) -> list[tuple[str, Token]]:
    """The values of a ConfigMap; those of a Secret cannot be seen, only their names."""
    if target.kind == "Secret":
        return [
            (name, unseen_token(f"from Secret {target.name}", value.origin))
            for part in ("data", "stringData")
            for name, value in entries(target.node.get(part))
        ]
    return [
        (name, Token(value.text, value.origin))
        for name, value in entries(target.node.get("data"))
        if isinstance(value, Scalar)
    ]


def _value(
    item: Node,
    found: Mapping[str, Word],
    unseen: Sequence[str],
    owner: Manifest,
    resources: Resources,
) -> Token:
    value, source = at(item, "value"), at(item, "valueFrom")
    if isinstance(value, Scalar):
        return expand(value, found, unseen[0] if unseen else None)
    if source is None:
        return Token("", item.origin)
    if (reference := at(source, "configMapKeyRef")) is not None:
        name, key = text(at(reference, "name")) or "?", text(at(reference, "key")) or "?"
        target = resources.find("ConfigMap", name, owner.namespace)
        held = at(target.node, "data", key) if target is not None else None
        if isinstance(held, Scalar):
            return Token(held.text, held.origin)
        return unseen_token(f"key {key} of ConfigMap {name} is not among the files", reference.origin)
    if (reference := at(source, "secretKeyRef")) is not None:
        return unseen_token(f"from Secret {text(at(reference, 'name')) or '?'}", reference.origin)
    return unseen_token("Kubernetes fills it in when the pod starts", source.origin)
