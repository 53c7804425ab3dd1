"""GGUF files: against the `gguf` package's own writer and reader, and against hostile bytes."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import InputError
from preop.models.gguf import ArrayShape, read_header, read_metadata, read_vocabulary
from preop.models.gguf_model import read_gguf
from preop.models.kv_cache import kv_bytes_per_token
from preop.models.types import LayerGroup, Rope


def write(
    path: Path, architecture: str = "llama", tensors: dict[str, tuple[int, ...]] | None = None, **keys: Any
) -> Path:
    """A GGUF file by the reference writer; `__` in a key is a dot, and the architecture goes in front."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in keys.items():
        name = key.replace("__", ".")
        name = name if name.startswith(("tokenizer.", "general.", "split.")) else f"{architecture}.{name}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)
    for name, shape in (tensors or {"token_embd.weight": (8, 4)}).items():
        writer.add_tensor(name, np.zeros(shape, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


LLAMA: dict[str, Any] = {
    "block_count": 4,
    "context_length": 4096,
    "embedding_length": 256,
    "attention__head_count": 8,
    "attention__head_count_kv": 2,
    "general__file_type": 15,
}


def test_metadata_is_what_the_reference_reader_says(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.gguf",
        **LLAMA,
        rope__freq_base=10000.0,
        tokenizer__chat_template="{{ x }} 你好",
        tokenizer__ggml__tokens=["a", "Ġb", "ü"],
        tokenizer__ggml__scores=[0.5, -1.0, 2.0],
        general__name="M",
        tokenizer__ggml__add_bos_token=True,
    )
    reference = gguf.GGUFReader(path)
    expected = {
        key: field.contents() for key, field in reference.fields.items() if not key.startswith("GGUF.")
    }
    assert read_metadata(path) == expected


def test_tensor_table_is_what_the_reference_reader_says(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.gguf", tensors={"token_embd.weight": (64, 32), "output.weight": (32, 64, 2)}, **LLAMA
    )
    header, reference = read_header(path), gguf.GGUFReader(path)
    assert [(t.name, t.elements, t.size, t.offset + header.data_offset) for t in header.tensors] == [
        (t.name, t.n_elements, t.n_bytes, t.data_offset) for t in reference.tensors
    ]
    assert read_gguf(path).parameters == 64 * 32 + 32 * 64 * 2


def test_all_block_sizes_are_the_reference_ones() -> None:
    from preop.models.gguf import TENSOR_TYPES

    for number, row in TENSOR_TYPES.items():
        kind = gguf.GGMLQuantizationType(number)
        assert (kind.name, *gguf.GGML_QUANT_SIZES[kind]) == row


def test_file_types_have_the_reference_names() -> None:
    from preop.models.gguf_model import _FILE_TYPES

    for kind in gguf.LlamaFileType:
        if kind.name != "GUESSED":
            assert kind.name.split("_", 1)[1] == _FILE_TYPES[int(kind)][0]


def test_long_arrays_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    tokens = [f"t{i}" for i in range(5000)]
    path = write(
        tmp_path / "m.gguf",
        **LLAMA,
        tokenizer__ggml__model="gpt2",
        tokenizer__ggml__tokens=tokens,
        tokenizer__ggml__token_type=[1] * 5000,
        tokenizer__ggml__merges=["a b"],
    )
    assert read_metadata(path)["tokenizer.ggml.tokens"] == ArrayShape("string", 5000)
    assert read_gguf(path).vocabulary_size == 5000
    vocabulary = read_vocabulary(path)
    assert (vocabulary.tokens, vocabulary.merges, vocabulary.model) == (tokens, ["a b"], "gpt2")
    assert (vocabulary.pre, vocabulary.add_bos, vocabulary.bos_id) == (None, None, None)


def test_no_tokenizer_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tokenizer"):
        read_vocabulary(write(tmp_path / "m.gguf", **LLAMA))


def test_facts_of_a_plain_model(tmp_path: Path) -> None:
    model = read_gguf(write(tmp_path / "m.gguf", **LLAMA))
    assert model.layers == (LayerGroup("full", 4, 2, 32, 32),)
    assert (model.native_context, model.attention_heads, model.hidden_size) == (4096, 8, 256)
    assert model.quantization is not None
    assert (model.quantization.method, model.quantization.bits) == ("gguf Q4_K_M", 4)
    assert model.weight_bytes == 64
    assert model.origin.kind == "model" and model.is_generative


@pytest.mark.parametrize(
    ("architecture", "keys", "expected"),
    [
        # llama.cpp gives the llama family full attention, window or not.
        ("llama", {"attention__sliding_window": 4096}, (LayerGroup("full", 4, 2, 32, 32),)),
        (
            "gemma3",
            {"attention__sliding_window": 512, "block_count": 6},
            (LayerGroup("sliding", 5, 2, 32, 32, 512), LayerGroup("full", 1, 2, 32, 32)),
        ),
        (
            "gpt-oss",
            {"attention__sliding_window": 128},
            (LayerGroup("sliding", 2, 2, 32, 32, 128), LayerGroup("full", 2, 2, 32, 32)),
        ),
        (
            "gemma4",
            {
                "attention__sliding_window": 64,
                "attention__sliding_window_pattern": [True, True, True, False],
                "attention__key_length": 64,
                "attention__value_length": 64,
                "attention__key_length_swa": 16,
                "attention__value_length_swa": 16,
                "attention__head_count_kv": [4, 4, 4, 1],
            },
            (LayerGroup("sliding", 3, 4, 16, 16, 64), LayerGroup("full", 1, 1, 64, 64)),
        ),
        (
            "deci",
            {"attention__head_count_kv": [2, 0, 2, 0]},
            (LayerGroup("full", 2, 2, 32, 32), LayerGroup("none", 2)),
        ),
        (
            "nemotron_h",
            {
                "attention__head_count_kv": [0, 2, 0, 0],
                "feed_forward_length": [0, 0, 64, 0],
                "ssm__state_size": 16,
            },
            (LayerGroup("recurrent", 2), LayerGroup("full", 1, 2, 32, 32), LayerGroup("none", 1)),
        ),
        (
            "qwen3next",
            {"full_attention_interval": 4, "ssm__state_size": 16},
            (LayerGroup("recurrent", 3), LayerGroup("full", 1, 2, 32, 32)),
        ),
        # DeepSeek: the latent alone (ground truth l08), and keys and values of every head in old files (l11).
        (
            "deepseek2",
            {
                "attention__kv_lora_rank": 512,
                "attention__key_length": 576,
                "attention__value_length": 512,
                "attention__key_length_mla": 192,
                "attention__head_count_kv": 1,
            },
            (LayerGroup("mla", 4, 1, 576, 0),),
        ),
        (
            "deepseek2",
            {
                "attention__kv_lora_rank": 512,
                "attention__key_length": 192,
                "attention__value_length": 128,
                "attention__head_count_kv": 8,
            },
            (LayerGroup("full", 4, 8, 192, 128),),
        ),
        (
            "gemma3n",
            {
                "attention__sliding_window": 64,
                "attention__sliding_window_pattern": [True, False, True, False],
                "attention__shared_kv_layers": 2,
            },
            (
                LayerGroup("sliding", 1, 2, 32, 32, 64),
                LayerGroup("full", 1, 2, 32, 32),
                LayerGroup("none", 2),
            ),
        ),
        # What cannot be told is not guessed.
        ("falcon-h1", {"ssm__state_size": 16}, None),
        ("newfamily", {"attention__sliding_window": 128}, None),
        ("llama4", {}, None),
        ("mamba9", {"ssm__state_size": 16}, None),
        ("llama", {"attention__head_count_kv": [2, 2]}, None),
    ],
)
def test_layouts(tmp_path: Path, architecture: str, keys: dict[str, Any], expected: object) -> None:
    model = read_gguf(write(tmp_path / "m.gguf", architecture, **{**LLAMA, **keys}))
    assert model.layers == expected
    if expected is None:
        assert any("KV cache is unknown" in note for note in model.notes)
        assert kv_bytes_per_token(model, kv_dtype="f16") is None


def test_rope_scaling(tmp_path: Path) -> None:
    yarn = {
        "rope__scaling__type": "yarn",
        "rope__scaling__factor": 4.0,
        "rope__scaling__original_context_length": 1024,
    }
    assert read_gguf(write(tmp_path / "y.gguf", **{**LLAMA, **yarn})).rope == Rope("yarn", 4.0, 1024)
    assert read_gguf(write(tmp_path / "d.gguf", **LLAMA)).rope == Rope("default")
    frequencies = write(tmp_path / "l.gguf", tensors={"rope_freqs.weight": (16,)}, **LLAMA)
    assert read_gguf(frequencies).rope == Rope("llama3")


def test_embedders_do_not_generate(tmp_path: Path) -> None:
    assert read_gguf(write(tmp_path / "b.gguf", "bert", **LLAMA)).is_generative is False
    assert read_gguf(write(tmp_path / "q.gguf", "qwen3", **LLAMA, pooling_type=3)).is_generative is False


def test_split_files_count_together(tmp_path: Path) -> None:
    first = write(tmp_path / "m-00001-of-00002.gguf", **LLAMA, split__count=2)
    model = read_gguf(first)
    assert model.parameters is None and any("not all of them are here" in note for note in model.notes)
    write(tmp_path / "m-00002-of-00002.gguf", tensors={"output.weight": (8, 8)}, split__count=2)
    assert read_gguf(first).parameters == 8 * 4 + 8 * 8


HEADER = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "an empty file"),
        (b"GG", "not a GGUF file"),
        (b"PK\x03\x04" + bytes(100), "not a GGUF file"),
        (b"<!DOCTYPE html><html>", "not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"lmgg" + bytes(60), "GGML format"),
        (b"GGUF", "ends too early"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "GGUF version 9"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (HEADER + struct.pack("<QQ", 2**63, 0), "claims"),
        (HEADER + struct.pack("<QQ", 0, 2**63), "claims"),
        (HEADER + struct.pack("<QQQ", 0, 1, 2**62) + bytes(64), "ends too early"),
        # An array of 2**61 numbers, of 2**61 texts, of an unknown type; arrays inside arrays without end.
        (HEADER + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 4, 2**61) + bytes(64), "ends too early"),
        (
            HEADER + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 8, 2**61) + bytes(64),
            "more than the file has room",
        ),
        (HEADER + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 77, 1) + bytes(64), "unknown array type 77"),
        (
            HEADER + struct.pack("<QQQ1sI", 0, 1, 1, b"k", 9) + struct.pack("<IQ", 9, 1) * 9 + bytes(64),
            "unknown value",
        ),
        (HEADER + struct.pack("<QQQ1sI", 0, 1, 1, b"k", 13) + bytes(64), "unknown value type 13"),
        (HEADER + struct.pack("<QQ", 0, 2) + struct.pack("<Q1sIB", 1, b"k", 0, 1) * 2, "there twice"),
        (HEADER + struct.pack("<QQQ1sIQQQ", 1, 0, 1, b"t", 2, 2**40, 2**40, 0) + bytes(64), "ends"),
        (HEADER + struct.pack("<QQQ1sI", 1, 0, 1, b"t", 2**31) + bytes(64), "dimensions"),
    ],
)
def test_what_is_not_gguf_is_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    started = time.perf_counter()
    with pytest.raises(InputError) as error:
        read_gguf(path)
    assert says in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)
    assert time.perf_counter() - started < 1


