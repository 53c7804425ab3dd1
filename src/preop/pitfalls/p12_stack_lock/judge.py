"""Judge of P12: is the software stack that runs the one that was locked?

Declared facts can show that nothing is locked, never that the running stack is the locked one, so this
release says FAIL or UNPROVEN. What an image reference says:

- a digest locks the container's content. The driver and what is loaded at run time are still to be seen.
- a version tag names one build by convention. The checklist's own fix is such a tag
  (`nvcr.io/nvidia/pytorch:24.07-py3`), so it is no FAIL; it can be pushed again, so it is no lock either.
- `latest`, `nightly`, `main` and the like, or no tag at all, name whatever was pushed last: the next pull
  may be another stack. FAIL for an image that an engine's publisher pushes; any other may have been built
  on this very machine under that name, so it is UNPROVEN.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from preop.evidence import Strength
from preop.facts import Fact
from preop.findings import Finding, Item
from preop.pitfalls.accelerator import UNSUPPORTED, cpu, vendor
from preop.pitfalls.clip import clip
from preop.pitfalls.say import failed, item, not_applicable, place, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_MOVING = {
    "latest",
    "nightly",
    "main",
    "master",
    "stable",
    "dev",
    "devel",
    "edge",
    "head",
    "canary",
    "rolling",
}
_PUBLISHERS = (
    "vllm/",
    "lmsysorg/",
    "rocm/",
    "nvidia/",
    "nvcr.io/nvidia/",
    "ghcr.io/ggml-org/",
    "ghcr.io/ggerganov/",
    "ghcr.io/huggingface/",
    "huggingface/",
    "ollama/",
)
"""Where engines' images are published: names that nobody gives to an image of their own."""
_LLAMA_CPP = ("ggml-org/llama.cpp", "ggerganov/llama.cpp")
_PINNED = re.compile(
    r"""
    v?\d+\.\d+\.\d+                                  # a full version
    | (?<![0-9a-z])\d+\.\d+(?![0-9a-z])(?!\.)        # 24.07
    | (?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])        # a commit, or a date without dashes
    | \d{4}-\d{2}-\d{2}
    | (?<![0-9a-z])b\d{3,}(?![0-9a-z])               # a llama.cpp build
    """,
    re.VERBOSE,
)


class _Image(NamedTuple):
    repository: str
    tag: str | None
    digest: str | None

    @property
    def is_published(self) -> bool:
        """Pulled from an engine's publisher, for certain."""
        name = self.repository.removeprefix("docker.io/").removeprefix("index.docker.io/")
        return name.startswith(_PUBLISHERS)

    @property
    def moves(self) -> bool:
        """Certainly: the tag is a word for "the newest", and nothing in it names one build."""
        if self.digest is not None:
            return False
        if self.tag is None:
            return True
        tag = self.tag.lower()
        if _PINNED.search(tag):
            return False
        if self.repository.endswith(_LLAMA_CPP):  # server, server-cuda: builds carry b1234
            return True
        return not _MOVING.isdisjoint(re.split(r"[-_.]", tag))


