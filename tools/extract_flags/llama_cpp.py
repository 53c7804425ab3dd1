"""llama-server's flags, from the option table in `common/arg.cpp` and the defaults in `common/common.h`."""

from __future__ import annotations

import re
from dataclasses import replace as replace_fields
from typing import Any

from msgspec.structs import replace

from preop.engines.types import Flag, Table
from tools.extract_flags.package import Missing, Package
from tools.extract_flags.writing import SCHEMA, Annotations, annotations_of

__all__ = ["extract", "option_calls", "without_comments"]

_STRING = r'"((?:[^"\\]|\\.)*)"'
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?f?")
_ADDS = re.compile(r"params\.[\w.]+\.(push_back|emplace_back|insert)\(")
AUTO = "auto: 4 slots over one unified KV cache"
UNSTATED = "the source states no single value"
UNIFIED = "on where the number of slots is auto, else off"
ONE_IS_FOUR = "1, which is 4 slots over one unified KV cache unless --kv-unified or speculation is set"


def extract(package: Package, build: str) -> Table:
    """The options of llama-server in a package that carries llama.cpp's source.

    `build` is llama.cpp's own name of the version (b10605): packages number themselves.
    Raises `Missing` where the source has another shape.
    """
    options = package.find("common/arg.cpp")
    header = package.find("common/common.h")
    server = package.find("tools/server/server.cpp")
    text = without_comments(package.read(options))
    defaults = _defaults(package.read(header))
    if "params.n_parallel = -1;" in text:  # common_params_parser_init, for the server alone
        defaults["n_parallel"] = -1
    flags: dict[str, Flag] = {}
    gone: dict[str, str] = {}
    for call in option_calls(text):
        found = _option(call, defaults)
        advice = re.search(rf"\barg_removed\({_STRING}\)", call)
        if found is not None and advice is not None:  # llama.cpp keeps the name to say what to do instead
            names = (f"--{found[0]}", *found[1].aliases)
            gone |= {name.lstrip("-"): advice.group(1) for name in names}
        elif found is not None:
            flags.setdefault(*found)
    if len(flags) < 100:
        raise Missing(f"{options}: only {len(flags)} options found, the source has another shape")
    if "parallel" not in flags or not isinstance(defaults.get("n_parallel"), int):
        raise Missing(f"{options}: the server's own default of --parallel is not found")
    known = _annotations(flags, defaults)
    slots = "one-is-four" if "setting n_parallel = 4" in package.read(server) else defaults["n_parallel"]
    flags = {name: _choices(name, flag, text, package) for name, flag in flags.items()}
    name, version = package.metadata
    return Table(
        schema=SCHEMA,
        engine="llama.cpp",
        version=build,
        source={"package": name, "version": version, "files": [options, header, server]},
        flags=_slots(known.apply(flags), slots),
        removed=known.removed(flags) | gone,
    )


def _annotations(flags: dict[str, Flag], defaults: dict[str, Any]) -> Annotations:
    """What is known of the defaults, as far as it is true of this build."""
    known = annotations_of("llama.cpp")
    computed, means = dict(known.computed), dict(known.means)
    if defaults.get("n_ctx"):  # 4096, up to b7376
        del computed["ctx-size"]
    if "fit_params_min_ctx" not in defaults:
        computed["n-gpu-layers"] = "by the build and its backend"
    if "flash-attn" in flags and flags["flash-attn"].kind == "bool":
        del means["flash-attn"]
    return replace_fields(known, computed=computed, means=means)


def _slots(flags: dict[str, Flag], rule: str | int) -> dict[str, Flag]:
    """The defaults of --parallel and --kv-unified, which the server decides together.

    Up to b6916 they are what they say: one slot. From b6957 to b7376 one is four; then comes auto, -1.
    """
    if rule == 1:
        return flags
    why = {"parallel": ONE_IS_FOUR if rule == "one-is-four" else AUTO, "kv-unified": UNIFIED}
    return flags | {name: replace(flags[name], how="computed", why=said) for name, said in why.items()}


_TOKEN = re.compile(
    r"""R"(?P<fence>\w*)\(.*?\)(?P=fence)"    # a raw string
    |   "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)'   # a string, a character
    |   (?P<comment>//[^\n]*|/\*.*?\*/)
    |   (?P<bracket>[()\[\]{}])""",
    re.S | re.X,
)


def without_comments(text: str) -> str:
    """C++ source without its comments; strings stay."""
    return _TOKEN.sub(lambda match: "" if match["comment"] else match[0], text)


def option_calls(text: str) -> list[str]:
    """The source of every `add_opt(common_arg(...)...)`."""
    calls = []
    for match in re.finditer(r"\badd_opt(?=\(common_arg\()", text):
        depth = 0
        for token in _TOKEN.finditer(text, match.end()):
            if token["bracket"]:
                depth += 1 if token["bracket"] in "([{" else -1
                if depth == 0:
                    calls.append(text[match.start() : token.end()])
                    break
    return calls