def test_half_a_download_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", tensors={"token_embd.weight": (64, 64)}, **LLAMA)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="incomplete download"):
        read_gguf(path)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")  # must not wait for a writer
    for path in (tmp_path, tmp_path / "absent.gguf", tmp_path / "pipe.gguf"):
        with pytest.raises(InputError):
            read_metadata(path)


def test_a_header_without_architecture_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(HEADER + struct.pack("<QQ", 0, 0))
    assert read_metadata(path) == {}
    with pytest.raises(InputError, match=r"general\.architecture is missing"):
        read_gguf(path)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    write(
        path,
        **LLAMA,
        tokenizer__ggml__model="gpt2",
        tokenizer__ggml__tokens=["a", "b"],
        attention__sliding_window=8,
    )
    return path.read_bytes()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_bytes_raise_anything_but_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, good: bytes, data: st.DataObject
) -> None:
    content = bytearray(good[: data.draw(st.integers(0, len(good)))] if data.draw(st.booleans()) else good)
    for _ in range(data.draw(st.integers(0, 6))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "mutated.gguf"
    path.write_bytes(bytes(content))
    for read in (read_gguf, read_vocabulary):
        try:
            read(path)
        except InputError as error:
            assert len(str(error).splitlines()) == 1


@pytest.mark.engine
def test_a_real_model() -> None:
    from preop.demo.model import smollm2_path

    path = smollm2_path()
    model = read_gguf(path)
    assert model.parameters == 134_515_008  # as Hugging Face states for SmolLM2-135M
    assert model.layers == (LayerGroup("full", 30, 3, 64, 64),)
    assert (model.native_context, model.vocabulary_size, model.has_chat_template) == (8192, 49152, True)
    assert model.quantization is not None and model.quantization.method == "gguf Q4_1"
    reference = gguf.GGUFReader(path)
    assert [t.name for t in reference.tensors] == [t.name for t in read_header(path).tensors]
    field = reference.get_field("tokenizer.ggml.tokens")
    assert field is not None and read_vocabulary(path).tokens == field.contents()
