"""A sentence in both languages of the product."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Language", "Text"]

Language = Literal["en", "zh"]


class Text(msgspec.Struct, frozen=True):
    """One sentence, written side by side in English and Chinese so that neither can be forgotten."""

    en: str
    zh: str

    def in_(self, language: Language) -> str:
        """The sentence in `language`."""
        return self.zh if language == "zh" else self.en
