"""Which engine a command line starts, and where its own arguments begin."""

from __future__ import annotations

import re
from collections.abc import Sequence

from preop.engines.tables import label
from preop.engines.types import Identified
from preop.errors import InputError
from preop.facts import Word
from preop.secrets import mask_text

__all__ = ["NotServing", "Routing", "identify"]


class NotServing(InputError):
    """The command is an engine's, but one beside serving: `vllm bench`."""


class Routing(NotServing):
    """The command starts a router or gateway: it hands requests on to engines and serves no model itself."""


_PYTHON = re.compile(r"(python|pypy)(\d(\.\d+)?)?t?")
_PYTHON_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}

_MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",  # its demonstration server: the same engine arguments
    "vllm.entrypoints.launchers.api_server.entry": "vllm",
    "sglang.launch_server": "sglang",
    "llama_cpp.server": "llama-cpp-python",
    "tensorrt_llm.commands.serve": "tensorrt-llm",
    "dynamo.vllm": "vllm",
    "dynamo.sglang": "sglang",
    "dynamo.trtllm": "tensorrt-llm",
}
# Modules that are the command line itself: their first argument is the subcommand.
_MODULE_COMMANDS = {
    "vllm": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "sglang": "sglang",
    "sglang.cli.main": "sglang",
}
_KSERVE = "huggingfaceserver"
_KSERVE_OTHER = "kserve-transformers"
"""KServe's server where --backend=huggingface: Transformers, and no engine of its own."""
_PROGRAMS = {
    "llama-server": "llama.cpp",
    "text-generation-launcher": "tgi",
    "text-embeddings-router": "tei",
    "trtllm-serve": "tensorrt-llm",
    "infinity_emb": "infinity",
}
_ROUTERS = {
    "vllm-router": "vLLM Router",
    "sglang-router": "SGLang Router",
    "smg": "SGLang Model Gateway",
    "lmcache_server": "LMCache's server",
    "lmcache_controller": "LMCache's controller",
}
_ROUTER_MODULES = {
    "vllm_router": "vLLM Router",
    "sglang_router": "SGLang Router",
    "sglang.srt.disaggregation.mini_lb": "SGLang's load balancer",
    "sglang.srt.disaggregation.launch_lb": "SGLang's load balancer",
    "lmcache": "LMCache",
    "dynamo.frontend": "Dynamo's frontend",
    "dynamo.router": "Dynamo's router",
    "dynamo.planner": "Dynamo's planner",
    "dynamo.global_router": "Dynamo's router",
}
"""By module, or by the package around it."""
# Programs with subcommands: those that serve, and the engine.
_SERVING: dict[str, tuple[str, frozenset[str]]] = {
    "vllm": ("vllm", frozenset({"serve"})),
    "sglang": ("sglang", frozenset({"serve"})),
    "llama": ("llama.cpp", frozenset({"serve", "server"})),
    "ollama": ("ollama", frozenset({"serve"})),
    "lmdeploy": ("lmdeploy", frozenset({"serve"})),
}
_OTHERS = {
    "vllm": {"bench", "chat", "complete", "run-batch", "collect-env", "launch", "snapshot", "preload",
             "download-kernels"},
    "sglang": {"generate", "version", "killall"},
    "llama": {"cli", "chat", "bench", "completion", "download", "tokenize", "update", "version"},
}  # fmt: skip


def identify(words: Sequence[Word]) -> Identified | None:
    """The engine that `words` start; None where there is none that preop knows.

    The first word is the program: wrappers, shells and containers are the caller's to take off. Raises
    `InputError` where two engines are started, and its kind `NotServing` at a subcommand that does not serve.
    """
    found = _starts(words, 0) if words else None
    if found is None:
        return None
    for other in range(found.arguments_at, len(words)):
        second = _starts_engine(words, other)
        if second is not None:
            raise InputError(
                f"{words[other].origin}: the command starts {label(found.engine)} and again {second.how}; "
                "one engine to a command was expected"
            )
    return found


_OF_A_BUILD = re.compile(r"(llama-server)-(b?[0-9a-f]{4,40}|cuda|vulkan|rocm|hip|sycl|cpu|metal)")


def _name(text: str) -> str:
    """The program without its folder, without `.exe`, and without the build that some write behind it."""
    name = re.split(r"[/\\]", text)[-1].removesuffix(".exe")
    if name == "server" and "llama.cpp" in text:
        return "llama-server"  # its name until June 2024
    build = _OF_A_BUILD.fullmatch(name)
    return build[1] if build else name


def _starts(words: Sequence[Word], at: int) -> Identified | None:
    """The engine whose program stands at `at`."""
    text = words[at].text
    if text is None:
        return None
    name = _name(text)
    if _PYTHON.fullmatch(name):
        return _python(words, at)
    if text == "-m" and at + 1 < len(words) and words[at + 1].text is not None:
        return _module(words, at + 1, words[at + 1].text or "", "python")  # Python is the image's entrypoint
    if text.endswith(("/launch_server.py", "/api_server.py")) or text in (
        "launch_server.py",
        "api_server.py",
    ):
        return _script(text, at)
    if name in _ROUTERS:
        raise _routing(words[at], _ROUTERS[name])
    if name in _PROGRAMS:
        return _program(words, at, name)
    if name in _SERVING:
        return _subcommand(words, at, name, name)
    return None


