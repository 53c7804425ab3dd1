"""Files that start no engine, or not in a way that preop reads: what they are, said by name."""

from __future__ import annotations

import re

from preop.deployment.forms.shell_script import interpreter
from preop.deployment.forms.types import File
from preop.errors import InputError

__all__ = ["what_it_is"]

_YAML_SUFFIXES = frozenset({".yml", ".yaml", ".json"})
_BUILDS = re.compile(r"\b(LLMConfig|AsyncEngineArgs|AsyncLLMEngine|LLM|sgl\.Engine|LLMEngine)\s*\(")
_INSTEAD = "check the command or config that it stands for, or the endpoint: preop check --endpoint URL"
_TENSORRT_KEYS = frozenset({"kv_cache_config", "cuda_graph_config", "pytorch_backend_config", "moe_config"})
_ENGINE_KEYS = frozenset(
    {"model", "max-model-len", "max_model_len", "tensor-parallel-size", "model-path", "served-model-name"}
)


def what_it_is(file: File) -> str:
    """What a file is that no reader takes, in words. Raises `InputError` where it is broken YAML."""
    program = interpreter(file.text)
    if program is not None:
        return f"a {program} program"
    suffix = file.path.suffix.lower() if file.path else ""
    if suffix == ".py" and _BUILDS.search(file.text):
        return f"Python that makes an engine, which preop does not run: {_INSTEAD}"
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
    if names & _TENSORRT_KEYS:
        return "TensorRT-LLM's own config (give the command: preop check -- trtllm-serve MODEL --config FILE)"
    if names & _ENGINE_KEYS:
        return "an engine's own config file (give the command: preop check -- vllm serve --config FILE)"
    if file.path is not None and "values" in file.path.stem.lower():
        return (
            "values of a Helm chart that preop does not know: render it first: helm template CHART "
            f"-f {file.path.name} | preop check -"
        )
    return "no form that preop knows"
