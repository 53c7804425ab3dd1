from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preop.errors import InputError
from preop.models.gpus import Gpu, find_gpu


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-80gb-sxm"),
        ("h100-80gb-sxm", "h100-80gb-sxm"),
        ("H100-SXM5-80GB", "h100-80gb-sxm"),
        ("NVIDIA H100 PCIe", "h100-80gb-pcie"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("a100 40 GB", "a100-40gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("rtx-3090", "rtx-3090"),
        ("NVIDIA B200", "b200"),
        ("8 x H200", "h200"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_names_as_they_are_written(name: str, id: str) -> None:
    gpu = find_gpu(name)
    assert gpu is not None and gpu.id == id


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nvidia",
        "H100 NVL",
        "NVIDIA GeForce RTX 3090 Ti",
        "A10G",
        "RTX 6000 Ada",
        "NVIDIA H20",
        "Gaudi 3",
        "M3 Max",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "RTX 4090 D",
        "v5e",
        "MI325X",
        "h100-81gb",
    ],
)
def test_a_word_more_or_less_is_another_gpu(name: str) -> None:
    assert find_gpu(name) is None


@pytest.mark.parametrize(
    ("name", "listed"), [("a100", ["a100-40gb", "a100-80gb-sxm"]), ("V100", ["v100-16gb", "v100-32gb"])]
)
def test_names_that_fit_different_memories_are_refused(name: str, listed: list[str]) -> None:
    with pytest.raises(InputError) as error:
        find_gpu(name)
    assert all(id in str(error.value) for id in listed)


def test_variants_of_one_memory_keep_only_what_they_share() -> None:
    gpu = find_gpu("H100")
    assert gpu is not None
    assert (gpu.memory_gb, gpu.memory_mib) == (80, 81559)
    assert gpu.bandwidth_gb_s is None and gpu.fp16_tflops is None
    a100 = find_gpu("A100 80GB")
    assert a100 is not None and a100.fp16_tflops == 312 and a100.bandwidth_gb_s is None


def test_every_row_has_a_source_and_plausible_figures() -> None:
    names = Gpu.__struct_fields__
    for id in tomllib.loads((files("preop.models") / "data/gpus.toml").read_text(encoding="utf-8")):
        gpu = find_gpu(id)
        assert gpu is not None and gpu.id == id
        assert gpu.source and gpu.vendor in ("nvidia", "amd")
        assert set(gpu.not_verified) <= set(names)
        assert gpu.bandwidth_gb_s is not None and gpu.fp16_tflops is not None
        if gpu.memory_gb is not None and gpu.total_gib is not None:
            # GB as sold is at most GiB, and ECC and the driver take up to a tenth.
            assert 0.88 * gpu.memory_gb <= gpu.total_gib <= gpu.memory_gb


@pytest.mark.parametrize(
    ("id", "ridge"),
    [
        ("t4", 203),
        ("a10", 208),
        ("a100-40gb", 201),
        ("a100-80gb-sxm", 153),
        ("a100-80gb-pcie", 161),
        ("h100-80gb-sxm", 295),
        ("h100-80gb-pcie", 378),
        ("h200", 206),
        ("b200", 292),
        ("l4", 403),
        ("l40s", 419),
        ("rtx-4090", 164),
    ],
)
def test_ridge_points_are_the_published_ones(id: str, ridge: int) -> None:
    gpu = find_gpu(id)
    assert gpu is not None and gpu.fp16_tflops is not None and gpu.bandwidth_gb_s is not None
    assert gpu.fp16_tflops * 1000 / gpu.bandwidth_gb_s == pytest.approx(ridge, abs=0.6)


@given(name=st.text(max_size=60))
def test_any_text_is_a_gpu_or_not(name: str) -> None:
    try:
        find_gpu(name)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
