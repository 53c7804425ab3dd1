"""Kubernetes manifests: one object, or a stream of them as `helm template` and `kustomize build` print it."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from functools import lru_cache

from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.kubernetes.autoscalers import autoscaling_facts
from preop.deployment.kubernetes.kinds import Parked, kind_of
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, manifests
from preop.deployment.search import KUSTOMIZATIONS
from preop.deployment.yaml_nodes import Map, Node
from preop.errors import InputError
from preop.facts import Note

__all__ = ["KUBERNETES"]

_API = re.compile(r"""(?:^\s*(?:-\s+)?|[{,]\s*)["']?apiVersion["']?\s*:""", re.MULTILINE)
_KIND = re.compile(r"""(?:^\s*(?:-\s+)?|[{,]\s*)["']?kind["']?\s*:""", re.MULTILINE)
"""At a line's beginning, or inside a flow mapping: minified JSON is a manifest too."""
_TEMPLATE = re.compile(r"\{\{-?\s|\{%")
_RENDER = "a template that is not rendered; render it first: helm template CHART | preop check -"
_KUSTOMIZATION = "a kustomization; build it first: kustomize build FOLDER | preop check -"
_PATCH = "which only changes another object; build it first: kustomize build FOLDER | preop check -"
_OPERATION = re.compile(
    r"""^\s*[-{\[,\s]*["']?op["']?\s*:\s*["']?(add|remove|replace|move|copy|test)\b""", re.MULTILINE
)
_POINTER = re.compile(r"""^\s*[-{\[,\s]*.*["']?path["']?\s*:\s*["']?/""", re.MULTILINE)
_SHOWN = 6


def _reads(file: File) -> bool:
    if file.path is not None and file.path.suffix.lower() not in (".yml", ".yaml", ".json", ".tpl", ""):
        return False
    if file.path is not None and file.path.name in KUSTOMIZATIONS:
        return True  # kustomize asks for neither apiVersion nor kind
    return bool(_API.search(file.text) and _KIND.search(file.text)) or _is_json_patch(file)


def _is_json_patch(file: File) -> bool:
    """A list of operations (RFC 6902), as a kustomization takes it."""
    return bool(_OPERATION.search(file.text) and _POINTER.search(file.text))


def _read(file: File, context: Context) -> Reading:
    if file.path is not None and file.path.name in KUSTOMIZATIONS:
        raise InputError(f"{file.name}: {_KUSTOMIZATION}")
    if not _API.search(file.text) and _is_json_patch(file):
        return Reading(silent=f"nothing to judge: a JSON patch, {_PATCH}")
    found = _manifests(file)
    resources = _resources(context)
    started: list[Started] = []
    once: list[Note] = []
    others: list[str] = []
    not_judged: list[str] = []
    once += _strange_documents(file)
    for each in found:
        kind = kind_of(each)
        if kind is None:
            unread = _unread(each)
            once += unread
            not_judged += [f"{note.where}: {note.message}" for note in unread]
            if not unread:
                others.append(f"{each.kind} {each.name}")
            continue
        version = each.api_version.rpartition("/")[2]
        if kind.versions and version not in kind.versions:
            expected = " or ".join(sorted(kind.versions))
            raise InputError(
                f"{each.node.where}: {each.kind} {each.name} is of apiVersion {each.api_version}, "
                f"which preop has not read; expected {expected}"
            )
        workload = kind.read(each, resources)
        if isinstance(workload, Parked):
            note = Note("other", f"{each.kind} {each.name} does not run: {workload.why}", workload.where)
            once.append(note)
            continue
        scaled = autoscaling_facts(each, resources)
        started += [replace(one, facts={**one.facts, **scaled}) for one in workload.started]
        once += workload.notes
    return Reading(started, once=once, unread=not_judged, silent=_silent(found, others, once))


def _manifests(file: File) -> list[Manifest]:
    try:
        found = list(manifests(file))
    except InputError:
        if _TEMPLATE.search(file.text):
            raise InputError(f"{file.name}: {_RENDER}") from None
        raise
    for each in found:
        if each.kind == "Kustomization" and "kustomize" in each.group:
            raise InputError(f"{each.node.where}: {_KUSTOMIZATION}")
    return found


@lru_cache(maxsize=1)
def _resources(context: Context) -> Resources:
    """The objects of all files of the check. Each file's own turn says what is wrong with it."""
    found: list[Manifest] = []
    for file in context.files:
        with contextlib.suppress(InputError):
            found += manifests(file) if _reads(file) else ()
    return Resources(found)


def _unread(manifest: Manifest) -> list[Note]:
    """An object of a kind that preop does not know, with a pod in it: what it starts is not judged."""
    pod = _pod_in(manifest.node, 0)
    if pod is None:
        return []
    what = f"{manifest.kind} {manifest.name} ({manifest.api_version})"
    return [Note("other", f"{what} has containers and is no kind that preop reads: not judged", pod.where)]


def _pod_in(node: Node, depth: int) -> Map | None:
    if not isinstance(node, Map) or depth > 6:
        return None
    if any(at(item, "image") is not None for item in items(node.get("containers"))):
        return node
    return next((pod for _, value in node.items() if (pod := _pod_in(value, depth + 1)) is not None), None)


def _is_patch(manifest: Manifest) -> bool:
    """A workload with a template's shape of which no container names an image, or without any template."""
    if kind_of(manifest) is None or manifest.group not in ("apps", "batch") or manifest.kind == "CronJob":
        return False
    pod = at(manifest.spec, "template", "spec")
    parts = [*items(at(pod, "containers")), *items(at(pod, "initContainers"))]
    return not any(at(part, "image") is not None for part in parts)


def _strange_documents(file: File) -> list[Note]:
    """Documents beside the manifests that are none."""
    strange = [node for node in file.documents if not (_has(node, "apiVersion") and _has(node, "kind"))]
    if not strange:
        return []
    lines = ", ".join(str(node.line) for node in strange[:_SHOWN])
    what = "a document" if len(strange) == 1 else f"{len(strange)} documents"
    text = f"{what} without apiVersion and kind, no manifest, not judged (from line {lines})"
    return [Note("other", text, strange[0].where)]


def _has(node: Node, key: str) -> bool:
    return at(node, key) is not None


def _silent(found: list[Manifest], others: list[str], once: list[Note]) -> str:
    said = [note.message for note in once]
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        said.append(f"{', '.join(others[:_SHOWN])}{more} start no engine that preop knows")
    known_kinds = [each for each in found if kind_of(each) is not None]
    said += [f"{each.kind} {each.name} is a patch, {_PATCH}" for each in known_kinds if _is_patch(each)]
    engines = [f"{each.kind} {each.name}" for each in known_kinds]
    if engines and not said:
        said.append(f"{', '.join(engines[:_SHOWN])} start no engine that preop knows")
    return f"nothing to judge: {'; '.join(said) or 'it holds no object with a kind'}"


KUBERNETES = Form("a Kubernetes manifest", _reads, _read)
