"""The run folders: every check is a folder of documents that can be read without preop.

.preop/runs/20261201T043012Z-5f3a/
    run.json                      what was asked, when, how it ended
    evidence/load-chat.json       one record for each instrument and deployment, written when it ended
    check.json                    the whole answer, as `--format json` prints it
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from preop.evidence import RECORD_SCHEMA, Live, Load, Payload, Record, Streaming, Tokens

__all__ = ["DEFAULT_RUNS", "Run", "RunDocument", "is_fresh", "read_records", "stale", "start_run", "utc_now"]

DEFAULT_RUNS = ".preop/runs"
_MAX_RECORD_BYTES = 64 << 20
_TRIES = 8
_DEEPEST = 32
"""Levels of lists and objects in what describes a measurement."""
_KINDS: dict[str, type[Payload]] = {
    "endpoint": Live,
    "streaming": Streaming,
    "load": Load,
    "tokens": Tokens,
}
"""What each instrument's record holds: its fingerprint says nothing of any other payload."""


class RunDocument(msgspec.Struct):
    """`run.json`."""

    schema: str
    preop_version: str
    started_at: str
    asked: dict[str, Any]
    status: str = "running"
    """running, finished, or interrupted."""
    ended_at: str | None = None
    verdict: str | None = None


class Run:
    """One run's folder. Each document is written whole or not at all."""

    def __init__(self, path: Path, document: RunDocument) -> None:
        """`path` exists; `document` is its run.json."""
        self.path = path
        self._document = document
        self._write("run.json", document)

    def keep(self, record: Record) -> None:
        """Write one record, the moment it exists."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{record.instrument}-{record.deployment}")[:100]
        path = f"evidence/{name}.json"
        number = 1
        while (self.path / path).exists():
            number += 1
            path = f"evidence/{name}-{number}.json"
        self._write(path, record)

    def finish(self, verdict: str, document: dict[str, Any]) -> None:
        """Write the answer and close the run."""
        self._write("check.json", document)
        self._document.verdict = verdict
        self._close("finished")

    def interrupt(self) -> None:
        """Close a run that was stopped: what had finished is there."""
        self._close("interrupted")

    def _close(self, status: str) -> None:
        self._document.status = status
        self._document.ended_at = utc_now().isoformat()
        self._write("run.json", self._document)

    def _write(self, name: str, document: Any) -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        content = msgspec.json.format(_encoded(document), indent=2)
        temporary = target.with_name(f".{target.name}.tmp")  # the folder is this run's alone
        try:
            temporary.write_bytes(content + b"\n")
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _encoded(document: Any) -> bytes:
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:  # a name that is no UTF-8, from a command line or a file's name
        import json

        text = json.dumps(msgspec.to_builtins(document), ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.encode(json.loads(text, parse_constant=lambda _: None))


def start_run(root: Path, preop_version: str, asked: dict[str, Any]) -> Run:
    """Make a new run folder below `root`. Raises OSError when it cannot be made."""
    now = utc_now()
    for tries_left in reversed(range(_TRIES)):
        path = root / f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
        try:
            path.mkdir(parents=True)
            break
        except FileExistsError:  # another run of this second drew the same end
            if not tries_left or not path.is_dir():
                raise
    return Run(path, RunDocument("preop.run/1", preop_version, now.isoformat(), asked))


def read_records(roots: Sequence[Path]) -> Iterator[Record | str]:
    """All records below the run folders in `roots`, oldest first.

    A document that cannot be read gives one sentence instead: evidence that is lost is said, never skipped.
    """
    paths = sorted(
        (path for root in roots for path in root.glob("*/evidence/*.json")),
        key=lambda path: (path.parent.parent.name, path.name),
    )
    for path in paths:
        try:
            yield _read(path)
        except ValueError as error:
            yield f"{path}: {error}"
        except OSError as error:
            yield f"{path}: cannot be read: {error.strerror or error}"


def _read(path: Path) -> Record:
    """One record. Raises `ValueError` with what is wrong with it, and OSError."""
    if not path.is_file():  # opening a pipe would wait for ever
        raise ValueError("no ordinary file, not read as evidence")
    if path.stat().st_size > _MAX_RECORD_BYTES:
        raise ValueError("larger than 64 MB, not read as evidence")
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
        deepest = _depth([record.fingerprint, record.conditions])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"not a record that this version can read: {error}") from None
    if deepest > _DEEPEST:
        raise ValueError(f"not a record that this version can read: more than {_DEEPEST} levels deep")
    if record.schema != RECORD_SCHEMA:
        raise ValueError(f"schema {record.schema!r}, expected {RECORD_SCHEMA!r}")
    kind = _KINDS.get(record.instrument)
    if kind is not None and record.payload is not None and not isinstance(record.payload, kind):
        held = type(record.payload).__name__.lower()
        raise ValueError(f"not a record that this version can read: {record.instrument} holds {held}")
    return record


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level := [
        inner
        for outer in level
        if isinstance(outer, dict | list)
        for inner in (outer.values() if isinstance(outer, dict) else outer)
    ]:
        depth += 1
    return depth


def is_fresh(record: Record, now: datetime, lifetime: timedelta) -> bool:
    """Whether a record holds something, and was taken within `lifetime` before `now`."""
    return record.payload is not None and stale(record, now, lifetime) is None


def stale(record: Record, now: datetime, lifetime: timedelta) -> str | None:
    """Why a record is of no time that counts at `now`, in words; None where it was taken within `lifetime`
    before."""
    try:
        age = now - datetime.fromisoformat(record.taken_at)
    except (ValueError, TypeError, OverflowError):  # no time, or one without a zone
        return f"{record.taken_at[:40]!r} is no time that it could have been taken at"
    if age < timedelta(0):
        return f"it is dated in the future, {record.taken_at[:40]} (now {now.isoformat()}): check the clocks"
    return f"it is older than {lifetime.days} days" if age > lifetime else None


def utc_now() -> datetime:
    """Now, in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
