"""The shell text splitter."""

from __future__ import annotations

import shlex
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.deployment import shell
from preop.deployment.tokens import Source
from preop.errors import InputError, PreopError
from preop.facts import Origin, Word


def source(text: str) -> Source:
    return Source(text, lambda at: Origin("file", f"s:{at}"))


def run(text: str, **variables: str | None) -> list[list[str | None]]:
    """The words of each simple command, None where one cannot be seen."""
    words = {name: Word(value, Origin("environment", name)) for name, value in variables.items()}
    found = shell.commands(source(text), words)
    return [[word.text for token in command.words for word in token.words()] for command in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve a --x 1", [["vllm", "serve", "a", "--x", "1"]]),
        ("a \\\n  b \\\r\n c", [["a", "b", "c"]]),
        ("a # b\nc", [["a"], ["c"]]),
        ("a#b '#c' \\#d", [["a#b", "#c", "#d"]]),
        ("a && b || c | d; e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("""a '{"m": "x"}' "b\\"c" d'e'f""", [["a", '{"m": "x"}', 'b"c', "def"]]),
        ("a '' b", [["a", "", "b"]]),
        ("a $'x\\ty'", [["a", "x\ty"]]),
        ("a >log 2>&1 <in b >>more", [["a", "b"]]),
        ("cat <<EOF >f\nvllm serve hidden\nEOF\nvllm serve b", [["cat"], ["vllm", "serve", "b"]]),
        ("if true; then vllm serve a; fi", [["true"], ["vllm", "serve", "a"]]),
        ("main() { vllm serve a; }\nmain", [["vllm", "serve", "a"], ["main"]]),
        ("(cd x; vllm serve a)", [["cd", "x"], ["vllm", "serve", "a"]]),
        ("price 5$ 5%", [["price", "5$", "5%"]]),
    ],
)
def test_commands_of_a_shell_text(text: str, expected: list[list[str]]) -> None:
    assert run(text) == expected


@pytest.mark.parametrize(
    ("text", "variables", "expected"),
    [
        ("a $X", {"X": "b c"}, ["a", "b", "c"]),
        ('a "$X"', {"X": "b c"}, ["a", "b c"]),
        ("a '$X'", {"X": "b"}, ["a", "$X"]),
        ("a $X", {}, ["a", None]),
        ("a $X", {"X": None}, ["a", None]),
        ("a p/$X/q", {}, ["a", None]),
        ("a --n=$X", {}, ["a", "--n", None]),
        ("a ${X:-d e}", {}, ["a", "d", "e"]),
        ('a "${X:-d e}"', {}, ["a", "d e"]),
        ("a ${X:-d}", {"X": ""}, ["a", "d"]),
        ("a ${X-d}", {"X": ""}, ["a"]),
        ("a ${X:-${Y:-d}}", {}, ["a", "d"]),
        ("a ${X:-d}", {"X": None}, ["a", None]),
        ("a ${X:+--flag}", {}, ["a", None]),
        ("a ${X:+--flag}", {"X": "1"}, ["a", "--flag"]),
        ("a ${X:+--flag}", {"X": ""}, ["a"]),
        ("a ${X%.*} ${#X} ${X[@]} $1 $@", {"X": "1"}, ["a", None, None, None, None, None]),
        ("a $(b c) `d`", {}, ["a", None, None]),
        ("X=1; a $X", {}, ["a", "1"]),
        ('X=1; X="$X 2"; a $X', {}, ["a", "1", "2"]),
        ("X=1; X+=2; a $X", {}, ["a", "12"]),
        ("X+=2; a $X", {}, ["a", None]),
        ("C='a b'; C+=' --x 1'; $C", {}, ["a", "b", "--x", "1"]),
        ("C='a b'; test -n x && C+=' --x 1'; $C --y", {}, ["a", "b", None, "--y"]),
        ("C='a b '; if x; then C+='--x 1'; fi; $C --y", {}, ["a", "b", None, "--y"]),
        (": ${X:=7}; a $X", {}, ["a", "7"]),
        ('A=(--x "1 2"); a "${A[@]}" --y', {}, ["a", "--x", "1 2", "--y"]),
        ("A=(--x 1); A+=(--y $B # no\n 2); a ${A[@]}", {"B": "3"}, ["a", "--x", "1", "--y", "3", "2"]),
        ("A=(); a ${A[@]} b", {}, ["a", "b"]),
        ("A=(--x); if y; then A+=(--z 1); fi; a ${A[@]}", {}, ["a", "--x", None]),
        ("A+=(--x); a ${A[@]}", {}, ["a", None, "--x"]),
        ("declare -a A=(1 2); a ${A[1]} ${#A[@]}", {}, ["a", None, None]),
        ("a ${1:-b}", {}, ["a", None]),
        ('X="--x $Y"; a ${X:-d}', {}, ["a", "--x", None]),
        ('X="--x $Y"; a ${X:+--set}', {}, ["a", "--set"]),
        ("X=$Y; a ${X:+--set}", {}, ["a", None]),
    ],
)
def test_expansion(text: str, variables: dict[str, str | None], expected: list[str | None]) -> None:
    assert run(text, **variables)[-1] == expected


