"""What an image says of its engine: tags that are versions, and those that only look like it."""

from __future__ import annotations

import pytest

from preop.engines.images import command_of_image, version_of_image


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.9.0", "0.9.0"),
        ("docker.io/vllm/vllm-openai:v0.10.1.1", "0.10.1.1"),
        ("docker.io/vllm/vllm-openai:v0.10.2", "0.10.2"),
        ("vllm/vllm-openai:v0.9.0@sha256:" + "a" * 64, "0.9.0"),
        ("vllm/vllm-openai:v0.8.5.post1", "0.8.5.post1"),
        ("vllm/vllm-openai:v0.11.0-aarch64", "0.11.0"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai", None),
        ("vllm/vllm-openai:nightly-0123456789abcdef", None),
        ("vllm/vllm-openai@sha256:" + "b" * 64, None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", None),
        ("registry.example.com/vllm/vllm-openai:v0.9.0", None),
        ("registry.example.com/ours/vllm:0.1.dev1+gabc", None),
        ("vllm/vllm-openai:0.1.dev1", None),
        ("lmsysorg/sglang:v0.5.3-cu126", "0.5.3"),
        ("lmsysorg/sglang:v0.5.3.post1-cu126", "0.5.3.post1"),
        ("lmsysorg/sglang:dev", None),
        ("vllm/vllm-openai:v0.9.0-ours", None),
        ("vllm/vllm-openai:v0.9.0.1.2.3", None),
        ("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.9.1", "0.9.1"),
        ("ghcr.io/ggml-org/llama.cpp:server-b1234", "b1234"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b6123", "b6123"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", None),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4", "3.3.4"),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4-rocm", "3.3.4"),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4-llamacpp", None),
        ("ghcr.io/huggingface/text-generation-inference:latest", None),
        ("ghcr.io/huggingface/text-embeddings-inference:1.9.3", "1.9.3"),
        ("ghcr.io/huggingface/text-embeddings-inference:cpu-1.7", "1.7"),
        ("ghcr.io/huggingface/text-embeddings-inference:89-1.9", "1.9"),
        ("ghcr.io/huggingface/text-embeddings-inference:cpu-latest", None),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "1.0.0"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc3", "1.2.0rc3"),
        ("kserve/huggingfaceserver:v0.15.0-gpu", None),
        ("localhost:5000/vllm-openai:v0.9.0", None),
        ("", None),
    ],
)
def test_a_tag_is_a_version_only_where_its_makers_say_so(image: str, version: str | None) -> None:
    fact = version_of_image(image)
    assert fact.value == version
    assert fact.is_known == (version is not None)
    assert fact.is_known or fact.note


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("vllm/vllm-openai:latest", "vllm"),
        ("docker.io/vllm/vllm-openai:v0.9.0", "vllm"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llama-server"),
        ("ghcr.io/ggml-org/llama.cpp:light", None),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4", "text-generation-launcher"),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4-llamacpp", None),
        ("ghcr.io/huggingface/text-embeddings-inference:cpu-1.7", "text-embeddings-router"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.0.0", None),
        ("kserve/huggingfaceserver:v0.15.0-gpu", "python3"),
        ("lmsysorg/sglang:latest", None),
        ("nginx:1.27", None),
        ("example.com/vllm-openai:1", None),
    ],
)
def test_the_program_that_an_image_starts_by_itself(image: str, program: str | None) -> None:
    assert next(iter(command_of_image(image)), None) == program
