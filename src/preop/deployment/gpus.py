"""What a platform is asked for: GPUs in `docker run` flags, compose files and environment variables."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from preop.deployment.tokens import Token
from preop.deployment.types import GpuRequest
from preop.facts import Origin, Word

__all__ = [
    "ALL",
    "counted",
    "from_devices",
    "from_environment",
    "from_gpus_flag",
    "from_nvidia_variable",
    "from_runtime",
    "narrowed",
    "pick",
    "vendor_of",
]

Vendor = Literal["nvidia", "amd", "intel", "google", "habana", "apple", "none", "unknown"]

ALL = ("all",)
"""`GpuRequest.ids` where all of the machine's GPUs are asked for."""

_CDI = re.compile(r"(nvidia|amd|intel)\.com/[\w.-]+=(.+)\Z")
_NVIDIA_DEVICE = re.compile(r"/dev/nvidia(\d+)\Z")
_VISIBLE: dict[Vendor, tuple[str, ...]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    "habana": ("HABANA_VISIBLE_DEVICES",),
    "intel": ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
}
"""By vendor the variables that hide GPUs; each counts anew what the one before it leaves."""


def vendor_of(driver: str) -> Vendor:
    """The vendor behind a device driver's or a runtime's name."""
    for vendor in ("nvidia", "amd", "intel", "habana"):
        if vendor in driver.lower():
            return vendor
    return "unknown"


def counted(vendor: Vendor, count: int, origin: Origin) -> GpuRequest:
    """`count` GPUs without names. Docker hands out NVIDIA GPUs from 0 on (moby's `countToDevices`), so two
    containers that ask for one each share GPU 0; for other vendors the ids stay open."""
    if count < 0:
        return GpuRequest(vendor, None, ALL, origin)
    named = vendor == "nvidia" and 0 < count <= 64
    return GpuRequest(vendor, count, tuple(map(str, range(count))) if named else None, origin)


def named(vendor: Vendor, ids: Iterable[str], origin: Origin) -> GpuRequest:
    """GPUs asked for by id."""
    found = tuple(part.strip() for each in ids for part in each.split(",") if part.strip())
    if found == ALL:
        return GpuRequest(vendor, None, ALL, origin)
    return GpuRequest(vendor, len(found), found, origin)


def from_gpus_flag(value: Token) -> GpuRequest:
    """`docker run --gpus`: all, 2, device=0, "device=0,1", count=2,driver=nvidia."""
    text = value.visible
    if text is None:
        return GpuRequest("nvidia", None, None, value.origin)
    bare = text.strip()
    if bare.strip('"').startswith("device=") and "capabilities" not in bare:
        return named("nvidia", bare.strip('"').removeprefix("device=").split(","), value.origin)
    try:
        fields = next(csv.reader([bare]), [])
    except csv.Error:
        return GpuRequest("unknown", None, None, value.origin)
    vendor: Vendor = "nvidia"
    request: GpuRequest | None = None
    for field in fields:
        key, _, told = field.strip().partition("=")
        count = key if not told else told if key == "count" else None
        if key == "driver":
            vendor = vendor_of(told)
        elif key == "device":
            request = named(vendor, told.split(","), value.origin)
        elif count == "all":
            request = GpuRequest(vendor, None, ALL, value.origin)
        elif count is not None and re.fullmatch(r"-?\d{1,4}", count):
            request = counted(vendor, int(count), value.origin)
    return request or GpuRequest(vendor, None, None, value.origin)


def from_devices(values: Iterable[Token]) -> list[GpuRequest]:
    """The GPUs among devices handed into a container: /dev/nvidia0, CDI names, /dev/kfd (AMD; all of the
    machine's where all of /dev/dri comes with it)."""
    found: list[GpuRequest] = []
    devices = [(each, each.head.split(":")[0] if each.head.startswith("/") else each.head) for each in values]
    for value, text in devices:
        if cdi := _CDI.match(text):
            found.append(named(vendor_of(cdi[1]), [cdi[2]], value.origin))
        elif gpu := _NVIDIA_DEVICE.match(text):
            found.append(named("nvidia", [gpu[1]], value.origin))
        elif text == "/dev/kfd":
            is_all = any(other.rstrip("/") == "/dev/dri" for _, other in devices)
            found.append(GpuRequest("amd", None, ALL if is_all else None, value.origin))
    return found


