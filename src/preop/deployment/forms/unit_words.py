"""The syntax of systemd's unit files: assignments, quotes, escapes, specifiers and variables.

Source: systemd.syntax(7), systemd.service(5) "Command lines", systemd.unit(5) "Specifiers".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from preop.deployment.tokens import HOLE, Hole, Lines, Token, variable
from preop.errors import InputError
from preop.facts import Origin, Word

__all__ = ["Unit", "Value", "assignments", "exec_words", "expanded", "values_of"]

_ESCAPES = {
    **{"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"},
    **{"\\": "\\", '"': '"', "'": "'", "s": " "},
}
_CODES = re.compile(r"x([0-9a-fA-F]{2})|([0-3][0-7]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_VARIABLE = re.compile(r"\$(\$)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WORD = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)\Z")
_BLANKS = " \t\n\r"


@dataclass(frozen=True)
class Value:
    """What stands behind `Key=`, continued lines joined."""

    section: str
    key: str
    text: str
    at: tuple[int, ...]
    """The offset of each character in the file."""
    place: Callable[[int], Origin]

    @property
    def origin(self) -> Origin:
        """Where it begins."""
        return self.place(self.at[0] if self.at else 0)


@dataclass(frozen=True)
class Unit:
    """What a unit's file name says: `vllm@qwen.service` is the instance `qwen` of `vllm@.service`."""

    file: str

    @property
    def name(self) -> str:
        """For people: without the suffix, and without the `@` of a template."""
        return self.file.rpartition(".")[0].rstrip("@")

    def specifier(self, letter: str) -> str | None:
        """The value of `%letter`; None where the file's name does not say it."""
        stem, _, _ = self.file.rpartition(".")
        prefix, is_instance, instance = stem.partition("@")
        if letter == "%":
            return "%"
        if letter in "pP" and stem and "\\" not in prefix:
            return prefix if letter == "p" else prefix.replace("-", "/")
        if is_instance and not instance:
            return None
        named = {"n": self.file, "N": stem, "i": instance, "I": instance.replace("-", "/")}
        return named.get(letter) if stem and "\\" not in stem else None


def values_of(text: str, file: str) -> list[Value]:
    """The assignments of a unit file in their order. Raises `InputError` where a line is none."""
    place = Lines(text, file)
    found: list[Value] = []
    section = ""
    for chars, at in _lines(text):
        line = "".join(chars)
        stripped = line.strip(_BLANKS)
        start = len(line) - len(line.lstrip(_BLANKS))
        if stripped.startswith("["):
            if not stripped.endswith("]"):
                raise InputError(f"{place(at[start])}: not a unit file: expected `[Section]`")
            section = stripped[1:-1]
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise InputError(f"{place(at[start])}: not a unit file: expected `Key=value`")
        begin = len(key) + 1 + len(value) - len(value.lstrip(_BLANKS))
        end = len(line.rstrip(_BLANKS))
        where = at[begin:end] or at[len(key) : len(key) + 1]
        found.append(Value(section, key.strip(_BLANKS), line[begin:end], tuple(where), place))
    return found


def _lines(text: str) -> Iterator[tuple[list[str], list[int]]]:
    """Lines with something in them, continued ones joined by a blank; comments among them are left out."""
    chars: list[str] = []
    at: list[int] = []
    offset = 0
    for line in text.splitlines(keepends=True):
        begin, offset = offset, offset + len(line)
        body = line.rstrip("\r\n")
        if body.lstrip(_BLANKS)[:1] in ("#", ";"):
            continue
        is_continued = body.endswith("\\")
        if is_continued:
            body = body[:-1] + " "
        chars += body
        at += range(begin, begin + len(body))
        if not is_continued:
            if "".join(chars).strip(_BLANKS):
                yield chars, at
            chars, at = [], []
    if "".join(chars).strip(_BLANKS):
        yield chars, at


