"""Token ids: differences made on purpose are found and named, and a real engine agrees with its own file."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf
import pytest
from tokenizers import AddedToken, Tokenizer, normalizers
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer
from wire.servers import Seen, serving

from preop.demo.model import smollm2_path
from preop.deployment.types import Deployment
from preop.errors import InputError, InstrumentError
from preop.evidence import Tokens
from preop.inputs import Inputs
from preop.instruments.tokens import TOKENS
from preop.instruments.tokens.candidate import Candidate
from preop.instruments.tokens.corpus import CORPUS
from preop.instruments.tokens.gguf_vocabulary import PRE_TOKENIZERS, pre_tokenizer, tokenizer_of
from preop.instruments.tokens.measure import compare
from preop.instruments.tokens.reference import load_reference
from preop.instruments.types import Access, Job
from preop.instruments.wire.client import Target, run_loop
from preop.models.gguf import Vocabulary

BOS = "<|begin|>"


def trained(pre: Any | None = None) -> Tokenizer:
    """A small byte-level BPE, trained on the corpus itself."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre or ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=1500,
        initial_alphabet=ByteLevel.alphabet(),
        special_tokens=[BOS, "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([*CORPUS, *CORPUS], trainer)
    return tokenizer


def with_bos(tokenizer: Tokenizer, times: int = 1) -> Tokenizer:
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.post_processor = TemplateProcessing(
        single=" ".join([BOS] * times + ["$A"]), special_tokens=[(BOS, copy.token_to_id(BOS))]
    )
    return copy


def changed(tokenizer: Tokenizer) -> Tokenizer:
    return Tokenizer.from_str(tokenizer.to_str())


@contextmanager
def engine(tokenizer: Tokenizer, dialect: str = "vllm") -> Iterator[Seen]:
    """A server with /tokenize as vLLM or llama.cpp have it, around a tokenizer."""

    async def handler(request: bytes, reader: Any, writer: Any) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        status, document = 404, {"error": "not found"}
        if b"POST /tokenize " in head:
            asked = json.loads(body)
            text = asked.get("prompt" if dialect == "vllm" else "content")
            special = asked.get("add_special_tokens" if dialect == "vllm" else "add_special", False)
            if isinstance(text, str):
                ids = tokenizer.encode(text, add_special_tokens=special).ids
                status, document = 200, {"tokens": ids, "count": len(ids)}  # type: ignore[dict-item]
        data = json.dumps(document).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)
        await writer.drain()

    with serving(handler) as seen:
        yield seen


def held(
    reference: Tokenizer, candidate: Tokenizer, folder: Path, dialect: str = "vllm", **inputs: str
) -> Tokens:
    reference.save(str(folder / "tokenizer.json"))
    name = "llama.cpp" if dialect == "llama.cpp" else dialect
    with engine(candidate, dialect) as server:
        job = Job(
            Deployment("d", name, "t", {}), Access(server.url), inputs=Inputs(tokenizer=str(folder), **inputs)
        )
        payload = TOKENS.run(job)
    assert isinstance(payload, Tokens)
    return payload


@pytest.fixture(scope="module")
def base() -> Tokenizer:
    return trained()


@pytest.mark.parametrize("dialect", ["vllm", "llama.cpp"])
def test_the_same_tokenizer_is_equal(base: Tokenizer, tmp_path: Path, dialect: str) -> None:
    payload = held(with_bos(base), with_bos(base), tmp_path, dialect)
    assert payload.differences == []
    assert payload.compared == len(CORPUS) >= 100
    assert payload.not_compared == ["the chat template: what it renders is not compared"]


def causes(payload: Tokens) -> set[str]:
    return {difference.cause for difference in payload.differences}


@pytest.mark.parametrize(
    ("reference", "candidate", "cause"),
    [(0, 1, "unexpected-bos"), (1, 0, "missing-bos"), (1, 2, "double-bos")],
)
def test_bos(base: Tokenizer, tmp_path: Path, reference: int, candidate: int, cause: str) -> None:
    sides = [with_bos(base, times) if times else base for times in (reference, candidate)]
    payload = held(sides[0], sides[1], tmp_path)
    assert causes(payload) == {cause}
    assert len(payload.differences) == 1 and payload.differences[0].position == (
        1 if cause == "double-bos" else 0
    )


def test_prefix_space(base: Tokenizer, tmp_path: Path) -> None:
    candidate = changed(base)
    candidate.pre_tokenizer = ByteLevel(add_prefix_space=True)
    payload = held(base, candidate, tmp_path)
    assert "prefix-space" in causes(payload)
    hello = next(difference for difference in payload.differences if difference.text == "Hello")
    assert hello.cause == "prefix-space" and hello.position == 0 and hello.fix


def test_normalizer_on_the_engines_side(base: Tokenizer, tmp_path: Path) -> None:
    candidate = changed(base)
    candidate.normalizer = normalizers.NFC()
    payload = held(base, candidate, tmp_path)
    assert causes(payload) == {"normalizer"}
    assert all("NFC" in str(difference.fix) for difference in payload.differences)


