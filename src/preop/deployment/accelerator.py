"""Which accelerator a deployment runs on, how many and which: as far as anything states it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from preop.deployment import gpus
from preop.deployment.options import ReadOptions
from preop.deployment.types import GpuRequest, Launch
from preop.engines.types import ParsedFlags
from preop.facts import Fact, Origin, Word, known, unknown

__all__ = ["accelerator_facts", "of_image"]

# Parts of an image's name or tag that say what it was built for.
_BUILDS = {
    "rocm": "amd",
    "cuda": "nvidia",
    "nvidia": "nvidia",
    "habana": "habana",
    "gaudi": "habana",
    "hpu": "habana",
    "xpu": "intel",
    "intel": "intel",
    "sycl": "intel",
    "tpu": "google",
    "cpu": "none",
}
_DEVICES = {"cpu": "none", "cuda": "nvidia", "rocm": "amd", "tpu": "google", "hpu": "habana", "xpu": "intel"}


def accelerator_facts(
    launch: Launch,
    engine: str,
    parsed: ParsedFlags,
    found: Mapping[str, Fact],
    options: ReadOptions,
    gpu: Any,
) -> dict[str, Fact]:
    """accelerator, gpu, gpu_count and gpu_ids; unknown where nothing states them.

    What the user told preop counts first, then the command, the image, what the platform is asked for,
    and the environment. `gpu` is the entry of the GPU sheet that `--gpu` named.
    """
    facts: dict[str, Fact] = {}
    if gpu is not None:
        facts["gpu"] = known(gpu.name, "user", Origin("option", "--gpu"))
    visible = gpus.from_environment(launch.environment, launch.gpus.vendor if launch.gpus else None)
    accelerator = facts["accelerator"] = _accelerator(launch, engine, parsed, found, options, gpu, visible)
    if options.gpu_count is not None:
        facts["gpu_count"] = known(options.gpu_count, "user", Origin("option", "--gpu-count"), unit="GPUs")
    if accelerator.value == "none":
        facts.setdefault(
            "gpu_count", known(0, accelerator.set_by, accelerator.origin or _NOWHERE, unit="GPUs")
        )
        return facts
    request = gpus.narrowed(launch.gpus, visible)
    if request is None:
        return facts
    origin = request.origin or _NOWHERE
    if request.ids == gpus.ALL:
        facts["gpu_ids"] = known(["all"], "user", origin, note="all GPUs of the machine")
        facts.setdefault(
            "gpu_count", unknown("all GPUs of the machine, and how many it has is not stated", origin=origin)
        )
    elif request.ids is not None and _counted_anew(launch, request):
        facts["gpu_ids"] = unknown(
            "ROCR_VISIBLE_DEVICES may be set where it cannot be seen, and HIP counts within it", origin=origin
        )
    elif request.ids is not None:
        facts["gpu_ids"] = known(list(request.ids), "user", origin)
    if request.count is not None:
        facts.setdefault("gpu_count", known(request.count, "user", origin, unit="GPUs"))
    return facts


def _counted_anew(launch: Launch, request: GpuRequest) -> bool:
    """Whether a variable that cannot be seen could shift the ids that an AMD launch names."""
    return (
        bool(launch.hidden) and request.vendor == "amd" and "ROCR_VISIBLE_DEVICES" not in launch.environment
    )


_NOWHERE = Origin("formula", "what was asked for")


def _accelerator(
    launch: Launch,
    engine: str,
    parsed: ParsedFlags,
    found: Mapping[str, Fact],
    options: ReadOptions,
    gpu: Any,
    visible: GpuRequest | None,
) -> Fact:
    if options.accelerator is not None:
        return known(options.accelerator, "user", Origin("option", "--accelerator"))
    stated = _of_command(engine, parsed, found, launch.words) or _by_sign(launch)
    if stated is not None:
        return stated
    if visible is not None and visible.vendor == "none":
        return known("none", "user", visible.origin or _NOWHERE, note="it hides every GPU")
    for request in (launch.gpus, visible):
        if request is not None and request.vendor != "unknown":
            return known(request.vendor, "user", request.origin or _NOWHERE)
    if gpu is not None:
        return known(gpu.vendor, "user", Origin("option", "--gpu"))
    return unknown("nothing states which accelerator this runs on; --accelerator or --gpu does")


def _of_command(
    engine: str, parsed: ParsedFlags, found: Mapping[str, Fact], words: tuple[Word, ...]
) -> Fact | None:
    if engine == "llama.cpp":
        devices = found.get("devices")
        if devices is not None and devices.set_by == "user" and devices.value in ("none", ["none"]):
            return known("none", "user", devices.origin or _NOWHERE)
        return None
    given = parsed.given.get("device")
    if given is not None and given.is_known:
        value, origin = given.value, given.origin
    else:
        # older versions have --device; the newest table may not
        at = next((i for i, word in enumerate(words) if (word.text or "").split("=")[0] == "--device"), None)
        if at is None:
            return None
        _, equals, value = (words[at].text or "").partition("=")
        following = words[at + 1] if not equals and at + 1 < len(words) else words[at]
        value, origin = (value if equals else following.text), following.origin
    accelerator = _DEVICES.get(str(value).partition(":")[0].lower())
    return known(accelerator, "user", origin) if accelerator else None


def _by_sign(launch: Launch) -> Fact | None:
    """What the image's name or a variable of the CPU build says. A sign of the CPU is not believed where GPUs
    are asked for too, unless it is the name of the makers' own image."""
    from preop.engines.images import engine_of_image

    image = launch.image
    sign = of_image(image) if image is not None else None
    is_sure = sign is not None and image is not None and engine_of_image(image.text or "") is not None
    space = launch.environment.get("VLLM_CPU_KVCACHE_SPACE")
    if sign is None and space is not None:
        sign = known("none", "user", space.origin, note="VLLM_CPU_KVCACHE_SPACE is of vLLM's CPU build")
    asks = launch.gpus is not None and launch.gpus.vendor not in ("none", "unknown")
    if sign is not None and sign.value == "none" and asks and not is_sure:
        return unknown(f"{sign.source} speaks of a CPU build, and a GPU is asked for", origin=sign.origin)
    return sign


def of_image(image: Word) -> Fact | None:
    """What the last part of an image's name and its tag say it was built for; None where they say nothing,
    or more than one thing."""
    if image.text is None:
        return None
    name = image.text.partition("@")[0].lower()
    repository, _, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "")
    parts = set(re.split(r"[^a-z]+", f"{repository.rpartition('/')[2]} {tag}"))
    builds = {accelerator for part, accelerator in _BUILDS.items() if part in parts}
    if "/intel/" in f"/{repository}":
        builds.add("intel")
    is_llama = repository.endswith(("ggml-org/llama.cpp", "ggerganov/llama.cpp"))
    if is_llama and re.fullmatch(r"(server|full|light)(-b\d+)?", tag):
        builds = {"none"}  # its builds for a GPU say so in the tag: server-cuda, server-vulkan, ...
    if len(builds) != 1:
        return None
    return known(builds.pop(), "user", image.origin, note="by the image's name")
