"""SGLang's flags: annotated fields in `srt/arg_groups/fields`, before them calls in `srt/server_args.py`."""

from __future__ import annotations

import ast
from typing import Any

from msgspec.structs import replace

from preop.engines.types import Flag, Table
from tools.extract_flags.hints import Hint, Unresolved, hint_of, value_of, why_unresolved
from tools.extract_flags.package import Missing, Modules, Package
from tools.extract_flags.writing import SCHEMA, Annotations, annotations_of

__all__ = ["extract"]

FIELDS = "sglang.srt.arg_groups.fields"
SERVER_ARGS = "sglang.srt.server_args"
COMMAND = "sglang.cli.serve"
POSITIONAL = "_normalize_positional_model_path"
"""The function of `sglang serve` that takes a first word without dashes as the model."""
_PARSERS = {"human_readable_int": "human-int", "json.loads": "json", "json_list_type": "json"}


def extract(package: Package) -> Table:
    """The flags of SGLang's server in a wheel or sdist. Raises `Missing` on source of another shape."""
    modules = Modules(package)
    _, version = package.metadata
    path = modules.path(SERVER_ARGS)
    if path is None:
        raise Missing(f"{package.path.name}: no module {SERVER_ARGS}")
    files, flags = _annotated(modules)
    flags |= _registered(modules, flags)
    if len(flags) < 10:
        raise Missing(f"{path}: only {len(flags)} flags found, the source has another shape")
    command = modules.path(COMMAND)
    serve = modules.package.read(command) if command else ""
    if "--model-type" in serve:  # `sglang serve` takes this one away before the parser sees the rest
        flags.setdefault("model-type", Flag(kind="str", default="auto"))
    known = annotations_of("sglang")
    return Table(
        schema=SCHEMA,
        engine="sglang",
        version=version,
        source={"package": "sglang", "version": version, "files": [*files, path]},
        flags=_decided_at_start(known.apply(flags), known),
        removed=known.removed(flags),
        positional="model-path" if POSITIONAL in serve else None,
    )


def _decided_at_start(flags: dict[str, Flag], known: Annotations) -> dict[str, Flag]:
    """Stated values that older releases change at start all the same: a small GPU gets smaller chunks."""
    for name in ("chunked-prefill-size", "page-size"):
        if name in flags and flags[name].how == "literal":
            flags[name] = replace(flags[name], how="computed", why=known.computed[name])
    return flags


def _annotated(modules: Modules) -> tuple[list[str], dict[str, Flag]]:
    """Flags of annotated fields, and the files that hold them: none in versions that register by hand."""
    flags: dict[str, Flag] = {}
    for module, cls in _classes(modules):
        for name, (_, statement) in modules.fields(module, cls).items():
            if (found := _field(modules, module, name, statement)) is not None:
                flags[found[0]] = found[1]
    return _field_files(modules), flags


def _field_files(modules: Modules) -> list[str]:
    folder = FIELDS.replace(".", "/") + "/"
    return sorted(n for n in modules.package.names if n.startswith(folder) and n.endswith(".py"))


def _module(file: str) -> str:
    return file.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")


def _declared(modules: Modules, name: str) -> tuple[Any, str | None]:
    """What the annotated field of that name says, be it a flag of its own or not."""
    for module, cls in _classes(modules):
        found = modules.fields(module, cls).get(name)
        if found is not None:
            return _default(modules, found[0], found[1].value)
    raise Missing(f"no field {name}")


def _classes(modules: Modules) -> list[tuple[str, ast.ClassDef]]:
    """The classes of annotated fields, with their modules."""
    return [
        (module, node)
        for module in [_module(file) for file in _field_files(modules)] or [SERVER_ARGS]
        for node in modules.scope(module).values()
        if isinstance(node, ast.ClassDef)
    ]


def _field(modules: Modules, module: str, name: str, node: ast.AnnAssign) -> tuple[str, Flag] | None:
    """`name: A[T, Arg(...)] = default`, or a bare string in place of `Arg`."""
    annotation = node.annotation
    if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("A", "Annotated")):
        return None
    if not isinstance(annotation.slice, ast.Tuple):
        return None
    inner, *metadata = annotation.slice.elts
    keywords: dict[str, ast.expr] = {}
    is_flag = False
    for item in metadata:
        if isinstance(item, ast.Call) and ast.unparse(item.func) == "Arg":
            keywords, is_flag = {k.arg: k.value for k in item.keywords if k.arg}, True
            break
        if isinstance(item, ast.Constant | ast.JoinedStr | ast.BinOp):
            is_flag = True
            break
    if not is_flag or ("no_cli" in keywords and value_of(modules, module, keywords["no_cli"])):
        return None
    long = name.replace("_", "-")
    if "cli_name" in keywords:
        long = str(value_of(modules, module, keywords["cli_name"])).removeprefix("--")
    aliases = value_of(modules, module, keywords["aliases"]) if "aliases" in keywords else []
    default, why = _default(modules, module, node.value)
    return long, _flag(
        modules, module, long, hint_of(modules, module, inner), keywords, aliases, default, why
    )


