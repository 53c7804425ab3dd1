"""The model that a controller puts where the engine looks for it."""

from __future__ import annotations

from preop.deployment.tokens import Token
from preop.deployment.yaml_nodes import Node, Scalar, scalar

__all__ = ["MOUNTED", "hub_id", "with_model"]

MOUNTED = "/mnt/models"
"""Where KServe's storage initializer puts it."""


def hub_id(uri: Node | None) -> Scalar | None:
    """The hub id in `hf://ORG/NAME[:revision]`; None for any other place."""
    if not isinstance(uri, Scalar) or not uri.text.startswith("hf://"):
        return None
    return scalar(uri.text.removeprefix("hf://").partition(":")[0], uri)


def with_model(tokens: tuple[Token, ...], uri: Node | None) -> tuple[Token, ...]:
    """The words with the hub id in place of the folder that it is downloaded into."""
    found = hub_id(uri)
    if found is None:
        return tokens
    return tuple(_replaced(token, found) for token in tokens)


def _replaced(token: Token, found: Scalar) -> Token:
    flag, equals, value = (token.visible or "").rpartition("=")
    if value.rstrip("/") != MOUNTED:
        return token
    return Token(f"{flag}{equals}{found.text}", found.origin)
