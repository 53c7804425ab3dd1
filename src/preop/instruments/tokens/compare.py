"""Differences between two lists of token ids, and their cause where it is certain.

A cause is named only when undoing it makes the ids equal; otherwise it is "unknown".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import msgspec

from preop.evidence import TokenDifference
from preop.instruments.tokens.reference import Reference

__all__ = ["is_byte_level", "name_pre_tokenizer", "plain_difference", "special_difference"]

_FIXES = {
    "prefix-space": "the engine and the reference disagree on a space before the text (add_prefix_space)",
    "normalizer": "the engine and the reference disagree on Unicode normalization",
    "added-token": "the engine and the reference disagree on which texts are special tokens",
    "vocabulary": "the engine serves another vocabulary: serve the reference's tokenizer files",
    "double-bos": "the engine adds a BOS that is there already: turn add_bos off, or take it out of the text",
    "unexpected-bos": "the engine adds a BOS that the reference does not",
    "missing-bos": "the engine leaves out the BOS that the reference adds",
    "unexpected-eos": "the engine adds an EOS that the reference does not",
    "missing-eos": "the engine leaves out the EOS that the reference adds",
}


def _difference(
    cause: str, text: str, reference: list[int], candidate: list[int], fix: str = ""
) -> TokenDifference:
    position = next(
        (at for at, (a, b) in enumerate(zip(reference, candidate, strict=False)) if a != b),
        min(len(reference), len(candidate)),
    )
    return TokenDifference(cause, text, position, reference, candidate, fix or _FIXES.get(cause))


def plain_difference(reference: Reference, text: str, candidate: list[int]) -> TokenDifference | None:
    """The difference without BOS and EOS; None where the ids are equal."""
    expected = reference.encode(text)
    if expected == candidate:
        return None
    for cause, explains in _CAUSES.items():
        fix = explains(reference, text, expected, candidate)
        if fix is not None:
            return _difference(cause, text, expected, candidate, fix)
    return _difference("unknown", text, expected, candidate)


def special_difference(
    reference: Reference, text: str, expected: list[int], candidate: list[int]
) -> TokenDifference | None:
    """The difference with BOS and EOS, for a text that is equal without them."""
    if expected == candidate:
        return None
    if candidate[1:] == expected:
        cause = "double-bos" if candidate[0] in expected[:1] else "unexpected-bos"
    elif expected[1:] == candidate:
        cause = "missing-bos"
    elif candidate[:-1] == expected:
        cause = "unexpected-eos"
    elif expected[:-1] == candidate:
        cause = "missing-eos"
    else:
        cause = "unknown"
    return _difference(cause, text, expected, candidate)


# Each returns a fix ("" for the usual one) where it explains the difference, else None.


def _vocabulary(reference: Reference, text: str, expected: list[int], candidate: list[int]) -> str | None:
    size = reference.tokenizer.get_vocab_size(with_added_tokens=True)
    if any(not 0 <= token < size for token in candidate):
        return ""
    if is_byte_level(reference):
        from tokenizers.pre_tokenizers import ByteLevel

        whole = ByteLevel(add_prefix_space=False, use_regex=False)
        letters = {letter for piece, _ in whole.pre_tokenize_str(text) for letter in piece}
        if any(reference.tokenizer.token_to_id(letter) is None for letter in letters):
            return (
                "a byte of this text is not in the vocabulary: implementations leave it out in different ways"
            )
    return None


def _prefix_space(reference: Reference, text: str, expected: list[int], candidate: list[int]) -> str | None:
    if reference.encode(" " + text) == candidate:
        return ""
    return "" if text.startswith(" ") and reference.encode(text[1:]) == candidate else None


def _normalizer(reference: Reference, text: str, expected: list[int], candidate: list[int]) -> str | None:
    for form in ("NFC", "NFKC", "NFD", "NFKD"):
        changed = unicodedata.normalize(form, text)
        if changed != text and reference.encode(changed) == candidate:
            return f"the engine normalizes text to {form} and the reference does not"
    normalizer = reference.tokenizer.normalizer
    if normalizer is not None:
        reference.tokenizer.normalizer = None
        try:
            if reference.encode(text) == candidate:
                return f"the engine leaves out the reference's normalizer ({type(normalizer).__name__})"
        finally:
            reference.tokenizer.normalizer = normalizer
    return None


def _added_token(reference: Reference, text: str, expected: list[int], candidate: list[int]) -> str | None:
    for token in sorted(reference.added, key=len, reverse=True):
        if token and token in text:
            number = reference.tokenizer.token_to_id(token)
            if expected.count(number) != candidate.count(number):
                return f"{token} is one token on one side and plain text on the other"
    return None


_CAUSES: dict[str, Callable[[Reference, str, list[int], list[int]], str | None]] = {
    "vocabulary": _vocabulary,
    "prefix-space": _prefix_space,
    "normalizer": _normalizer,
    "added-token": _added_token,
}


def name_pre_tokenizer(
    reference: Reference, seen: Sequence[tuple[str, list[int]]], differences: Sequence[TokenDifference]
) -> list[TokenDifference]:
    """The differences, those of unknown cause named when one other pre-tokenizer explains all of them.

    It must give the engine's ids for each text `seen` (text and the engine's ids), the equal ones included,
    except those whose difference has a cause already.
    """
    from preop.instruments.tokens.gguf_vocabulary import PRE_TOKENIZERS, pre_tokenizer

    explained = {difference.text for difference in differences if difference.cause != "unknown"}
    open_texts = [(text, ids) for text, ids in seen if text not in explained]
    kept = reference.tokenizer.pre_tokenizer
    if len(explained) == len(differences) or not is_byte_level(reference):
        return list(differences)
    try:
        for name in PRE_TOKENIZERS:
            reference.tokenizer.pre_tokenizer = pre_tokenizer(name)
            if all(reference.encode(text) == ids for text, ids in open_texts):
                fix = f"the engine cuts text as the pre-tokenizer `{name}` does (tokenizer.ggml.pre)"
                return [
                    msgspec.structs.replace(difference, cause="pre-tokenizer", fix=fix)
                    if difference.cause == "unknown"
                    else difference
                    for difference in differences
                ]
    finally:
        reference.tokenizer.pre_tokenizer = kept
    return list(differences)


def is_byte_level(reference: Reference) -> bool:
    """Whether the reference cuts text into bytes, as GPT-2 did."""
    return "ByteLevel" in repr(reference.tokenizer.pre_tokenizer)