def _default(modules: Modules, module: str, node: ast.expr | None) -> tuple[Any, str | None]:
    """The default; where the source gives no value, None and the reason."""
    if node is None or ast.unparse(node).endswith("SUPPRESS"):
        return None, None
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "_declared_default":
        return _declared(modules, str(value_of(modules, module, node.args[0])))
    try:
        return value_of(modules, module, node), None
    except Unresolved as error:
        return None, why_unresolved(str(error))


def _flag(
    modules: Modules,
    module: str,
    long: str,
    hint: Hint,
    keywords: dict[str, ast.expr],
    aliases: list[str],
    default: Any,
    why: str | None,
) -> Flag:
    """The order of `add_cli_args_from_dataclass`."""
    action = ast.unparse(keywords["action"]) if "action" in keywords else ""
    parser = ast.unparse(keywords["type_parser"]) if "type_parser" in keywords else ""
    nargs = value_of(modules, module, keywords["nargs"]) if "nargs" in keywords else None
    extra = keywords.get("action_kwargs")
    if isinstance(extra, ast.Dict):
        for key, value in zip(extra.keys, extra.values, strict=True):
            nargs = _constant(value) if _constant(key) == "nargs" else nargs
    choices = None
    if "choices" in keywords:
        try:
            choices = value_of(modules, module, keywords["choices"])
        except Unresolved:
            choices = None  # found when the server starts
    kind = "str"
    negations: tuple[str, ...] = ()
    if action.endswith("BooleanOptionalAction"):
        kind, negations = "bool", tuple(f"--no-{name.lstrip('-')}" for name in ["--" + long, *aliases])
    elif hint.parts - {"none"} == {"literal"}:
        choices = choices or hint.literals
        kind = _PARSERS.get(parser, "int" if isinstance(hint.literals[0], int) else "str")
    elif "list" in hint.parts and not parser:
        nargs = nargs or "+"
        kind = _scalar(hint.elements or Hint({"str"}))
    elif hint.parts == {"bool"} and not action:
        kind = "bool"
    else:
        kind = _PARSERS.get(parser, "str" if parser else _scalar(hint))
    const = value_of(modules, module, keywords["const"]) if "const" in keywords else None
    return Flag(
        kind=kind,  # type: ignore[arg-type]  # one of Kind by construction
        aliases=tuple(aliases),
        negations=negations,
        nargs=nargs,
        const=const,
        choices=tuple(c for c in choices if c is not None) if choices else None,
        null=("None", "") if parser == "nullable_str" else (),
        default=default,
        how="unknown" if why else "literal",
        why=why,
    )


def _scalar(hint: Hint) -> str:
    parts = hint.parts - {"none"}
    return next(iter(parts)) if parts in ({"int"}, {"float"}) else "str"


def _registered(modules: Modules, flags: dict[str, Flag]) -> dict[str, Flag]:
    """Flags that `ServerArgs.add_cli_args` registers by hand: all in older versions, later some."""
    path = modules.path(SERVER_ARGS)
    assert path is not None
    found: dict[str, Flag] = {}
    # The whole module: the class is assembled, its name bound again below it.
    for node in ast.walk(ast.parse(modules.package.read(path))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "add_argument":
            continue
        names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        longs = [name for name in names if name.startswith("--")]
        if longs:
            keywords = {k.arg: k.value for k in node.keywords if k.arg}
            found[longs[0][2:]] = _argument(modules, names, longs[0], keywords, flags.get(longs[0][2:]))
    return found


def _argument(
    modules: Modules, names: list[str], long: str, keywords: dict[str, ast.expr], earlier: Flag | None
) -> Flag:
    """One `add_argument` call. `earlier` is the annotated field of the same flag, where there is one."""
    action = ast.unparse(keywords["action"]) if "action" in keywords else ""
    parser = ast.unparse(keywords["type"]) if "type" in keywords else "str"
    takes_none = "StoreTrue" in action or "store_true" in action or action == "DeprecatedAction"
    if action == "DeprecatedStoreConstAction" and "nargs" not in keywords:
        takes_none = True
    negations: tuple[str, ...] = ()
    if action.endswith("BooleanOptionalAction"):
        takes_none, negations = True, tuple(f"--no-{name.lstrip('-')}" for name in names)
    default: Any = False if "store_true" in action else None
    why: str | None = None
    if "default" in keywords:
        default, why = _default(modules, SERVER_ARGS, keywords["default"])
    elif earlier is not None:
        default, why = earlier.default, earlier.why
    elif takes_none:
        default = False
    choices = None
    if "choices" in keywords:
        try:
            choices = value_of(modules, SERVER_ARGS, keywords["choices"])
        except Unresolved:
            choices = None  # found when the server starts
    return Flag(
        kind="bool" if takes_none else _PARSERS.get(parser, parser if parser in ("int", "float") else "str"),  # type: ignore[arg-type]  # one of Kind by construction
        aliases=tuple(name for name in names if name != long),
        negations=negations,
        nargs=_constant(keywords.get("nargs")),
        const=_constant(keywords.get("const")),
        choices=tuple(c for c in choices if c is not None) if choices else None,
        null=("None", "") if parser == "nullable_str" else (),
        default=default,
        how="unknown" if why else "literal",
        why=why,
    )


def _constant(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None
