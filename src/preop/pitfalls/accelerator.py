"""What the deployment runs on, as far as a judge may lean on it."""

from __future__ import annotations

from preop.facts import Fact
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["NAME_IT", "UNSUPPORTED", "cpu", "foreign_sensor", "vendor"]

UNSUPPORTED = {
    "amd": ("AMD", "amd-smi"),
    "intel": ("Intel", "xpu-smi"),
    "google": ("TPU", "tpu-info"),
    "habana": ("Gaudi", "hl-smi"),
    "apple": ("Apple", "powermetrics"),
}
"""Accelerators that preop has no sensor for: their short name, and the vendor's own tool to read by hand."""

NAME_IT = Text(
    "--accelerator nvidia|amd|intel|google|habana|apple|none, and a release of preop that reads its sensors "
    "(this one reads none)",
    "--accelerator nvidia|amd|intel|google|habana|apple|none，以及能读取其传感器的 preop 版本（本版还不能）",
)
"""What a pitfall of the GPU's sensors needs where nothing states the accelerator."""


def vendor(case: Case) -> str | None:
    """nvidia, amd, ..., none; None where nothing states it."""
    value = case.fact("accelerator").value
    return value if isinstance(value, str) else None


def cpu(case: Case) -> Fact | None:
    """The fact that says that no accelerator is used; None where nothing says so for certain.

    llama.cpp with `--n-gpu-layers 0` is not among them: a GPU build still sends large batches to the GPU.
    """
    accelerator = case.fact("accelerator")
    if accelerator.is_known and accelerator.value == "none":
        return accelerator
    devices = case.fact("devices")
    if case.deployment.engine == "llama.cpp" and devices.is_known and devices.value in ("none", ["none"]):
        return devices
    return None


def foreign_sensor(case: Case, what: Text) -> tuple[Text, Text] | None:
    """Summary and needs where the accelerator is one that preop has no sensor for; else None.

    `what` is what would have to be read, in both languages.
    """
    known = UNSUPPORTED.get(vendor(case) or "")
    if known is None:
        return None
    name, tool = known
    return (
        Text(f"preop has no sensor for {name} accelerators", f"preop 还没有 {name} 加速器的传感器"),
        Text(
            f"a sensor for {name}, which this release of preop lacks; until then read {what.en} "
            f"by hand with {tool}",
            f"需要 {name} 的传感器，本版 preop 没有；在此之前请用 {tool} 人工查看{what.zh}",
        ),
    )
