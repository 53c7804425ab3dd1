"""Text Generation Inference: /info, as its docs/openapi.json describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preop.facts import Fact
from preop.instruments.endpoint.told import Told, count, mapping, text

__all__ = ["facts", "is_info"]


def is_info(answer: object) -> bool:
    """Whether this is TGI's answer: three of its own fields together."""
    return {"model_id", "max_concurrent_requests", "max_total_tokens"} <= mapping(answer).keys()


def facts(info: Mapping[str, Any]) -> dict[str, Fact]:
    """All that /info tells, by canonical name."""
    told = Told("/info")
    told.put("engine_version", text(info.get("version"), 100))
    told.put("model", text(info.get("model_id")))
    told.put("max_model_len", count(info.get("max_total_tokens")), "tokens")
    told.put("max_num_seqs", count(info.get("max_concurrent_requests")), "requests")
    return told.facts
