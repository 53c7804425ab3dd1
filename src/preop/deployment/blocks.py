"""The blocks of a shell text around the command at hand: `if`, loops, `case`, functions, groups."""

from __future__ import annotations

from itertools import count

__all__ = ["Blocks"]

_NUMBERS = count(1)
"""Of blocks, in all texts: commands of two texts are never taken for branches of one block."""
_OPENERS = frozenset({"if", "while", "until", "for", "select", "case"})
_CLOSERS = frozenset({"fi", "done", "esac", "}"})
_LEADERS = frozenset({"if", "while", "until", "then", "elif", "else", "do", "!", "time", "{"})


class Blocks:
    """The blocks that are open, the outermost first."""

    def __init__(self) -> None:
        self._kinds: list[str] = []
        self._branches: list[tuple[int, int]] = []

    @property
    def branches(self) -> tuple[tuple[int, int], ...]:
        """The number of each block, and which of its branches this is."""
        return tuple(self._branches)

    @property
    def in_function(self) -> bool:
        """Whether one of them is a function."""
        return "function" in self._kinds

    @property
    def are_sure(self) -> bool:
        """Whether what stands in them runs whatever happens."""
        return all(kind == "group" for kind in self._kinds)

    def keyword(self, word: str) -> bool:
        """Take in the first word of a command; whether it is syntax and no part of the command."""
        if word in _OPENERS:
            self.begin(word)
        elif word == "function":
            self.begin(word)
            return True
        elif word in _CLOSERS:
            if self._kinds:
                self._kinds.pop()
                self._branches.pop()
            return True
        elif word == "{" and self._kinds[-1:] != ["function"]:
            self.begin("group")
        elif word in ("else", "elif"):
            self.next_branch()
        return word in _LEADERS

    def begin(self, kind: str) -> None:
        """A block opens."""
        self._kinds.append(kind)
        self._branches.append((next(_NUMBERS), 0))

    def next_branch(self) -> None:
        """The innermost block's next branch begins: `else`, `elif`, `;;`."""
        if self._branches:
            block, branch = self._branches.pop()
            self._branches.append((block, branch + 1))
