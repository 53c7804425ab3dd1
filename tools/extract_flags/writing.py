"""Annotations that the source does not state as data, and the tables as files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from preop.engines.types import Flag, Table

__all__ = ["SCHEMA", "Annotations", "annotations_of", "write"]

SCHEMA = "preop.flags/1"


@dataclass(frozen=True)
class Annotations:
    """What a reader of the engine's code knows: defaults decided at start, flags that are gone."""

    computed: Mapping[str, str]
    means: Mapping[str, str]
    gone: Mapping[str, str]

    def apply(self, flags: Mapping[str, Flag], *, of_its_time: bool = True) -> dict[str, Flag]:
        """Flags with their annotations, by any long spelling. What no flag answers to is left out.

        How a default is decided was read in the newest release: of an older one (`of_its_time` false) only
        that it is decided at start is said.
        """
        spellings = {a[2:]: n for n, f in flags.items() for a in (f"--{n}", *f.aliases) if a.startswith("--")}
        noted = dict(flags)
        for name, why in self.computed.items():
            found = spellings.get(name)
            # a release whose source states the value does not decide it at start
            if found is not None and not _is_stated(noted[found]):
                said = why if of_its_time else "by the model, the machine and the release"
                noted[found] = msgspec.structs.replace(noted[found], how="computed", why=said)
        for name, why in self.means.items():
            if name in spellings:
                found = spellings[name]
                noted[found] = msgspec.structs.replace(noted[found], how="literal", why=why)
        return noted

    def removed(self, flags: Mapping[str, Flag]) -> dict[str, str]:
        """Flags of other versions that this one does not have."""
        known = set(flags) | {a.lstrip("-") for f in flags.values() for a in f.aliases + f.negations}
        return {name: advice for name, advice in self.gone.items() if name not in known}


def _is_stated(flag: Flag) -> bool:
    """Whether the source gives a value of its own: not none, and no word for "decide yourself"."""
    return flag.how == "literal" and (flag.default is False or flag.default not in (None, "auto", -1, 0))


def annotations_of(engine: str) -> Annotations:
    """The annotations of one engine, from `annotations.toml` beside this file."""
    document = tomllib.loads((Path(__file__).parent / "annotations.toml").read_text(encoding="utf-8"))
    section = document.get(engine, {})
    return Annotations(section.get("computed", {}), section.get("means", {}), section.get("removed", {}))


def write(table: Table, folder: Path) -> Path:
    """Write `<engine>-<version>.json`: one flag a line, sorted, so that versions can be compared by diff."""
    path = folder / f"{table.engine}-{table.version}.json"
    encode = msgspec.json.Encoder(order="sorted").encode
    head = msgspec.structs.asdict(table) | {"flags": None}
    head.pop("flags")
    lines = [f'  "{name}": {encode(flag).decode()}' for name, flag in sorted(table.flags.items())]
    body = encode(head).decode()[:-1] + ',\n "flags": {\n' + ",\n".join(lines) + "\n }\n}\n"
    path.write_text(body, encoding="utf-8")
    return path
