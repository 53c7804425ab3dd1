"""What a type annotation in the source stands for, and what a default in it is worth."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from tools.extract_flags.package import Modules

__all__ = ["Hint", "Unresolved", "hint_of", "value_of", "why_unresolved"]


class Unresolved(Exception):
    """A value that only a running engine knows."""


@dataclass
class Hint:
    """The parts of an annotation after unions, aliases and `Annotated` are taken apart."""

    parts: set[str] = field(default_factory=set)
    """bool, int, float, str, none, dict, list, tuple, set, literal, record (a dataclass), other."""
    literals: list[Any] = field(default_factory=list)
    elements: Hint | None = None
    """Of list, tuple, set."""
    length: int | None = None
    """Of a tuple without an ellipsis."""


_BUILTIN = {"bool", "int", "float", "str", "dict", "list", "tuple", "set"}
_TYPING = {
    "Dict": "dict",
    "List": "list",
    "Tuple": "tuple",
    "Set": "set",
    "Mapping": "dict",
    "Sequence": "list",
}


def hint_of(modules: Modules, module: str, node: ast.AST, depth: int = 0) -> Hint:
    """Take an annotation apart as the engines do with `typing.get_args`."""
    hint = Hint()
    _add(hint, modules, module, node, depth)
    return hint


def _add(hint: Hint, modules: Modules, module: str, node: ast.AST, depth: int) -> None:
    if depth > 20:
        hint.parts.add("other")
    elif isinstance(node, ast.Constant) and node.value is None:
        hint.parts.add("none")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        _add(hint, modules, module, ast.parse(node.value, mode="eval").body, depth + 1)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        _add(hint, modules, module, node.left, depth + 1)
        _add(hint, modules, module, node.right, depth + 1)
    elif isinstance(node, ast.Subscript):
        _add_subscript(hint, modules, module, node, depth)
    elif isinstance(node, ast.Name):
        _add_name(hint, modules, module, node.id, depth)
    else:
        hint.parts.add("other")


def _add_subscript(hint: Hint, modules: Modules, module: str, node: ast.Subscript, depth: int) -> None:
    name = ast.unparse(node.value).split(".")[-1]
    args = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Optional":
        hint.parts.add("none")
        _add(hint, modules, module, args[0], depth + 1)
    elif name == "Union":
        for arg in args:
            _add(hint, modules, module, arg, depth + 1)
    elif name in ("Annotated", "A", "SkipValidation"):
        _add(hint, modules, module, args[0], depth + 1)
    elif name == "Literal":
        for arg in args:
            if isinstance(arg, ast.Constant):
                hint.parts.add("literal")
                hint.literals.append(arg.value)
            else:
                _add(hint, modules, module, arg, depth + 1)
    else:
        kind = _TYPING.get(name, name)
        hint.parts.add(kind if kind in _BUILTIN else "other")
        if kind in ("list", "tuple", "set"):
            ellipsis = any(isinstance(a, ast.Constant) and a.value is ... for a in args)
            hint.elements = hint_of(modules, module, args[0], depth + 1)
            hint.length = len(args) if kind == "tuple" and not ellipsis else None


def _add_name(hint: Hint, modules: Modules, module: str, name: str, depth: int) -> None:
    if name in _BUILTIN or name in _TYPING:
        hint.parts.add(_TYPING.get(name, name))
        return
    home = modules.lookup(module, name)
    if home is None:
        hint.parts.add("other")
    elif isinstance(home[1], ast.ClassDef):
        decorators = {ast.unparse(d).split("(")[0].split(".")[-1] for d in home[1].decorator_list}
        bases = {ast.unparse(base) for base in home[1].bases}
        is_record = bool(decorators & {"config", "dataclass"})
        is_mapping = any(b == "dict" or b.startswith("dict[") for b in bases)
        hint.parts.add("record" if is_record else "dict" if is_mapping else "other")
    else:
        _add(hint, modules, home[0], home[1], depth + 1)


_STANDARD = {"ssl.CERT_NONE": 0, "sys.maxsize": 2**63 - 1}
"""Constants of Python itself, on 64 bits."""


def value_of(modules: Modules, module: str, node: ast.AST, depth: int = 0) -> Any:
    """The value of a default, where source alone tells it. Raises `Unresolved` where it does not."""
    if depth > 10:
        raise Unresolved("too deep")
    again = (modules, module)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [value_of(*again, element, depth + 1) for element in node.elts]
    if isinstance(node, ast.Dict):
        if any(key is None for key in node.keys):
            raise Unresolved(ast.unparse(node))
        return {
            value_of(*again, key, depth + 1): value_of(*again, value, depth + 1)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value_of(*again, node.operand, depth + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not value_of(*again, node.operand, depth + 1)
    if isinstance(node, ast.BinOp):
        return _arithmetic(
            node, value_of(*again, node.left, depth + 1), value_of(*again, node.right, depth + 1)
        )
    if isinstance(node, ast.Lambda):
        return value_of(*again, node.body, depth + 1)
    if isinstance(node, ast.Name):
        home = modules.lookup(module, node.id)
        if home is not None and not isinstance(home[1], ast.ClassDef | ast.FunctionDef):
            return value_of(modules, home[0], home[1], depth + 1)
    if ast.unparse(node) in _STANDARD:
        return _STANDARD[ast.unparse(node)]
    if isinstance(node, ast.Attribute) and node.attr == "value" and isinstance(node.value, ast.Attribute):
        return value_of(*again, node.value, depth + 1)  # of a member of an enumeration
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _attribute(modules, module, node.value.id, node.attr, depth)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        whole = value_of(*again, node.value, depth + 1)
        if isinstance(whole, list) and isinstance(node.slice.value, int) and node.slice.value < len(whole):
            return whole[node.slice.value]
    if isinstance(node, ast.Call):
        return _call(modules, module, node, depth)
    raise Unresolved(ast.unparse(node))


def _arithmetic(node: ast.BinOp, left: Any, right: Any) -> Any:
    both_numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if isinstance(node.op, ast.Add) and (both_numbers or type(left) is type(right)):
        return left + right
    if isinstance(node.op, ast.Mult) and both_numbers:
        return left * right
    if isinstance(node.op, ast.Pow) and both_numbers and abs(right) < 64:
        return left**right
    raise Unresolved(ast.unparse(node))


def _attribute(modules: Modules, module: str, owner: str, name: str, depth: int) -> Any:
    """`Class.field`: the default of that field."""
    home = modules.lookup(module, owner)
    if home is None or not isinstance(home[1], ast.ClassDef):
        raise Unresolved(f"{owner}.{name}")
    for node in home[1].body:
        if isinstance(node, ast.AnnAssign) and node.value is not None and ast.unparse(node.target) == name:
            return value_of(modules, home[0], node.value, depth + 1)
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            return value_of(modules, home[0], node.value, depth + 1)
    raise Unresolved(f"{owner}.{name}")


def _call(modules: Modules, module: str, node: ast.Call, depth: int) -> Any:
    name = ast.unparse(node.func).split(".")[-1]
    keywords = {k.arg: k.value for k in node.keywords if k.arg}
    if name in ("Field", "field"):
        if "default" in keywords:
            return value_of(modules, module, keywords["default"], depth + 1)
        if node.args:
            return value_of(modules, module, node.args[0], depth + 1)
        factory = keywords.get("default_factory")
        if isinstance(factory, ast.Lambda):
            return value_of(modules, module, factory, depth + 1)
        if isinstance(factory, ast.Name) and factory.id in ("list", "dict", "set"):
            return {} if factory.id == "dict" else []
    elif name == "get_field" and len(node.args) == 2:
        owner, key = node.args
        if isinstance(owner, ast.Name) and isinstance(key, ast.Constant):
            return _attribute(modules, module, owner.id, str(key.value), depth)
    elif name == "get_args" and len(node.args) == 1:
        literals = hint_of(modules, module, node.args[0]).literals
        if literals:
            return literals
    elif name == "cast" and len(node.args) == 2:
        return value_of(modules, module, node.args[1], depth + 1)
    elif name == "int" and len(node.args) == 1:
        return int(value_of(modules, module, node.args[0], depth + 1))
    elif name in ("list", "sorted", "tuple") and len(node.args) == 1:
        found = value_of(modules, module, node.args[0], depth + 1)
        return sorted(found) if name == "sorted" else list(found)
    raise Unresolved(ast.unparse(node))


_LONGEST_REASON = 80


def why_unresolved(expression: str) -> str:
    """Why a default is no value, for people, from the expression that stands in its place."""
    variable = re.search(
        r"\benvs\.(\w+)|environ(?:\.get\(|\[)['\"](\w+)|get_\w*env\w*\(['\"](\w+)", expression
    )
    if variable is not None:
        return f"by the environment variable {next(name for name in variable.groups() if name)}"
    if re.search(r"\bcurrent_platform\b|\bis_(?:hip|cuda|cpu|npu|hpu|xpu)\b", expression):
        return "by the platform"
    factory = re.fullmatch(r"[Ff]ield\(default_factory=(\w+)(?:\.\w+)?(?:, \w+=\w+)*\)", expression)
    if factory is not None and factory[1][0].isupper():
        return "an object: each of its keys has a default of its own"
    if factory is not None:
        return f"decided at start by {factory[1]}"
    if re.fullmatch(r"(?:\w+\.)?[A-Z][A-Z0-9_]*", expression):
        return f"{expression}, which is defined where preop did not read"
    short = expression if len(expression) <= _LONGEST_REASON else expression[:_LONGEST_REASON] + "..."
    return f"the source has {short} in its place"
