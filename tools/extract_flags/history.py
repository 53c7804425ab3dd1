"""The tables of all versions of an engine as one file: for each flag the releases in which it changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from preop.engines.tables import History, order
from preop.engines.types import Flag, Table

__all__ = ["pack", "write_history"]


def pack(tables: Sequence[Table], hints: dict[str, str]) -> History:
    """One history of tables of one engine. `hints` say, by a flag's name, what to do once it is gone.

    Raises `ValueError` where the tables are of several engines, or there are none.
    """
    if not tables or len({table.engine for table in tables}) != 1:
        raise ValueError("expected the tables of one engine")
    ordered = sorted(tables, key=lambda table: order(table.version))
    spans: dict[str, list[tuple[int, Flag | None]]] = {}
    positional: list[tuple[int, str | None]] = []
    for at, table in enumerate(ordered):
        if table.positional != (positional[-1][1] if positional else None):
            positional.append((at, table.positional))
        for name in {*spans, *table.flags}:
            flag = table.flags.get(name)
            known = spans.setdefault(name, [])
            if (known[-1][1] if known else None) != flag:
                known.append((at, flag))
    names = sorted(spans)
    newest = ordered[-1]
    hints = {
        **{n: said for t in ordered for n, said in t.removed.items() if "gone since" not in said},
        **hints,
    }
    return History(
        schema="preop.history/1",
        engine=newest.engine,
        releases=tuple(table.version for table in ordered),
        source=newest.source,
        flags={name: tuple(spans[name]) for name in names},
        hints={name: hint for name, hint in sorted(hints.items()) if name in spans},
        gone={name: hint for name, hint in sorted(hints.items()) if name not in spans},
        positional=tuple(positional),
    )


def write_history(history: History, folder: Path) -> Path:
    """Write `<engine>.json`: one flag a line, so that a new release is a small diff."""
    encode = msgspec.json.Encoder(order="sorted").encode
    head = msgspec.structs.asdict(history)
    head.pop("flags")
    lines = [f'  "{name}": {encode(spans).decode()}' for name, spans in history.flags.items()]
    body = encode(head).decode()[:-1] + ',\n "flags": {\n' + ",\n".join(lines) + "\n }\n}\n"
    path = folder / f"{history.engine}.json"
    path.write_text(body, encoding="utf-8")
    return path
