"""KServe LLMInferenceService: a model, and pods that KServe's own templates complete.

Source: config/llmisvcconfig of kserve (v1alpha2): without a command of its own the main container runs
`vllm serve /mnt/models --served-model-name NAME`, the sizes of `parallelism`, what VLLM_ADDITIONAL_ARGS
holds, and then the container's arguments, so that those win. What else a cluster's template passes cannot be
seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from preop.deployment.forms.types import Started
from preop.deployment.kubernetes.kinds import Parked, Workload
from preop.deployment.kubernetes.manifest import Manifest, Resources, at, items, text, whole
from preop.deployment.kubernetes.merge import merged
from preop.deployment.kubernetes.model_uri import MOUNTED, with_model
from preop.deployment.kubernetes.placeholders import filled, metadata, unseen
from preop.deployment.kubernetes.pod import Extra, read_pod
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.yaml_nodes import Map, Node, Scalar, mapping, scalar, seq
from preop.facts import Fact, known

__all__ = ["LLM_INFERENCE_SERVICE"]

_PRESET = "KServe's own template for this service may pass flags that cannot be seen"
_SIZES = (("tensor", "--tensor-parallel-size"), ("pipeline", "--pipeline-parallel-size"))
_LORA = (
    ("maxRank", "--max-lora-rank"),
    ("maxAdapters", "--max-loras"),
    ("maxCpuAdapters", "--max-cpu-loras"),
)
_DATA = (("data", "--data-parallel-size"), ("dataLocal", "--data-parallel-size-local"))


def _read(owner: Manifest, resources: Resources) -> Workload | Parked:
    stopped = at(owner.node, "metadata", "annotations", "serving.kserve.io/stop")
    if stopped is not None and text(stopped) == "true":
        return Parked("it is stopped by its annotation", stopped.where)
    spec, hidden = _merged(owner, resources)
    count = at(spec, "replicas")
    prefill = at(spec, "prefill")
    roles: list[tuple[str | None, Node | None, str]] = []
    if count is None or whole(count) != 0:
        roles.append(("decode" if prefill is not None else None, spec, owner.name))
    if prefill is not None and whole(at(prefill, "replicas")) != 0:
        roles.append(("prefill", prefill, f"{owner.name}-prefill"))
    if not roles:
        return Parked("it has 0 replicas", (count or owner.node).where)
    started: list[Started] = []
    for role, part, name in roles:
        started += _part(owner, resources, spec, part, role, name, hidden)
    return Workload(started)


def _merged(owner: Manifest, resources: Resources) -> tuple[Node, tuple[str, ...]]:
    """The spec over its base configs, of which the later wins; and which of them are not among the files."""
    whole_spec: Node | None = None
    hidden = [_PRESET]
    for reference in items(at(owner.spec, "baseRefs")):
        name = text(at(reference, "name")) or "?"
        base = resources.find("LLMInferenceServiceConfig", name, owner.namespace)
        if base is None:
            hidden.append(f"LLMInferenceServiceConfig {name} is not among the files: it may pass flags")
        else:
            whole_spec = merged(whole_spec, base.spec)
    return merged(whole_spec, owner.spec) or owner.spec, tuple(hidden)


def _part(
    owner: Manifest,
    resources: Resources,
    spec: Node,
    part: Node | None,
    role: str | None,
    name: str,
    hidden: tuple[str, ...],
) -> list[Started]:
    uri, parallel = at(spec, "model", "uri"), at(part, "parallelism")
    served = text(at(spec, "model", "name")) or owner.name
    place = part or owner.node
    facts: dict[str, Fact] = dict(replicas_of(at(part, "replicas")))
    if role is not None:
        facts["role"] = known(role, "user", place.origin, note=f"its {role} part")
    adapters = items(at(spec, "model", "lora", "adapters"))
    if adapters:
        told = [{"name": text(at(each, "name")), "path": text(at(each, "uri"))} for each in adapters]
        facts["lora_modules"] = known(told, "user", adapters[0].origin)
    templates = [("", at(part, "template"))]
    worker = at(part, "worker")
    if worker is not None:
        templates.append(("-worker", worker))

    def value(path: str) -> str | None:
        return served if path == ".Spec.Model.Name" else metadata(owner, path)

    started: list[Started] = []
    for suffix, template in templates:
        pod = template if isinstance(template, Map) else mapping({}, place)
        main = next((c for c in items(pod.get("containers")) if text(at(c, "name")) == "main"), None)
        made = _main(main, place, spec, parallel, has_workers=worker is not None, is_worker=bool(suffix))
        container = filled(made, value)
        others = [c for c in items(pod.get("containers")) if c is not main]
        held = mapping({**dict(pod.items()), "containers": seq([container, *others], place)}, place)
        own = dict(facts)
        if worker is not None and (suffix or role is None):
            what = "worker" if suffix else "leader"
            own["role"] = known(what, "user", place.origin, note=f"the {what} of an LLMInferenceService")
        found = read_pod(
            held, owner, resources, name=name + suffix, facts=own, extra=Extra(unseen(owner), hidden)
        )
        started += [
            replace(each, commands=[replace(c, tokens=with_model(c.tokens, uri)) for c in each.commands])
            for each in found
        ]
    return started


def _main(
    main: Node | None, place: Node, spec: Node, parallel: Node | None, *, has_workers: bool, is_worker: bool
) -> Map:
    """The main container as KServe completes it: one that has a command of its own stays as it is."""
    if isinstance(main, Map) and main.get("command") is not None:
        return main
    own = dict(main.items()) if isinstance(main, Map) else {}
    command = _command(place, spec, parallel, has_workers, is_worker)
    additional = list(_additional(main))
    last = items(at(main, "args"))
    words = [*command, *_adapters(spec, [*additional, *last]), *additional, *last]
    return mapping(
        {"name": scalar("main", place), **own, "command": seq(words, place), "args": None}, main or place
    )


def _adapters(spec: Node, own: Sequence[Node]) -> Iterator[Node]:
    """What KServe puts before the container's arguments for `model.lora`, unless those name adapters."""
    lora = at(spec, "model", "lora")
    if not items(at(lora, "adapters")) or any("--lora-modules" in (text(word) or "") for word in own):
        return
    assert lora is not None
    yield scalar("--enable-lora", lora)
    for key, flag in _LORA:
        node = at(lora, key)
        if node is not None:
            yield from (scalar(flag, node), node)


