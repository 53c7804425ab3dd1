"""vLLM's flags, from `EngineArgs.add_cli_args`, the configuration classes and the server's arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from preop.engines.tables import order
from preop.engines.types import Flag, Table
from tools.extract_flags.hints import Hint, Unresolved, hint_of, value_of, why_unresolved
from tools.extract_flags.package import Missing, Modules, Package
from tools.extract_flags.writing import SCHEMA, annotations_of

__all__ = ["extract"]

ENGINE_ARGS = "vllm.engine.arg_utils"
_RULES_SINCE = (0, 28)
"""The first release whose defaults are decided as the annotations say."""
# The command `vllm serve`, which takes the model as a word without a flag.
COMMANDS = ("vllm.scripts", "vllm.entrypoints.cli.main")
# The server's arguments moved between versions.
FRONTENDS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
    "vllm.entrypoints.openai.api_server",  # until 0.4.0 the program itself built the parser
)


@dataclass
class _Kwargs:
    """What vLLM would hand to `add_argument`, as far as source tells."""

    kind: str = "str"
    nargs: Any = None
    const: Any = None
    boolean: bool = False
    store: str | None = None
    choices: list[Any] | None = None
    optional: bool = False
    default: Any = None
    how: str = "literal"
    why: str | None = None


def extract(package: Package) -> Table:
    """The flags of vLLM's server in a wheel or sdist. Raises `Missing` where the source has another shape."""
    modules = Modules(package)
    _, version = package.metadata
    frontend = next((m for m in FRONTENDS if modules.path(m)), None)
    engine = modules.path(ENGINE_ARGS)
    if frontend is None or engine is None:
        raise Missing(f"{package.path.name}: no module with the server's arguments ({', '.join(FRONTENDS)})")
    reader = _Reader(modules)
    reader.function(frontend, _parser(modules, frontend))
    if isinstance(modules.scope(frontend).get("FrontendArgs"), ast.ClassDef):  # since 0.9.2
        reader.frontend(frontend)
    for owner in ("EngineArgs", "AsyncEngineArgs"):
        reader.function(ENGINE_ARGS, _method(modules, ENGINE_ARGS, owner, "add_cli_args"))
    if len(reader.flags) < 20:
        raise Missing(
            f"{package.path.name}: only {len(reader.flags)} flags found, the source has another shape"
        )
    known = annotations_of("vllm")
    return Table(
        schema=SCHEMA,
        engine="vllm",
        version=version.split("+")[0],
        source={
            "package": package.path.name.split("-")[0],
            "version": version,
            "files": [engine, modules.path(frontend)],
        },
        flags=known.apply(reader.flags, of_its_time=order(version) >= _RULES_SINCE),
        removed=known.removed(reader.flags),
        positional="model" if any(modules.path(command) for command in COMMANDS) else None,
    )


def _parser(modules: Modules, module: str) -> ast.AST:
    """The code that builds the server's parser: `make_arg_parser`, else the whole module."""
    if module != FRONTENDS[-1]:
        node = modules.scope(module).get("make_arg_parser")
        if not isinstance(node, ast.FunctionDef):
            raise Missing(f"{module}: no function make_arg_parser")
        return node
    path = modules.path(module)
    assert path is not None
    return ast.parse(modules.package.read(path))


def _class(modules: Modules, module: str, name: str) -> tuple[str, ast.ClassDef]:
    home = modules.lookup(module, name)
    if home is None or not isinstance(home[1], ast.ClassDef):
        raise Missing(f"{module}: no class {name}")
    return home[0], home[1]


def _method(modules: Modules, module: str, owner: str, name: str) -> ast.FunctionDef:
    _, cls = _class(modules, module, owner)
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise Missing(f"{module}: {owner} has no {name}")