def test_normalizer_left_out_by_the_engine(base: Tokenizer, tmp_path: Path) -> None:
    reference = changed(base)
    reference.normalizer = normalizers.NFKC()
    assert causes(held(reference, base, tmp_path)) == {"normalizer"}


def test_added_token_unknown_to_the_engine(base: Tokenizer, tmp_path: Path) -> None:
    reference = changed(base)
    reference.add_special_tokens([AddedToken("[INST]", special=True, normalized=False)])
    payload = held(reference, base, tmp_path)
    assert causes(payload) == {"added-token"}
    assert [difference.text for difference in payload.differences] == ["[INST] x [/INST]"]


def test_pre_tokenizer(base: Tokenizer, tmp_path: Path) -> None:
    candidate = changed(base)
    candidate.pre_tokenizer = pre_tokenizer("smollm")
    payload = held(base, candidate, tmp_path)
    assert "pre-tokenizer" in causes(payload)
    assert any("smollm" in str(difference.fix) for difference in payload.differences)


def test_vocabulary(base: Tokenizer, tmp_path: Path) -> None:
    candidate = changed(base)
    candidate.add_tokens([f"extra{n}" for n in range(10)])
    candidate.add_tokens(["fox jumps"])
    payload = held(base, candidate, tmp_path)
    assert causes(payload) == {"vocabulary"}


def test_what_is_not_certain_is_unknown(base: Tokenizer, tmp_path: Path) -> None:
    other = trained(pre_tokenizer("qwen2"))
    payload = held(base, other, tmp_path)
    assert "unknown" in causes(payload)
    assert all(difference.fix is None for difference in payload.differences if difference.cause == "unknown")


def test_own_prompts_are_compared_too(base: Tokenizer, tmp_path: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "half a pair: \\ud83d"}\n{"text": "zweiter Text"}\n')
    payload = held(base, base, tmp_path, prompts=str(prompts))
    assert (payload.compared, payload.differences) == (len(CORPUS) + 2, [])


def test_truncation_and_padding_of_the_file_do_not_count(base: Tokenizer, tmp_path: Path) -> None:
    reference = changed(base)
    reference.enable_truncation(5)
    reference.enable_padding(length=64)
    assert held(reference, base, tmp_path).differences == []


def test_missing_names_the_input(tmp_path: Path) -> None:
    here = Access("http://127.0.0.1:1")
    vllm, llama = (Deployment("d", engine, "t", {}) for engine in ("vllm", "llama.cpp"))
    for job, words in [(Job(vllm, None), "--endpoint"), (Job(vllm, here), "--tokenizer")]:
        missing = TOKENS.missing(job)
        assert missing is not None and words in missing.en and words in missing.zh
    assert TOKENS.missing(Job(llama, here)) is None
    assert TOKENS.missing(Job(vllm, here, inputs=Inputs(tokenizer="x"))) is None


