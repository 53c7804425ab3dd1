"""The syntax of Dockerfiles: instructions, continued lines, here-documents, variables.

Source: docs.docker.com, "Dockerfile reference": a comment line inside a continued one is left out; the
`escape` directive stands in the first lines; a here-document belongs to RUN, COPY and ADD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from preop.deployment.tokens import HOLE, Hole, Lines, Source, Token, variable
from preop.errors import InputError
from preop.facts import Origin

__all__ = ["HereDocument", "Instruction", "instructions", "listed", "pairs", "replaced"]

_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*\Z")
_KEYWORD = re.compile(r"\s*([A-Za-z]+)(?:\s+|\Z)")
_HERE = re.compile(r"(?<!<)<<(-?)(['\"]?)([A-Za-z_][\w.]*)\2")
_VARIABLE = re.compile(
    r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+?])((?:[^{}]|\$\{[^{}]*\})*)|[#%/][^}]*)?\})"
)
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)=")
MAX_NESTING = 10
MAX_LENGTH = 200_000
"""Characters that a value may grow to."""


@dataclass(frozen=True)
class HereDocument:
    """A text that stands in the Dockerfile itself."""

    name: str
    text: str
    line: int
    """Where it begins."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: `RUN pip install vllm`."""

    keyword: str
    """In capitals."""
    text: str
    """What follows it, continued lines joined."""
    at: tuple[int, ...]
    place: Callable[[int], Origin]
    documents: tuple[HereDocument, ...] = ()

    @property
    def origin(self) -> Origin:
        """Where what follows the keyword begins."""
        return self.place(self.at[0] if self.at else 0)

    def source(self) -> Source:
        """Its text, for a shell."""
        at = self.at or (0,)
        return Source(self.text, lambda i: self.place(at[min(i, len(at) - 1)]))

    def token(self) -> Token:
        """Its text as one word."""
        return Token(self.text, self.origin, {}, self.at, self.place)


def instructions(text: str, file: str) -> Iterator[Instruction]:
    """The instructions of a Dockerfile in their order. Raises `InputError` on a line that is none, and on a
    here-document that is never closed."""
    place = Lines(text, file)
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    escape, number = _escape(lines), 0
    while number < len(lines):
        chars: list[str] = []
        at: list[int] = []
        while number < len(lines):
            body = lines[number].rstrip("\r\n")
            begin = starts[number]
            number += 1
            if body.lstrip().startswith("#") or (chars and not body.strip()):
                continue
            stripped = body.rstrip()
            is_continued = stripped.endswith(escape)
            kept = stripped[:-1] if is_continued else body
            chars += kept
            at += range(begin, begin + len(kept))
            if not is_continued:
                break
        joined = "".join(chars)
        if not joined.strip():
            continue
        keyword = _KEYWORD.match(joined)
        if keyword is None:
            raise InputError(f"{place(at[0])}: not a Dockerfile: expected an instruction such as FROM")
        name = keyword[1].upper()
        documents: list[HereDocument] = []
        if name in ("RUN", "COPY", "ADD"):
            for found in _HERE.finditer(joined):
                document, number = _here_document(lines, number, found, place, at[found.start()])
                documents.append(document)
        end = len(joined.rstrip())
        begin = min(keyword.end(), end)
        yield Instruction(name, joined[begin:end], tuple(at[begin:end]), place, tuple(documents))


def _escape(lines: list[str]) -> str:
    for line in lines:
        directive = _DIRECTIVE.match(line.strip())
        if directive is None:
            break
        if directive[1].lower() == "escape" and directive[2] in ("\\", "`"):
            return directive[2]
    return "\\"


def _here_document(
    lines: list[str], number: int, found: re.Match[str], place: Lines, at: int
) -> tuple[HereDocument, int]:
    first = number
    while number < len(lines):
        line = lines[number].rstrip("\r\n")
        if (line.lstrip("\t") if found[1] else line) == found[3]:
            body = lines[first:number]
            text = "".join(line.lstrip("\t") if found[1] else line for line in body)
            return HereDocument(found[3], text, first + 1), number + 1
        number += 1
    raise InputError(f"{place(at)}: <<{found[3]} is opened and never closed")


