"""Ray Serve LLM: `applications[].args.llm_configs[]`, as `serve run` and a RayService take them.

Source: ray.serve.llm (`LLMConfig`, `build_openai_app`, `build_dp_openai_app`, `build_pd_openai_app`):
`model_loading_config` names the model, `engine_kwargs` are the engine's own arguments by the names of vLLM's
EngineArgs, `accelerator_type` is the GPU of a replica, which has one GPU for each rank of tensor and pipeline
parallelism unless `placement_group_config` says otherwise. An entry of llm_configs may be a file's path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from preop.deployment.command import Found, unwrap
from preop.deployment.environment import read_text
from preop.deployment.forms.arguments import arguments_of
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.gpus import Vendor
from preop.deployment.kubernetes.expand import expand
from preop.deployment.kubernetes.manifest import at, entries, items, text, whole
from preop.deployment.kubernetes.workloads import replicas_of
from preop.deployment.tokens import Token, environment_word
from preop.deployment.types import GpuRequest
from preop.deployment.yaml_nodes import Map, Node, Scalar, load, scalar
from preop.errors import InputError
from preop.facts import Fact, Note, Word, known, unknown

__all__ = ["RAY_SERVE", "read_applications"]

_ROLES = {"prefill_config": "prefill", "decode_config": "decode"}
_VENDORS: dict[str, Vendor] = {
    **{"AMD": "amd", "INTEL": "intel", "TPU": "google"},
    **{"AWS": "unknown", "NPU": "unknown"},
}
_ENGINES = {"vllm": ("vllm", "serve"), "sglang": ("sglang", "serve", "--model-path")}


def _reads(file: File) -> bool:
    if "applications" not in file.text and "llm_configs" not in file.text:
        return False
    try:
        return any({"applications", "llm_configs"} & each.entries.keys() for each in file.mappings)
    except InputError:
        return False


def _read(file: File, context: Context) -> Reading:
    started: list[Started] = []
    once: list[Note] = []
    for document in file.mappings:
        own, notes = read_applications(document, file.name, None, file.folder)
        started += own
        once += notes
    said = "; ".join(note.message for note in once)
    return Reading(started, (), once, f"nothing to judge: {said or 'no application has llm_configs'}")


def read_applications(
    document: Map, source: str, image: Token | None, folder: Path | None
) -> tuple[list[Started], list[Note]]:
    """The engines of a Serve config, and what must be said once. `image` is that of the Ray cluster; paths
    of config files begin at `folder`."""
    started: list[Started] = []
    notes: list[Note] = []
    configs = list(_configs(document))
    for config, role in configs:
        if isinstance(config, Scalar):
            path, loaded = config.text, _from_file(config.text, folder)
            if loaded is None:
                notes.append(Note("other", f"{path[:80]} is not here: it is not judged", config.where))
                continue
            config = loaded
        if not isinstance(config, Map):
            raise InputError(f"{config.where}: an entry of llm_configs: expected a mapping or a path")
        count = at(config, "deployment_config", "num_replicas")
        if whole(count) == 0:
            notes.append(Note("other", f"{_name(config)} does not run: it has 0 replicas", config.where))
            continue
        if whole(at(config, "deployment_config", "autoscaling_config", "min_replicas")) == 0:
            why = f"{_name(config)} scales to zero: its first request waits for a start"
            notes.append(Note("other", why, config.where))
        started.append(_engine(config, role, source, image))
    if not configs:
        paths = [text(at(each, "import_path")) for each in items(document.get("applications"))]
        code = [path for path in paths if path and not path.startswith("ray.serve.llm")]
        if code:
            said = (
                f"no application has llm_configs: {', '.join(code)[:80]} is Python, which preop does not run"
            )
            notes.append(Note("other", said))
    return started, notes


def _from_file(name: str, folder: Path | None) -> Node | None:
    path = folder / name if folder is not None else Path(name)
    try:
        if (not path.is_absolute() and folder is None) or not path.is_file():
            return None
    except (OSError, ValueError):
        return None
    documents = load(read_text(path, "a config of Ray Serve LLM"), str(path))
    return documents[0] if documents else None


def _configs(document: Map) -> Iterator[tuple[Node, str | None]]:
    """Every LLM config of the document, with its role where it has one."""
    holders = [at(application, "args") for application in items(document.get("applications"))]
    for holder in [*holders, document]:
        for config in items(at(holder, "llm_configs")):
            yield config, None
        for key, role in _ROLES.items():
            part = at(holder, key)
            if part is not None:
                yield part, role
        for key in ("dp_config", "llm_config"):
            one = at(holder, key)
            if one is not None:
                yield one, None


def _name(config: Map) -> str:
    return text(at(config, "model_loading_config", "model_id")) or "model"


def _engine(config: Map, role: str | None, source: str, image: Token | None) -> Started:
    loading, arguments = at(config, "model_loading_config"), config.get("engine_kwargs")
    served, model = at(loading, "model_id"), at(loading, "model_source")
    if isinstance(model, Map):
        model = at(model, "bucket_uri")
    model = model or served
    if not isinstance(model, Scalar):
        raise InputError(f"{config.where}: model_loading_config names no model; expected model_id")
    engine = (text(at(config, "llm_engine")) or "vLLM").lower()
    if engine not in _ENGINES:
        raise InputError(f"{config.where}: llm_engine is {engine[:40]!r}; expected vLLM or SGLang")
    words: list[Node] = [*(scalar(word, model) for word in _ENGINES[engine]), model]
    if isinstance(served, Scalar):
        words += [scalar("--served-model-name", served), served]
    tokenizer = at(loading, "tokenizer_source")
    if isinstance(tokenizer, Scalar):
        flag = "--tokenizer" if engine == "vllm" else "--tokenizer-path"
        words += [scalar(flag, tokenizer), tokenizer]
    if isinstance(arguments, Map):
        words += arguments_of(arguments, engine, skip=("model", "model_path", "served_model_name"))
    elif arguments is not None:
        raise InputError(f"{arguments.where}: engine_kwargs: expected a mapping of the engine's arguments")
    facts = {**_replicas(config), **_adapters(config)}
    if role is not None:
        facts["role"] = known(role, "user", config.origin, note=f"its {role}_config")
    found = Found(
        tokens=tuple(expand(word, {}) for word in words if isinstance(word, Scalar)),
        environment=_environment(config),
        image=image,
        own_entrypoint=True,
        gpus=_gpus(config, arguments, facts),
        folder=None,
    )
    name = _name(config) + (f" ({role})" if role else "")
    return Started(name, f"{source}: model {name}", unwrap(found), facts)


def _replicas(config: Map) -> dict[str, Fact]:
    scaling = at(config, "deployment_config", "autoscaling_config")
    if scaling is None:
        count = at(config, "deployment_config", "num_replicas")
        return replicas_of(None if text(count) == "auto" else count)
    least, most = at(scaling, "min_replicas"), at(scaling, "max_replicas")
    if least is not None and whole(least) is not None and whole(least) == whole(most):
        return replicas_of(least)
    return {"replicas": unknown("autoscaling_config decides how many there are", origin=scaling.origin)}


def _adapters(config: Map) -> dict[str, Fact]:
    path = at(config, "lora_config", "dynamic_lora_loading_path")
    if path is None:
        return {}
    return {"lora_modules": unknown("adapters are loaded as they are asked for", origin=path.origin)}


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
    place = kind or at(config, "placement_group_config") or arguments or config
    count = _count(config, arguments)
    vendor: Vendor = "unknown"
    name = text(kind)
    if kind is not None and name is not None:
        told = "A10G" if name == "A10" else name.replace("-", " ")  # Ray takes A10 for A10G
        try:
            gpu = find_gpu(told)
        except InputError:  # a family, whose members differ in memory
            gpu = None
        if gpu is not None:
            facts["gpu"] = known(gpu.name, "user", kind.origin, note="accelerator_type")
        vendor = _vendor(name)
    if count is None and vendor == "unknown":
        return None
    facts["gpu_allocation"] = known("whole", "user", place.origin, note="a placement group of Ray")
    return GpuRequest(vendor, count, None, place.origin)


def _vendor(name: str) -> Vendor:
    """Ray's names of accelerators: ray/util/accelerators/accelerators.py."""
    for start, vendor in _VENDORS.items():
        if name.upper().startswith(start):
            return vendor
    return "nvidia"


def _count(config: Map, arguments: Node | None) -> int | None:
    """One for each rank, unless the bundles say otherwise; None where a size is no number."""
    bundles = items(at(config, "placement_group_config", "bundles"))
    if bundles:
        shares = [whole(at(bundle, "GPU")) for bundle in bundles if at(bundle, "GPU") is not None]
        return sum(share or 0 for share in shares) if None not in shares else None
    count = 1
    for key in ("tensor_parallel_size", "pipeline_parallel_size", "tp_size", "pp_size"):
        size = at(arguments, key)
        number = whole(size) if size is not None else 1
        if number is None:
            return None
        count *= number
    return count


RAY_SERVE = Form("a Ray Serve LLM config", _reads, _read)
