"""One level carried by several client processes: what one core cannot drive, several can.

Each client runs `closed.run_level` with its share of the concurrency and of the requests. All start at one
instant; none counts a request before the first waves of all are being answered; and each keeps its load up
until the last counted request of all has ended. What comes back are samples on one clock
(`time.monotonic_ns()` is the same for all processes of a machine), so that percentiles are taken over all of
them. Clients live from level to level, and end when the pipe to them does.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from preop.errors import InstrumentError, PreopError
from preop.instruments.load.closed import Decision, Order, Stage, run_level
from preop.instruments.load.runner import Counted, Spender
from preop.instruments.load.samples import LevelSamples, Sample, glimpse, merged, read_samples
from preop.instruments.load.workload import WorkloadOptions, workload_of
from preop.instruments.types import Access
from preop.instruments.wire.client import Response, Target, run_loop

__all__ = [
    "Client",
    "Ended",
    "Lost",
    "Message",
    "Spec",
    "Team",
    "client_main",
    "shares",
    "spawned",
    "start_processes",
    "team",
]

_START_S = 30.0
_LEAD_NS = 30_000_000
"""From the word to start to the start, so that all have heard it."""
_READ_S = 60.0
"""How long a client may take to read what it has kept, after the level's time is over."""
_HURTS_S = 0.2

Message = tuple[Any, ...]
"""To a client: ("level", Order), ("go", at_ns), ("all", Stage), ("enough",), ("stop",). From it: ("ready",),
("at", Stage), ("ended", failed, Sample, requests, tokens), ("result", LevelSamples, requests, tokens),
("failed", why). `requests` and `tokens` were asked for since its last message."""

Ended = Callable[[bool, Callable[[], Sample]], Decision]
"""Told of each counted request: whether it failed, and its sample."""


@dataclass(frozen=True)
class Spec:
    """What a client needs to know before its first level. Goes over a pipe, never over a command line."""

    access: Access
    model: str | None
    ignore_eos: bool
    points: list[tuple[int, int]]
    prompts: str | None
    workload: WorkloadOptions


class Lost(Exception):
    """A client is gone; the text says how."""


class Client(Protocol):
    """A client as its team sees it."""

    name: str

    def send(self, message: Message) -> None:
        """Raises `Lost`."""

    async def receive(self) -> Message:
        """Its next message. Raises `Lost`."""

    async def synchronize(self) -> None:
        """Compare its clock with ours, before and after a level. Raises `Lost`."""

    def theirs(self, ns: int) -> int:
        """A time of ours on its clock."""

    def ours(self, samples: LevelSamples) -> LevelSamples:
        """Its samples on our clock."""

    def close(self) -> None:
        """End it at once."""


# The team: in the process that leads.


def team(spec: Spec, processes: int, cluster: str | None, spender: Spender) -> Team:
    """So many processes here, or a client on each node of the Ray cluster at that address."""
    if cluster is None:
        return Team(lambda: start_processes(processes, spec), spender)
    from preop.instruments.load.ray_workers import start_actors

    return Team(lambda: start_actors(cluster, spec), spender)