@pytest.mark.parametrize(
    "text",
    [
        "if [ -n x ]; then X=2; fi; a $X",
        "X=1; test -f y && X=2; a $X",
        "X=1; for X in 2 3; do b; done; a $X",
        "X=1; read X; a $X",
        "X=1; unset X; a $X",
        "f() { X=2; }; a $X",
    ],
)
def test_a_variable_that_may_have_changed_cannot_be_seen(text: str) -> None:
    assert run(text)[-1] == ["a", None]


def test_a_default_is_not_known_after_a_sourced_file() -> None:
    assert run(". ./env.sh; a ${X:-1}")[-1] == ["a", None]


def test_exported_variables_reach_the_command() -> None:
    found = shell.commands(source("A=1; export B=2; export A; C=3\nvllm serve x"))
    assert {name: value.text for name, value in found[-1].exported.items()} == {"A": "1", "B": "2"}


def test_each_word_knows_its_place() -> None:
    (command,) = shell.commands(source("vllm serve \\\n  'a b' --x"))
    assert [str(token.origin) for token in command.words] == ["s:0", "s:5", "s:16", "s:21"]


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a ${b", "a $(b", "a `b", "a $'b", "x=(1 2"])
def test_what_is_opened_and_never_closed_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="never closed"):
        shell.commands(source(text))


def test_endless_defaults_are_refused() -> None:
    with pytest.raises(InputError, match="nested deeper"):
        shell.commands(source("a " + "${X:-" * 5000 + "}" * 5000))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--model $X 'a b' \"c\"", ["--model", "$X", "a b", "c"]),
        ("a \\\n b", ["a", "b"]),
        ("a \\ b", ["a", "b"]),
        ("a && b", ["a"]),
        ("a '{\"x\": 1}'", ["a", '{"x": 1}']),
        ("", []),
    ],
)
def test_words_as_compose_cuts_them(text: str, expected: list[str]) -> None:
    assert [word.text for word in shell.words(source(text))] == expected


@pytest.mark.parametrize(
    "text",
    [
        "X=aaaaaaaa;" + "X=$X$X;" * 60 + "a $X",
        "A=(a a a a);" + 'A=("${A[@]}" "${A[@]}");' * 60,
        "a" * 300_000,
    ],
)
def test_what_grows_without_end_is_refused(text: str) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match="longer than"):
        shell.commands(source(text))
    assert time.monotonic() - start < 5


PLAIN = st.text(st.sampled_from("ab-=/.,:0 \t'\"\\é漢"), max_size=40)


@given(PLAIN)
@settings(max_examples=300, deadline=None)
def test_agrees_with_shlex_where_a_shell_adds_nothing(text: str) -> None:
    try:
        expected = shlex.split(text, posix=True)
    except ValueError as error:
        if "escaped" in str(error):
            return  # a backslash at the very end: a continuation here
        with pytest.raises(InputError):
            shell.commands(source(text))
        return
    found = run(text)
    words = found[0] if found else []
    # NAME=value alone is an assignment to a shell, and a word to shlex
    if not (found == [] and expected and all("=" in word for word in expected)):
        assert words == expected


@given(
    st.text(st.sampled_from("ab \n\t\r'\"\\$`;&|<>(){}#=:-+?!*x0é\x00"), max_size=60) | st.text(max_size=60)
)
@settings(max_examples=400, deadline=None)
def test_any_text_gives_words_or_one_clear_error(text: str) -> None:
    for read in (lambda: shell.commands(source(text)), lambda: shell.words(source(text))):
        try:
            read()
        except PreopError as error:
            assert str(error)
