"""Reading prompts."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import InputError
from preop.instruments.prompts import built_in, of_length, read_prompts, salted, texts


def written(folder: Path, content: bytes) -> Path:
    path = folder / "p.jsonl"
    path.write_bytes(content)
    return path


def test_all_forms(tmp_path: Path) -> None:
    content = (
        b'\xef\xbb\xbf{"prompt": "a"}\n\n{"text": "b", "id": 7}\r\n'
        b'{"messages": [{"role": "system", "content": "s"}, '
        b'{"role": "user", "content": [{"type": "text", "text": "c"}]}]}'
    )
    prompts = read_prompts(written(tmp_path, content))
    assert prompts[0] == [{"role": "user", "content": "a"}]
    assert texts(prompts) == ["a", "b", "s", "c"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no prompt"),
        (b"\n \n", "no prompt"),
        (b'{"prompt": "a"}\nnot json\n', ":2: not JSON"),
        (b'{"prompt": "a"}\n["a"]\n', ":2: not a JSON object"),
        (b'{"question": "a"}', ":1: neither"),
        (b'{"prompt": ""}', ":1: `prompt` is not a text"),
        (b'{"messages": []}', ":1: `messages`"),
        (b'{"messages": [{"content": "x"}]}', ":1: `messages`"),
        (b'{"messages": [{"role": "user", "content": 3}]}', ":1: `messages`"),
        (b'\x89PNG\r\n\x1a\n', ":1: not UTF-8"),
        (b"[" * 100_000, ":1: not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_prompt(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_prompts(written(tmp_path, content))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_prompts(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        read_prompts(tmp_path)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_prompts_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    with contextlib.suppress(InputError):
        assert read_prompts(written(tmp_path_factory.getbasetemp(), content))


def test_salt_goes_before_the_first_message_that_is_not_the_systems() -> None:
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert salted(chat, "x") == [chat[0], {"role": "user", "content": "[x] u"}]
    assert chat[1]["content"] == "u"
    assert salted([{"role": "system", "content": "s"}], "x")[-1] == {"role": "user", "content": "[x]"}


def test_built_in_prompts_are_varied_and_of_any_length() -> None:
    assert len({json.dumps(prompt) for prompt in built_in()}) == len(built_in()) >= 10
    for words in (1, 10, 1000):
        assert len(of_length(words)[0]["content"].split()) == words
    assert of_length(50, 0) != of_length(50, 1)
