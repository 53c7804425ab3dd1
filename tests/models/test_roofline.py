from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preop.facts import Origin
from preop.models.catalog import find_in_catalog
from preop.models.gpus import Gpu, find_gpu
from preop.models.roofline import decode_step_s, weight_only_gain
from preop.models.types import LayerGroup, Model

# The card of the public Marlin table (vLLM pull request 2497): saturates 141 TFLOP/s and 1.16 TB/s.
MARLIN = Gpu(id="m", name="m", vendor="nvidia", source="vllm#2497", bandwidth_gb_s=1160, fp16_tflops=141)
MATRICES = Model(
    name="m", origin=Origin("model", "m"), parameters=10**9, layers=(), dtype="float16", is_mixture=False
)
MEASURED = {16: 3.19, 32: 2.28, 64: 1.47, 128: 1.01, 2048: 0.60}


@pytest.mark.parametrize(("batch", "measured"), MEASURED.items())
def test_the_ceiling_holds_over_the_marlin_table(batch: int, measured: float) -> None:
    gain = weight_only_gain(MATRICES, MARLIN, 4, batch, 0)
    assert gain is not None and measured <= gain * 1.02


@pytest.mark.parametrize("batch", [128, 2048])
def test_nothing_is_gained_where_marlin_gains_nothing(batch: int) -> None:
    gain = weight_only_gain(MATRICES, MARLIN, 4, batch, 0)
    assert gain is not None and gain == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("id", "bits16", "bits8", "bits4"),
    [
        ("a100-80gb-sxm", 153, 77, 38),
        ("h100-80gb-sxm", 295, 148, 74),
        ("h200", 206, 103, 52),
        ("l4", 403, 202, 101),
        ("rtx-4090", 164, 82, 41),
    ],
)
def test_where_compute_takes_over(id: str, bits16: int, bits8: int, bits4: int) -> None:
    gpu = find_gpu(id)
    assert gpu is not None
    for bits, batch in ((16, bits16), (8, bits8), (4, bits4)):
        alone, below, above = (
            decode_step_s(MATRICES, gpu, bits=bits, batch=each, context=0)
            for each in (1, batch - 1, batch + 1)
        )
        assert alone is not None and below == alone and above is not None and above > alone


def test_a_long_context_eats_the_gain() -> None:
    """(2W + B L k) / (0.5 W + B L k), by hand for Qwen2.5 7B: W 7.616e9, k 57,344 bytes."""
    model, gpu = find_in_catalog("Qwen/Qwen2.5-7B-Instruct"), find_gpu("a100-80gb-sxm")
    assert model is not None and gpu is not None
    weights, cache = 7_615_616_512, 16 * 32_768 * 57_344
    gain = weight_only_gain(model, gpu, 4, 16, 32_768)
    assert gain == pytest.approx((2 * weights + cache) / (0.5 * weights + cache))
    assert gain is not None and gain < 1.4


def test_what_is_not_known_is_none() -> None:
    gpu = find_gpu("a100-80gb-sxm")
    assert gpu is not None
    mixture = find_in_catalog("Qwen/Qwen3-30B-A3B")
    assert mixture is not None and mixture.is_mixture
    assert weight_only_gain(mixture, gpu, 4, 1, 0) is None
    assert weight_only_gain(MATRICES, Gpu(id="x", name="x", vendor="amd", source="x"), 4, 1, 0) is None
    assert weight_only_gain(Model(name="m", origin=Origin("model", "m")), gpu, 4, 1, 0) is None
    no_dtype = Model(
        name="m",
        origin=Origin("model", "m"),
        parameters=10**9,
        is_mixture=False,
        layers=(LayerGroup("full", 1, 1, 64, 64),),
    )
    assert weight_only_gain(no_dtype, gpu, 4, 1, 128) is None
    assert decode_step_s(MATRICES, gpu, bits=4, batch=0, context=0) is None


@given(bits=st.sampled_from([2, 3, 4, 6, 8]), batch=st.integers(1, 4096), context=st.integers(0, 100_000))
def test_the_ceiling_is_between_one_and_the_bits(bits: int, batch: int, context: int) -> None:
    model = Model(
        name="m",
        origin=Origin("model", "m"),
        parameters=10**9,
        dtype="float16",
        is_mixture=False,
        layers=(LayerGroup("full", 16, 8, 64, 64),),
    )
    gain = weight_only_gain(model, MARLIN, bits, batch, context)
    assert gain is not None and 1.0 <= gain <= 16 / bits + 1e-9
    longer = weight_only_gain(model, MARLIN, bits, batch, context + 1000)
    fuller = weight_only_gain(model, MARLIN, bits, batch + 1, context)
    assert longer is not None and fuller is not None
    assert longer <= gain + 1e-9 and fuller <= gain + 1e-9
