"""The candidate: token ids as the running engine makes them, over its /tokenize route."""

from __future__ import annotations

import json
from typing import Any, Literal

from preop.errors import InstrumentError
from preop.instruments.wire.client import Connection, Response, Target
from preop.instruments.wire.errors import clean

__all__ = ["Candidate"]

Dialect = Literal["llama.cpp", "vllm"]


class Candidate:
    """Asks one engine. `special` puts BOS and EOS where the engine adds them to a completion."""

    def __init__(self, target: Target, model: str | None, dialect: Dialect, timeout_s: float) -> None:
        self._target, self._model, self._dialect, self._timeout_s = target, model, dialect, timeout_s
        self._connection: Connection | None = None

    @property
    def name(self) -> str:
        """What is asked, in words."""
        return f"POST /tokenize of {self._target.address} ({self._dialect})"

    async def encode(self, text: str, special: bool) -> list[int]:
        """The engine's ids. Raises `InstrumentError` when it does not give any."""
        if self._dialect == "llama.cpp":
            body: dict[str, Any] = {"content": text, "add_special": special, "parse_special": True}
        else:
            body = {"prompt": text, "add_special_tokens": special}
            if self._model is not None:
                body["model"] = self._model
        response = await self._post("/tokenize", body)
        tokens = self._document(response).get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise InstrumentError(f"{self.name}: the answer holds no list of token ids")
        return tokens

    def close(self) -> None:
        """Tear the connection down."""
        if self._connection is not None:
            self._connection.close()

    async def _post(self, path: str, body: dict[str, Any]) -> Response:
        data = json.dumps(body).encode()
        for _ in range(2):  # once more when a kept connection was closed while idle
            kept = self._connection is not None and self._connection.usable
            if self._connection is None or not kept:
                self._connection = await Connection.open(self._target, self._timeout_s)
            response = await self._connection.request("POST", path, data, timeout_s=self._timeout_s)
            if not (kept and response.error is not None and response.head_ns is None):
                break
        if response.error is not None:
            raise response.error
        return response

    def _document(self, response: Response) -> dict[str, Any]:
        body = response.body()
        if response.status != 200:
            said = clean(body[:500].decode("utf-8", "replace"), self._target.api_key)
            raise InstrumentError(f"{self.name}: HTTP {response.status}{': ' + said if said else ''}")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise InstrumentError(f"{self.name}: the answer is not a JSON object")
        return document
