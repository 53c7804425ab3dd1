"""Cut a shell text into the simple commands that it runs, as far as that can be told without running it.

Read: quoting, `$NAME` and `${NAME:-default}` from variables that are seen, line continuations, comments,
`;` `&&` `||` `|` `&`, redirections, here-documents (skipped), assignments, arrays. Not seen, and marked so:
command substitution, variables that are set nowhere here or only under a condition, `$1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from preop.deployment.blocks import Blocks
from preop.deployment.tokens import HOLE, Hole, Source, Token, variable
from preop.deployment.variables import Variables, one_of_two, unstated
from preop.errors import InputError
from preop.facts import Word

__all__ = ["Command", "commands", "words"]

MAX_NESTING = 20
MAX_LENGTH = 200_000
"""Characters of all words together, variables expanded."""
_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=?+])(.*))?\Z", re.DOTALL)
_ITEMS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "e": "\x1b", "0": "\x00"}


@dataclass(frozen=True)
class Command:
    """One simple command: its words, and the variables that are exported to it."""

    words: tuple[Token, ...]
    exported: Mapping[str, Token] = field(default_factory=dict)
    branches: tuple[tuple[int, int], ...] = ()
    """The blocks around it, by number, and which branch of each: two branches of one `if` never both run."""
    ends_shell: bool = False
    """It takes the shell's place (`exec`)."""


def commands(
    source: Source,
    variables: Mapping[str, Word] | None = None,
    unseen: str | None = None,
    arguments: Sequence[Token] = (),
) -> list[Command]:
    """The simple commands of a shell text, in order, without those that only assign.

    `variables` are those that the shell starts with; `unseen` says why there may be others, so that
    `${NAME:-default}` is not known to be its default; `arguments` are what `"$@"` stands for. Raises
    `InputError` where a quote, a `${` or a `$(` is not closed.
    """
    reader = _Reader(source, "shell", variables or {})
    reader.variables.unseen = unseen
    if arguments:
        reader.variables.set_array("@", arguments, arguments[0], sure=True, append=False)
    return reader.read()


def words(source: Source) -> list[Token]:
    """A string cut into words as Docker Compose cuts `command` and `entrypoint`: quotes and backslashes
    only. Nothing is expanded, and `;` `&` `|` `<` `>` end it. Raises `InputError` on an open quote."""
    found = _Reader(source, "words", {}).read()
    return list(found[0].words) if found else []