class _Reader:
    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.flags: dict[str, Flag] = {}
        self.suffixed = _suffixed(modules)

    # --- the calls of add_argument

    def function(self, module: str, function: ast.AST) -> None:
        """Every `add_argument` in the code that builds the parser, and in what it hands the parser on to."""
        groups: dict[str, dict[str, _Kwargs]] = {}
        single: dict[str, _Kwargs] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assign(module, node.targets[0], node.value, groups, single)
        for node in ast.walk(function):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr == "remove" and isinstance(node.func.value, ast.Subscript):
                self._remove_choice(module, node, groups)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _called(node) == "add_argument":
                self._argument(module, node, groups, single)
            elif isinstance(node, ast.Call) and _called(node).startswith("add_cli_args_"):  # 0.5.0: _for_vlm
                owner, _, name = ast.unparse(node.func).rpartition(".")
                self.function(module, _method(self.modules, module, owner, name))

    def _assign(
        self,
        module: str,
        target: ast.expr,
        value: ast.expr,
        groups: dict[str, dict[str, _Kwargs]],
        single: dict[str, _Kwargs],
    ) -> None:
        """`x_kwargs = get_kwargs(X)`, `y = x_kwargs["f"]`, `x_kwargs["f"]["type"] = ...`."""
        if isinstance(target, ast.Name) and isinstance(value, ast.Call) and _called(value) == "get_kwargs":
            if ast.unparse(value.args[0]) == "cls":
                return  # the class whose fields are at hand
            groups[target.id] = self.kwargs_of(module, ast.unparse(value.args[0]))
        elif isinstance(target, ast.Name) and isinstance(value, ast.Subscript):
            found = self._subscript(module, value, groups, single)
            if found is not None:
                single[target.id] = found
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            owner = target.value
            found = single.get(owner.id) if isinstance(owner, ast.Name) else None
            if isinstance(owner, ast.Subscript):
                found = self._subscript(module, owner, groups, single)
            if found is not None:
                self._override(module, found, str(target.slice.value), value)

    def _subscript(
        self,
        module: str,
        node: ast.Subscript,
        groups: dict[str, dict[str, _Kwargs]],
        single: dict[str, _Kwargs],
    ) -> _Kwargs | None:
        if not isinstance(node.slice, ast.Constant):
            return None
        if isinstance(node.value, ast.Name):
            return groups.get(node.value.id, {}).get(str(node.slice.value))
        if isinstance(node.value, ast.Call) and _called(node.value) == "get_kwargs":
            return self.kwargs_of(module, ast.unparse(node.value.args[0])).get(str(node.slice.value))
        return None

    def _remove_choice(self, module: str, node: ast.Call, groups: dict[str, dict[str, _Kwargs]]) -> None:
        """`x_kwargs["f"]["choices"].remove(CONSTANT)`."""
        assert isinstance(node.func, ast.Attribute)
        choices = node.func.value
        if isinstance(choices, ast.Subscript) and isinstance(choices.value, ast.Subscript):
            found = self._subscript(module, choices.value, groups, {})
            if found is not None and found.choices:
                gone = value_of(self.modules, module, node.args[0])
                found.choices = [choice for choice in found.choices if choice != gone]

    def _argument(
        self,
        module: str,
        node: ast.Call,
        groups: dict[str, dict[str, _Kwargs]],
        single: dict[str, _Kwargs],
    ) -> None:
        names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if not any(name.startswith("-") for name in names):
            return  # the positional
        kwargs = _Kwargs()
        for keyword in node.keywords:
            if keyword.arg is None:
                kwargs = self._spread(module, keyword.value, groups, single)
        for keyword in node.keywords:
            value = keyword.value
            if keyword.arg is None:
                continue
            if keyword.arg == "default" and isinstance(value, ast.Subscript):  # x_kwargs["f"]["default"]
                owner = value.value
                found = (
                    self._subscript(module, owner, groups, single)
                    if isinstance(owner, ast.Subscript)
                    else None
                )
                if found is not None and ast.unparse(value.slice) == "'default'":
                    kwargs.default, kwargs.how, kwargs.why = found.default, found.how, found.why
                    continue
            self._override(module, kwargs, keyword.arg, value)
        self._store(names, kwargs)

    def _spread(
        self,
        module: str,
        node: ast.expr,
        groups: dict[str, dict[str, _Kwargs]],
        single: dict[str, _Kwargs],
    ) -> _Kwargs:
        """`**x_kwargs["f"]`, `**one`, `**{**x_kwargs["f"], "default": None}`."""
        found: _Kwargs | None = None
        if isinstance(node, ast.Subscript):
            found = self._subscript(module, node, groups, single)
        elif isinstance(node, ast.Name):
            found = single.get(node.id)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    found = self._spread(module, value, groups, single)
                elif found is not None and isinstance(key, ast.Constant):
                    self._override(module, found, str(key.value), value)
        if found is None:
            raise Missing(f"{module}:{node.lineno}: cannot follow {ast.unparse(node)}")
        return _Kwargs(**vars(found))

    def _override(self, module: str, kwargs: _Kwargs, key: str, value: ast.expr) -> None:
        source = ast.unparse(value)
        if key == "action":
            name = source.strip("'\"").split(".")[-1]
            kwargs.boolean = name == "BooleanOptionalAction"
            kwargs.store = name if name in ("store_true", "store_false", "append") else None
            if name == "StoreBoolean":  # `--flag`, `--flag true`, `--flag=False`
                kwargs.kind, kwargs.nargs, kwargs.const = "bool", "?", True
        elif key == "type":
            kwargs.kind, kwargs.optional = _reader_of(source)
        elif key in ("nargs", "const") and kwargs.kind == "bool":
            return
        elif key in ("nargs", "const"):
            setattr(kwargs, key, value_of(self.modules, module, value))
        elif key == "choices":
            try:
                kwargs.choices = list(value_of(self.modules, module, value))
            except Unresolved:
                kwargs.choices = None
        elif key == "default":
            self._default(module, kwargs, value)

    def _default(self, module: str, kwargs: _Kwargs, node: ast.expr) -> None:
        kwargs.default, kwargs.how, kwargs.why = None, "literal", None
        if ast.unparse(node).endswith("SUPPRESS"):
            return
        try:
            kwargs.default = value_of(self.modules, module, node)
        except Unresolved as error:
            kwargs.how, kwargs.why = "unknown", why_unresolved(str(error))

    def _store(self, names: list[str], kwargs: _Kwargs) -> None:
        long = next(name for name in names if name.startswith("--"))
        kind = "bool" if kwargs.boolean or kwargs.store in ("store_true", "store_false") else kwargs.kind
        negations = tuple(f"--no-{n[2:]}" for n in names if n.startswith("--")) if kwargs.boolean else ()
        default = kwargs.default
        if kwargs.store == "store_true" and default is None:
            default = False
        self.flags[long[2:]] = Flag(
            kind=kind,  # type: ignore[arg-type]  # one of Kind by construction
            aliases=tuple(name for name in names if name != long),
            negations=negations,
            nargs=kwargs.nargs,
            const=kwargs.const,
            repeats=kwargs.store == "append",
            choices=tuple(c for c in kwargs.choices if c is not None) if kwargs.choices else None,
            null=("None", "") if kwargs.optional and not kwargs.boolean else (),
            default=default,
            how=kwargs.how,  # type: ignore[arg-type]  # literal or unknown
            why=kwargs.why,
        )

    # --- the configuration classes

    def kwargs_of(self, module: str, name: str) -> dict[str, _Kwargs]:
        """What `get_kwargs(name)` gives."""
        home, cls = _class(self.modules, module, name)
        found = {}
        for key, (where, node) in self.modules.fields(home, cls).items():
            kwargs = _from_hint(hint_of(self.modules, where, node.annotation), self.suffixed.get(key, "int"))
            if node.value is not None:
                self._default(where, kwargs, node.value)
            found[key] = kwargs
        return found

    def frontend(self, module: str) -> None:
        """The server's own flags: one for each field, after `_customize_cli_kwargs`."""
        kwargs = self.kwargs_of(module, "FrontendArgs")
        scope = self.modules.scope(module)
        for cls in [scope.get("BaseFrontendArgs"), scope.get("FrontendArgs")]:
            if isinstance(cls, ast.ClassDef):
                for node in ast.walk(cls):
                    self._customize(module, node, {"frontend_kwargs": kwargs})
        for key, found in kwargs.items():
            self._store([f"--{key.replace('_', '-')}"], found)

    def _customize(self, module: str, node: ast.AST, groups: dict[str, dict[str, _Kwargs]]) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(module, node.targets[0], node.value, groups, {})
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript):
                    found = self._subscript(module, target.value, groups, {})
                    if found is not None and ast.unparse(target.slice) == "'nargs'":
                        found.nargs = None


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).split(".")[-1]


