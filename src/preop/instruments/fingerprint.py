"""What a piece of evidence belongs to, and whether a deployment is still that.

Evidence speaks for the model, the engine's version, the hardware and the flags that it was measured with, and
for nothing else: a change of a README or of another service's flags leaves it valid. What a flag is worth
without being set follows from engine, version and hardware, so the flags that were set are compared, and
what the running engine said of the others where both sides know it.

Under load every flag has a say, so that all of them are compared but those that say nothing of speed. A local
model or tokenizer belongs to it by what its files hold, and is looked at again where it was.

Where something of this cannot be seen in the files (no version, no GPU, hidden flags), two engines could not
be told apart: the evidence then belongs to the endpoint that was measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from preop.deployment.types import Deployment
from preop.inputs import Inputs
from preop.instruments.types import Access, Instrument
from preop.secrets import mask_text, mask_value

__all__ = ["IDENTITY", "fingerprint", "mismatch", "remembered"]

IDENTITY = ("engine_version", "model", "gpu", "gpu_count", "accelerator")
"""Facts that count whoever states them. All others count where the user set them."""
_MOST_BYTES = 64 << 20
"""Of a larger file its size and so much of its head count: a GGUF has its tokenizer there."""
_MOST_WEIGHTS = 1 << 20
"""The same of each file that holds nothing but weights."""
_SILENT = re.compile(
    r"host|port|.*[-_](host|port|address|addr|ip)|uds|served[-_]model[-_]name|alias|middleware|jinja"
    r"|(.*[-_])?(api[-_]?key|password|secret|ssl|cors|logs?|logging|logger|verbose|verbosity|metrics|otlp"
    r"|usage|parser|tool|visible[-_]devices)([-_].*)?"
    r"|root[-_]path|allow(ed)?[-_](origins|methods|headers|credentials)|chat[-_]template.*|response[-_]role"
    r"|reasoning[-_]format|download[-_]dir|hf[-_]token|.*_TOKEN|generation[-_]config",
    re.IGNORECASE,
)
"""Flags that say nothing of speed: addresses, names, keys, logs, what an answer looks like."""
_SPEED_ENVIRONMENT = re.compile(
    r"(VLLM|SGLANG|SGL|LLAMA_ARG|GGML|TRTLLM|TLLM|CUDA|NVIDIA|HIP|ROCR|NCCL|PYTORCH|TORCH|OMP|MKL)_.*"
)
_TOKENIZER_FLAG = re.compile(r".*(tokenizer|revision).*")
_TOKENIZER_FILE = re.compile(
    r"(tokenizer|special_tokens|added_tokens|vocab|chat_template).*|merges\.txt|.*\.(model|tiktoken|gguf|jinja)"
)
_MODEL_FILE = re.compile(r"(config|hf_quant_config|quantize_config)\.json|.*\.(gguf|safetensors|bin|pt)")
_MOST_FILES = 1000


def fingerprint(
    instrument: Instrument, deployment: Deployment, access: Access | None, inputs: Inputs
) -> dict[str, Any]:
    """What evidence of this instrument, taken now, would belong to: only JSON values."""
    facts = {name: deployment.fact(name) for name in instrument.depends_on if name != "engine"}
    flags = {name: fact for name, fact in facts.items() if name not in IDENTITY and fact.is_known}
    identity = {name: fact.value for name, fact in facts.items() if name in IDENTITY and fact.is_known}
    unseen = [name for name in facts if name in IDENTITY and name not in identity]
    if identity.get("accelerator") == "none":
        identity.pop("gpu_count", None)
        unseen.append("the CPU")
    elif "gpu" in identity:
        unseen = [name for name in unseen if name != "accelerator"]
    if any(note.kind == "hidden" for note in deployment.notes):
        unseen.append("hidden flags")
    unseen += [name for name in deployment.unseen_flags if _has_a_say(instrument, name)]
    belongs: dict[str, Any] = {
        "engine": deployment.engine,
        **identity,
        "set": {name: fact.value for name, fact in flags.items() if fact.set_by == "user"},
        "running": {name: fact.value for name, fact in flags.items() if fact.set_by == "engine"},
        "unseen": unseen,
        "endpoint": mask_text(access.url) if access else None,
        "flags": _flags(instrument, deployment),
        "inputs": {
            name: digest
            for name in instrument.reads
            if (digest := _digest(getattr(inputs, name))) is not None
        },
        "paths": {
            name: os.path.abspath(path)  # noqa: PTH100 a link stays one: it may lead elsewhere later
            for name in instrument.reads
            if (path := getattr(inputs, name)) is not None and _digest(path) is not None
        },
        "model_files": _model_files(instrument, deployment),
    }
    # As it comes back from the run's folder: a byte that is no UTF-8 does not, nor does an infinity.
    text = json.dumps(msgspec.to_builtins(belongs, enc_hook=str), ensure_ascii=False).encode(
        "utf-8", "replace"
    )
    kept: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
    return kept


def mismatch(instrument: Instrument, taken: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Why evidence with the fingerprint `taken` does not speak for a deployment with `now`, in words; None
    where it does."""
    for name in ("engine", *(name for name in IDENTITY if name in instrument.depends_on)):
        if name in taken and name not in now:
            return f"{name} was {taken[name]}, and nothing states it now"
        if taken.get(name) != now.get(name):
            return f"{name} was {_said(taken.get(name))}, is {_said(now.get(name))}"
    was_set, is_set = _part(taken, "set"), _part(now, "set")
    for name in sorted(was_set.keys() | is_set.keys()):
        if was_set.get(name) != is_set.get(name):
            return f"{name} was {_said(was_set.get(name))}, is {_said(is_set.get(name))}"
    then, here = _part(taken, "flags"), _part(now, "flags")
    for name in sorted(then.keys() | here.keys()):
        if then.get(name, "") != here.get(name, "") or (name in then) != (name in here):
            was, is_ = (_said(part[name]) if name in part else "not set" for part in (then, here))
            return f"{name} was {was}, is {is_}"
    for part in ("running", "inputs", "model_files"):
        then, here = _part(taken, part), _part(now, part)
        for name in sorted(then.keys() & here.keys()):
            if then[name] != here[name]:
                return f"{name} ran at {then[name]}" if part == "running" else f"{name} has changed"
    there, here_ = taken.get("endpoint"), now.get("endpoint")
    if instrument.at_endpoint and here_ is not None and there != here_:
        return f"it was measured at {there}"
    unseen = [*(taken.get("unseen") or ()), *(now.get("unseen") or ())]
    if unseen and there != here_:
        names = ", ".join(dict.fromkeys(map(str, unseen)))
        return f"nothing states {names}, and it was measured at {there or 'no endpoint'}"
    return None


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _said(value: Any) -> str:
    return "not set" if value is None else str(value)[:80]


