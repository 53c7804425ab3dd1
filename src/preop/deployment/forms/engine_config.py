"""An engine's own YAML config by itself: what `vllm serve` and `sglang serve` read as `--config FILE`.

Whose it is, its keys say: all of them are that engine's flags, and not all of them another's. The command
that names the file may add flags, which win over it.
"""

from __future__ import annotations

from preop.deployment.command import Found, unwrap
from preop.deployment.forms.arguments import arguments_of
from preop.deployment.forms.types import Context, File, Form, Reading, Started
from preop.deployment.kubernetes.expand import expand
from preop.deployment.yaml_nodes import Map, Node, Scalar, scalar
from preop.errors import InputError

__all__ = ["ENGINE_CONFIG"]

_COMMANDS = {"vllm": ("vllm", "serve"), "sglang": ("sglang", "serve")}
_MODEL = {"vllm": ("model", "model_tag"), "sglang": ("model-path", "model_path", "model")}
_COMMAND = "give the command: preop check -- vllm serve --config FILE"
_OTHERS = 10
"""One key of so many may be no flag: one of a version that has none of it, or a typing error."""


def _reads(file: File) -> bool:
    if file.path is not None and file.path.suffix.lower() not in (".yml", ".yaml"):
        return False
    if not any(
        sign in file.text for sign in ("-len", "_len", "-size", "_size", "-path", "_path", "-seqs", "_seqs")
    ):
        return False
    try:
        documents = file.documents
    except InputError:
        return False
    return len(documents) == 1 and isinstance(documents[0], Map) and bool(_engines(documents[0]))


def _engines(config: Map) -> list[str]:
    """The engines whose flags the keys are."""
    from preop.engines.tables import spellings, table

    found: list[str] = []
    for engine, model in _MODEL.items():
        flags = table(engine)
        if flags is None:
            continue
        known = spellings(engine, flags.version)
        names = [key.replace("_", "-") for key in config.entries if key not in model]
        ours = [name for name in names if f"--{name}" in known or name in flags.removed]
        others = len(names) - len(ours)
        # the name of a flag of several words is no other program's; `model` and `seed` are anybody's
        telling = [name for name in ours if "-" in name]
        enough = len(telling) + bool(set(model) & config.entries.keys()) >= 2
        if telling and enough and others <= (max(1, len(names) // _OTHERS) if len(ours) > 2 else 0):
            found.append(engine)
    return found


def _read(file: File, context: Context) -> Reading:
    config = file.mappings[0]
    if len(context.files) > 1:
        return Reading(silent=f"an engine's own config: {_COMMAND}")  # beside it is what names it
    engines = _engines(config)
    if len(engines) > 1:
        engines = _better(config, engines)
    if len(engines) != 1:
        raise InputError(
            f"{file.name}: an engine's own config, and its keys are flags of more than one engine; {_COMMAND}"
        )
    engine = engines[0]
    words: list[Node] = [scalar(word, config) for word in _COMMANDS[engine]]
    model = next((node for key in _MODEL[engine] if (node := config.get(key)) is not None), None)
    if isinstance(model, Scalar) and not model.is_null:
        words += [model] if engine == "vllm" else [scalar("--model-path", model), model]
    words += arguments_of(config, engine, skip=_MODEL[engine])
    found = Found(
        tokens=tuple(expand(word, {}) for word in words if isinstance(word, Scalar)),
        hidden=("this is an engine's config alone: the command that names it may set more",),
        folder=file.folder,
    )
    name = file.path.stem if file.path is not None else engine
    return Reading([Started(name, f"{file.name}: config of {engine}", unwrap(found))])


def _better(config: Map, engines: list[str]) -> list[str]:
    """Of several, those that know the most of the keys."""
    from preop.engines.tables import spellings, table

    counts: dict[str, int] = {}
    for engine in engines:
        flags = table(engine)
        known = spellings(engine, flags.version) if flags is not None else {}
        counts[engine] = sum("--" + key.replace("_", "-") in known for key in config.entries)
    return [engine for engine in engines if counts[engine] == max(counts.values())]


ENGINE_CONFIG = Form("an engine's own YAML config", _reads, _read)
