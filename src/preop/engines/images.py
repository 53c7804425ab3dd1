"""What a container image says of the engine inside it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from preop.facts import Fact, Origin, Word, known, unknown

__all__ = [
    "ImageRule",
    "command_by_name",
    "command_of_image",
    "engine_by_name",
    "engine_of_image",
    "rule_of_image",
    "version_of_image",
]

_REGISTRY = re.compile(r"^(?:[^/]+[.:][^/]*|localhost)/")
_DOCKER_HUB = {"docker.io", "index.docker.io", "registry-1.docker.io"}

# Repositories whose images are the engine's own releases: tags are engine versions.
# The words are what the image starts when it is given arguments alone.
_OFFICIAL: dict[str, tuple[str, tuple[str, ...]]] = {
    "vllm/vllm-openai": ("vllm", ("vllm", "serve")),
    "vllm/vllm-openai-rocm": ("vllm", ("vllm", "serve")),
    "vllm/vllm-openai-cpu": ("vllm", ("vllm", "serve")),
    "vllm/vllm-openai-xpu": ("vllm", ("vllm", "serve")),
    "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo": ("vllm", ("vllm", "serve")),
    "lmsysorg/sglang": ("sglang", ()),
    "lmsysorg/sglang-rocm": ("sglang", ()),
    "ghcr.io/ggml-org/llama.cpp": ("llama.cpp", ("llama-server",)),
    "ghcr.io/ggerganov/llama.cpp": ("llama.cpp", ("llama-server",)),
    "ghcr.io/huggingface/text-generation-inference": ("tgi", ("text-generation-launcher",)),
    "ghcr.io/huggingface/text-embeddings-inference": ("tei", ("text-embeddings-router",)),
    "nvcr.io/nvidia/tensorrt-llm/release": ("tensorrt-llm", ()),
}
# Images of others that start an engine: their tags are not the engine's versions.
_AROUND: dict[str, tuple[str, tuple[str, ...]]] = {
    "kserve/huggingfaceserver": ("vllm", ("python3", "-m", "huggingfaceserver")),
    "michaelf34/infinity": ("infinity", ("infinity_emb",)),
    "ghcr.io/llm-d/llm-d-xpu": ("vllm", ("python3", "-m", "vllm.entrypoints.openai.api_server")),
}
# What the name of an image says that is no release of its engine's makers.
_NAMES = {
    "vllm": re.compile(r"(?<![a-z0-9])vllm(?![a-z0-9])"),
    "sglang": re.compile(r"(?<![a-z0-9])sglang(?![a-z0-9])"),
    "llama.cpp": re.compile(r"(?<![a-z0-9])(llama-server|llama\.cpp|llamacpp|llama-cpp)(?![a-z0-9])"),
    "tgi": re.compile(r"(?<![a-z0-9])(text-generation-inference|tgi-gaudi)(?![a-z0-9])"),
}
_BY_LAST_PART = {
    name: command
    for repository, (_, command) in _OFFICIAL.items()
    if (name := repository.rpartition("/")[2]) and command and name != "llama.cpp"
}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_COMMANDS = {
    "vllm": ("vllm", "serve"),
    "sglang": ("python3", "-m", "sglang.launch_server"),
    "llama.cpp": ("llama-server",),
    "tgi": ("text-generation-launcher",),
    "tei": ("text-embeddings-router",),
}
_TEI_TAG = re.compile(r"(?:(?:cpu|turing|hopper|grpc|arm64|\d{2,3})-)*(\d+\.\d+(?:\.\d+)?)(?:-grpc)?")
"""TEI puts the kind of GPU before the version: `89-1.9`. `1.9` moves with its patches."""
_OTHER_TGI = re.compile(r"-(llamacpp|trtllm|neuron|tpu)(-|$)")
"""TGI's images around other engines: not its launcher, or not its server."""
_RELEASE = re.compile(r"v?(\d+\.\d+(?:\.\d+){0,2}(?:\.post\d+)?(?:rc\d+)?)")
# What may follow a release in a tag without changing the engine's version.
_BUILD = re.compile(
    r"(-(cu\d+|cuda[\d.]*|rocm[\d.]*|cpu|xpu|amd64|x86_64|aarch64|arm64|ubuntu\d+|runtime|openai|slim"
    r"|b200|h100|h200|gb200|mi\d+x?|trtllm|intel|gaudi))*"
)


@dataclass(frozen=True)
class ImageRule:
    """What a team says of an image of its own, under `[images]` of preop.toml."""

    pattern: str
    """Repository, without tag and digest; `*` stands for anything: `registry.corp/llm/*`."""
    engine: str
    version: str | None = None
    """Version of the engine inside; `tag`: the tag states it; None: not stated."""
    command: tuple[str, ...] | None = None
    """What the image puts before its arguments; None: as the engine's makers do."""


def rule_of_image(image: str, rules: Sequence[ImageRule]) -> ImageRule | None:
    """The first rule that speaks of the image."""
    repository = _split(image)[0]
    return next((rule for rule in rules if fnmatchcase(repository, rule.pattern)), None)


def _split(image: str) -> tuple[str, str | None, str | None]:
    """Repository, tag and digest. Docker Hub's own names for itself are left out."""
    image = image.strip()
    image, _, digest = image.partition("@")
    head, slash, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    repository = f"{head}{slash}{name}"
    registry = _REGISTRY.match(repository)
    if registry and registry[0][:-1] in _DOCKER_HUB:
        repository = repository[registry.end() :]
    return repository, tag or None, digest or None


