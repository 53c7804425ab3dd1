"""What the files say of the weights' storage."""

from __future__ import annotations

from typing import Any

import pytest

from preop.models.quantization import quantization_of

ACTIVATIONS = {"num_bits": 8, "type": "int", "dynamic": True}


def groups(activations: Any, *bits: int) -> dict[str, Any]:
    return {
        f"group_{i}": {
            "weights": {"num_bits": b, "type": "int"},
            "input_activations": activations,
            "targets": ["Linear"],
        }
        for i, b in enumerate(bits)
    }


@pytest.mark.parametrize(
    ("config", "method", "bits", "weight_only"),
    [
        ({"quant_method": "awq", "bits": 4, "version": "gemm"}, "awq", 4, True),
        ({"quant_method": "awq", "w_bit": 4}, "awq", 4, True),
        ({"quant_method": "gptq", "bits": 8}, "gptq", 8, True),
        ({"quant_method": "gptq"}, "gptq", None, True),
        ({"quant_method": "gptq", "bits": "four"}, "gptq", None, True),
        ({"quant_method": "auto-round", "bits": 4}, "auto-round", 4, True),
        ({"quant_method": "auto-round", "bits": 4, "act_bits": 8}, "auto-round", 4, False),
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"}, "fp8", 8, False),
        ({"quant_method": "fp8"}, "fp8", 8, None),
        ({"quant_method": "fbgemm_fp8"}, "fbgemm_fp8", 8, False),
        (
            {"quant_method": "compressed-tensors", "config_groups": groups(None, 4)},
            "compressed-tensors",
            4,
            True,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": groups(ACTIVATIONS, 8)},
            "compressed-tensors",
            8,
            False,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": groups({"num_bits": 16}, 4)},
            "compressed-tensors",
            4,
            True,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": groups({"num_bits": "?"}, 4)},
            "compressed-tensors",
            4,
            None,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": groups(None, 4, 8)},
            "compressed-tensors",
            None,
            True,
        ),
        ({"quant_method": "compressed-tensors"}, "compressed-tensors", None, None),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "compressed-tensors", None, None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", 4, True),
        (
            {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False},
            "bitsandbytes",
            8,
            False,
        ),
        ({"load_in_4bit": True}, "bitsandbytes", 4, True),
        ({"quant_method": "mxfp4"}, "mxfp4", 4, None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt NVFP4", 4, False),
        ({"quant_algo": "FP8", "config_groups": {}}, "modelopt FP8", 8, False),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, "modelopt W4A16_AWQ", 4, True),
        ({"quant_method": "modelopt", "quant_algo": "SOON"}, "modelopt SOON", None, None),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, "torchao", 4, True),
        (
            {
                "quant_method": "torchao",
                "quant_type": {"default": {"_type": "Int8DynamicActivationInt8WeightConfig"}},
            },
            "torchao",
            8,
            False,
        ),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig"}}},
            "torchao",
            8,
            True,
        ),
        ({"quant_method": "quanto", "weights": "int8"}, "quanto", 8, True),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}, "hqq", 4, True),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}, "input_tensors": {}},
            },
            "quark",
            8,
            False,
        ),
        ({"quant_method": "tomorrow", "bits": 3}, "tomorrow", 3, None),
        ({"bits": 4}, "unknown", 4, None),
    ],
)
def test_methods(config: dict[str, Any], method: str, bits: float | None, weight_only: bool | None) -> None:
    for holder in ({"quantization_config": config}, {"text_config": {"quantization_config": config}}):
        found, known = quantization_of(holder, {}, [])
        assert known and found is not None
        assert (found.method, found.bits, found.weight_only) == (method, bits, weight_only)


def test_files_beside_config_json() -> None:
    modelopt = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    }
    found, _ = quantization_of({}, {"hf_quant_config.json": modelopt}, [])
    assert found is not None and (found.bits, found.weight_only) == (8, False)
    found, _ = quantization_of({}, {"quantize_config.json": {"bits": 4, "group_size": 128}}, [])
    assert found is not None and (found.method, found.bits) == ("gptq", 4)
    found, _ = quantization_of({}, {"quant_config.json": {"w_bit": 4}}, [])
    assert found is not None and (found.method, found.bits) == ("awq", 4)


def test_none_is_not_quantized_only_where_nothing_is_hidden() -> None:
    assert quantization_of({}, {}, []) == (None, True)
    assert quantization_of({"quantization_config": None}, {}, []) == (None, True)
    notes: list[str] = []
    assert quantization_of({"quantization_config": "awq"}, {}, notes) == (None, False)
    assert notes
