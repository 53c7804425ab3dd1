"""The reference: the tokenizer that the engine's token ids are held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from preop.errors import InputError, InstrumentError

__all__ = ["Reference", "load_reference"]


@dataclass
class Reference:
    """A tokenizer with what is known about its special tokens."""

    name: str
    tokenizer: Any
    """A `tokenizers.Tokenizer`."""
    bos_id: int | None = None
    eos_id: int | None = None
    add_bos: bool | None = None
    """For a GGUF vocabulary: BOS goes before every text; None: the file does not say. For a tokenizer.json
    its own post-processor says."""
    add_eos: bool = False
    is_gguf: bool = False
    added: frozenset[str] = field(default_factory=frozenset)
    """Texts of added and special tokens."""

    def encode(self, text: str) -> list[int]:
        """Ids without BOS or EOS."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_special(self, text: str) -> list[int] | None:
        """Ids with BOS and EOS where the reference adds them; None where it does not say."""
        if not self.is_gguf:
            return list(self.tokenizer.encode(text, add_special_tokens=True).ids)
        if self.add_bos is None:
            return None
        ids = self.encode(text)
        before = [self.bos_id] if self.add_bos and self.bos_id is not None else []
        after = [self.eos_id] if self.add_eos and self.eos_id is not None else []
        return [*before, *ids, *after]


def load_reference(path: str | Path) -> Reference:
    """From a folder with tokenizer.json, a tokenizer.json, or a GGUF file.

    Raises `InputError` for anything else, `InstrumentError` for a GGUF vocabulary that cannot be built.
    """
    path = Path(path)
    if path.is_dir():
        found = path / "tokenizer.json"
        if found.is_file():
            return _from_json(found)
        files = sorted(path.glob("*.gguf"))
        if len(files) == 1:
            return _from_gguf(files[0])
        raise InputError(f"{path}: there is no tokenizer.json in this folder, and not exactly one GGUF file")
    if not path.exists():
        raise InputError(
            f"{path}: no such file or folder; expected a tokenizer.json, its folder, or a GGUF file"
        )
    if path.suffix.lower() == ".gguf":
        return _from_gguf(path)
    return _from_json(path)


def _from_json(path: Path) -> Reference:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read as a tokenizer.json (JSON text in UTF-8)") from None
    return Reference(name=str(path), tokenizer=(built := _parse(text, str(path))), added=_added(built))


def _parse(text: str, where: str) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # noqa: BLE001  tokenizers raises bare Exception
        raise InputError(
            f"{where}: not a tokenizer.json that `tokenizers` reads: {str(error)[:200]}"
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _from_gguf(path: Path) -> Reference:
    from preop.instruments.tokens.gguf_vocabulary import tokenizer_of
    from preop.models.gguf import read_vocabulary

    vocabulary = read_vocabulary(path)
    if vocabulary.huggingface_json:
        built = _parse(vocabulary.huggingface_json, f"{path}: tokenizer.huggingface.json")
        return Reference(name=f"{path} (tokenizer.huggingface.json)", tokenizer=built, added=_added(built))
    try:
        built = tokenizer_of(vocabulary)
    except InstrumentError as error:
        raise InstrumentError(f"{path}: {error}") from None
    return Reference(
        name=f"{path} (its own vocabulary, pre-tokenizer {vocabulary.pre or 'default'})",
        tokenizer=built,
        bos_id=vocabulary.bos_id,
        eos_id=vocabulary.eos_id,
        add_bos=vocabulary.add_bos,
        add_eos=bool(vocabulary.add_eos),
        is_gguf=True,
        added=_added(built),
    )


def _added(tokenizer: Any) -> frozenset[str]:
    return frozenset(token.content for token in tokenizer.get_added_tokens_decoder().values())
