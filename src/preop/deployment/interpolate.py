"""`$NAME` and `${NAME:-default}` in a compose file, as compose replaces them before it reads the values."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Mapping

from preop.deployment.tokens import HOLE, Hole, Lines, Token, variable
from preop.deployment.variables import unstated
from preop.deployment.yaml_nodes import Scalar
from preop.errors import InputError
from preop.facts import Origin
from preop.secrets import is_secret_name

__all__ = ["Places", "interpolate"]

MAX_NESTING = 20
MAX_LENGTH = 200_000
"""Characters that a value may grow to."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])(.*))?\Z", re.DOTALL)


def interpolate(node: Scalar, variables: Mapping[str, str]) -> Token:
    """The value with its variables in place. One that is not set here is read by the rule of
    `preop.deployment.variables`: compose would put nothing, but the machine that runs it may have it. Raises
    `InputError` on nesting without end."""
    reader = _Interpolation(node, variables)
    reader.read(0, len(node.text), 0)
    return Token("".join(reader.chars), node.origin, reader.holes, tuple(reader.at), Places(node))


class _Interpolation:
    def __init__(self, node: Scalar, variables: Mapping[str, str]) -> None:
        self.node = node
        self.variables = variables
        self.chars: list[str] = []
        self.at: list[int] = []
        self.holes: dict[int, Hole] = {}

    def read(self, i: int, end: int, depth: int) -> None:
        """Take in the value from `i` to `end`."""
        if depth > MAX_NESTING:
            raise InputError(f"{self.node.where}: `${{` nested deeper than {MAX_NESTING} levels")
        text = self.node.text
        while i < end:
            start = text.find("$", i, end)
            if start < 0:
                start = end
            for at in range(i, start):
                self._put(text[at], at)
            if start == end:
                return
            i = self._dollar(start, end, depth)

    def _put(self, char: str, at: int) -> None:
        if len(self.chars) >= MAX_LENGTH:
            raise InputError(f"{self.node.where}: longer than {MAX_LENGTH:,} characters with its variables")
        self.chars.append(char)
        self.at.append(at)

    def _hide(self, hole: Hole, at: int) -> None:
        self.holes[len(self.chars)] = hole
        self._put(HOLE, at)

    def _dollar(self, i: int, end: int, depth: int) -> int:
        text = self.node.text
        if text.startswith("$$", i):
            self._put("$", i)
            return min(i + 2, end)
        name = _NAME.match(text, i + 1, end)
        if name:
            self._value(name[0], i)
            return name.end()
        close = self._closing(i + 2, end) if text.startswith("${", i) else -1
        match = _BRACED.match(text[i + 2 : close]) if close >= 0 else None
        if match is None:
            self._hide(
                Hole("a `$` that compose cannot replace (`$$` stands for a dollar sign)", many=True), i
            )
            return close + 1 if close >= 0 else i + 1
        key, operator = match[1], match[2] or ""
        value = self.variables.get(key)
        is_set = value is not None and (bool(value) or not operator.startswith(":"))
        asks = operator.endswith("?")
        unseen = unstated(key, operator, match[3] or "") if value is None and not asks else None
        if unseen is not None:
            self._hide(unseen, i)
        elif operator.endswith("-") and not is_set:
            self.read(i + 2 + match.start(3), close, depth + 1)
        elif operator.endswith("+"):
            if is_set:
                self.read(i + 2 + match.start(3), close, depth + 1)
        elif operator.endswith("?") and not is_set:
            why = f": {match[3][:80]}" if match[3].strip() else ""
            self._hide(Hole(f"${key} has to be set{why}"), i)
        else:
            self._value(key, i)
        return close + 1

    def _value(self, name: str, i: int) -> None:
        value = self.variables.get(name)
        if value is None:
            self._hide(variable(name), i)
        elif is_secret_name(name):
            self._hide(Hole(f"${name} is a secret: its value is not kept"), i)
        else:
            for char in value:
                self._put(char, i)

    def _closing(self, i: int, end: int) -> int:
        depth = 1
        while i < end:
            if self.node.text.startswith("${", i):
                depth += 1
                i += 1
            elif self.node.text[i] == "}":
                depth -= 1
                if not depth:
                    return i
            i += 1
        return -1


class Places:
    """The place in the file of an offset in a value, found by its words in the raw text."""

    def __init__(self, node: Scalar) -> None:
        self._node = node
        self._lines: Lines | None = None
        self._anchors: list[tuple[int, int]] = []

    def __call__(self, offset: int) -> Origin:
        if self._lines is None:
            node = self._node
            self._lines = Lines(node.raw, node.file, node.line, node.column)
            self._anchors = self._align()
        index = bisect_right(self._anchors, (offset, sys.maxsize)) - 1
        if index < 0:
            return self._node.origin
        start, raw = self._anchors[index]
        return self._lines(raw + offset - start)

    def _align(self) -> list[tuple[int, int]]:
        raw, at = self._node.raw, 0
        anchors: list[tuple[int, int]] = []
        if raw[:1] in "|>":
            at = max(raw.find("\n"), 0)
        for chunk in re.finditer(r"\S+", self._node.text):
            found = raw.find(chunk[0], at)
            if found < 0:  # an escape: the words up to here keep their places
                return anchors[:1]
            anchors.append((chunk.start(), found))
            at = found + len(chunk[0])
        return anchors
