"""Texts of ConfigMaps that a container sees as files: scripts that it runs, configs that it is given."""

from __future__ import annotations

from pathlib import PurePosixPath

from preop.deployment.kubernetes.manifest import Manifest, Resources, at, entries, items, text
from preop.deployment.types import MountedText
from preop.deployment.yaml_nodes import Map, Node, Scalar
from preop.errors import InputError

__all__ = ["MAX_CONFIG_MAP", "volume_texts"]

MAX_CONFIG_MAP = 1 << 20
"""Bytes of data that Kubernetes takes in one ConfigMap (API reference: 1 MiB)."""


def volume_texts(container: Map, pod: Map, owner: Manifest, resources: Resources) -> dict[str, MountedText]:
    """The texts by their path inside. Raises `InputError` on a ConfigMap that no cluster takes."""
    volumes: dict[str, dict[str, MountedText]] = {}
    for volume in items(pod.get("volumes")):
        name = text(at(volume, "name"))
        files = _files(volume, owner, resources)
        if name is not None and files:
            volumes[name] = files
    found: dict[str, MountedText] = {}
    for mount in items(container.get("volumeMounts")):
        inside, within = text(at(mount, "mountPath")), text(at(mount, "subPath"))
        files = volumes.get(text(at(mount, "name")) or "", {})
        if inside is None:
            continue
        if within is not None and within in files:
            found[inside] = files[within]
            continue
        for path, held in files.items():
            found[str(PurePosixPath(inside) / path)] = held
    return found


def _files(volume: Node, owner: Manifest, resources: Resources) -> dict[str, MountedText]:
    found: dict[str, MountedText] = {}
    sources = [at(volume, "configMap")]
    sources += [at(source, "configMap") for source in items(at(volume, "projected", "sources"))]
    for source in sources:
        name = text(at(source, "name"))
        target = resources.find("ConfigMap", name, owner.namespace) if name is not None else None
        if target is None:
            continue
        data = {key: value for key, value in entries(target.node.get("data")) if isinstance(value, Scalar)}
        size = sum(len(value.text) for value in data.values())
        if size > MAX_CONFIG_MAP:
            raise InputError(
                f"{target.node.where}: ConfigMap {target.name} holds {size / 2**20:.1f} MiB; "
                "Kubernetes takes 1 MiB at most"
            )
        chosen = items(at(source, "items"))
        names = (
            {text(at(item, "key")) or "": text(at(item, "path")) or "" for item in chosen}
            if chosen
            else {key: key for key in data}
        )
        for key, path in names.items():
            if key in data and path:
                found[path] = _text(data[key], target)
    return found


def _text(node: Scalar, target: Manifest) -> MountedText:
    """A block's text begins in the line after its `|`."""
    block = node.raw[:1] in ("|", ">")
    return MountedText(node.text, target.file.name, node.line + 1 if block else node.line, 1)
