"""Ray Serve LLM: `applications[].args.llm_configs[]`, as `serve run` and a RayService take them.

Source: ray.serve.llm (`LLMConfig`): `model_loading_config` names the model, `engine_kwargs` are vLLM's own
arguments by the names of EngineArgs, `accelerator_type` is the GPU of a replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from preop.deployment.command import Found, unwrap
from preop.deployment.forms.arguments import arguments_of
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.gpus import vendor_of
from preop.deployment.kubernetes.expand import expand
from preop.deployment.kubernetes.manifest import at, entries, items, text, whole
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.tokens import Token, environment_word
from preop.deployment.types import GpuRequest
from preop.deployment.yaml_nodes import Map, Node, Scalar, scalar
from preop.errors import InputError
from preop.facts import Fact, Note, Word, known

__all__ = ["RAY_SERVE", "read_applications"]

_ROLES = {"prefill_config": "prefill", "decode_config": "decode"}


def _reads(file: File) -> bool:
    if "llm_config" not in file.text and "applications" not in file.text and "_config" not in file.text:
        return False
    try:
        return any({"applications", "llm_configs"} & each.entries.keys() for each in file.mappings)
    except InputError:
        return False


def _read(file: File, context: Context) -> Reading:
    started: list[Started] = []
    once: list[Note] = []
    for document in file.mappings:
        own, notes = read_applications(document, file.name, None)
        started += own
        once += notes
    said = "; ".join(note.message for note in once)
    return Reading(started, (), once, f"nothing to judge: {said or 'no application has llm_configs'}")


def read_applications(document: Map, source: str, image: Token | None) -> tuple[list[Started], list[Note]]:
    """The engines of a Serve config, and what must be said once. `image` is that of the Ray cluster."""
    started: list[Started] = []
    notes: list[Note] = []
    for config, role in _configs(document):
        if not isinstance(config, Map):
            what = text(config) or "?"
            notes.append(
                Note("other", f"{what} is a file of its own, which is not judged here", config.where)
            )
            continue
        if whole(at(config, "deployment_config", "num_replicas")) == 0:
            notes.append(Note("other", f"{_name(config)} does not run: it has 0 replicas", config.where))
            continue
        started.append(_engine(config, role, source, image))
    return started, notes


def _configs(document: Map) -> Iterator[tuple[Node, str | None]]:
    """Every LLM config of the document, with its role where it has one."""
    holders = [at(application, "args") for application in items(document.get("applications"))]
    for holder in [*holders, document]:
        for config in items(at(holder, "llm_configs")):
            yield config, None
        for key, role in _ROLES.items():
            config_ = at(holder, key)
            if config_ is not None:
                yield config_, role
        for path in (("dp_config",), ("llm_config",)):
            one = at(holder, *path)
            if one is not None:
                yield one, None


def _name(config: Map) -> str:
    return text(at(config, "model_loading_config", "model_id")) or "model"


def _engine(config: Map, role: str | None, source: str, image: Token | None) -> Started:
    loading = at(config, "model_loading_config")
    served, model = at(loading, "model_id"), at(loading, "model_source")
    if isinstance(model, Map):
        model = at(model, "bucket_uri")
    model = model or served
    if not isinstance(model, Scalar):
        raise InputError(f"{config.where}: model_loading_config names no model; expected model_id")
    words: list[Node] = [scalar("vllm", model), scalar("serve", model), model]
    if isinstance(served, Scalar):
        words += [scalar("--served-model-name", served), served]
    arguments = config.get("engine_kwargs")
    if isinstance(arguments, Map):
        words += arguments_of(arguments, "vllm", skip=("model", "served_model_name"))
    name = _name(config) + (f" ({role})" if role else "")
    facts: dict[str, Fact] = dict(replicas_of(at(config, "deployment_config", "num_replicas")))
    if role is not None:
        facts["role"] = known(role, "user", config.origin, note=f"its {role}_config")
    gpus = _gpus(config, arguments, facts)
    found = Found(
        tokens=tuple(expand(word, {}) for word in words if isinstance(word, Scalar)),
        environment=_environment(config),
        image=image,
        gpus=gpus,
        folder=None,
    )
    return Started(name, f"{source}: model {name}", unwrap(found), facts)


def _environment(config: Map) -> Mapping[str, Word]:
    return {
        name: environment_word(name, Token(value.text, value.origin))
        for name, value in entries(at(config, "runtime_env", "env_vars"))
        if isinstance(value, Scalar)
    }


def _gpus(config: Map, arguments: Node | None, facts: dict[str, Fact]) -> GpuRequest | None:
    """The GPU by the name that Ray has for it, and how many one replica takes."""
    from preop.models.gpus import find_gpu

    kind = at(config, "accelerator_type")
    name = text(kind)
    if kind is None or name is None:
        return None
    try:
        gpu = find_gpu(name.replace("-", " "))
    except InputError:
        gpu = None
    if gpu is not None:
        facts["gpu"] = known(gpu.name, "user", kind.origin, note="accelerator_type")
    vendor = vendor_of(gpu.vendor) if gpu is not None else "amd" if "MI" in name.upper() else "nvidia"
    sizes = [at(arguments, key) for key in ("tensor_parallel_size", "pipeline_parallel_size")]
    count = 1
    for size in sizes:
        number = whole(size) if size is not None else 1
        if number is None:
            return GpuRequest(vendor, None, None, kind.origin)
        count *= number
    facts["gpu_allocation"] = known("whole", "user", kind.origin, note="a placement group of Ray")
    return GpuRequest(vendor, count, None, kind.origin)


RAY_SERVE = Form("a Ray Serve LLM config", _reads, _read)
