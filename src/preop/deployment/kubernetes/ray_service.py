"""RayService: a Serve config as a text inside the object, and the cluster that runs it."""

from __future__ import annotations

from preop.deployment.forms.ray_serve import read_applications
from preop.deployment.kubernetes.expand import expand
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items
from preop.deployment.yaml_nodes import Map, Scalar, load
from preop.facts import Note

__all__ = ["RAY_SERVICE"]


def _read(owner: Manifest, resources: Resources) -> Workload | Parked:
    config = at(owner.spec, "serveConfigV2")
    if not isinstance(config, Scalar):
        return Workload(())
    groups = items(at(owner.spec, "rayClusterConfig", "workerGroupSpecs"))
    head = at(owner.spec, "rayClusterConfig", "headGroupSpec")
    image = None
    for group in (*groups, head):
        containers = items(at(group, "template", "spec", "containers"))
        named = at(containers[0], "image") if containers else None
        if isinstance(named, Scalar):
            image = expand(named, {})
            break
    started, notes = [], []
    for document in load(_placed(config), owner.file.name):
        if isinstance(document, Map):
            own, said = read_applications(document, owner.title, image, owner.file.folder)
            started += own
            notes += said
    if not started:
        notes.append(Note("other", f"RayService {owner.name} has no llm_configs: it is not judged"))
    return Workload(started, tuple(notes))


def _placed(config: Scalar) -> str:
    """The text with as many lines before it as the file has, so that places are those of the file."""
    if config.raw[:1] in ("|", ">"):
        return "\n" * config.line + config.raw.partition("\n")[2]
    return "\n" * (config.line - 1) + config.text


RAY_SERVICE = _read
