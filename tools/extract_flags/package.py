"""Read files out of a wheel or an sdist, and find what a Python name in it stands for."""

from __future__ import annotations

import ast
import re
import tarfile
import zipfile
from functools import cache, cached_property
from pathlib import Path

__all__ = ["Missing", "Modules", "Package"]


class Missing(Exception):
    """The package does not hold what the extractor expects. The message says what and where."""


class Package:
    """An archive from a package registry, or a folder `VERSION/` that holds what is needed of one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _zip(self) -> zipfile.ZipFile | None:
        return zipfile.ZipFile(self.path) if self.path.is_file() and zipfile.is_zipfile(self.path) else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Files in the archive, without the folder around those of an sdist."""
        if self.path.is_dir():
            return tuple(str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file())
        if self._zip is not None:
            return tuple(self._zip.namelist())
        return tuple(self._members)

    @cached_property
    def _members(self) -> dict[str, str]:
        """Names in an sdist, by the name below its folder."""
        with tarfile.open(self.path) as archive:
            return {name.partition("/")[2] or name: name for name in archive.getnames()}

    def find(self, ending: str) -> str:
        """The one file whose path ends so."""
        found = [name for name in self.names if name == ending or name.endswith("/" + ending)]
        if len(found) != 1:
            raise Missing(f"{self.path.name}: {len(found)} files end in {ending}, one was expected")
        return found[0]

    def read(self, name: str) -> str:
        """The text of one file."""
        return self.read_bytes(name).decode("utf-8")

    def read_bytes(self, name: str) -> bytes:
        """The bytes of one file."""
        if self.path.is_dir():
            return (self.path / name).read_bytes()
        if self._zip is not None:
            return self._zip.read(name)
        with tarfile.open(self.path) as archive:
            member = archive.extractfile(self._members[name])
            if member is None:
                raise Missing(f"{self.path.name}: {name} is not a file")
            return member.read()

    @cached_property
    def metadata(self) -> tuple[str, str]:
        """Name and version by the package's own metadata, or by the folder's name."""
        if self.path.is_dir():
            return self.path.parent.name, self.path.name
        name = next((n for n in self.names if re.search(r"(\.dist-info/METADATA|^[^/]+/PKG-INFO)$", n)), None)
        if name is None:
            raise Missing(f"{self.path.name}: neither METADATA nor PKG-INFO")
        text = self.read(name)
        found = {k: re.search(rf"^{k}: (.+)$", text, re.M) for k in ("Name", "Version")}
        if not all(found.values()):
            raise Missing(f"{self.path.name}: {name} states no name or version")
        return tuple(m.group(1).strip() for m in found.values() if m)  # type: ignore[return-value]  # two


class Modules:
    """The Python modules of a package, parsed when asked for."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._known = set(package.names)

    def path(self, module: str) -> str | None:
        """The file of a module, or None where it is not in the package."""
        base = module.replace(".", "/")
        return next((p for p in (f"{base}.py", f"{base}/__init__.py") if p in self._known), None)

    @cache  # noqa: B019 - one instance lives as long as the tool
    def scope(self, module: str) -> dict[str, ast.AST]:
        """Names at the top of a module: what each is assigned, defined or imported as.

        Of a name bound twice the last binding counts, and in `if TYPE_CHECKING: ... else: ...` the else.
        """
        path = self.path(module)
        if path is None:
            raise Missing(f"no module {module} in {self.package.path.name}")
        scope: dict[str, ast.AST] = {}
        self._bind(ast.parse(self.package.read(path)).body, scope, module, path.endswith("__init__.py"))
        return scope

    def _bind(self, body: list[ast.stmt], scope: dict[str, ast.AST], module: str, is_package: bool) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                scope[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        scope[target.id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                scope[node.target.id] = node.value
            elif isinstance(node, ast.ImportFrom):
                node.module = self._absolute(node, module, is_package)
                for alias in node.names:
                    scope[alias.asname or alias.name] = node
            elif isinstance(node, ast.If):
                self._bind(node.body, scope, module, is_package)
                self._bind(node.orelse, scope, module, is_package)
            elif isinstance(node, ast.Try):
                self._bind(node.body, scope, module, is_package)

    @staticmethod
    def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + (1 if is_package else 0)]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def lookup(self, module: str, name: str) -> tuple[str, ast.AST] | None:
        """What `name` is in `module`, imports followed: the module of its definition and the node."""
        for _ in range(10):
            if self.path(module) is None:
                return None
            node = self.scope(module).get(name)
            if not isinstance(node, ast.ImportFrom):
                return (module, node) if node is not None else None
            alias = next(a for a in node.names if (a.asname or a.name) == name)
            module, name = node.module or "", alias.name
        return None

    def fields(self, module: str, cls: ast.ClassDef) -> dict[str, tuple[str, ast.AnnAssign]]:
        """Annotated fields of a class and its bases, in order: module and statement."""
        found: dict[str, tuple[str, ast.AnnAssign]] = {}
        for base in cls.bases:
            home = self.lookup(module, base.id) if isinstance(base, ast.Name) else None
            if home is not None and isinstance(home[1], ast.ClassDef):
                found |= self.fields(home[0], home[1])
        for node in cls.body:
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
                continue
            if not ast.unparse(node.annotation).startswith(("ClassVar", "InitVar")):
                found[node.target.id] = (module, node)
        return found