def remembered(inputs: Inputs, taken: Mapping[str, Any]) -> Inputs:
    """The inputs of a check, with those that it was not given from where the evidence `taken` had them: their
    content may have changed."""
    paths = {
        name: path
        for name, path in _part(taken, "paths").items()
        if name in Inputs.__struct_fields__ and isinstance(path, str) and getattr(inputs, name) is None
    }
    return msgspec.structs.replace(inputs, **paths)


def _flags(instrument: Instrument, deployment: Deployment) -> dict[str, Any]:
    """The flags that have a say in what was measured, besides those that are facts which count anyway."""
    facts = {name.replace("_", "-") for name in instrument.depends_on}
    return {
        name: mask_value(value, name)
        for name, value in deployment.flags.items()
        if name not in facts and _has_a_say(instrument, name)
    }


def _has_a_say(instrument: Instrument, name: str) -> bool:
    """Whether a flag or a variable of that name may change what the instrument sees."""
    if name.isupper() and not _SPEED_ENVIRONMENT.fullmatch(name):
        return False
    if instrument.puts_load:
        return not _SILENT.fullmatch(name)
    if name.replace("-", "_") in instrument.depends_on:
        return True
    return "tokenizer" in instrument.depends_on and _TOKENIZER_FLAG.fullmatch(name) is not None


def _model_files(instrument: Instrument, deployment: Deployment) -> dict[str, str]:
    """By name, what the model's files on this machine hold, as far as the instrument depends on them."""
    path = deployment.model.path if deployment.model is not None else None
    if path is None or "model" not in instrument.depends_on:
        return {}
    pattern = _TOKENIZER_FILE if "tokenizer" in instrument.depends_on else _MODEL_FILE
    return _contents(Path(path), pattern)


def _digest(path: str | None) -> str | None:
    """Of what an input holds: a file, or the tokenizer files of a folder; None where there is none."""
    if path is None:
        return None
    contents = _contents(Path(path), _TOKENIZER_FILE)
    told = "".join(f"{name}\0{content}\0" for name, content in sorted(contents.items()))
    return f"sha256:{hashlib.sha256(told.encode()).hexdigest()}" if contents else None


def _contents(at: Path, pattern: re.Pattern[str]) -> dict[str, str]:
    """A digest for a file, or for each of a folder's whose name is of `pattern`; none of what cannot be
    read."""
    found = {}
    try:
        is_folder = at.is_dir()
        files = [each for each in at.iterdir() if pattern.fullmatch(each.name)] if is_folder else [at]
        for file in sorted(files)[:_MOST_FILES]:
            if file.is_file():
                found[file.name if is_folder else ""] = _head(file)
    except (OSError, ValueError):
        return {}
    return found


def _head(file: Path) -> str:
    most = _MOST_WEIGHTS if file.suffix in (".safetensors", ".bin", ".pt") else _MOST_BYTES
    with file.open("rb") as opened:
        digest = hashlib.sha256(opened.read(most))
    digest.update(str(file.stat().st_size).encode())
    return digest.hexdigest()
