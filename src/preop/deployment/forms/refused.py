"""Files that start no engine, or not in a way that preop reads: what they are, said by name."""

from __future__ import annotations

import re

from preop.deployment.forms.shell_script import interpreter
from preop.deployment.forms.types import File
from preop.errors import InputError

__all__ = ["what_it_is"]

_YAML_SUFFIXES = frozenset({".yml", ".yaml", ".json"})
_ENGINE_KEYS = frozenset(
    {"model", "max-model-len", "max_model_len", "tensor-parallel-size", "model-path", "served-model-name"}
)


def what_it_is(file: File) -> str:
    """What a file is that no reader takes, in words. Raises `InputError` where it is broken YAML."""
    program = interpreter(file.text)
    if program is not None:
        return f"a {program} program"
    suffix = file.path.suffix.lower() if file.path else ""
    if re.search(r"^ExecStart\s*=", file.text, re.MULTILINE):
        return "a systemd unit, which preop does not read yet"
    if suffix == "" and re.search(r"^FROM\s+\S+", file.text, re.MULTILINE):
        return "a Dockerfile, which preop does not read yet"
    if suffix not in _YAML_SUFFIXES and file.path is not None:
        return "not a kind of file that preop reads"
    try:
        documents = file.documents
    except InputError:
        if "{{" in file.text:
            return "a template (it holds `{{`), not YAML: render it first"
        raise
    if not documents:
        return "holds no value"
    if not file.mappings:
        return "holds no mapping"
    names = frozenset(file.mappings[0].entries)
    if "apiVersion" in names:
        return "a Helm chart's own description: render the chart first: helm template CHART | preop check -"
    if names & {"architectures", "model_type", "hidden_size"}:
        return "a model's config.json (--model-path takes its folder)"
    if names & _ENGINE_KEYS:
        return "an engine's own config file (give the command: preop check -- vllm serve --config FILE)"
    return "no form that preop knows"