def exec_words(value: Value, unit: Unit, *, is_variable: bool = False) -> list[Token]:
    """The words of a value: quotes and escapes undone, specifiers replaced. Raises `InputError` on a quote
    that is never closed. What a variable holds (`is_variable`) has quotes, but no specifiers and no codes."""
    words: list[Token] = []
    chars: list[str] = []
    at: list[int] = []
    holes: dict[int, Hole] = {}
    text, quote, is_open, i = value.text, "", False, 0

    def put(piece: str) -> None:
        chars.extend(piece)
        at.extend([value.at[i]] * len(piece))

    while i <= len(text):
        char = text[i] if i < len(text) else ""
        if char == "" or (not quote and char in _BLANKS):
            if char == "" and quote and not is_variable:
                raise InputError(f"{value.origin}: {quote} is opened and never closed")
            if is_open:
                place = value.place(at[0]) if at else value.origin
                words.append(Token("".join(chars), place, holes, tuple(at), value.place))
            chars, at, holes, is_open = [], [], {}, False
            i += 1
            continue
        is_open = True
        size = 1
        if char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        elif char == "\\" and i + 1 < len(text):
            code = _CODES.match(text, i + 1)
            if is_variable:
                put(text[i + 1])
                size = 2
            elif code:
                put(_character(code) or text[i : code.end()])
                size = 1 + len(code[0])
            elif text[i + 1] == ";" and not quote and not chars and text[i + 2 : i + 3] in ("", *_BLANKS):
                put(";")
                size = 2
            else:
                put(_ESCAPES.get(text[i + 1], text[i : i + 2]))
                size = 2
        elif char == "%" and i + 1 < len(text) and not is_variable:
            told = unit.specifier(text[i + 1])
            if told is None:
                holes[len(chars)] = Hole(f"%{text[i + 1]} is filled in by systemd")
            put(HOLE if told is None else told)
            size = 2
        else:
            put(char)
        i += size
    return words


def _character(code: re.Match[str]) -> str | None:
    number = int(code[2], 8) if code[2] else int(code[1] or code[3] or code[4], 16)
    is_text = 0 < number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if is_text else None


def assignments(value: Value, unit: Unit) -> Iterator[tuple[str, Token]]:
    """The variables of `Environment=`: `NAME=value`, several in a line, quotes around the whole."""
    for word in exec_words(value, unit):
        pair = word.assignment()
        if pair is not None:
            yield pair


def expanded(word: Token, environment: Mapping[str, Word], unseen: list[str]) -> list[Token]:
    """A word with its variables put in place: several, or none, where it is nothing but `$NAME`.

    systemd puts nothing for a variable that is not set; here it cannot be seen, because systemd's own
    environment may set it.
    """
    alone = _WORD.fullmatch(word.visible or "")
    if alone:
        told = environment.get(alone[1])
        if told is None or told.text is None:
            hole = variable(alone[1], f"cannot be seen: {unseen[0]}" if unseen else "is not set here")
            return [Token(HOLE, word.origin, {0: Hole(hole.note, many=True)}, many=True)]
        origin = told.origin
        held = Value("", "", told.text, (0,) * len(told.text), lambda at: origin)
        return exec_words(held, Unit(""), is_variable=True)
    if "$" not in word.text:
        return [word]
    chars: list[str] = []
    at: list[int] = []
    holes: dict[int, Hole] = {}
    end = 0

    def copy(until: int) -> None:
        for index in range(end, until):
            if index in word.holes:
                holes[len(chars)] = word.holes[index]
            chars.append(word.text[index])
            at.append(word.at[index] if word.at else 0)

    for found in _VARIABLE.finditer(word.text):
        copy(found.start())
        end = found.end()
        told = environment.get(found[2]) if found[2] else None
        piece = "$" if found[1] else told.text if told is not None and told.text is not None else HOLE
        if piece == HOLE:
            holes[len(chars)] = variable(found[2], "is not set here")
        chars += piece
        at += [word.at[found.start()] if word.at else 0] * len(piece)
    copy(len(word.text))
    return [Token("".join(chars), word.origin, holes, tuple(at) if word.at else None, word.place, False)]