def from_runtime(value: Token, environment: Mapping[str, Word]) -> GpuRequest | None:
    """The container runtime `nvidia` or `habana`; which GPUs is NVIDIA_VISIBLE_DEVICES' to say."""
    vendor = vendor_of(value.head)
    if vendor == "unknown":
        return None
    if vendor == "nvidia" and "NVIDIA_VISIBLE_DEVICES" in environment:
        return from_nvidia_variable(environment)
    return GpuRequest(vendor, None, None, value.origin)


def from_nvidia_variable(environment: Mapping[str, Word]) -> GpuRequest | None:
    """NVIDIA_VISIBLE_DEVICES of a container whose runtime is NVIDIA's by default."""
    word = environment.get("NVIDIA_VISIBLE_DEVICES")
    if word is None or (word.text or "all").strip() in ("", "none", "void"):
        return None
    if word.text is None:
        return GpuRequest("nvidia", None, None, word.origin)
    return named("nvidia", word.text.split(","), word.origin)


def from_environment(environment: Mapping[str, Word], asked: Vendor | None = None) -> GpuRequest | None:
    """CUDA_VISIBLE_DEVICES and its likes: those of the vendor whose GPUs are asked for, else of the first
    that has any. One that is empty or -1 hides every GPU of its vendor."""
    for vendor in _VISIBLE if asked not in _VISIBLE else (asked,):
        names = _VISIBLE[vendor]
        if asked == "amd" and "HIP_VISIBLE_DEVICES" not in environment:
            names = ("ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")  # HIP reads CUDA's in place of its own
        found: GpuRequest | None = None
        for name in names:
            if name in environment:
                request = _visible(name, vendor, environment[name])
                found = request if request.vendor == "none" else narrowed(found, request)
        if found is not None:
            return found
    return None


def _visible(name: str, vendor: Vendor, word: Word) -> GpuRequest:
    if word.text is None:
        return GpuRequest(vendor, None, None, word.origin)
    ids = [part.strip(" '\"") for part in word.text.split(",")]  # `- NAME="0"` in compose keeps its quotes
    if ids[0] in ("", "-1", "none", "void", "NoDevFiles"):
        return GpuRequest("none", 0, (), word.origin)
    if name == "ONEAPI_DEVICE_SELECTOR":
        return GpuRequest(vendor, None, None, word.origin)
    return named(vendor, ids, word.origin)


def narrowed(request: GpuRequest | None, visible: GpuRequest | None) -> GpuRequest | None:
    """The GPUs asked of the platform, narrowed by those that a variable leaves visible.

    Inside a container GPUs are counted anew from 0, so a visible index is a place in the list asked for.
    """
    if request is None or visible is None or visible.vendor != request.vendor:
        return request if request is not None else visible
    if visible.ids is None:
        return visible
    if request.ids == ALL:
        return visible
    if visible.ids == ALL:
        return visible if request.ids is None else request
    if request.ids is None:
        return GpuRequest(request.vendor, len(visible.ids), None, visible.origin)
    if not all(index.isdigit() for index in visible.ids):
        return visible
    places = [int(index) for index in visible.ids]
    if any(place >= len(request.ids) for place in places):
        return request
    return GpuRequest(
        request.vendor, len(places), tuple(request.ids[place] for place in places), visible.origin
    )


def pick(requests: Sequence[GpuRequest | None]) -> GpuRequest | None:
    """One request out of several: those of the first vendor that is known, their ids together."""
    found = [request for request in requests if request is not None]
    if not found:
        return None
    first = next((request for request in found if request.vendor != "unknown"), found[0])
    same = [request for request in found if request.vendor == first.vendor]
    if len(same) > 1 and all(request.ids and request.ids != ALL for request in same):
        ids = tuple(dict.fromkeys(id_ for request in same for id_ in request.ids or ()))
        return GpuRequest(first.vendor, len(ids), ids, first.origin)
    return next((request for request in same if request.ids), first)