class _Reader:
    def __init__(
        self, source: Source, mode: Literal["shell", "words"], variables: Mapping[str, Word]
    ) -> None:
        self._source = source
        self._text = source.text
        self._shell = mode == "shell"
        self.variables = Variables(variables)
        self.nested = 0
        self._blocks = Blocks()
        self._chars: list[str] = []
        self._at: list[int] = []
        self._holes: dict[int, Hole] = {}
        self._many = False
        self._open = False
        self._quoted = False
        self._skip_word = False
        self._heredocs: list[str] = []
        self._next_is_delimiter = False
        self._words: list[Token] = []
        self._conditional = False
        self._found: list[Command] = []

    def read(self) -> list[Command]:
        self._scan(0, len(self._text), nested=0)
        self._end_command("")
        return self._found

    # characters

    def _scan(self, i: int, end: int, nested: int) -> None:
        """Unquoted text. `nested` counts the `${NAME:-...}` around it, in which operators are text."""
        text, shell = self._text, self._shell
        while i < end:
            char = text[i]
            if i in self._source.holes:
                self._hide(self._source.holes[i], i)
                i += 1
            elif char == "\n" and not nested and shell:
                self._end_command("\n")
                i = self._skip_heredocs(i + 1)
            elif char in " \t\r\n":
                self._end_word()
                i += 1
            elif char == "#" and shell and not nested and not self._open:
                line_end = text.find("\n", i)
                i = end if line_end < 0 else line_end
            elif char == "\\":
                i = self._escape(i, end)
            elif char == "'":
                i = self._single(i, end)
            elif char == '"':
                i = self._double(i, end, nested)
            elif shell and char == "$":
                i = self._dollar(i, end, quoted=False, nested=nested)
            elif shell and char == "`":
                i = self._backticks(i, end, quoted=False)
            elif not nested and char in (";&|<>()" if shell else ";&|<>"):
                if not shell:
                    return
                i = self._operator(i, end)
            else:
                self._put(char, i)
                i += 1

    def _put(self, char: str, i: int) -> None:
        self.variables.length += 1
        if self.variables.length > MAX_LENGTH:
            raise InputError(f"{self._source.place(i)}: a command longer than {MAX_LENGTH:,} characters")
        self._chars.append(char)
        self._at.append(i)
        self._open = True

    def _hide(self, hole: Hole, i: int, quoted: bool = False) -> None:
        self._holes[len(self._chars)] = hole
        self._many |= hole.many and not quoted
        self._put(HOLE, i)

    def _escape(self, i: int, end: int) -> int:
        rest = self._text[i + 1 : min(i + 3, end)]
        if rest[:1] in ("", "\n"):
            return i + 1 + len(rest[:1])
        if rest == "\r\n":
            return i + 3
        if not self._shell and rest[0] in " \t" and not self._open:
            return i + 2  # `\` before a line that YAML has folded: a continuation, not a word
        if i + 1 in self._source.holes:
            return i + 1
        self._put({"n": "\n", "t": "\t"}.get(rest[0], rest[0]) if not self._shell else rest[0], i + 1)
        return i + 2

    def _single(self, i: int, end: int) -> int:
        close = self._text.find("'", i + 1, end)
        if close < 0:
            raise self._unclosed("'", i)
        self._open = self._quoted = True
        for at in range(i + 1, close):
            if at in self._source.holes:
                self._hide(self._source.holes[at], at, quoted=True)
            else:
                self._put(self._text[at], at)
        return close + 1

    def _double(self, i: int, end: int, nested: int) -> int:
        self._open = self._quoted = True
        after = self._in_double(i + 1, end, nested, closing=True)
        if after is None:
            raise self._unclosed('"', i)
        return after

    def _in_double(self, i: int, end: int, nested: int, closing: bool) -> int | None:
        """Text inside double quotes; None where `closing` is asked for and does not come."""
        text = self._text
        while i < end:
            char = text[i]
            if i in self._source.holes:
                self._hide(self._source.holes[i], i, quoted=True)
                i += 1
            elif char == '"' and closing:
                return i + 1
            elif char == "\\" and i + 1 < end:
                after = text[i + 1]
                if not self._shell:
                    self._put({"n": "\n", "t": "\t"}.get(after, after), i + 1)
                elif after in '$`"\\':
                    self._put(after, i + 1)
                elif after != "\n":
                    self._put("\\", i)
                    i -= 1
                i += 2
            elif self._shell and char == "$":
                i = self._dollar(i, end, quoted=True, nested=nested)
            elif self._shell and char == "`":
                i = self._backticks(i, end, quoted=True)
            else:
                self._put(char, i)
                i += 1
        return None if closing else end

    # expansions

    def _dollar(self, i: int, end: int, quoted: bool, nested: int) -> int:
        text = self._text
        after = text[i + 1] if i + 1 < end else ""
        if after == "(":
            close = self._closing(i + 2, end, "(", ")")
            if close < 0:
                raise self._unclosed("$(", i)
            self._hide(Hole("the output of `$(...)` cannot be seen", many=True), i, quoted)
            return close + 1
        if after == "{":
            close = self._closing(i + 2, end, "{", "}")
            if close < 0:
                raise self._unclosed("${", i)
            self._parameter(i, close, quoted, nested)
            return close + 1
        if after == "'" and not quoted:
            return self._ansi(i, end)
        if after == '"' and not quoted:
            return i + 1
        name = _NAME.match(text, i + 1, end)
        if name:
            self._expand(name[0], i, quoted)
            return name.end()
        if after == "@" and self._arguments(i, quoted):
            return i + 2
        if after and after in "0123456789@*#?$!-":
            self._hide(Hole(f"${after} cannot be seen", many=after in "@*"), i, quoted)
            return i + 2
        self._put("$", i)
        return i + 1

    def _arguments(self, i: int, quoted: bool) -> bool:
        """`$@`, where it is what the whole script is given: a function has its own."""
        words = self.variables.array("@") if not self._blocks.in_function else None
        if words:
            self._items(words, i, quoted)
        return bool(words)

    def _parameter(self, i: int, close: int, quoted: bool, nested: int) -> None:
        """`${...}` from `i` to the brace at `close`."""
        if self._text[i + 2 : close] == "@" and self._arguments(i, quoted):
            return
        match = _PARAMETER.match(self._text[i + 2 : close])
        items = _ITEMS.match(self._text[i + 2 : close])
        if items and (array := self.variables.array(items[1])) is not None:
            self._items(array, i, quoted)
            return
        if not match or any(i < hole < close for hole in self._source.holes):
            shown = self._text[i : close + 1]
            many = bool(match is None and re.search(r"[@*]", shown)) or variable(shown.strip("${}")).many
            self._hide(Hole(f"{_short(shown)} cannot be seen", many), i, quoted and "@" not in shown)
            return
        name, operator = match[1], match[2]
        value = self.variables.get(name)
        if operator is None or operator[-1] == "?":
            self._expand(name, i, quoted)
            return
        is_set = value is not None and (bool(value.text) or operator[0] != ":")
        unseen = None
        if value is None:
            unseen = unstated(name, operator, match[3], elsewhere=self.variables.unseen is not None)
        elif value.text and len(value.holes) == len(value.text):  # it may be empty
            unseen = one_of_two(value.note or "", value.many or variable(name).many, operator, match[3])
        if unseen is not None:
            self._hide(unseen, i, quoted)
        elif operator[-1] == "+" and not is_set:
            return
        elif operator[-1] != "+" and is_set:
            self._expand(name, i, quoted)
        else:
            if nested >= MAX_NESTING:
                raise InputError(f"{self._source.place(i)}: `${{` nested deeper than {MAX_NESTING} levels")
            start = i + 2 + match.start(3)
            before = len(self._chars)
            if quoted:
                self._in_double(start, close, nested + 1, closing=False)
            else:
                self._scan(start, close, nested + 1)
            if operator[-1] == "=":
                self.variables.set(name, self._slice(before), sure=self._sure)

    def _items(self, array: list[Token], i: int, quoted: bool) -> None:
        """The words of `${NAME[@]}`."""
        for index, item in enumerate(array):
            if index:
                self._end_word()
            self._spell(item, i, quoted, many=item.many)
            self._many |= item.many

    def _slice(self, start: int) -> Token:
        """What was put into the current word since `start`, as a value."""
        holes = {at - start: note for at, note in self._holes.items() if at >= start}
        at = self._at[start] if start < len(self._at) else 0
        return Token("".join(self._chars[start:]), self._source.place(at), holes)

    def _expand(self, name: str, i: int, quoted: bool) -> None:
        value = self.variables.get(name)
        if value is None:
            self._hide(variable(name), i, quoted)
            return
        self._spell(value, i, quoted, many=variable(name).many)

    def _spell(self, value: Token, i: int, quoted: bool, many: bool) -> None:
        """Put a value in place: in quotes as it stands, else cut at its blanks."""
        if quoted:
            self._open = True
        for index, char in enumerate(value.text):
            if index in value.holes:
                hole = value.holes[index]
                self._hide(Hole(hole.note, hole.many or many), i, quoted)
            elif char in " \t\n" and not quoted:
                self._end_word()
            else:
                self._put(char, i)

    def _ansi(self, i: int, end: int) -> int:
        self._open = self._quoted = True
        at = i + 2
        while at < end and self._text[at] != "'":
            if self._text[at] == "\\" and at + 1 < end:
                at += 1
                self._put(_ANSI.get(self._text[at], self._text[at]), at)
            else:
                self._put(self._text[at], at)
            at += 1
        if at >= end:
            raise self._unclosed("$'", i)
        return at + 1

    def _backticks(self, i: int, end: int, quoted: bool) -> int:
        at = i + 1
        while at < end and self._text[at] != "`":
            at += 2 if self._text[at] == "\\" else 1
        if at >= end:
            raise self._unclosed("`", i)
        self._hide(Hole("the output of `...` cannot be seen", many=True), i, quoted)
        return at + 1

    def _closing(self, i: int, end: int, opening: str, closing: str) -> int:
        """Where the bracket opened before `i` closes, quotes respected; -1 where it does not."""
        depth, quote = 1, ""
        while i < end:
            char = self._text[i]
            if char == "\\" and quote != "'":
                i += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "\"'":
                quote = char
            elif char == opening:
                depth += 1
            elif char == closing:
                depth -= 1
                if not depth:
                    return i
            i += 1
        return -1

    # operators

    def _operator(self, i: int, end: int) -> int:
        text = self._text
        char, two = text[i], text[i : min(i + 2, end)]
        if char in "<>" or two == "&>":
            return self._redirect(i, end)
        if char == "(":
            word = "".join(self._chars)
            if self._open and word.endswith("=") and not self._quoted:
                return self._array(word, i, end)
            if self._open and not self._words and two == "()":
                self._chars, self._at, self._holes, self._open = [], [], {}, False
                self._blocks.begin("function")
                return i + 2
            self._end_command("(")
            return i + 1
        size = 2 if two in ("&&", "||", ";;", "|&") else 1
        if two == ";;":
            self._end_command(two)
            self._blocks.next_branch()
            return i + size
        self._end_command(text[i : i + size])
        return i + size

    def _array(self, word: str, i: int, end: int) -> int:
        """`NAME=(...)` with the bracket at `i`."""
        close = self._closing(i + 1, end, "(", ")")
        if close < 0:
            raise self._unclosed("(", i)
        source, shift = self._source, i + 1
        holes = {at - shift: hole for at, hole in source.holes.items() if shift <= at < close}
        inner = _Reader(
            Source(self._text[shift:close], lambda at: source.place(at + shift), holes), "shell", {}
        )
        inner.variables = self.variables
        inner.nested = self.nested + 1
        if inner.nested > MAX_NESTING:
            raise InputError(f"{source.place(i)}: arrays nested deeper than {MAX_NESTING} levels")
        words = [token for command in inner.read() for token in command.words]
        self._chars, self._at, self._holes = [], [], {}
        self._open = self._quoted = self._many = False
        at = Token(word, source.place(i))
        self.variables.set_array(word.rstrip("+="), words, at, sure=self._sure, append=word.endswith("+="))
        return close + 1

    def _redirect(self, i: int, end: int) -> int:
        if "".join(self._chars).isdigit() and not self._quoted:
            self._chars, self._at, self._open = [], [], False
        self._end_word()
        match = re.compile(r"&>>?|<<<|<<-?|<>|<&|>>|>&|>\||[<>]").match(self._text, i, end)
        operator = match[0] if match else self._text[i]
        i += len(operator)
        if self._text[i : i + 1] == "(" and operator in "<>":
            close = self._closing(i + 1, end, "(", ")")
            if close < 0:
                raise self._unclosed(f"{operator}(", i - 1)
            self._hide(Hole(f"`{operator}(...)` cannot be seen"), i - 1)
            return close + 1
        self._skip_word = True
        self._next_is_delimiter = operator in ("<<", "<<-")
        return i

    def _skip_heredocs(self, i: int) -> int:
        for delimiter in self._heredocs:
            while i < len(self._text):
                line_end = self._text.find("\n", i)
                line_end = len(self._text) if line_end < 0 else line_end
                line = self._text[i:line_end].strip("\t\r")
                i = line_end + 1
                if line == delimiter:
                    break
        self._heredocs = []
        return min(i, len(self._text))

    # words and commands

    def _end_word(self) -> None:
        if not self._open:
            return
        place, at = self._source.place, tuple(self._at)
        word = Token("".join(self._chars), place(at[0] if at else 0), self._holes, at, place, self._many)
        quoted = self._quoted
        self._chars, self._at, self._holes = [], [], {}
        self._open = self._quoted = self._many = False
        if self._skip_word:
            if self._next_is_delimiter:
                self._heredocs.append(word.text)
            self._skip_word = self._next_is_delimiter = False
        elif self._shell and not self._words and not quoted and self._blocks.keyword(word.visible or ""):
            self._skip_word = word.visible == "function"  # its name
        else:
            self._words.append(word)

    def _end_command(self, operator: str) -> None:
        self._end_word()
        self._skip_word = self._next_is_delimiter = False
        found, self._words = self._words, []
        sure = self._sure
        self._conditional = operator in ("&&", "||", "|", "|&") or (
            operator == "\n" and self._conditional and not found
        )
        if not found:
            return
        if self._shell and self.variables.take(found, sure):
            return
        ends_shell = found[0].visible == "exec" and operator not in ("&", "|", "|&")
        self._found.append(Command(tuple(found), self.variables.exports(), self._blocks.branches, ends_shell))

    @property
    def _sure(self) -> bool:
        """Whether the command at hand runs whatever happens."""
        return not self._conditional and self._blocks.are_sure

    def _unclosed(self, what: str, i: int) -> InputError:
        return InputError(f"{self._source.place(i)}: {what} is opened and never closed")


def _short(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[:limit] + "..."