def _reader_of(source: str) -> tuple[str, bool]:
    """What `type=` reads, and whether the word None means none."""
    optional = source.startswith("optional_type(")
    inner = source.removeprefix("optional_type(").removesuffix(")") if optional else source
    optional = optional or inner in ("nullable_str", "optional_str")
    kinds = {"int": "int", "float": "float", "str": "str", "json.loads": "json", "bool": "truthy"} | _SUFFIXED
    return kinds.get(inner, "str"), optional


_SUFFIXED = {"human_readable_int": "human-int", "human_readable_int_or_auto": "human-int-or-auto"}


def _suffixed(modules: Modules) -> dict[str, str]:
    """Kinds of the fields that this release reads with suffixes (1k, 2M).

    The function that turns fields into flags names them in its body: `if name == "a"`,
    `if name in {"a", "b"}`, `if name in names`. Empty where flags are written out one by one.
    """
    scope = modules.scope(ENGINE_ARGS)
    function = scope.get("_compute_kwargs") or scope.get("get_kwargs")
    found: dict[str, str] = {}
    if function is None:
        return found
    named = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Compare)):
            continue
        kinds = [
            _SUFFIXED[value]
            for inner in node.body
            if isinstance(inner, ast.Assign) and (value := ast.unparse(inner.value)) in _SUFFIXED
        ]
        if not kinds or ast.unparse(node.test.left) != "name":
            continue
        of = node.test.comparators[0]
        names = value_of(modules, ENGINE_ARGS, named.get(of.id, of) if isinstance(of, ast.Name) else of)
        found |= dict.fromkeys([names] if isinstance(names, str) else names, kinds[0])
    if not found and any(isinstance(node, ast.Name) and node.id in _SUFFIXED for node in ast.walk(function)):
        raise Missing(f"{ENGINE_ARGS}: which fields are read with suffixes is written in another way")
    return found