def judge(case: Case) -> Finding:
    """P12 for one deployment."""
    on_cpu = cpu(case)
    if on_cpu is not None:
        return not_applicable(
            Text("runs on the CPU: no CUDA stack to lock", "跑在 CPU 上，没有 CUDA 软件栈"),
            Strength.DECLARED,
            evidence=[item("accelerator", on_cpu)],
            where=place(on_cpu),
        )
    fact = case.fact("image")
    image = _image(fact, case.fact("image_digest"))
    evidence = [
        item("image", fact),
        item("image_digest", case.fact("image_digest")),
        item("engine_version", case.fact("engine_version")),
    ]
    if case.inputs.lock is not None:
        evidence.append(Item("lock", case.inputs.lock, source="--lock"))
    foreign = UNSUPPORTED.get(vendor(case) or "")
    if foreign is not None:
        name, _ = foreign
        return unproven(
            Text(f"preop cannot read a {name} software stack", f"preop 还读不了 {name} 的软件栈"),
            needs=Text(
                f"a reader of the {name} stack, which this release lacks; meanwhile pin the image by digest "
                "(repository@sha256:...) and the driver by its package version",
                f"能读取 {name} 软件栈的 preop，本版不能；在此之前请用 digest 固定镜像"
                "（repository@sha256:...），驱动按软件包版本固定",
            ),
            evidence=evidence,
            where=place(fact),
            holds=Strength.DECLARED if image is not None and image.digest is not None else None,
        )
    if image is None:
        return _no_image(fact, evidence)
    if image.moves and image.is_published:
        return failed(
            Text(
                f"{_said(image)} moves: each pull may differ",
                f"{_said(image)} 会变：每次拉取都可能不同",
            ),
            Strength.DECLARED,
            remedy=Text(
                f"pin one version by its digest: image: {image.repository}:VERSION@sha256:DIGEST "
                f"(docker buildx imagetools inspect {image.repository}:VERSION prints it)",
                f"按版本加 digest 固定：image: {image.repository}:VERSION@sha256:DIGEST（用 docker buildx "
                f"imagetools inspect {image.repository}:VERSION 查看）",
            ),
            evidence=evidence,
            where=place(fact),
        )
    if image.digest is None:
        locked = f"{image.repository}:{image.tag or 'VERSION'}@sha256:DIGEST"
        return unproven(
            Text(
                f"{_said(image)} has no digest: it may {'move' if image.moves else 'be repushed'}",
                f"{_said(image)} 没有 digest：{'它可能会变' if image.moves else '标签可以被重新推送'}",
            ),
            needs=Text(
                f"image: {locked}, or the lock of the stack: --lock FILE (holding the running stack against "
                "it comes with a later release)",
                f"image: {locked}，或软件栈的锁文件：--lock FILE（与运行中的软件栈核对的功能在后续版本提供）",
            ),
            evidence=evidence,
            where=place(fact),
        )
    return unproven(
        Text(
            "image locked by digest; driver and loaded libraries not seen",
            "镜像已用 digest 锁定，但没看到驱动和实际加载的库",
        ),
        needs=Text(
            "the running stack (driver, and the CUDA, cuDNN and NCCL files that the engine loaded), which "
            "this release cannot read",
            "运行中的软件栈（驱动，以及引擎实际加载的 CUDA、cuDNN、NCCL 文件），本版 preop 还读不到",
        ),
        strength=Strength.DECLARED,
        evidence=evidence,
        where=place(fact),
        holds=Strength.DECLARED,
    )


def _no_image(fact: Fact, evidence: list[Item]) -> Finding:
    return unproven(
        Text("nothing says what stack this runs on", "看不出它跑在哪套软件栈上"),
        needs=Text(
            "an image by digest (repository@sha256:...), or the lock of the stack: --lock FILE (holding the "
            "running stack against it comes with a later release)",
            "用 digest 固定的镜像（repository@sha256:...），或软件栈的锁文件：--lock FILE"
            "（与运行中的软件栈核对的功能在后续版本提供）",
        ),
        evidence=evidence,
        where=place(fact),
    )


def _image(fact: Fact, digest: Fact) -> _Image | None:
    """The image reference in its parts; None where it is not known or not whole."""
    if not isinstance(fact.value, str) or not re.fullmatch(r"\s*[\w./:@+-]{1,512}\s*", fact.value):
        return None
    name, _, content = fact.value.strip().partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # a colon before a slash belongs to the registry's port
        head, tag = name, ""
    pinned = content or (digest.value if isinstance(digest.value, str) else "")
    return _Image(head, tag or None, pinned or None)


def _said(image: _Image) -> str:
    return f"tag {clip(image.tag)}" if image.tag else f"{clip(image.repository, 22)} without a tag"
