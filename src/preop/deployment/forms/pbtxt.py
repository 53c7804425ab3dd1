"""Protobuf's text format, as far as Triton's `config.pbtxt` uses it, each value with its place.

Source: protobuf.dev, "Text Format Language Specification": a message stands in `{}` or `<>`, with or without
`:`; strings that follow each other are one; `,` and `;` may part fields. `${name}` is what Triton's own
`fill_template.py` fills in: left over, it cannot be seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from preop.deployment.tokens import Lines
from preop.errors import InputError
from preop.facts import Origin

__all__ = ["Message", "Text", "read_pbtxt"]

MAX_DEPTH = 64
_TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)
      |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      |(?P<hole>\$\{[^}\n]*\}[\w.]*)
      |(?P<word>-?[A-Za-z0-9_.+][\w.+-]*|-)
      |(?P<sign>[{}<>\[\]:,;/])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLOSES = {"{": "}", "<": ">"}


@dataclass(frozen=True)
class Text:
    """One scalar: a string, a number, a word."""

    text: str
    origin: Origin
    is_string: bool = False

    @property
    def is_hole(self) -> bool:
        """Whether it holds a `${name}` that nobody has filled in."""
        return "${" in self.text


@dataclass(frozen=True)
class Message:
    """The fields of a message, each with all its values in their order."""

    origin: Origin
    fields: dict[str, list[Text | Message]] = field(default_factory=dict)

    def text(self, name: str) -> Text | None:
        """The last scalar of that name."""
        return next((each for each in reversed(self.fields.get(name, [])) if isinstance(each, Text)), None)

    def message(self, name: str) -> Message | None:
        """The last message of that name."""
        return next((each for each in reversed(self.fields.get(name, [])) if isinstance(each, Message)), None)

    def messages(self, name: str) -> list[Message]:
        """All messages of that name."""
        return [each for each in self.fields.get(name, []) if isinstance(each, Message)]

    def texts(self, name: str) -> list[Text]:
        """All scalars of that name."""
        return [each for each in self.fields.get(name, []) if isinstance(each, Text)]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def read_pbtxt(text: str, file: str) -> Message:
    """The message in a text. Raises `InputError` where it is not of the text format, with the place."""
    reader = _Reader(text, Lines(text, file))
    return reader.fields(Message(reader.place(0)), "", 0)


class _Reader:
    def __init__(self, text: str, place: Lines) -> None:
        self.place = place
        self._end = len(text)
        self._tokens = list(_tokens(text, place))
        self._i = 0

    def fields(self, into: Message, closes: str, depth: int) -> Message:
        """Fields up to the bracket that closes them, or the end."""
        if depth > MAX_DEPTH:
            raise InputError(f"{into.origin}: messages nested deeper than {MAX_DEPTH} levels")
        while (token := self._next()) is not None:
            if token.text == closes and token.kind == "sign":
                return into
            if token.text in ",;" and token.kind == "sign":
                continue
            if token.kind == "sign" and token.text == "[":
                name = self._extension()
            elif token.kind == "word":
                name = token.text
            else:
                raise self._not(token, "the name of a field")
            into.fields.setdefault(name, []).extend(self._values(depth))
        if closes:
            raise InputError(f"{into.origin}: a message is opened and never closed; expected {closes!r}")
        return into

    def _values(self, depth: int) -> list[Text | Message]:
        token = self._next()
        has_colon = token is not None and token.kind == "sign" and token.text == ":"
        if has_colon:
            token = self._next()
        if token is not None and token.kind == "sign" and token.text == "[":
            return list(self._list(token, depth))
        if token is not None and token.kind == "sign" and token.text in _CLOSES:
            return [self.fields(Message(self.place(token.at)), _CLOSES[token.text], depth + 1)]
        if not has_colon:
            raise self._not(token, "`:` or `{` after a field's name")
        return [self._scalar(token)]

    def _list(self, opened: _Token, depth: int) -> Iterator[Text | Message]:
        while (token := self._next()) is not None:
            if token.kind == "sign" and token.text == "]":
                return
            if token.kind == "sign" and token.text == ",":
                continue
            if token.kind == "sign" and token.text in _CLOSES:
                yield self.fields(Message(self.place(token.at)), _CLOSES[token.text], depth + 1)
            else:
                yield self._scalar(token)
        raise InputError(f"{self.place(opened.at)}: a list is opened and never closed; expected `]`")

    def _scalar(self, token: _Token | None) -> Text:
        if token is None or token.kind == "sign":
            raise self._not(token, "a value")
        if token.kind != "string":
            return Text(token.text, self.place(token.at))
        parts = [token]
        while self._i < len(self._tokens) and self._tokens[self._i].kind == "string":
            parts.append(self._tokens[self._i])
            self._i += 1
        return Text("".join(_unquoted(part.text) for part in parts), self.place(token.at), True)

    def _extension(self) -> str:
        parts = []
        while (token := self._next()) is not None and token.text != "]":
            parts.append(token.text)
        return f"[{''.join(parts)}]"

    def _next(self) -> _Token | None:
        if self._i >= len(self._tokens):
            return None
        self._i += 1
        return self._tokens[self._i - 1]

    def _not(self, token: _Token | None, expected: str) -> InputError:
        at = self.place(token.at if token is not None else self._end)
        shown = repr(token.text[:40]) if token is not None else "the end"
        return InputError(f"{at}: {shown}: not a config.pbtxt: expected {expected}")


def _tokens(text: str, place: Lines) -> Iterator[_Token]:
    i = 0
    while i < len(text):
        found = _TOKEN.match(text, i)
        if found is None:
            raise InputError(f"{place(i)}: {text[i]!r}: not a config.pbtxt: expected a field")
        if found.lastgroup != "blank":
            yield _Token(found.lastgroup or "", found[0], i)
        i = found.end()


def _unquoted(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        octal, short, unicode, long, other = found.groups()
        if other is not None:
            return _NAMED.get(other, other)
        number = int(octal, 8) if octal else int(short or unicode or long, 16)
        return chr(number) if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF else found[0]

    return _ESCAPE.sub(character, text[1:-1])