def _from_hint(hint: Hint, whole: str) -> _Kwargs:
    """The order of `_compute_kwargs` decides which part of a union is read; `whole`: an integer's kind."""
    parts = hint.parts
    kwargs = _Kwargs(optional="none" in parts)
    if "record" in parts:
        kwargs.kind = "json"
    elif parts == {"bool", "str", "none"}:
        kwargs.kind, kwargs.nargs, kwargs.const, kwargs.optional = "str", "?", True, False
    elif "bool" in parts:
        kwargs.boolean, kwargs.optional = True, False
    elif "literal" in parts:
        kwargs.kind = "int" if isinstance(hint.literals[0], int) else "str"
        kwargs.choices = None if "str" in parts else list(dict.fromkeys(hint.literals))
    elif parts & {"tuple", "list", "set"}:
        element = hint.elements or Hint({"str"})
        kwargs.nargs = hint.length if hint.length is not None else "+"
        kwargs.kind = "str" if "str" in element.parts else "int" if "int" in element.parts else "str"
        if element.parts == {"float"}:
            kwargs.kind = "float"
        if element.parts == {"literal"}:
            kwargs.choices = list(element.literals)
    elif "int" in parts:
        kwargs.kind = whole
    elif "float" in parts:
        kwargs.kind = "float"
    elif "dict" in parts:
        # A union of dict and str reads as JSON only what is in braces.
        kwargs.kind = "json" if not parts & {"str", "other"} else "json-or-str"
    return kwargs