def _made_as(repository: str) -> tuple[str, tuple[str, ...]] | None:
    """The engine in an image that is made as its makers do: their own, a registry's mirror of it, or one
    built under the name that llama.cpp's own guide gives it (`local/llama.cpp:server-cuda`)."""
    found = _OFFICIAL.get(repository)
    if found is not None:
        return found
    for official, made in _OFFICIAL.items():
        registry = _REGISTRY.match(official)
        path = official[registry.end() :] if registry else official
        if repository.endswith(f"/{path}"):
            return made
    return _OFFICIAL["ghcr.io/ggml-org/llama.cpp"] if repository.endswith("/llama.cpp") else None


def command_of_image(image: str, rules: Sequence[ImageRule] = ()) -> tuple[str, ...]:
    """The words that the image puts before its arguments; none where it is not known to have any.

    SGLang's images start nothing by themselves: their command names the engine. `rules` are the team's own.
    """
    repository, tag, _ = _split(image)
    rule = rule_of_image(image, rules)
    if rule is not None:
        return rule.command if rule.command is not None else _COMMANDS.get(rule.engine, ())
    found = _made_as(repository) or _AROUND.get(repository)
    if found is None:
        return ()
    if found[0] == "llama.cpp" and not re.match(r"server(-|$)", tag or "server"):
        return ()  # `light` and `full` start other programs
    if found[0] == "tgi" and _OTHER_TGI.search(tag or ""):
        return ()
    return found[1]


def command_by_name(image: str, words: Sequence[Word], environment: Collection[str] = ()) -> tuple[str, ...]:
    """The same for anybody's image: where its last part is the name of a maker's image (`team/vllm-openai`)
    and the words begin with a flag or a model; or where two signs agree: the name says the engine, and the
    words are flags alone, at least one of which only that engine has; or it says TGI, whose model may be
    named by the variable MODEL_ID."""
    from preop.engines.tables import spellings, table

    first = (words[0].text or "") if words else ""
    made = _BY_LAST_PART.get(_split(image)[0].rpartition("/")[2])
    if made and (first.startswith("-") or _HUB_ID.fullmatch(first)):
        return made
    if "MODEL_ID" in environment and _NAMES["tgi"].search(image.lower()) and first[:1] in ("", "-"):
        return _COMMANDS["tgi"]
    if not first.startswith("-"):
        return ()
    flags = {(word.text or "").partition("=")[0].replace("_", "-") for word in words}
    for engine, command in _COMMANDS.items():
        if engine not in _NAMES or not _NAMES[engine].search(image.lower()):
            continue
        others = [name for name in ("vllm", "sglang", "llama.cpp", "tgi") if name != engine]
        tables = {name: table(name) for name in (engine, *others)}
        known_flags = {name: spellings(name, found.version) for name, found in tables.items() if found}
        if any(
            flag.startswith("--")
            and flag in known_flags[engine]
            and all(flag not in known_flags[other] for other in others)
            for flag in flags
        ):
            return command
    return ()


def engine_by_name(image: str) -> str | None:
    """The engine that the name of anybody's image speaks of: a sign, and no proof that it is inside."""
    return next((engine for engine, pattern in _NAMES.items() if pattern.search(image.lower())), None)


def engine_of_image(image: str) -> str | None:
    """The engine inside an image of its own makers, whatever it starts."""
    found = _OFFICIAL.get(_split(image)[0])
    return found[0] if found else None


def version_of_image(image: str, origin: Origin | None = None, rules: Sequence[ImageRule] = ()) -> Fact:
    """The engine's version as the tag states it; unknown where the tag is not that engine's version."""
    repository, tag, digest = _split(image)
    origin = origin or Origin("argument", f"image {image}")
    rule = rule_of_image(image, rules)
    if rule is not None and rule.version != "tag":
        why = "preop.toml maps this image to no version"
        return known(rule.version, "user", origin) if rule.version else unknown(why, origin=origin)
    if rule is not None:
        stated = re.match(r"b\d+|v?\d+\.\d+(\.\d+)*(\.post\d+)?", tag or "")
        return (
            known(stated[0].removeprefix("v"), "user", origin)
            if stated
            else unknown(_moving(tag or ""), origin=origin)
        )
    found = _OFFICIAL.get(repository)
    if found is not None and found[0] == "tgi" and _OTHER_TGI.search(tag or ""):
        found = None
    if found is None:
        return unknown(
            f"a tag of {repository or 'this image'} is not known to be an engine's version", origin=origin
        )
    if tag is None:
        why = "the image is named by its digest" if digest else "the image has no tag: it is latest"
        return unknown(f"{why}, which does not state the engine's version", origin=origin)
    if found[0] == "llama.cpp":
        build = re.search(r"-(b\d+)$", tag)
        return known(build[1], "user", origin) if build else unknown(_moving(tag), origin=origin)
    if found[0] == "tei":
        stated = _TEI_TAG.fullmatch(tag)
        return known(stated[1], "user", origin) if stated else unknown(_moving(tag), origin=origin)
    release = _RELEASE.match(tag)
    if release is None or not _BUILD.fullmatch(tag[release.end() :]):
        return unknown(_moving(tag), origin=origin)
    return known(release[1], "user", origin)


def _moving(tag: str) -> str:
    return f"the tag {tag!r} does not state a released version of the engine"
