"""What a run of load may spend at the most: stated before it starts, and kept."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from preop.errors import UsageError

__all__ = ["Budget", "parse_budget"]

_PART = r"(\d+(?:\.\d+)?)(k|m)?(s|min|h|req|tok|CURRENCY)?"
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_SCALE = {"": 1.0, "k": 1e3, "m": 1e6}


@dataclass(frozen=True)
class Budget:
    """Each limit holds by itself; infinite where there is none."""

    seconds: float
    requests: float = math.inf
    output_tokens: float = math.inf
    money: float = math.inf
    per_million: float | None = None
    """Price of a million output tokens."""
    currency: str = "USD"

    @property
    def tokens(self) -> float:
        """Output tokens that both the token limit and the money allow."""
        if self.per_million is None or not math.isfinite(self.money):
            return self.output_tokens
        return min(self.output_tokens, self.money / self.per_million * 1e6)

    def statement(self) -> str:
        """What it may spend, in one line: `at most 120 s, 5,000 requests`."""
        parts = [f"{self.seconds:g} s"]
        if math.isfinite(self.requests):
            parts.append(f"{self.requests:,.0f} requests")
        if math.isfinite(self.tokens):
            parts.append(f"{self.tokens:,.0f} output tokens")
        if self.per_million is not None and math.isfinite(self.tokens):
            limited = math.isfinite(self.money)
            money = self.money if limited else self.tokens * self.per_million / 1e6
            price = f"at {self.per_million:g} {self.currency} per million output tokens"
            parts.append(f"{'' if limited else 'about '}{money:g} {self.currency} {price}")
        return "at most " + ", ".join(parts)

    def over(self, requests: int, output_tokens: int) -> str | None:
        """Which limit so much has used up; None while there is some left. Time is the caller's."""
        if requests >= self.requests:
            return f"the budget of {self.requests:,.0f} requests is used up"
        if output_tokens >= self.tokens:
            return f"the budget of {self.tokens:,.0f} output tokens is used up"
        return None


def parse_budget(
    text: str, default_s: float, per_million: float | None = None, currency: str = "USD"
) -> Budget:
    """`120s,5000req,2Mtok,5usd`; a number alone is seconds. Money is in the currency of the price.

    Raises `UsageError`.
    """
    pattern = re.compile(_PART.replace("CURRENCY", re.escape(currency)), re.ASCII | re.IGNORECASE)
    found: dict[str, float] = {}
    for part in (piece.strip() for piece in text.split(",")):
        match = pattern.fullmatch(part)
        unit = (match[3] or "s").lower() if match else ""
        name = "seconds" if unit in _SECONDS else unit
        if match is None or name in found or (name == "seconds" and match[2]):
            expected = f"expected 120s,5000req,2Mtok,5{currency.lower()}"
            raise UsageError(f"--budget {text}: {part or 'an empty part'} is no limit; {expected}")
        value = float(match[1]) * _SCALE[(match[2] or "").lower()] * _SECONDS.get(unit, 1.0)
        if not 0 < value < 1e15 or (name == "seconds" and not 1 <= value <= 86_400):
            raise UsageError(f"--budget {text}: {part} is out of range (1 s to 24 h, anything else above 0)")
        found[name] = value
    money = found.get(currency.lower(), math.inf)
    if math.isfinite(money) and per_million is None:
        price = "per_million_output_tokens under [cost] in preop.toml"
        raise UsageError(f"--budget with {currency.lower()} needs a price: {price}")
    return Budget(
        seconds=found.get("seconds", default_s),
        requests=found.get("req", math.inf),
        output_tokens=found.get("tok", math.inf),
        money=money,
        per_million=per_million,
        currency=currency,
    )
