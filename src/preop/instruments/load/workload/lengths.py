"""Texts of so many tokens, and lengths that vary."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist

from preop.errors import InstrumentError
from preop.instruments.prompts import Text

__all__ = ["Scale", "spread"]

_LENGTHS = 256
_SEED = 20_26


class Scale:
    """How long a text is in the engine's tokens: the line through two requests of `of_length`."""

    def __init__(self, text: Text, points: Sequence[tuple[int, int]]) -> None:
        """`points`: words and prompt tokens of requests. Raises `InstrumentError` where they make no line."""
        if len(points) < 2 or points[0][0] == points[-1][0]:
            raise InstrumentError(
                "the engine sends no usage, so a prompt of a given number of tokens cannot be made"
            )
        self._text = text
        (pieces_a, tokens_a), (pieces_b, tokens_b) = (
            (text.pieces(words), tokens) for words, tokens in (points[0], points[-1])
        )
        if (tokens_b - tokens_a) * (pieces_b - pieces_a) <= 0:
            raise InstrumentError("the engine counts no more prompt tokens for a longer prompt")
        self._per_token = (pieces_b - pieces_a) / (tokens_b - tokens_a)
        self._around = tokens_a - pieces_a / self._per_token

    def prompt(self, tokens: int, start: int = 0) -> bytes:
        """The text of a prompt of that many tokens, chat template and salt included."""
        return self.part(max(0.0, tokens - self._around), start)

    def part(self, tokens: float, start: int = 0) -> bytes:
        """A text of that many tokens."""
        return self._text.take(self._text.words(tokens * self._per_token, start), start)


def spread(mean: int, stdev: int) -> list[int]:
    """Log-normal lengths of that mean and deviation in a mixed order, the same ones each time.

    The quantiles at the middles of equal shares, so that few of them are a fair sample already.
    mu = ln m - s2/2, s2 = ln(1 + (sd/m)^2).
    """
    if stdev == 0:
        return [mean]
    variance = math.log1p((stdev / mean) ** 2)
    normal = NormalDist(math.log(mean) - variance / 2, math.sqrt(variance))
    lengths = [math.exp(normal.inv_cdf((index + 0.5) / _LENGTHS)) for index in range(_LENGTHS)]
    scale = mean * _LENGTHS / sum(lengths)  # the tails beyond the outermost quantiles
    found = [max(1, round(length * scale)) for length in lengths]
    random.Random(_SEED).shuffle(found)
    return found
