"""Flags of Hugging Face's servers, TGI and TEI, from the clap structures in their `main.rs`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec.structs import replace as changed

from preop.engines.types import Flag, Table
from tools.extract_flags.package import Missing
from tools.extract_flags.writing import SCHEMA, annotations_of

__all__ = ["extract"]

SOURCES = {
    "tgi": ("text-generation-inference", "launcher/src/main.rs"),
    "tei": ("text-embeddings-inference", "router/src/main.rs"),
}
"""Package, and the file in its repository."""
_FIELD = re.compile(
    r"#\[clap\((?P<clap>.*?)\)\]\s*(?:#\[redact[^\]]*\]\s*)?(?P<name>\w+):\s*(?P<type>[\w:<>]+),", re.S
)
_ENUM = re.compile(r"^enum (\w+) \{\n(.*?)^\}", re.S | re.M)
_VARIANT = re.compile(r'(?:#\[clap\(name = "(?P<name>[^"]+)"\)\]\s*)?(?P<variant>[A-Z]\w*),')
_KINDS = {
    "usize": "int",
    "u64": "int",
    "u32": "int",
    "u16": "int",
    "i64": "int",
    "f32": "float",
    "f64": "float",
}


def extract(engine: str, source: Path, version: str) -> Table:
    """The flags of text-generation-launcher (tgi) or text-embeddings-router (tei).

    `source` is its `main.rs` at the tag of `version`.

    Raises `Missing` where the source has another shape.
    """
    text = re.sub(r"^\s*//.*$", "", source.read_text(encoding="utf-8"), flags=re.M)
    found = re.search(r"^struct Args \{\n(.*?)^\}", text, re.S | re.M)
    if found is None:
        raise Missing(f"{source}: no struct Args")
    body = found.group(1)
    enums = {name: _variants(inside) for name, inside in _ENUM.findall(text)}
    flags: dict[str, Flag] = {}
    taken: set[str] = set()
    for field in _FIELD.finditer(body):
        long, flag = _flag(field["clap"], field["name"], field["type"], enums)
        # Of two fields with one short flag, clap finds the first.
        flags[long] = changed(flag, aliases=tuple(a for a in flag.aliases if a not in taken))
        taken |= set(flag.aliases)
    if len(flags) != body.count("#[clap("):
        raise Missing(f"{source}: {body.count('#[clap(')} fields, {len(flags)} of them understood")
    known = annotations_of(engine)
    literal = {name for name, flag in flags.items() if flag.default is not None}
    known = replace(
        known,
        computed={name: why for name, why in known.computed.items() if name not in literal},
        means={name: why for name, why in known.means.items() if name not in literal},
    )
    package, file = SOURCES[engine]
    return Table(
        schema=SCHEMA,
        engine=engine,
        version=version,
        source={"package": package, "version": version, "files": [file]},
        flags=known.apply(flags),
        removed=known.removed(flags),
    )


def _flag(clap: str, name: str, kind: str, enums: dict[str, tuple[str, ...]]) -> tuple[str, Flag]:
    words = re.sub(r'"[^"]*"', "", clap)
    default = re.search(r'default_value\s*=\s*"([^"]*)"', clap)
    many, optional = "Vec<" in kind, kind.startswith("Option<")
    scalar = re.sub(r"^(?:Option<|Vec<)+|>+$", "", kind)
    is_switch = scalar == "bool" and not optional
    may_have_value = "default_missing_value" in clap
    typed = "bool" if is_switch else "str" if many else _KINDS.get(scalar, "str")
    value: Any = default[1] if default else None
    if is_switch:
        value = value == "true"
    elif value is not None and typed in ("int", "float"):
        value = int(value) if typed == "int" else float(value)
    return name.replace("_", "-"), Flag(
        kind=typed,  # type: ignore[arg-type]  # one of Kind by construction
        aliases=(f"-{name[0]}",) if re.search(r"\bshort\b", words) else (),
        nargs="?" if may_have_value else None,
        const=True if may_have_value else None,
        choices=("true", "false") if scalar == "bool" and optional else enums.get(scalar),
        repeats=many,
        default=value,
        environment=name.upper() if re.search(r"\benv\b", words) else None,
    )


def _variants(body: str) -> tuple[str, ...]:
    """The names of an enum's values as clap writes them: `BitsandbytesNf4` is bitsandbytes-nf4."""
    return tuple(
        match["name"] or re.sub(r"(?<!^)(?=[A-Z])", "-", match["variant"]).lower()
        for match in _VARIANT.finditer(body)
    )
