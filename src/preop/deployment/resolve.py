"""From a launch to a deployment: engine knowledge, the image, the GPUs and the model applied to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from preop.deployment.accelerator import accelerator_facts
from preop.deployment.options import ReadOptions
from preop.deployment.types import Deployment, Launch
from preop.facts import Fact, Note, Origin, known, unknown
from preop.secrets import mask_text

if TYPE_CHECKING:
    from preop.engines import Unreadable
    from preop.models.types import Model

__all__ = ["resolve", "stated"]


def resolve(launch: Launch, options: ReadOptions, folder: Path | None) -> Deployment:
    """The deployment that `launch` starts. Relative paths begin at `folder`.

    Raises `InputError` where the words start no engine, or where nothing can be made of them.
    """
    from preop.engines import Accelerator, facts, identify, parse
    from preop.errors import InputError

    identified = identify(launch.words)
    if identified is None:
        raise InputError(f"{launch.source}: no engine that preop knows starts here")
    engine = identified.engine
    version = _version(launch, options)
    stated = str(version.value) if version.is_known else None
    parsed = parse(
        engine,
        stated,
        launch.words[identified.arguments_at :],
        lambda path: _read_config(path, launch, folder),
        identified.through,
    )
    gpu = _find_gpu(options)
    told = gpu or _gpu_of_form(launch)
    found = facts(
        engine,
        stated,
        parsed,
        launch.environment,
        hidden=(*launch.hidden, *parsed.hidden),
        hidden_environment=launch.hidden_environment,
        accelerator=Accelerator(told.name, told.total_gib) if told else None,
    )
    found = dict(found)
    found["engine_version"] = version
    found.update(_image_facts(launch))
    found.update(accelerator_facts(launch, engine, parsed, found, options, gpu))
    for name, fact in launch.facts.items():
        if name not in found or found[name].set_by != "user":
            found[name] = fact
    model, model_notes = _model(found.get("model"), launch, options, folder)
    hidden = [Note("hidden", reason) for reason in launch.hidden]
    hidden += [Note("hidden-environment", reason) for reason in launch.hidden_environment]
    return Deployment(
        name=launch.name or engine,
        engine=engine,
        source=launch.source,
        facts=found,
        model=model,
        notes=(*parsed.notes, *hidden, *model_notes),
        flags={
            **{each.name: each.value for each in parsed.given.values() if each.is_known},
            **{name: word.text for name, word in launch.environment.items() if word.text is not None},
        },
        unseen_flags=(
            *(each.name for each in parsed.given.values() if not each.is_known),
            *(name for name, word in launch.environment.items() if word.text is None),
        ),
    )


def stated(options: ReadOptions, url: str) -> Deployment | None:
    """What the options alone say of an engine that only its endpoint `url` tells of; None: nothing."""
    given = (
        options.engine_version,
        options.gpu,
        options.gpu_count,
        options.accelerator,
        options.model_path,
    )
    if not any(given):
        return None
    from preop.engines.types import ParsedFlags
    from preop.models.find import find_model

    launch = Launch(url, url, ())
    facts = accelerator_facts(
        launch, "unknown", ParsedFlags("unknown", None, {}), {}, options, _find_gpu(options)
    )
    if options.engine_version is not None:
        facts["engine_version"] = _version(launch, options)
    path = options.model_path
    model = find_model(Path(path).name, path=path) if path is not None else None
    known_facts = {name: fact for name, fact in facts.items() if fact.is_known}
    return Deployment(url, "unknown", url, known_facts, model)


def _version(launch: Launch, options: ReadOptions) -> Fact:
    from preop.engines import version_of_image

    if options.engine_version is not None:
        return known(options.engine_version, "user", Origin("option", "--engine-version"))
    told = launch.facts.get("engine_version")
    if told is not None:
        return told
    if launch.image is None:
        return unknown("the command does not state the engine's version; --engine-version does")
    if launch.image.text is None:
        return unknown(launch.image.note or "the image cannot be seen", origin=launch.image.origin)
    fact = version_of_image(launch.image.text, rules=options.images)
    if not fact.is_known:
        return unknown(fact.note or "the image's tag is no engine version", origin=launch.image.origin)
    return known(fact.value, "user", launch.image.origin, note=fact.note)


def _image_facts(launch: Launch) -> dict[str, Fact]:
    image = launch.image
    if image is None:
        return {}
    if image.text is None:
        hidden = unknown(image.note or "the image cannot be seen", origin=image.origin)
        return {"image": hidden, "image_digest": hidden}
    _, at, digest = image.text.partition("@")
    return {
        "image": known(mask_text(image.text), "user", image.origin),
        "image_digest": known(digest, "user", image.origin)
        if at
        else known(None, "user", image.origin, note="the image is named without a digest"),
    }


def _find_gpu(options: ReadOptions) -> Any:
    if options.gpu is None:
        return None
    from preop.errors import UsageError
    from preop.models.gpus import find_gpu

    gpu = find_gpu(options.gpu)
    if gpu is None:
        raise UsageError(
            f"--gpu {options.gpu}: not in preop's GPU sheet; expected a name such as H100-SXM-80GB"
        )
    return gpu


def _gpu_of_form(launch: Launch) -> Any:
    """The GPU that the form itself names: a label of the node."""
    fact = launch.facts.get("gpu")
    if fact is None or not isinstance(fact.value, str):
        return None
    from preop.models.gpus import find_gpu

    return find_gpu(fact.value)


def _model(
    name: Fact | None, launch: Launch, options: ReadOptions, folder: Path | None
) -> tuple[Model | None, tuple[Note, ...]]:
    if name is None or not name.is_known or not isinstance(name.value, str):
        return None, ()
    from preop.models.find import find_model

    path, text = options.model_path, name.value
    if path is None and (text.startswith(("/", "./", "../", "~")) or text.endswith(".gguf")):
        here = _here(text, launch, folder)
        if here is None:
            inside = "is inside the container, and no volume shows it here" if launch.image else "is not here"
            advice = "--model-path says where its files are"
            return None, (Note("other", f"the model {mask_text(text)} {inside}", name.source, advice),)
        path = str(here)
    return find_model(text, path=path, root=options.models, fetch=options.fetch), ()


def _here(text: str, launch: Launch, folder: Path | None) -> Path | None:
    """Where a path of the engine's is on this machine: through the container's mounts, else as it stands."""
    path: Path | None = None
    if launch.image is None:
        absolute = text.startswith(("/", "~"))
        path = (folder or Path("/")) / _home(text) if absolute or folder is not None else None
    else:
        inside = PurePosixPath(text)
        for mounted, here in sorted(launch.mounts.items(), key=lambda pair: -len(pair[0])):
            if inside.is_relative_to(mounted):
                path = Path(here) / inside.relative_to(mounted)
                break
    try:
        return path if path is not None and path.exists() else None
    except (OSError, ValueError):
        return None


def _home(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # `~nobody`
        return Path(text)


def _read_config(text: str, launch: Launch, folder: Path | None) -> Mapping[str, Any] | Unreadable:
    """The mapping in an engine's `--config` file. Raises `InputError` where it is here and is none."""
    from preop.deployment.environment import read_text
    from preop.deployment.yaml_nodes import Map, load, to_python
    from preop.engines import Unreadable
    from preop.errors import InputError

    held = launch.texts.get(text)
    path = _here(text, launch, folder) if held is None else None
    if held is not None:
        content, path = held.text, Path(held.file)
    elif path is not None:
        content = read_text(path, "an engine's config file")
    else:
        return Unreadable("it is inside the container" if launch.image else "it is not here")
    documents = load(content, str(path))
    if len(documents) != 1 or not isinstance(documents[0], Map):
        raise InputError(f"{path}: expected one mapping of flags")
    found: dict[str, Any] = to_python(documents[0])
    return found
