"""config.json in its dialects, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import InputError
from preop.facts import Origin
from preop.models.huggingface import parse_config, read_folder
from preop.models.types import LayerGroup, Model, Rope

from .folders import LLAMA, folder, safetensors

HERE = Origin("model", "config.json")


def parse(config: dict[str, Any], **more: Any) -> Model:
    return parse_config(config, name="m", origin=HERE, **more)


def full(count: int, heads: int = 8, dim: int = 64) -> LayerGroup:
    return LayerGroup("full", count, heads, dim, dim)


def sliding(count: int, window: int, heads: int = 8, dim: int = 64) -> LayerGroup:
    return LayerGroup("sliding", count, heads, dim, dim, window)


def without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        (LLAMA, (full(16),)),
        (without(LLAMA, "head_dim"), (full(16),)),
        ({**LLAMA, "head_dim": None}, (full(16),)),
        ({**LLAMA, "head_dim": 0}, (full(16),)),
        (without(LLAMA, "num_key_value_heads"), (full(16, heads=32),)),
        ({**LLAMA, "num_kv_heads": 4}, (full(16, heads=4),)),  # vLLM reads it before num_key_value_heads
        ({**LLAMA, "num_hidden_layers": None, "n_layer": 3}, (full(3),)),
        # Qwen: the window counts only when it is switched on, and then from max_window_layers on.
        (
            {
                **LLAMA,
                "model_type": "qwen2",
                "sliding_window": 4096,
                "use_sliding_window": False,
                "max_window_layers": 8,
            },
            (full(16),),
        ),
        ({**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 8}, (full(16),)),
        (
            {
                **LLAMA,
                "model_type": "qwen2",
                "sliding_window": 4096,
                "use_sliding_window": True,
                "max_window_layers": 10,
            },
            (full(10), sliding(6, 4096)),
        ),
        ({**LLAMA, "model_type": "mimo", "sliding_window": 32768, "use_sliding_window": False}, (full(16),)),
        # Mistral: all layers slide; null and 0 switch it off.
        ({**LLAMA, "model_type": "mistral", "sliding_window": 4096}, (sliding(16, 4096),)),
        ({**LLAMA, "model_type": "mistral", "sliding_window": None}, (full(16),)),
        ({**LLAMA, "model_type": "mistral", "sliding_window": 0}, (full(16),)),
        ({**LLAMA, "model_type": "mistral"}, None),
        ({**LLAMA, "model_type": "gemma2", "sliding_window": 4096}, (sliding(8, 4096), full(8))),
        ({**LLAMA, "model_type": "gemma3_text", "sliding_window": 512}, (sliding(14, 512), full(2))),
        (
            {**LLAMA, "model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 4},
            (sliding(12, 512), full(4)),
        ),
        ({**LLAMA, "model_type": "cohere2", "sliding_window": 4096}, (sliding(12, 4096), full(4))),
        (
            {**LLAMA, "layer_types": ["sliding_attention", "full_attention"] * 8, "sliding_window": 128},
            (sliding(8, 128), full(8)),
        ),
        ({**LLAMA, "layer_types": ["mamba", "attention"] * 8}, (LayerGroup("recurrent", 8), full(8))),
        ({**LLAMA, "layer_types": ["full_attention"] * 3}, None),
        ({**LLAMA, "layer_types": ["telepathy"] * 16}, None),
        ({**LLAMA, "layer_types": ["deepseek_sparse_attention"] * 16}, None),
        ({**LLAMA, "full_attention_interval": 4}, (LayerGroup("recurrent", 12), full(4))),
        ({**LLAMA, "attn_layer_period": 8, "attn_layer_offset": 4}, (LayerGroup("recurrent", 14), full(2))),
        (
            {**LLAMA, "hybrid_override_pattern": "M-*E" * 4},
            (LayerGroup("recurrent", 4), LayerGroup("none", 8), full(4)),
        ),
        ({**LLAMA, "attn_type_list": [1] * 16}, (full(16),)),
        ({**LLAMA, "attn_type_list": [0, 1] * 8}, (LayerGroup("recurrent", 8), full(8))),
        ({**LLAMA, "attn_type_list": [0, 1]}, None),
        ({**LLAMA, "hybrid_override_pattern": "M-*E"}, None),
        (
            {**LLAMA, "model_type": "llama4_text", "attention_chunk_size": 8192},
            (LayerGroup("chunked", 12, 8, 64, 64, 8192), full(4)),
        ),
        (
            {**LLAMA, "model_type": "falcon", "multi_query": True, "new_decoder_architecture": False},
            (full(16, heads=1),),
        ),
        ({**LLAMA, "attn_config": {"kv_n_heads": 2}}, (full(16, heads=2),)),
        ({**LLAMA, "num_kv_shared_layers": 6}, (full(10), LayerGroup("none", 6))),
        # MLA ignores head_dim, which GLM-5 ships all the same.
        (
            {**LLAMA, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "head_dim": 192},
            (LayerGroup("mla", 16, 1, 576, 0),),
        ),
        (
            {
                **LLAMA,
                "kv_lora_rank": 512,
                "qk_rope_head_dim": 64,
                "linear_attn_config": {"full_attn_layers": [4, 8]},
            },
            (LayerGroup("recurrent", 14), LayerGroup("mla", 2, 1, 576, 0)),
        ),
        ({**LLAMA, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128}, None),
        (
            {
                **LLAMA,
                "block_configs": [
                    {"attention": {"n_heads_in_group": 8, "no_op": False}},
                    {"attention": {"no_op": True}},
                ]
                * 8,
            },
            (full(8, heads=4), LayerGroup("none", 8)),
        ),
        ({"model_type": "mamba", "num_hidden_layers": 24}, (LayerGroup("recurrent", 24),)),
        ({**LLAMA, "model_type": "bert"}, (LayerGroup("none", 16),)),
        ({**LLAMA, "model_type": "t5", "is_encoder_decoder": True}, None),
        # A key that no rule here reads, in a family that preop does not know.
        ({**LLAMA, "model_type": "brandnew", "sliding_window": 128}, None),
        ({**LLAMA, "model_type": "brandnew", "mamba_d_state": 16}, None),
        ({**LLAMA, "model_type": "brandnew"}, (full(16),)),
        ({**LLAMA, "hidden_size": 2050, "head_dim": None}, None),
        (without(LLAMA, "num_hidden_layers"), None),
    ],
)
def test_layouts(config: dict[str, Any], layers: object) -> None:
    model = parse(config)
    assert model.layers == layers
    if layers is None:
        assert any("KV cache is unknown" in note for note in model.notes)


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_nested_configs(key: str) -> None:
    outer = {
        "architectures": ["XForConditionalGeneration"],
        "model_type": "x",
        key: LLAMA,
        "vision_config": {"hidden_size": 9},
    }
    model = parse(outer)
    assert (model.layers, model.hidden_size, model.architecture) == (
        (full(16),),
        2048,
        "XForConditionalGeneration",
    )
    deep = parse({"model_type": "omni", "thinker_config": {"text_config": LLAMA}})
    assert deep.layers == (full(16),)


def test_gemma3_leaves_out_what_its_class_fills_in() -> None:
    """google/gemma-3-4b-it states neither heads nor head size: every sixth layer full, 4 KV heads of 256."""
    model = parse(
        {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "text_config": {
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "model_type": "gemma3_text",
                "num_hidden_layers": 34,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                "sliding_window": 1024,
            },
        }
    )
    assert model.layers == (sliding(29, 1024, 4, 256), full(5, 4, 256))
    assert (model.native_context, model.rope) == (131072, Rope("linear", 8.0))
    assert any("is not stated" in note for note in model.notes)


@pytest.mark.parametrize(
    ("keys", "tokenizer", "context"),
    [
        ({}, {}, 131072),
        ({"max_seq_len": 2048}, {}, 2048),  # vLLM takes the smallest
        ({"model_max_length": 500_000}, {}, 500_000),  # Cohere's key overrules
        ({}, {"model_max_length": 8192}, 8192),
        ({}, {"model_max_length": 1e30}, 131072),
        ({}, {"model_max_length": 1000000000000000019884624838656}, 131072),
        ({}, {"model_max_length": -1}, 131072),
        ({}, {"model_max_length": "many"}, 131072),
        ({"max_position_embeddings": None}, {"model_max_length": 8192}, None),
    ],
)
def test_native_context(keys: dict[str, Any], tokenizer: dict[str, Any], context: int | None) -> None:
    assert parse({**LLAMA, **keys}, tokenizer_config=tokenizer).native_context == context


@pytest.mark.parametrize(
    ("keys", "rope"),
    [
        ({}, Rope("default")),
        ({"rope_scaling": None}, Rope("default")),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "original_max_position_embeddings": 8192,
                }
            },
            Rope("llama3", 8.0, 8192),
        ),
        (
            {"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}},
            Rope("yarn", 40.0, 4096),
        ),
        (
            {"rope_scaling": {"type": "su"}, "original_max_position_embeddings": 4096},
            Rope("longrope", None, 4096),
        ),
        (
            {"rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [16, 24, 24]}},
            Rope("default"),
        ),
        (
            {
                "rope_parameters": {
                    "full_attention": {"rope_type": "proportional"},
                    "sliding_attention": {"rope_type": "default"},
                }
            },
            Rope("proportional"),
        ),
        ({"rope_scaling": [1]}, None),
        ({"rope_scaling": {"type": "yarn", "factor": float("nan")}}, Rope("yarn")),
    ],
)
def test_rope(keys: dict[str, Any], rope: Rope | None) -> None:
    assert parse({**LLAMA, **keys}).rope == rope


@pytest.mark.parametrize("value", [0, -1, "4096", float("nan"), float("inf"), 1.5, True, [], {}, 10**40])
@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("max_position_embeddings", "native_context"),
        ("num_hidden_layers", "layers"),
        ("num_key_value_heads", "layers"),
        ("hidden_size", "hidden_size"),
        ("vocab_size", "vocabulary_size"),
    ],
)
def test_a_wrong_value_is_unknown_and_said(key: str, field: str, value: Any) -> None:
    model = parse({**LLAMA, key: value})
    assert getattr(model, field) is None
    assert any(key in note for note in model.notes)


def test_dtype() -> None:
    assert parse({**LLAMA, "torch_dtype": None, "dtype": "torch.float16"}).dtype == "float16"
    assert parse({**LLAMA, "torch_dtype": "auto"}).dtype is None
    assert (
        parse({"text_config": without(LLAMA, "torch_dtype"), "torch_dtype": "bfloat16"}).dtype == "bfloat16"
    )


@pytest.mark.parametrize(
    ("architecture", "generates"),
    [
        ("LlamaForCausalLM", True),
        ("GPT2LMHeadModel", True),
        ("Gemma3ForConditionalGeneration", True),
        ("BertModel", False),
        ("Qwen2ForSequenceClassification", False),
        ("Qwen2ForRewardModel", False),
        ("XLMRobertaModel", False),
        ("Odd", None),
    ],
)
def test_generates_or_not(architecture: str, generates: bool | None) -> None:
    assert parse({**LLAMA, "architectures": [architecture]}).is_generative is generates


def test_an_embedder_that_calls_itself_causal(tmp_path: Path) -> None:
    """Qwen3-Embedding states Qwen3ForCausalLM; modules.json is what tells."""
    model = read_folder(folder(tmp_path / "m", LLAMA, modules__json=[]))
    assert model.is_generative is False


def test_a_whole_folder(tmp_path: Path) -> None:
    path = folder(
        tmp_path / "m",
        LLAMA,
        tokenizer__json={},
        tokenizer_config__json={"chat_template": "{{ x }}", "model_max_length": 4096},
        model__safetensors=safetensors(a=[16, 4], b=[8]),
    )
    model = read_folder(path)
    assert (model.parameters, model.weight_bytes) == (72, 144)
    assert (model.native_context, model.has_chat_template) == (4096, True)
    assert model.tokenizer_files == ("tokenizer.json", "tokenizer_config.json")
    assert model.quantization is None and model.quantization_known
    assert (model.origin.kind, model.path) == ("model", str(path))


def test_weights_from_the_index(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 2471645608}, "weight_map": {"a": "model-00001-of-00001.safetensors"}}
    model = read_folder(folder(tmp_path / "m", LLAMA, **{"model__safetensors__index__json": index}))
    assert (model.weight_bytes, model.parameters) == (2471645608, 1_235_814_400)  # counted from the shapes


def test_weights_shipped_twice_count_once(tmp_path: Path) -> None:
    path = folder(
        tmp_path / "m",
        LLAMA,
        model__safetensors=safetensors(a=[8]),
        consolidated__safetensors=safetensors(a=[8]),
        adapter_model__safetensors=safetensors(a=[8]),
    )
    assert read_folder(path).parameters == 8


def test_packed_weights_are_not_counted_as_parameters(tmp_path: Path) -> None:
    quantized = {**LLAMA, "quantization_config": {"quant_method": "awq", "bits": 4}}
    model = read_folder(folder(tmp_path / "m", quantized, model__safetensors=safetensors(qweight=[16])))
    assert (model.parameters, model.weight_bytes) == (1_235_814_400, 32)


@pytest.mark.parametrize(
    "raw", [b"", b"\xff" * 8, (2**40).to_bytes(8, "little") + b"{}", b"\x02\0\0\0\0\0\0\0[]"]
)
def test_broken_weights_leave_the_number_unknown(tmp_path: Path, raw: bytes) -> None:
    config = {**LLAMA, "model_type": "other"}
    model = read_folder(folder(tmp_path / "m", config, model__safetensors=raw))
    assert model.parameters is None


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "a list, a JSON object expected"),
        (b"null", "null"),
        (b"NaN", "not finite"),
        (b'"x"', "a text"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "too long"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
    ],
)
def test_a_config_that_is_none_is_one_sentence(tmp_path: Path, raw: bytes, says: str) -> None:
    path = folder(tmp_path / "m", raw)
    with pytest.raises(InputError) as error:
        read_folder(path)
    assert says in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_missing_huge_or_odd_config(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not found"):
        read_folder(tmp_path)
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(InputError, match="64 MiB"):
        read_folder(tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        read_folder(tmp_path)


def test_a_file_beside_it_that_cannot_be_read_leaves_the_quantization_open(tmp_path: Path) -> None:
    model = read_folder(folder(tmp_path / "m", LLAMA, hf_quant_config__json=b"{"))
    assert model.quantization is None and not model.quantization_known
    assert any("hf_quant_config.json" in note for note in model.notes)


KEYS = sorted(
    {
        *LLAMA,
        "sliding_window",
        "use_sliding_window",
        "max_window_layers",
        "layer_types",
        "rope_scaling",
        "rope_parameters",
        "text_config",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "block_configs",
        "quantization_config",
        "hybrid_override_pattern",
        "linear_attn_config",
        "hybrid_layer_pattern",
        "attention_chunk_size",
        "num_kv_shared_layers",
        "attn_config",
        "full_attention_interval",
        "attn_layer_indices",
        "num_experts",
    }
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["qwen2", "gemma3_text", "mistral", "compressed-tensors", "torchao", "full_attention", "yarn"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*KEYS, "quant_method", "config_groups", "weights", "rope_type", "factor"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(
    config=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), values, max_size=8),
    over=st.booleans(),
)
def test_no_object_raises(config: dict[str, Any], over: bool) -> None:
    model = parse({**LLAMA, **config} if over else config, tokenizer_config=config)
    assert model.native_context is None or model.native_context > 0
    for note in model.notes:
        assert len(note.splitlines()) == 1
    json.dumps(list(model.notes))