class Team:
    """Clients that carry levels together."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Sequence[Client]]], spender: Spender) -> None:
        """`start` gives new clients; it is called again after one was lost. `spender` is charged with what
        they ask for."""
        self._start, self._spender = start, spender
        self._clients: Sequence[Client] = ()
        self._members: list[Client] = []
        self._at: dict[Stage, set[str]] = {}
        self._why: str | None = None

    async def level(
        self, order: Order, *, ended: Ended, hurts: Callable[[int], str | None] = lambda in_flight: None
    ) -> LevelSamples:
        """One level of all. A client that is lost ends it; what the others have is kept.

        Raises `InstrumentError` when clients cannot be started.
        """
        try:
            if not self._clients:
                self._clients = await self._start()
            members = list(zip(self._clients, _divided(order, len(self._clients)), strict=False))
            return await self._carry(members, order, ended, hurts)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all clients."""
        for client in self._clients:
            client.close()
        self._clients = ()

    async def _carry(
        self,
        members: Sequence[tuple[Client, Order]],
        order: Order,
        ended: Ended,
        hurts: Callable[[int], str | None],
    ) -> LevelSamples:
        self._members, self._at, self._why = [client for client, _ in members], {}, None
        took_s = order.limits.limit_s + _READ_S
        await self._each(self._ready(client, part) for client, part in members)
        start = time.monotonic_ns() + _LEAD_NS
        for client in self._members:
            self._tell(client, ("go", client.theirs(start)))
        watch = asyncio.create_task(self._watch(hurts, order.concurrency))
        try:
            parts = await self._each(self._follow(client, ended, took_s) for client in self._members)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        level = merged(parts) if parts else LevelSamples(order.concurrency, order.limits.requests or 0)
        level.concurrency, level.asked = order.concurrency, order.limits.requests or 0
        level.stopped_because = level.stopped_because or self._why
        if len(self._members) < len(members):
            self.close()
        return level

    async def _each(self, doing: Iterator[Coroutine[Any, Any, Any]]) -> list[LevelSamples]:
        """What those that are not lost come to."""
        tasks = [asyncio.create_task(each) for each in doing]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [each for each in found if each is not None]

    async def _ready(self, client: Client, part: Order) -> None:
        try:
            await client.synchronize()
            client.send(("level", part))
            async with asyncio.timeout(_START_S):
                message = await client.receive()
            if message[0] != "ready":
                raise Lost(str(message[-1]))
        except TimeoutError:
            self._lose(client, f"did not begin within {_START_S:g} s")
        except Lost as lost:
            self._lose(client, str(lost))

    async def _follow(self, client: Client, ended: Ended, seconds: float) -> LevelSamples | None:
        try:
            async with asyncio.timeout(seconds):
                while (message := await client.receive())[0] != "result":
                    self._hear(client, message, ended)
            _, samples, requests, tokens = message
            self._spend(requests, tokens)
            await client.synchronize()
            return client.ours(samples)
        except TimeoutError:
            self._lose(client, f"did not answer within {seconds:g} s")
        except Lost as lost:
            self._lose(client, str(lost))
        return None

    def _hear(self, client: Client, message: Message, ended: Ended) -> None:
        match message:
            case ("at", stage):
                self._at.setdefault(stage, set()).add(client.name)
                self._agree()
            case ("ended", failed, sample, requests, tokens):
                self._spend(requests, tokens)
                decision = ended(failed, lambda: sample)
                if decision != "go on":
                    self._tell_all((decision,))
            case ("failed", why):
                raise Lost(why)

    def _agree(self) -> None:
        members = {client.name for client in self._members}
        for stage, there in list(self._at.items()):
            if members <= there:
                del self._at[stage]
                self._tell_all(("all", stage))

    def _spend(self, requests: int, tokens: int) -> None:
        self._spender.requests += requests
        self._spender.output_tokens += tokens

    def _lose(self, client: Client, how: str) -> None:
        """Go on without it, to the level's end."""
        self._members = [each for each in self._members if each is not client]
        client.close()
        self._stop(f"{client.name} {how}")

    def _stop(self, why: str) -> None:
        self._why = self._why or why
        self._tell_all(("stop",))

    def _tell_all(self, message: Message) -> None:
        for client in self._members:
            self._tell(client, message)

    def _tell(self, client: Client, message: Message) -> None:
        with suppress(Lost):  # who waits for its next message will know
            client.send(message)

    async def _watch(self, hurts: Callable[[int], str | None], in_flight: int) -> None:
        while True:
            await asyncio.sleep(_HURTS_S)
            if (why := hurts(in_flight)) is not None:
                self._stop(why)


def shares(total: int, parts: int) -> list[int]:
    """`total` in so many parts that differ by one at the most, larger ones first."""
    least, more = divmod(total, parts)
    return [least + (index < more) for index in range(parts)]


def _divided(order: Order, clients: int) -> list[Order]:
    """Each client's part; at a low level there are fewer parts than clients."""
    each = [share for share in shares(order.concurrency, clients) if share]
    asked, total, before = order.limits.requests, order.concurrency, 0
    parts = []
    for share in each:
        # In proportion to the users, so that all of them have the same number to do.
        requests = None
        if asked is not None:
            requests = asked * (before + share) // total - asked * before // total
        before += share
        parts.append(replace(order, concurrency=share, limits=replace(order.limits, requests=requests)))
    return parts


# Processes of this machine.


async def start_processes(count: int, spec: Spec) -> list[Client]:
    """So many clients in processes of their own. Raises `InstrumentError`."""
    clients: list[Client] = []
    try:
        for index in range(count):
            part = replace(spec, workload=replace(spec.workload, client=index, clients=count))
            child, pipe = spawned(client_main, (part,), f"preop-client-{index + 1}")
            clients.append(_Process(f"client {index + 1} of {count}", child, pipe))
    except OSError as error:
        for client in clients:
            client.close()
        raise InstrumentError(f"{count} client processes cannot be started: {error.strerror}") from None
    return clients