def test_engine_without_the_route(base: Tokenizer, tmp_path: Path) -> None:
    base.save(str(tmp_path / "tokenizer.json"))

    async def handler(request: bytes, reader: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 9\r\n\r\nnot found")

    with serving(handler) as server:
        job = Job(
            Deployment("d", "vllm", "t", {}), Access(server.url), inputs=Inputs(tokenizer=str(tmp_path))
        )
        with pytest.raises(InstrumentError, match="HTTP 404: not found"):
            TOKENS.run(job)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", b"{}", "not a tokenizer.json"),
        ("tokenizer.json", b"\xff\xfe", "cannot be read"),
        ("tokenizer.json", b"", "not a tokenizer.json"),
        ("model.gguf", b"not a gguf at all", "model.gguf"),
        ("nothing.txt", b"", "there is no tokenizer.json"),
    ],
)
def test_references_that_are_none(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_reference(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        load_reference(tmp_path / "absent")


def vocabulary_of(tokenizer: Tokenizer, pre: str | None, model: str = "gpt2", **more: Any) -> Vocabulary:
    state = json.loads(tokenizer.to_str())
    vocabulary: dict[str, int] = state["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    special = {token["content"] for token in state["added_tokens"]}
    fields: dict[str, Any] = {
        "model": model, "pre": pre, "tokens": tokens, "scores": [],
        "merges": [" ".join(merge) for merge in state["model"]["merges"]],
        "token_types": [3 if token in special else 1 for token in tokens],
        "bos_id": 0, "eos_id": 1, "unknown_id": None, "add_bos": False, "add_eos": False,
        "add_space_prefix": None, "chat_template": None, "huggingface_json": None,
    }  # fmt: skip
    return Vocabulary(**{**fields, **more})


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_tokenizer_from_a_vocabulary_is_the_one_it_came_from(pre: str) -> None:
    original = trained(pre_tokenizer(pre))
    built = tokenizer_of(vocabulary_of(original, pre))
    for text in CORPUS:
        ids = built.encode(text, add_special_tokens=False).ids
        assert built.decode(ids, skip_special_tokens=False) == text
        if pre not in ("llama-bpe", "llama3", "llama-v3"):
            assert ids == original.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model": "llama"}, "`llama` is not supported"),
        ({"pre": "of-tomorrow"}, "`of-tomorrow` is not supported"),
        ({"merges": ["one two three"]}, "a merge that is none"),
        ({"merges": ["not inthere"]}, "do not fit"),
    ],
)
def test_vocabularies_that_cannot_be_built(base: Tokenizer, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InstrumentError, match=message):
        tokenizer_of(vocabulary_of(base, **{"pre": "gpt-2", **more}))


@pytest.mark.engine
def test_real_engine_on_the_corpus() -> None:
    """llama.cpp's own tokenizer against `tokenizers` on the vocabulary inside the same GGUF file."""
    from preop.demo.engine import running_engine

    with running_engine(context=1024, parallel=1) as running:
        payload = TOKENS.run(Job(Deployment("d", "llama.cpp", "t", {}), Access(running.url)))
    assert isinstance(payload, Tokens)
    assert payload.differences == []
    assert payload.compared == len(CORPUS)
    assert any("training side" in reason for reason in payload.not_compared)


RANGES = (
    *((0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (1, 0x1F)),
    *(
        (0xE00, 0xE7F),
        (0x2000, 0x206F),
        (0x2E80, 0x33FF),
        (0x4E00, 0x9FFF),
        (0xAC00, 0xD7A3),
        (0x1F300, 0x1FAFF),
    ),
)
PIECES = (
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "'s",
    "'LL",
    "123",
    "the",
    "<|im_end|>",
    "<|im_start|>",
    ".",
    "e\u0301",
)


def random_texts(count: int) -> list[str]:
    rng = random.Random(11)
    texts = []
    for _ in range(count):
        low, high = rng.choice(RANGES)
        characters = (
            rng.choice(PIECES) if rng.random() < 0.4 else chr(rng.randint(low, high))
            for _ in range(rng.randint(1, 24))
        )
        texts.append("".join(characters))
    return texts


@pytest.mark.engine
def test_real_engine_on_random_texts() -> None:
    """2,000 random texts. Where a byte is not in SmolLM2's vocabulary at all, `tokenizers` merges its
    neighbours across the gap and llama.cpp does not (a control character between a space and a quote):
    the one real difference, and it must be named as that."""
    from preop.demo.engine import running_engine

    async def main(url: str) -> Tokens:
        candidate = Candidate(Target.of(Access(url)), None, "llama.cpp", 10)
        job = Job(Deployment("d", "llama.cpp", "t", {}), Access(url))
        return await compare(job, load_reference(smollm2_path()), candidate, random_texts(2000), [])

    with running_engine(context=1024, parallel=1) as running:
        payload = run_loop(main(running.url))
    assert payload.compared == 2000
    assert all("byte" in str(difference.fix) for difference in payload.differences), payload.differences
    assert len(payload.differences) <= 2


def renamed_pre_tokenizer(source: Path, pre: str, target: Path) -> Path:
    """A copy of a GGUF file that names another pre-tokenizer."""
    reader = gguf.GGUFReader(source)
    data = source.read_bytes()
    at = data.index(b"tokenizer.ggml.pre") + len(b"tokenizer.ggml.pre")
    kind, length = struct.unpack_from("<IQ", data, at)
    assert kind == 8  # a string
    fields = [tensor.field for tensor in reader.tensors]
    end = max(field.offset + sum(int(part.nbytes) for part in field.parts) for field in fields)
    head = data[:at] + struct.pack("<IQ", 8, len(pre)) + pre.encode() + data[at + 12 + length : end]
    head += b"\0" * (-len(head) % 32)
    target.write_bytes(head + data[reader.data_offset :])
    return target


@pytest.mark.engine
@pytest.mark.parametrize("pre", ["default", "gpt-2", "starcoder", "llama-bpe", "dbrx", "qwen2"])
def test_each_pre_tokenizer_is_llama_cpps_own(tmp_path: Path, pre: str) -> None:
    from preop.demo.engine import running_engine

    path = renamed_pre_tokenizer(smollm2_path(), pre, tmp_path / "model.gguf")
    with running_engine(path, context=512, parallel=1) as running:
        payload = TOKENS.run(Job(Deployment("d", "llama.cpp", "t", {}), Access(running.url)))
    path.unlink()
    assert isinstance(payload, Tokens)
    assert f"pre-tokenizer {pre}" in payload.reference
    assert payload.differences == []


@pytest.mark.engine
def test_wrong_pre_tokenizer_in_the_served_file_is_found_and_named(tmp_path: Path) -> None:
    """The fault of many early GGUF files: the right vocabulary, cut by another model's rule."""
    from preop.demo.engine import running_engine

    path = renamed_pre_tokenizer(smollm2_path(), "llama-bpe", tmp_path / "model.gguf")
    with running_engine(path, context=512, parallel=1) as running:
        inputs = Inputs(tokenizer=str(smollm2_path()))
        payload = TOKENS.run(Job(Deployment("d", "llama.cpp", "t", {}), Access(running.url), inputs=inputs))
    path.unlink()
    assert isinstance(payload, Tokens)
    named = [difference for difference in payload.differences if difference.cause == "pre-tokenizer"]
    assert named and all("llama-bpe" in str(difference.fix) for difference in named)
    assert len(named) == len(payload.differences)
