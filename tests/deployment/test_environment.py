"""Environment files: as compose reads them (Docker's manual, "Interpolation", `.env` file syntax), as
systemd does (systemd.exec(5)), and as `docker run` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.deployment.environment import parse_env
from preop.errors import InputError

from .reading import read_compose, read_file


def values(text: str, *, quotes: bool = True, systemd: bool = False) -> dict[str, str | None]:
    tokens = parse_env(text, ".env", quotes=quotes, systemd=systemd)
    return {name: token.visible for name, token in tokens.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the manual's own examples
        ("VAR=VAL", "VAL"),
        ('VAR="VAL"', "VAL"),
        ("VAR='VAL'", "VAL"),
        ("VAR: VAL", "VAL"),
        ("VAR = VAL  ", "VAL"),
        ("VAR=VAL # comment", "VAL"),
        ("VAR=VAL# not a comment", "VAL# not a comment"),
        ('VAR="VAL # not a comment"', "VAL # not a comment"),
        ('VAR="VAL" # comment', "VAL"),
        ("VAR='Let\\'s go!'", "Let's go!"),
        ('VAR="{\\"hello\\": \\"json\\"}"', '{"hello": "json"}'),
        ('VAR="some\\tvalue"', "some\tvalue"),
        ("VAR='some\\tvalue'", "some\\tvalue"),
        ("VAR='SOME\nVALUE'", "SOME\nVALUE"),
        ('VAR="SOME\nVALUE"', "SOME\nVALUE"),
        # and what follows of them
        ("VAR='a\n# no comment\nOTHER=b\n'", "a\n# no comment\nOTHER=b\n"),
        ('VAR="a \\\\"\nX=1', "a \\"),
        ("VAR='a\\'\nb' # comment", "a'\nb"),
        ("VAR=\nX=1", ""),
        ("VAR=''", ""),
        ("VAR=it's", "it's"),
        ("export VAR=VAL\r\nX=1\r\n", "VAL"),
        ("VAR=1\nVAR=2", "2"),
    ],
)
def test_a_value_is_what_compose_makes_of_it(text: str, expected: str) -> None:
    assert values(text)["VAR"] == expected


def test_what_stands_after_a_value_of_several_lines_is_read_with_its_place() -> None:
    tokens = parse_env("A='1\n2'\n# c\nB=\"x\ny\" # d\n  C=3\n", "f.env", quotes=True)
    assert {name: token.text for name, token in tokens.items()} == {"A": "1\n2", "B": "x\ny", "C": "3"}
    assert [str(token.origin) for token in tokens.values()] == ["f.env:1:1", "f.env:4:1", "f.env:6:3"]


@pytest.mark.parametrize("text", ["A=1\nVAR='a\nb\n", 'A=1\nVAR="a\\"', "A=1\nVAR='"])
def test_a_quote_that_is_never_closed_is_said_with_its_place(text: str) -> None:
    with pytest.raises(InputError, match=r"\.env:2:5: .* is opened and never closed"):
        values(text)


def test_variables_are_put_into_double_quotes_over_several_lines_and_not_into_single_ones() -> None:
    tokens = parse_env("A=x\nD=\"$A\n${A}\"\nS='$A\n'", ".env", quotes=True, variables={})
    assert (tokens["D"].visible, tokens["S"].visible) == ("x\nx", "$A\n")


NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,6}", fullmatch=True)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00\ue000"), max_size=30)


def in_single(value: str) -> str | None:
    """Only a single quote is written otherwise: not every text with a backslash can be."""
    return None if "\\" in value else "'" + value.replace("'", "\\'") + "'"


def in_double(value: str) -> str | None:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@settings(max_examples=150)
@given(st.lists(st.tuples(NAMES, TEXT, st.sampled_from([in_single, in_double])), max_size=5))
def test_what_is_quoted_by_the_rules_comes_back(items: list[tuple[str, str, object]]) -> None:
    lines, expected = [], {}
    for name, value, quote in items:
        quoted = quote(value) if callable(quote) else None
        if quoted is not None:
            lines.append(f"{name}={quoted} # '\" comment")
            expected[name] = value
    assert values('# it\'s a "comment"\n' + "\n".join(lines)) == expected


@settings(max_examples=150)
@given(st.text(max_size=80), st.booleans(), st.booleans())
def test_any_text_is_read_or_refused_in_a_sentence(text: str, quotes: bool, systemd: bool) -> None:
    try:
        found = parse_env(text, "x.env", quotes=quotes, systemd=systemd, variables={"A": "$B"})
    except InputError as error:
        assert str(error).startswith("x.env:")
    else:
        assert all(name and isinstance(token.text, str) for name, token in found.items())


def test_systemd_takes_what_stands_behind_a_value_for_a_part_of_it() -> None:
    text = "A=8192 # no comment\n; comment\nB='x\ny'\nNAME\nC: d\n"
    assert values(text, systemd=True) == {"A": "8192 # no comment", "B": "x\ny"}


def test_docker_run_takes_lines_as_they_stand() -> None:
    assert values("A='x\nB=y' # z\nC\n", quotes=False) == {"A": "'x", "B": "y' # z", "C": None}


def test_a_value_of_several_lines_does_not_make_variables_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY='-----BEGIN-----\nLEN=1\n-----END-----'\nLEN=4096\n")
    text = "services:\n  a:\n    image: vllm/vllm-openai\n    command: --model m --max-model-len ${LEN}\n"
    (found,) = read_compose(tmp_path, text)
    assert found.fact("max_model_len").value == 4096


def test_a_unit_with_a_file_of_several_lines_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text('NOTE="two\nlines"\nLEN=4096\n')
    unit = tmp_path / "a.service"
    unit.write_text(
        f"[Service]\nEnvironmentFile={tmp_path}/x.env\n"
        "ExecStart=/usr/bin/vllm serve m --max-model-len ${LEN}\n"
    )
    (found,) = read_file(unit)
    assert found.fact("max_model_len").value == 4096