def _command(
    place: Node, spec: Node, parallel: Node | None, has_workers: bool, is_worker: bool
) -> Iterator[Node]:
    uri = at(spec, "model", "uri") or place
    yield from (scalar("vllm", place), scalar("serve", place), scalar(MOUNTED, uri))
    served = at(spec, "model", "name") or scalar("{{.Name}}", place)  # by default the object's own
    yield from (scalar("--served-model-name", served), served)
    # the templates with workers alone have the sizes of data parallelism, and expert parallelism
    for key, flag in (*_SIZES, *(_DATA if has_workers else ())):
        node = at(parallel, key)
        if node is not None:
            yield from (scalar(flag, node), node)
    expert = at(parallel, "expert")
    if has_workers and expert is not None and text(expert) == "true":
        yield scalar("--enable-expert-parallel", expert)
    if is_worker:
        yield scalar("--headless", place)


def _additional(main: Node | None) -> Iterator[Node]:
    """The words of VLLM_ADDITIONAL_ARGS, as the shell of the template cuts them."""
    for item in items(at(main, "env")):
        value = at(item, "value")
        if text(at(item, "name")) == "VLLM_ADDITIONAL_ARGS" and isinstance(value, Scalar):
            yield from (scalar(word, value) for word in _words(value))


def _words(value: Scalar) -> list[str]:
    import shlex

    from preop.errors import InputError

    try:
        return shlex.split(value.text)
    except ValueError:
        raise InputError(f"{value.where}: VLLM_ADDITIONAL_ARGS: a quote is never closed") from None


LLM_INFERENCE_SERVICE = _read
