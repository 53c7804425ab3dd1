"""P12: tags that move fail, version tags and digests are not proof, CPUs have no CUDA stack."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import NOTHING, case, check, deployment

from preop.facts import unknown
from preop.findings import Outcome
from preop.inputs import Inputs
from preop.pitfalls.p12_stack_lock import PITFALL

DIGEST = "sha256:" + "ab" * 32

MOVING = [
    "vllm/vllm-openai",
    "vllm/vllm-openai:latest",
    "docker.io/vllm/vllm-openai:latest-x86_64",
    "vllm/vllm-openai:nightly",
    "lmsysorg/sglang:dev",
    "lmsysorg/sglang:v0.5-latest",
    "rocm/vllm:main",
    "ghcr.io/huggingface/text-generation-inference:latest",
    "ghcr.io/ggml-org/llama.cpp:server-cuda",
    "ghcr.io/ggml-org/llama.cpp:server",
]
NAMES_A_BUILD = [
    "vllm/vllm-openai:v0.32.0",
    "vllm/vllm-openai:v0.9.0.1",
    "nvcr.io/nvidia/pytorch:24.07-py3",
    "lmsysorg/sglang:v0.5.3rc0-cu126",
    "vllm/vllm-openai:nightly-8f3a2b1c9d0e4f5a6b7c8d9e0f1a2b3c4d5e6f70",
    "org/app:main-20260801",
    "org/app:dev-2026-08-01",
    "ghcr.io/ggml-org/llama.cpp:server-cuda-b4719",
    "ghcr.io/huggingface/text-generation-inference:3.3.5",
    "ghcr.io/huggingface/text-generation-inference:sha-1a2b3c4",
    "registry.local:5000/llm:1.4.2-stable",
    "org/app:gpu",
    "org/app:latest",  # may be built on this machine
    "llm",
    "registry.local:5000/llm",
]


@pytest.mark.parametrize("image", MOVING)
def test_a_moving_tag_fails_with_the_exact_change(image: str) -> None:
    finding = check(PITFALL, case(deployment(image=image)))
    assert finding.outcome is Outcome.FAIL
    assert finding.where == "compose.yml:14:9"
    assert finding.remedy is not None and "@sha256:" in finding.remedy.en and "@sha256:" in finding.remedy.zh


@pytest.mark.parametrize("image", NAMES_A_BUILD)
def test_a_tag_that_may_name_one_build_is_no_false_alarm_and_no_lock(image: str) -> None:
    finding = check(PITFALL, case(deployment(image=image)))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "@sha256:" in finding.needs.en and "--lock" in finding.needs.en


def test_a_digest_is_not_the_running_stack() -> None:
    for given_ in (
        deployment(image=f"vllm/vllm-openai:latest@{DIGEST}"),
        deployment(image="vllm/vllm-openai:latest", image_digest=DIGEST),
    ):
        finding = check(PITFALL, case(given_))
        assert finding.outcome is Outcome.UNPROVEN and "digest" in finding.summary.en


def test_hidden_and_missing_images_are_unproven() -> None:
    for given_ in (
        NOTHING,
        deployment(source="command line"),
        deployment(image=unknown("$IMAGE is not set here")),
        deployment(image="vllm/vllm-openai:${TAG}"),
    ):
        assert check(PITFALL, case(given_)).outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("vendor", ["amd", "intel", "google", "habana", "apple"])
def test_other_accelerators(vendor: str) -> None:
    finding = check(PITFALL, case(deployment(accelerator=vendor, image="rocm/vllm:latest")))
    assert finding.outcome is Outcome.UNPROVEN
    assert finding.needs is not None and "cuda" not in finding.needs.en.lower()


def test_a_cpu_has_no_cuda_stack() -> None:
    finding = check(PITFALL, case(deployment(accelerator="none", image="vllm/vllm-openai:latest")))
    assert finding.outcome is Outcome.NOT_APPLICABLE


def test_a_lock_that_is_handed_over_is_shown() -> None:
    finding = check(PITFALL, case(deployment(), inputs=Inputs(lock="uv.lock")))
    assert finding.outcome is Outcome.UNPROVEN and any(i.value == "uv.lock" for i in finding.evidence)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_judged_and_none_passes(image: str) -> None:
    assert check(PITFALL, case(deployment(image=image))).outcome in (Outcome.FAIL, Outcome.UNPROVEN)
