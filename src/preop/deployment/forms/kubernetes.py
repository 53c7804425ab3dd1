"""Kubernetes manifests: one object, or a stream of them as `helm template` and `kustomize build` print it."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache

from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.kubernetes.kinds import Parked, kind_of
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, manifests
from preop.deployment.yaml_nodes import Map, Node
from preop.errors import InputError
from preop.facts import Note

__all__ = ["KUBERNETES"]

_API = re.compile(r"""^\s*(?:-\s+)?["']?apiVersion["']?\s*:""", re.MULTILINE)
_KIND = re.compile(r"""^\s*(?:-\s+)?["']?kind["']?\s*:""", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{-?\s|\{%")
_RENDER = "a template that is not rendered; render it first: helm template CHART | preop check -"
_KUSTOMIZATION = "a kustomization; build it first: kustomize build FOLDER | preop check -"
_SHOWN = 6


def _reads(file: File) -> bool:
    if file.path is not None and file.path.suffix.lower() not in (".yml", ".yaml", ".json", ".tpl", ""):
        return False
    return bool(_API.search(file.text) and _KIND.search(file.text))


def _read(file: File, context: Context) -> Reading:
    found = _manifests(file)
    resources = _resources(context)
    started: list[Started] = []
    once: list[Note] = []
    others: list[str] = []
    for each in found:
        kind = kind_of(each)
        if kind is None:
            others.append(f"{each.kind} {each.name}")
            once += _unread(each)
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
        started += workload.started
        once += workload.notes
    return Reading(started, (), once, _silent(found, others, once))


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


def _silent(found: list[Manifest], others: list[str], once: list[Note]) -> str:
    said = [note.message for note in once]
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        said.append(f"{', '.join(others[:_SHOWN])}{more} start no engine that preop knows")
    engines = [f"{each.kind} {each.name}" for each in found if kind_of(each) is not None]
    if engines and not said:
        said.append(f"{', '.join(engines[:_SHOWN])} start no engine that preop knows")
    return f"nothing to judge: {'; '.join(said) or 'it holds no object with a kind'}"


KUBERNETES = Form("a Kubernetes manifest", _reads, _read)