def spawned(run: Callable[..., None], arguments: tuple[Any, ...], name: str) -> tuple[BaseProcess, Pipe]:
    """A process that runs `run(pipe, *arguments)`, and our end of its pipe. Ctrl-C does not reach it: it ends
    when the pipe does."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    child = spawn.Process(target=run, args=(theirs, *arguments), name=name, daemon=True)
    with theirs, _ignoring_interrupts():
        child.start()
    return child, ours


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """What a process ignores, those that it starts ignore too, from their first instruction on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Process:
    def __init__(self, name: str, child: BaseProcess, pipe: Pipe) -> None:
        self.name, self._child, self._pipe = name, child, pipe

    def send(self, message: Message) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise Lost(self._how()) from None

    async def receive(self) -> Message:
        try:
            while not self._pipe.poll():
                await _readable(self._pipe)
            message: Message = self._pipe.recv()
        except (EOFError, OSError):
            raise Lost(self._how()) from None
        return message

    async def synchronize(self) -> None:
        """One machine, one clock."""

    def theirs(self, ns: int) -> int:
        return ns

    def ours(self, samples: LevelSamples) -> LevelSamples:
        return samples

    def close(self) -> None:
        self._pipe.close()
        self._child.kill()
        self._child.join()

    def _how(self) -> str:
        self._child.join(1)
        code = self._child.exitcode
        if code is None:
            return "does not answer"
        return f"was ended by signal {-code}" if code < 0 else f"ended by itself (exit {code})"


def _add_reader(pipe: Pipe, heard: Callable[[], None]) -> None:
    asyncio.get_running_loop().add_reader(pipe.fileno(), heard)
    os.set_blocking(pipe.fileno(), True)  # uvloop changes it, and messages are read and written whole


async def _readable(pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    there = loop.create_future()
    _add_reader(pipe, lambda: None if there.done() else there.set_result(None))
    try:
        await there
    finally:
        loop.remove_reader(pipe.fileno())


# The client: in a process (or on a node) of its own.


def client_main(pipe: Pipe, spec: Spec) -> None:
    """Carry the levels that come through the pipe, until it ends."""
    with suppress(_Gone):
        run_loop(_Own(pipe, spec).serve())


class _Gone(Exception):
    """Who leads the level is gone."""


class _Own:
    """This client. It is what its level asks for its peers."""

    def __init__(self, pipe: Pipe, spec: Spec) -> None:
        self._pipe, self._spec = pipe, spec
        self._target = Target.of(spec.access)
        self._inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self._told: set[Stage] = set()
        self._all: set[Stage] = set()
        self._decision: Decision = "go on"
        self.requests = self.output_tokens = 0

    async def serve(self) -> None:
        spec = self._spec
        loop = asyncio.get_running_loop()
        _add_reader(self._pipe, self._hear)
        try:
            self._workload = workload_of(
                spec.workload, spec.prompts, spec.model, spec.ignore_eos, spec.points
            )
            while (message := await self._inbox.get()) is not None:
                if message[0] == "level":
                    await self._level(message[1])
        except _Gone:
            raise
        except PreopError as error:
            self._tell(("failed", f"failed: {error}"))
        except Exception as error:  # noqa: BLE001 - it is said where the level is led, and ends it
            self._tell(("failed", f"failed: {type(error).__name__}: {error}"))
        finally:
            loop.remove_reader(self._pipe.fileno())

    def all_at(self, stage: Stage) -> bool:
        if stage not in self._told:
            self._told.add(stage)
            self._tell(("at", stage))
        return stage in self._all

    @property
    def is_over(self) -> bool:
        return self._decision == "stop"

    def _hear(self) -> None:
        try:
            while self._pipe.poll():
                message = self._pipe.recv()
                match message:
                    case ("all", stage):
                        self._all.add(stage)
                    case ("enough" | "stop" as decision,):
                        self._decision = decision
                    case _:
                        if message[0] == "level":  # what came before is about the last one
                            self._told, self._all, self._decision = set(), set(), "go on"
                        self._inbox.put_nowait(message)
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._decision = "stop"
            self._inbox.put_nowait(None)

    async def _level(self, order: Order) -> None:
        self._workload.new_level()
        self._tell(("ready",))
        message = await self._inbox.get()
        if message is None or message[0] != "go":
            self._inbox.put_nowait(message)
            return
        await asyncio.sleep(max(0.0, (message[1] - time.monotonic_ns()) / 1e9))
        gc.disable()  # as in `Runner`
        try:
            run = await run_level(
                self._target,
                order.concurrency,
                limits=order.limits,
                output_tokens=order.output_tokens,
                session=lambda: Counted(self._workload.session(), self),
                decide=self._ended,
                peers=self,
            )
            samples = read_samples(run, self._spec.access.api_key)
        finally:
            gc.enable()
        self._tell(("result", samples, *self._spent()))

    def _ended(self, response: Response) -> Decision:
        failed = response.error is not None or response.status != 200
        self._tell(("ended", failed, glimpse(response), *self._spent()))
        return self._decision

    def _tell(self, message: Message) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise _Gone from None

    def _spent(self) -> tuple[int, int]:
        spent = self.requests, self.output_tokens
        self.requests = self.output_tokens = 0
        return spent
