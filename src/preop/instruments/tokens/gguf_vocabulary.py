"""A `tokenizers.Tokenizer` from the vocabulary inside a GGUF file: byte-level BPE.

The pre-tokenizers are named in `tokenizer.ggml.pre` and defined by the models that they come from: each is
a list of regular expressions that cut the text, one after another, before bytes are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from preop.errors import InstrumentError

if TYPE_CHECKING:
    from preop.models.gguf import Vocabulary

__all__ = ["PRE_TOKENIZERS", "pre_tokenizer", "tokenizer_of"]

_CONTROL, _USER_DEFINED = 3, 4

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_DEFAULT = (
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
)

PRE_TOKENIZERS: dict[str, tuple[str, ...]] = {
    "default": _DEFAULT,
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais"), (_GPT2,)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), (r"\p{N}", _GPT2)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen"), (_QWEN2,)),
}
"""By their name in `tokenizer.ggml.pre`."""

_WHOLE_WORDS_FIRST = {"llama-bpe", "llama3", "llama-v3"}
"""A word that is in the vocabulary is taken whole, without asking the merges."""


def pre_tokenizer(name: str) -> Any:
    """The pre-tokenizer of that name, for a `tokenizers.Tokenizer`."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

    cuts = [Split(Regex(expression), "isolated") for expression in PRE_TOKENIZERS[name]]
    return Sequence([*cuts, ByteLevel(add_prefix_space=False, use_regex=False)])


def tokenizer_of(vocabulary: Vocabulary) -> Any:
    """A tokenizer with the vocabulary's tokens, merges, pre-tokenizer and special tokens; it adds no BOS.

    Raises `InstrumentError` for a kind that cannot be built.
    """
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.decoders import ByteLevel
    from tokenizers.models import BPE

    if vocabulary.model != "gpt2":
        raise InstrumentError(
            f"a tokenizer of the kind `{vocabulary.model}` is not supported from a GGUF file, only "
            "byte-level BPE (`gpt2`): give the tokenizer.json by --tokenizer"
        )
    pre = vocabulary.pre or "default"
    if pre not in PRE_TOKENIZERS:
        raise InstrumentError(
            f"this GGUF file's pre-tokenizer `{pre}` is not supported: give the tokenizer.json by --tokenizer"
        )
    merges = []
    for merge in vocabulary.merges:
        left, space, right = merge.partition(" ")
        if not left or not space or not right or " " in right:
            raise InstrumentError(f"the GGUF file holds a merge that is none: {merge[:60]!r}")
        merges.append((left, right))
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    try:
        model = BPE(ids, merges, ignore_merges=pre in _WHOLE_WORDS_FIRST)
    except Exception as error:  # noqa: BLE001  tokenizers raises bare Exception
        raise InstrumentError(f"the GGUF file's merges do not fit its tokens: {error}") from None
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    tokenizer.decoder = ByteLevel()
    for token, kind in zip(vocabulary.tokens, vocabulary.token_types, strict=False):
        if kind == _CONTROL and token:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        elif kind == _USER_DEFINED and token:
            tokenizer.add_tokens([AddedToken(token, normalized=False)])
    return tokenizer
