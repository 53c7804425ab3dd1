"""What every instrument that asks an endpoint needs: the target, the model's name, a connection at hand."""

from __future__ import annotations

from preop.deployment.types import Deployment
from preop.errors import InstrumentError
from preop.instruments.types import Access, Job
from preop.instruments.wire.chat import ChatStream, chat, first_model, parse_chat
from preop.instruments.wire.client import Connection, Response, Target

__all__ = ["Asker", "knows_ignore_eos", "model_name", "reachable"]

_CONNECT_S = 10.0


def reachable(job: Job) -> Access:
    """The endpoint of a job. Raises `InstrumentError` when there is none."""
    if job.access is None:
        raise InstrumentError("there is no endpoint to measure: give --endpoint URL")
    return job.access


def knows_ignore_eos(deployment: Deployment) -> bool:
    """Whether the engine takes `ignore_eos`, so that every answer has the length that was asked for."""
    return deployment.engine in ("vllm", "sglang", "llama.cpp")


async def model_name(target: Target, job: Job, timeout_s: float = _CONNECT_S) -> str | None:
    """The name to ask for: the user's (`--model`), else what /v1/models says, else what the deployment says.

    Raises `WireError`.
    """
    asked, deployment = job.options.get("model"), job.deployment
    if isinstance(asked, str):
        return asked
    if name := await first_model(target, timeout_s):
        return name
    for fact in (deployment.fact("served_model_name"), deployment.fact("model")):
        value = fact.value[0] if isinstance(fact.value, list) and fact.value else fact.value
        if isinstance(value, str):
            return value
    return None


class Asker:
    """Asks for streamed chat completions, one after another, on a connection that is opened when needed."""

    def __init__(self, target: Target, accept_encoding: str = "identity") -> None:
        self._target, self._accept_encoding = target, accept_encoding
        self._connection: Connection | None = None

    async def ready(self) -> Connection:
        """An open connection. Raises `WireError`."""
        if self._connection is None or not self._connection.usable:
            self._connection = await Connection.open(self._target, _CONNECT_S)
        return self._connection

    async def ask(self, body: bytes, timeout_s: float) -> Response:
        """One completion, as it came. Raises `WireError` when no connection can be opened.

        A kept connection that the server closes just as the request is sent (its idle time was over) says
        nothing about the server: the request is sent once more on a new one, and timed from there.
        """
        kept = self._connection
        connection = await self.ready()
        response = await chat(connection, body, timeout_s, self._accept_encoding)
        if connection is kept and _never_began(response):
            response = await chat(await self.ready(), body, timeout_s, self._accept_encoding)
        return response

    async def ask_and_read(self, body: bytes, timeout_s: float) -> ChatStream:
        """The same, read at once."""
        return parse_chat(await self.ask(body, timeout_s), self._target.api_key)

    @property
    def reads_so_far(self) -> int:
        """Reads of the body of the response that is under way."""
        return self._connection.reads_so_far if self._connection is not None else 0

    @property
    def torn_down(self) -> Response | None:
        """What had come of the request that was cancelled, if one was."""
        return self._connection.torn_down if self._connection is not None else None

    def close(self) -> None:
        """Tear the connection down."""
        if self._connection is not None:
            self._connection.close()


def _never_began(response: Response) -> bool:
    error = response.error
    return error is not None and error.kind in ("closed", "reset") and response.head_ns is None