def _program(words: Sequence[Word], at: int, name: str) -> Identified:
    after = words[at + 1].text if at + 1 < len(words) else None
    if name == "trtllm-serve":
        return _tensorrt(words, at, name, after)
    skip = 1 if name == "infinity_emb" and after in ("v1", "v2") else 0
    return Identified(_PROGRAMS[name], at + 1 + skip, name)


def _tensorrt(words: Sequence[Word], at: int, how: str, after: str | None) -> Identified:
    """trtllm-serve has an optional `serve`, and subcommands of which some serve no model of their own."""
    if after == "disaggregated":
        raise _routing(words[at + 1], "TensorRT-LLM's disaggregated server")
    if after == "disaggregated_mpi_worker":
        raise NotServing(
            f"{words[at + 1].origin}: `{how} {after}` takes its model and flags from a file; "
            "`trtllm-serve MODEL` was expected"
        )
    if after in ("embeddings", "rerank", "mm_embedding_serve"):
        through = "rerank" if after == "rerank" else "embeddings"
        return Identified("tensorrt-llm", at + 2, f"{how} {after}", through)
    return Identified("tensorrt-llm", at + 1 + (after == "serve"), how)


def _routing(word: Word, what: str) -> Routing:
    return Routing(
        f"{word.origin}: {what} hands requests on to engines and serves no model itself; "
        "the command of an engine was expected"
    )


def _subcommand(words: Sequence[Word], at: int, program: str, how: str) -> Identified | None:
    engine, serving = _SERVING[program]
    after = at + 1
    while after < len(words) and (words[after].text or "").startswith("-"):
        after += 1
    if after == len(words):
        if program in ("llama", "ollama", "lmdeploy"):
            return None
        raise NotServing(f"{words[at].origin}: {how} has no subcommand; `{program} serve` was expected")
    text = words[after].text
    if text in serving:
        skip = 2 if program == "lmdeploy" else 1
        return Identified(engine, min(after + skip, len(words)), f"{how} {text}")
    if text is None or (program in ("llama", "ollama", "lmdeploy") and text not in _OTHERS.get(program, ())):
        return None
    raise NotServing(
        f"{words[after].origin}: `{how} {mask_text(text)[:40]}` serves nothing; "
        f"`{how} {sorted(serving)[0]}` was expected"
    )


def _python(words: Sequence[Word], at: int) -> Identified | None:
    """`python -m MODULE ...` and `python path/launch_server.py ...`."""
    how = _name(words[at].text or "python")
    at += 1
    while at < len(words):
        text = words[at].text
        if text is None:
            return None
        if text == "-m" or (text.startswith("-m") and not text.startswith("--")):
            if text == "-m":
                at += 1
            module = words[at].text if at < len(words) else None
            if module is None:
                return None
            return _module(words, at, module.removeprefix("-m") if text != "-m" else module, how)
        if text in _PYTHON_WITH_VALUE:
            at += 2
        elif text.startswith("-"):
            at += 1
        else:
            return _script(text, at) or (_starts(words, at) if _name(text) in _SERVING else None)
    return None


def _module(words: Sequence[Word], at: int, module: str, python: str) -> Identified | None:
    how = f"{python} -m {module}"
    if module == _KSERVE:
        return _kserve(words, at, how)
    if module == "tensorrt_llm.commands.serve":
        return _tensorrt(words, at, how, words[at + 1].text if at + 1 < len(words) else None)
    if module in _MODULES:
        through = "dynamo" if module.startswith("dynamo.") else None
        return Identified(_MODULES[module], at + 1, how, through)
    package = module.partition(".")[0]
    if module in _ROUTER_MODULES or package in _ROUTER_MODULES:
        raise _routing(words[at], _ROUTER_MODULES.get(module) or _ROUTER_MODULES[package])
    if module in _MODULE_COMMANDS:
        return _subcommand(words, at, _MODULE_COMMANDS[module], how)
    if module.startswith("vllm.entrypoints.") or module.startswith("sglang.bench"):
        raise NotServing(
            f"{words[at].origin}: {module[:80]} is not a server that preop knows; "
            "vllm.entrypoints.openai.api_server or sglang.launch_server was expected"
        )
    return None


def _kserve(words: Sequence[Word], at: int, how: str) -> Identified:
    """KServe serves with vLLM unless --backend says otherwise (or vLLM cannot serve the model)."""
    texts = [word.text for word in words[at + 1 :]]
    backend = next((t.partition("=")[2] for t in texts if t and t.startswith("--backend=")), None)
    if backend is None and "--backend" in texts[:-1]:
        backend = texts[texts.index("--backend") + 1]
    engine = _KSERVE_OTHER if backend == "huggingface" else "vllm"
    return Identified(engine, at + 1, how, "kserve")


def _script(text: str, at: int) -> Identified | None:
    path = text.replace("\\", "/")
    if path.endswith("vllm/entrypoints/openai/api_server.py"):
        return Identified("vllm", at + 1, "api_server.py")
    if path.endswith("sglang/launch_server.py"):
        return Identified("sglang", at + 1, "launch_server.py")
    return None


def _starts_engine(words: Sequence[Word], at: int) -> Identified | None:
    """A second engine among the arguments of the first: a program and its subcommand, not just a name."""
    text = words[at].text
    if text is None or text.startswith("-"):
        return None
    before = words[at - 1].text if at else None
    follows_flag = before is not None and before.startswith("-")
    try:
        found = _starts(words, at)
    except InputError:
        return None
    # `--served-model-name vllm serve` is odd, but a value; `llama-server` may be any flag's value.
    return None if follows_flag and found is not None and " " not in found.how else found