def listed(instruction: Instruction) -> list[Token] | None:
    """The words of the exec form, `["vllm", "serve"]`; None where it is the shell form, as Docker takes
    whatever is no JSON list of strings."""
    text = instruction.text
    if not text.startswith("["):
        return None
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return None
    found: list[Token] = []
    strings = re.finditer(r'"((?:[^"\\]|\\.)*)"', text, re.DOTALL)
    for word, string in zip(words, strings, strict=False):
        begin = string.start(1)
        is_plain = string[1] == word
        at = instruction.at[begin : begin + len(word)] if is_plain and word else None
        found.append(
            Token(word, instruction.place(instruction.at[string.start()]), {}, at, instruction.place)
        )
    return found


def pairs(instruction: Instruction) -> Iterator[tuple[str, Token]]:
    """The names and values of ENV and ARG: `A=1 B="two words"`, and the old `ENV NAME value`. An ARG without
    a value is not among them."""
    text, i = instruction.text, 0
    if not _PAIR.match(text):
        name, blank, value = text.partition(" ")
        if blank and instruction.keyword == "ENV":
            shift = len(text) - len(value.lstrip())
            at = instruction.at[shift:]
            yield name, Token(value.strip(), instruction.place(at[0]), {}, at, instruction.place)
        return
    while i < len(text):
        pair = _PAIR.match(text, i)
        if pair is None:
            i += 1
            continue
        chars, places, i = _value(instruction, pair.end())
        origin = instruction.place(places[0] if places else instruction.at[pair.start()])
        yield pair[1], Token("".join(chars), origin, {}, tuple(places), instruction.place)


def _value(instruction: Instruction, i: int) -> tuple[list[str], list[int], int]:
    """A value up to the next blank outside of quotes."""
    text, quote = instruction.text, ""
    chars: list[str] = []
    at: list[int] = []
    while i < len(text) and (quote or not text[i].isspace()):
        char = text[i]
        if char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        else:
            if char == "\\" and quote != "'" and i + 1 < len(text):
                i += 1
            chars.append(text[i])
            at.append(instruction.at[i])
        i += 1
    return chars, at, i


def replaced(value: Token, variables: Mapping[str, Token], depth: int = 0) -> Token:
    """The value with `$NAME`, `${NAME}` and `${NAME:-default}` in place; what is not set cannot be seen."""
    chars: list[str] = []
    holes: dict[int, Hole] = {}
    end = 0

    def put(piece: Token) -> None:
        holes.update({index + len(chars): hole for index, hole in piece.holes.items()})
        chars.extend(piece.text)
        if len(chars) > MAX_LENGTH:
            raise InputError(f"{value.origin}: longer than {MAX_LENGTH:,} characters with its variables")

    def cut(begin: int, until: int) -> Token:
        inside = {i - begin: hole for i, hole in value.holes.items() if begin <= i < until}
        return Token(value.text[begin:until], value.origin, inside)

    for found in _VARIABLE.finditer(value.text):
        put(cut(end, found.start()))
        end = found.end()
        name, operator, other = found[1] or found[2], found[3], found[4] or ""
        told = variables.get(name)
        is_set = told is not None and (bool(told.text) or not (operator or "").startswith(":"))
        instead = Token(other, value.origin)
        if operator and operator[-1] == "-" and not is_set and depth < MAX_NESTING:
            put(replaced(instead, variables, depth + 1))
        elif operator and operator[-1] == "+" and depth < MAX_NESTING:
            if is_set:
                put(replaced(instead, variables, depth + 1))
        elif told is None or (found[2] and operator is None and not found[0].endswith(f"{name}}}")):
            put(Token(HOLE, value.origin, {0: variable(name)}))
        else:
            put(told)
    if not end:
        return value
    put(cut(end, len(value.text)))
    return Token("".join(chars), value.origin, holes)