def _option(call: str, defaults: dict[str, Any]) -> tuple[str, Flag] | None:
    examples = re.search(r"\.set_examples\(([^)]*)\)", call)
    excludes = re.search(r"\.set_excludes\(([^)]*)\)", call)
    if examples and not re.search(r"LLAMA_EXAMPLE_(SERVER|COMMON)\b|mmproj_examples", examples.group(1)):
        return None
    if excludes and "LLAMA_EXAMPLE_SERVER" in excludes.group(1):
        return None
    if ".set_preset_only()" in call:
        return None
    groups = re.match(r"add_opt\(common_arg\(\s*\{([^{}]*)\}\s*,\s*(\{([^{}]*)\})?", call)
    if groups is None:
        raise Missing(f"an option of another shape: {call[:80]!r}")
    names = re.findall(_STRING, groups.group(1))
    negations = re.findall(_STRING, groups.group(3) or "")
    handler = re.search(r"\]\(common_params\s*&\s*\w*\s*((?:,[^)]*)?)\)", call)
    if handler is None:
        raise Missing(f"no handler: {call[:80]!r}")
    arguments = handler.group(1)
    if not arguments or "bool " in arguments:
        kind, nargs = "bool", None
    elif "int " in arguments:
        kind, nargs = "int", None
    else:
        kind, nargs = "str", 2 if arguments.count("std::string") == 2 else None
    longs = [name for name in names if name.startswith("--")]
    long = longs[0] if longs else names[0]
    environment = re.search(r'\.set_env\("([^"]+)"\)', call)
    body = call[handler.end() :]
    kind, default, how = _default_of(kind, body, defaults)
    return long.lstrip("-"), Flag(
        kind=kind,  # type: ignore[arg-type]  # one of Kind by construction
        aliases=tuple(name for name in names if name != long),
        negations=tuple(negations),
        nargs=nargs,
        repeats=kind == "str" and nargs is None and _ADDS.search(body) is not None,
        choices=_braces(call),
        default=default,
        how=how,  # type: ignore[arg-type]  # literal or unknown
        why=UNSTATED if how == "unknown" else None,
        environment=environment.group(1) if environment else None,
    )


def _braces(call: str) -> tuple[str, ...] | None:
    """`"{none,linear,yarn}"` or `"[on|off|auto]"` as the hint of a value."""
    hint = re.search(r'\}\s*,\s*"(\{[a-z,]+\}|\[[a-z|]+\])"\s*,', call)
    return tuple(re.split(r"[,|]", hint.group(1)[1:-1])) if hint else None


def _choices(name: str, flag: Flag, text: str, package: Package) -> Flag:
    """Choices that live in tables of their own: KV cache types and kinds of speculation."""
    if name in ("cache-type-k", "cache-type-v"):
        listed = re.search(r"kv_cache_types = \{([^}]*)\}", text)
        if listed is None:
            raise Missing("common/arg.cpp: no kv_cache_types")
        return replace(
            flag, choices=tuple(t.lower() for t in re.findall(r"GGML_TYPE_(\w+)", listed.group(1)))
        )
    if name == "spec-type":
        source = package.read(package.find("common/speculative.cpp"))
        names = re.findall(r'\{"([a-z0-9-]+)",\s*COMMON_SPECULATIVE_TYPE_\w+\}', source)
        return replace(flag, choices=tuple(names), repeats=True, default="none", how="literal", why=None)
    if name == "flash-attn":  # also the words of is_truthy, is_falsey and is_autoy
        return replace(flag, choices=None)
    return flag


def _default_of(kind: str, body: str, defaults: dict[str, Any]) -> tuple[str, Any, str]:
    """The default of the one field that the handler sets."""
    fields = re.findall(r"params\.([\w.]+)\s*=\s*([^=][^;]*);", body)
    targets = dict(fields)
    if kind == "str" and any("stof(" in v or "stod(" in v for _, v in fields):
        kind = "float"
    if len(targets) != 1:
        return kind, None, "unknown"
    target, value = next(iter(targets.items()))
    if target not in defaults:
        return kind, None, "unknown"
    default = defaults[target]
    if kind == "bool":
        if not isinstance(default, bool):
            return kind, None, "unknown"
        inverted = value.strip() == "false" or value.strip().startswith("!")
        return kind, (not default if inverted else default), "literal"
    if default == "" and kind == "str":
        return kind, None, "literal"
    return kind, default, "literal"


def _defaults(header: str) -> dict[str, Any]:
    """`common_params` and what it holds, by dotted path, as far as defaults are literals."""
    structs: dict[str, dict[str, Any]] = {}
    members: dict[str, list[tuple[str, str]]] = {}
    for match in re.finditer(r"^struct (\w+) \{\n(.*?)^\};", header, re.S | re.M):
        values, nested = {}, []
        for line in match.group(2).splitlines():
            line = re.sub(r"//.*", "", line).strip()
            plain = re.fullmatch(r"(?:enum )?([\w:<>]+)\s+(\w+)\s*=\s*([^;]+);", line)
            inner = re.fullmatch(r"(?:struct )?(\w+)\s+(\w+);", line)
            if plain:
                literal = _literal(plain.group(3).strip())
                if literal is not None:
                    values[plain.group(2)] = literal
            elif inner:
                nested.append((inner.group(1), inner.group(2)))
        structs[match.group(1)], members[match.group(1)] = values, nested

    def flatten(name: str, depth: int = 0) -> dict[str, Any]:
        found = dict(structs.get(name, {}))
        for kind, member in members.get(name, []) if depth < 5 else []:
            if kind == "std::string":
                continue
            found |= {f"{member}.{key}": value for key, value in flatten(kind, depth + 1).items()}
        return found

    if "common_params" not in structs:
        raise Missing("common/common.h: no struct common_params")
    return flatten("common_params")


def _literal(source: str) -> Any:
    if source in ("true", "false"):
        return source == "true"
    if source.startswith('"'):
        return source.strip('"')
    if _NUMBER.fullmatch(source):
        return float(source.rstrip("f")) if "." in source else int(source)
    if source.startswith("GGML_TYPE_"):
        return source.removeprefix("GGML_TYPE_").lower()
    return None
