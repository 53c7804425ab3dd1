"""One level carried by clients on the nodes of a Ray cluster: the same as with processes, over actors.

Each node's clock is compared with ours by round trips: what an actor said between our two readings was true
at some instant between them, so its offset is known to half the shortest round trip. That is done before and
after each level, and the samples are moved onto our clock by the middle of the two. Ray carries nothing while
a client measures but a few messages a second.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import tempfile
import threading
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import preop
from preop.errors import InstrumentError
from preop.instruments.load.processes import Client, Lost, Message, Spec, client_main
from preop.instruments.load.samples import LevelSamples, Sample

__all__ = ["Offset", "offset_of", "on_our_clock", "start_actors"]

_ROUND_TRIPS = 15
_START_S = 120.0
_ANSWER_S = 30.0
_CONNECT_S = 5.0
_NEWS_S = 1.0
"""How long an actor waits for something to tell before it says that there is nothing."""
_SAID_ABOVE_NS = 1_000_000


@dataclass(frozen=True)
class Offset:
    """A node's clock less ours, and how far that may be wrong; in ns."""

    ns: int
    error_ns: int

    def drifted(self, later: Offset) -> Offset:
        """The middle of this and a later one, which holds for the time between them."""
        middle = (self.ns + later.ns) // 2
        return Offset(middle, max(self.error_ns, later.error_ns) + abs(later.ns - self.ns) // 2)


async def offset_of(
    theirs: Callable[[], Awaitable[int]], ours: Callable[[], int] = time.monotonic_ns
) -> Offset:
    """How far the other clock is before ours, by the shortest of some round trips."""
    best: Offset | None = None
    for _ in range(_ROUND_TRIPS):
        before = ours()
        said = await theirs()
        after = ours()
        half = (after - before + 1) // 2
        if best is None or half < best.error_ns:
            best = Offset(said - (before + after) // 2, half)
    assert best is not None
    return best


def on_our_clock(samples: LevelSamples, offset: Offset, name: str) -> LevelSamples:
    """Samples of a node, moved; with a note where its clock is not known well."""

    def moved(sample: Sample) -> Sample:
        def at(ns: int | None) -> int | None:
            return None if ns is None else ns - offset.ns

        return replace(
            sample,
            due_ns=sample.due_ns - offset.ns,
            sent_ns=sample.sent_ns - offset.ns,
            first_ns=at(sample.first_ns),
            finish_ns=at(sample.finish_ns),
            end_ns=at(sample.end_ns),
            text_ns=array("q", [ns - offset.ns for ns in sample.text_ns]),
        )

    notes = list(samples.notes)
    if offset.error_ns > _SAID_ABOVE_NS:
        notes.append(
            f"the clock of {name} is known to {offset.error_ns / 1e6:.1f} ms: so far off may its requests be "
            "against the others', while each of its latencies is by one clock"
        )
    return replace(
        samples,
        counted=[moved(sample) for sample in samples.counted],
        uncounted=[moved(sample) for sample in samples.uncounted],
        notes=notes,
    )


async def start_actors(address: str, spec: Spec) -> list[Client]:
    """A client on each node of the cluster. Raises `InstrumentError`."""
    try:
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    except ImportError:
        raise InstrumentError(
            "--workers ray needs Ray, in the cluster's version: pip install 'preop[ray]'"
        ) from None
    files = _carried(spec)
    began = not ray.is_initialized()
    if began:
        try:
            _listening(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except (RayError, OSError, ValueError, RuntimeError) as error:
            where = "found" if address == "auto" else f"reached at {address}"
            why = str(error).partition("\n")[0][:200]
            raise InstrumentError(
                f"no Ray cluster was {where} ({why}); expected --workers ray:HOST:6379, or a node of it"
            ) from None
    nodes = sorted((node for node in ray.nodes() if node["Alive"]), key=lambda node: str(node["NodeID"]))
    actor = ray.remote(num_cpus=0, max_restarts=0, concurrency_groups={"tell": 1, "news": 1, "clock": 1})(
        _Actor
    )
    clients: list[Client] = []
    cluster = _Cluster(ray, began)
    try:
        async with asyncio.timeout(_START_S):
            for index, node in enumerate(nodes):
                name = f"client {index + 1} of {len(nodes)} (node {node['NodeManagerAddress']})"
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                handle = actor.options(scheduling_strategy=there).remote()
                clients.append(_Node(name, handle, cluster))
                part = replace(spec, workload=replace(spec.workload, client=index, clients=len(nodes)))
                version = await handle.start.remote(part, files)
                if version != preop.__version__:
                    raise InstrumentError(f"{name} has preop {version}, here it is {preop.__version__}")
    except (RayError, TimeoutError) as error:
        for client in clients:
            client.close()
        why = "no answer" if isinstance(error, TimeoutError) else _reason(error)
        who = clients[-1].name if clients else "a client"
        raise InstrumentError(
            f"{who} did not start ({why}); each node needs: pip install 'preop[measure,ray]'"
        ) from None
    except BaseException:
        for client in clients:
            client.close()
        raise
    return clients


def _listening(address: str) -> None:
    """Raises `OSError` where nothing listens there: Ray itself would try for minutes."""
    known = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    host, _, port = known.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__


@dataclass(frozen=True)
class _File:
    """A file that goes with the client, since its node does not have it."""

    name: str
    content: bytes


def _carried(spec: Spec) -> dict[str, _File]:
    bundle = spec.access.verify_tls
    paths = {"prompts": spec.prompts, "bundle": bundle if isinstance(bundle, str) else None}
    files = {}
    for name, path in paths.items():
        if path is not None:
            try:
                files[name] = _File(Path(path).name, Path(path).read_bytes())
            except OSError as error:
                raise InstrumentError(f"{path} cannot be sent to the nodes: {error.strerror}") from None
    return files


class _Actor:
    """A client on a node: it measures in a thread of its own, and the actor passes its messages on."""

    def start(self, spec: Spec, files: dict[str, _File]) -> str:
        """Start the client; preop's version here."""
        import multiprocessing

        self._folder = tempfile.TemporaryDirectory(prefix="preop-")
        paths = {}
        for name, file in files.items():
            path = Path(self._folder.name) / f"{name}-{file.name}"
            path.write_bytes(file.content)
            paths[name] = str(path)
        access = replace(spec.access, verify_tls=paths.get("bundle", spec.access.verify_tls))
        spec = replace(spec, access=access, prompts=paths.get("prompts"))
        self._pipe, theirs = multiprocessing.Pipe()

        def run() -> None:
            with theirs:
                client_main(theirs, spec)

        threading.Thread(target=run, daemon=True).start()
        return preop.__version__

    def tell(self, message: bytes) -> None:
        self._pipe.send_bytes(message)

    def news(self) -> list[bytes]:
        """Its next messages; none when there was nothing for a while. Raises `EOFError` at its end."""
        found: list[bytes] = []
        wait = _NEWS_S
        while self._pipe.poll(wait):
            try:
                found.append(self._pipe.recv_bytes())
            except EOFError:
                if not found:
                    raise
                break
            wait = 0.0
        if found:
            self._folder.cleanup()  # it has read its files before it says anything
        return found

    def clock(self) -> int:
        return time.monotonic_ns()


class _Cluster:
    """Left when its last client is closed, if it was joined for them."""

    def __init__(self, ray: Any, began: bool) -> None:
        self.ray, self._began = ray, began
        self._actors: list[Any] = []

    def add(self, actor: Any) -> None:
        self._actors.append(actor)

    def end(self, actor: Any) -> None:
        if actor not in self._actors:
            return
        self._actors.remove(actor)
        with suppress(ValueError, RuntimeError, ConnectionError):  # gone already, or the cluster is
            self.ray.kill(actor)
        if not self._actors and self._began:
            self.ray.shutdown()


class _Node:
    """The actor as its team sees it."""

    def __init__(self, name: str, actor: Any, cluster: _Cluster) -> None:
        self.name, self._actor, self._cluster = name, actor, cluster
        cluster.add(actor)
        self._news: deque[bytes] = deque()
        self._offset: Offset | None = None
        self._latest: Offset | None = None

    def send(self, message: Message) -> None:
        self._actor.tell.options(concurrency_group="tell").remote(pickle.dumps(message))

    async def receive(self) -> Message:
        while not self._news:
            self._news.extend(await self._answer(self._method("news")))
        message: Message = pickle.loads(self._news.popleft())
        return message

    async def synchronize(self) -> None:
        async def theirs() -> int:
            said: int = await self._answer(self._method("clock"))
            return said

        self._offset, self._latest = self._latest, await offset_of(theirs)

    def theirs(self, ns: int) -> int:
        return ns + (self._latest.ns if self._latest is not None else 0)

    def ours(self, samples: LevelSamples) -> LevelSamples:
        assert self._offset is not None and self._latest is not None
        return on_our_clock(samples, self._offset.drifted(self._latest), self.name)

    def close(self) -> None:
        self._cluster.end(self._actor)

    def _method(self, name: str) -> Callable[[], Any]:
        return getattr(self._actor, name).options(concurrency_group=name).remote  # type: ignore[no-any-return]

    async def _answer(self, ask: Callable[[], Any]) -> Any:
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await ask()
        except TimeoutError:
            raise Lost(f"does not answer within {_ANSWER_S:g} s") from None
        except self._cluster.ray.exceptions.RayError as error:
            raise Lost(f"is lost: {_reason(error)}") from None
