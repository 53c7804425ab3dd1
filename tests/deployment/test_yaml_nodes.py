"""YAML as nodes with places."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.deployment.yaml_nodes import Map, Scalar, Seq, load, to_python
from preop.errors import InputError, PreopError


def test_each_value_knows_its_line_and_column() -> None:
    (document,) = load("a:\n  - b: c\n    d: 'e'\n", "f.yml")
    assert isinstance(document, Map)
    items = document.get("a")
    assert isinstance(items, Seq)
    entry = items.items[0]
    assert isinstance(entry, Map)
    assert [entry.entries[key][1].where for key in ("b", "d")] == ["f.yml:2:8", "f.yml:3:8"]


def test_merge_keys_give_way_to_what_is_written_beside_them() -> None:
    (document,) = load("x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], a: 0}\n", "f")
    assert to_python(document)["z"] == {"a": 0, "b": 2, "c": 4}


def test_a_reset_value_is_none() -> None:
    (document,) = load("a: !reset null\nb: 1\n", "f")
    assert isinstance(document, Map)
    assert document.get("a") is None
    assert to_python(document) == {"b": 1}


def test_several_documents() -> None:
    assert [to_python(node) for node in load("a: 1\n---\n---\nb: 2\n", "f")] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", r"f:3:1: key 'a' is there twice \(first in line 1\)"),
        ("a: [1, 2", "f:2:1: not valid YAML"),
        ("a: b: c", "f:1:5: not valid YAML"),
        ("a: *b", r"f:1:4: alias \*b has no anchor"),
        ("&a [*a]", r"alias \*a has no anchor"),
        ("!!python/object/apply:os.system ['true']", "tag .* is not read"),
        ("a: !Ref b", "tag '!Ref' is not read"),
        ("[a]: b", "a key that is a list"),
        ("a: \x01", "not valid YAML"),
        ("a: {<<: [1]}", "merges something that is no mapping"),
        ("[" * 100 + "]" * 100, "nested deeper"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(text, "f")


def bomb(width: int, depth: int) -> str:
    lines = ["a0: &a0 [" + ",".join("x" * width) + "]"]
    lines += [f"a{i}: &a{i} [" + ",".join([f"*a{i - 1}"] * width) + "]" for i in range(1, depth)]
    return "\n".join(lines)


@pytest.mark.parametrize("text", [bomb(9, 30), "[" * 100_000, "{a: " * 100_000, bomb(2, 300)])
def test_bombs_end_at_once(text: str) -> None:
    start = time.monotonic()
    with pytest.raises(InputError):
        load(text, "f")
    assert time.monotonic() - start < 2


@given(st.text(max_size=80) | st.text(st.sampled_from("ab:-[]{}&*!|>'\"%@`#,? \n\t<1"), max_size=60))
@settings(max_examples=400, deadline=None)
def test_any_text_gives_nodes_or_one_clear_error(text: str) -> None:
    try:
        for node in load(text, "f"):
            to_python(node)
    except PreopError as error:
        assert str(error).startswith("f")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcxyz", min_size=2, max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_agrees_with_pyyaml_on_what_pyyaml_writes(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    nodes = load(text, "f")
    expected = yaml.safe_load(text)
    assert [to_python(node) for node in nodes] == ([] if expected is None else [expected])


def test_a_scalar_keeps_its_text_as_written() -> None:
    (document,) = load("a: 010\nb: yes\n", "f")
    assert isinstance(document, Map)
    assert [node.text for _, node in document.items() if isinstance(node, Scalar)] == ["010", "yes"]
