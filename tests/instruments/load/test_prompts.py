"""Reading prompts."""

from __future__ import annotations

import base64
import builtins
import contextlib
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import InputError
from preop.instruments.prompts import (
    BUILT_IN,
    Prompt,
    Text,
    built_in,
    of_length,
    read_prompt_file,
    read_prompts,
    salted,
    texts,
)

DATA = Path(__file__).parents[2] / "data" / "prompts"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def written(folder: Path, content: bytes, name: str = "p.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def only(folder: Path, record: dict[str, Any]) -> Prompt:
    (prompt,) = read_prompt_file(written(folder, json.dumps(record).encode())).prompts
    return prompt


def asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


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
        (b'{"messages": [{"role": "user", "content": ["x"]}]}', ":1: `messages` has a part"),
        (b'\x89PNG\r\n\x1a\n', ":1: not UTF-8"),
        (b"[" * 100_000, ":1: not JSON"),
        (b'{"a":' * 100_000, ":1: not JSON"),
        (b'{"prompt": "a", "temperature": NaN}', ":1: not JSON: NaN is no number"),
        (b'{"prompt": "a", "temperature": 1e999}', ":1: not JSON: 1e999 is no number"),
        (b'{"prompt": "a", "max_tokens": 0}', ":1: `max_tokens` is '0'"),
        (b'{"prompt": "a", "output_tokens": 1.5}', ":1: `output_tokens` is '1.5'"),
        (b'{"prompt": "a", "output_tokens": true}', ":1: `output_tokens` is 'True'"),
        (b'{"prompt": "a", "model": 3}', ":1: `model` is '3'"),
        (b'{"prompt": "a", "tools": "x"}', ":1: `tools` is not what"),
        (b'\n[{"prompt": "a"},\n\n {"prompt": 3}]', ":4: `prompt` is not a text"),
        (b'[{"prompt": "a"},\n {"prompt": }]', ":2: not JSON"),
        (b'[{"prompt": "a"},\n', ":1: not JSON"),
        (b'[{"prompt": "a"}]\n[{"prompt": "b"}]', ":2: not JSON"),
        (b'[{"prompt": "a"},\n {"prompt": "\xff"}]', ":2: not UTF-8"),
        (b'["a"]', ":1: not a JSON object"),
        (b'{\n  "prompt": "a"\n}\n', ":1: not JSON; .* on one line"),
        (b'\xff\xfe{\x00\n\x00\x00\xd8', ":2: not UTF-16 text"),
        (b'{"conversations": [{"from": "martian", "value": "x"}]}', ":1: `conversations` has a turn"),
        (b'{"conversations": [{"from": "human", "value": 3}]}', ":1: `conversations` has a turn"),
        (b'{"conversations": []}', "no prompt"),
        (b'{"body": {"input": "embed me"}}', ":1: neither"),
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
    with pytest.raises(InputError, match="cannot be read"):
        read_prompts("a\0b")
    with pytest.raises(InputError, match="not a regular file"):
        read_prompts("/dev/zero")


def test_a_line_that_is_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=":2: this line is longer than 16 MiB"):
        read_prompts(written(tmp_path, b'{"prompt": "a"}\n{"prompt": "' + b"x" * (17 << 20) + b'"}'))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_encodings(tmp_path: Path, encoding: str) -> None:
    text = '{"prompt": "Größe"}\n{"prompt": "世界 \u2028 😀"}\n'
    assert texts(read_prompts(written(tmp_path, text.encode(encoding)))) == ["Größe", "世界 \u2028 😀"]


# The forms, by the examples of their own public documentation.


def test_the_batch_file_of_the_openai_api(tmp_path: Path) -> None:
    """platform.openai.com, Batch API: the request input object."""
    content = (
        b'{"custom_id": "request-1", "method": "POST", "url": "/v1/chat/completions", "body": '
        b'{"model": "gpt-3.5-turbo-0125", "messages": [{"role": "system", "content": '
        b'"You are a helpful assistant."},{"role": "user", "content": "Hello world!"}],"max_tokens": 1000}}\n'
        b'{"custom_id": "request-2", "method": "POST", "url": "/v1/chat/completions", "body": '
        b'{"model": "gpt-3.5-turbo-0125", "messages": [{"role": "system", "content": '
        b'"You are an unhelpful assistant."},{"role": "user", "content": "Hello world!"}],'
        b'"max_tokens": 1000}}\n'
    )
    one, two = read_prompt_file(written(tmp_path, content)).prompts
    assert one == Prompt(
        [{"role": "system", "content": "You are a helpful assistant."}, *asked("Hello world!")],
        output_tokens=1000,
        model="gpt-3.5-turbo-0125",
        whole=True,
    )
    assert two.messages[0]["content"] == "You are an unhelpful assistant."


def test_the_custom_data_set_of_vllm_bench(tmp_path: Path) -> None:
    """docs.vllm.ai, CustomDataset."""
    content = (
        b'{"prompt": "What is the capital of India?", "output_tokens": 10}\n'
        b'{"prompt": "What is the capital of Iran?", "output_tokens": 1520}\n'
        b'{"prompt": "What is the capital of China?", "output_tokens": 819}\n'
    )
    prompts = read_prompt_file(written(tmp_path, content)).prompts
    assert [prompt.output_tokens for prompt in prompts] == [10, 1520, 819]
    assert prompts[1].messages == asked("What is the capital of Iran?")


def test_sharegpt(tmp_path: Path) -> None:
    """Its public file is one JSON array: conversations are cut in parts, and some have nothing in them."""
    content = [
        {
            "id": "a_0",
            "model": "GPT-4",
            "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}],
        },
        {"id": "a_1", "conversations": []},
        {
            "id": "a_2",
            "conversations": [{"from": "gpt", "value": "cut"}, {"from": "human", "value": "Go on"}],
        },
        {"id": "a_3", "conversations": [{"from": "gpt", "value": "alone"}]},
        {"id": "a_4", "conversations": [{"from": "system", "value": "s"}, {"from": "user", "value": "u"}]},
    ]
    file = read_prompt_file(written(tmp_path, json.dumps(content, indent=1).encode(), "sharegpt.json"))
    assert (file.form, file.left_out) == ("a JSON array", 2)
    assert [prompt.messages for prompt in file.prompts] == [
        [*asked("Hi"), {"role": "assistant", "content": "Hello"}],
        asked("Go on"),
        [{"role": "system", "content": "s"}, *asked("u")],
    ]
    assert file.prompts[0].model is None  # who answered then is not who is asked now


def test_openai_messages_with_tools_and_history(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    messages = [
        *asked("Weather?"),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function"}]},
        {"role": "tool", "tool_call_id": "c", "content": "sunny"},
    ]
    prompt = only(tmp_path, {"messages": messages, "tools": tools, "model": "lora-1", "user": None})
    assert (prompt.messages, prompt.settings, prompt.model) == (messages, {"tools": tools}, "lora-1")


def test_a_system_prompt_beside_the_prompt(tmp_path: Path) -> None:
    prompt = only(tmp_path, {"system": "Be brief.", "prompt": "Hi"})
    assert prompt.messages == [{"role": "system", "content": "Be brief."}, *asked("Hi")]


# CSV.


@pytest.mark.parametrize(("name", "separator"), [("p.csv", ","), ("p.tsv", "\t"), ("p.csv", ";"), ("p", ",")])
def test_csv(tmp_path: Path, name: str, separator: str) -> None:
    text = io.StringIO()
    rows = csv.writer(text, delimiter=separator)
    rows.writerow(["id", "Prompt", "max_tokens"])
    rows.writerow(["1", 'two\nlines, a "quote"; a\ttab', "12"])
    rows.writerow(["2", "b", ""])
    file = read_prompt_file(written(tmp_path, b"\xef\xbb\xbf" + text.getvalue().encode(), name))
    assert file.form == "CSV"
    assert file.prompts == [Prompt(asked('two\nlines, a "quote"; a\ttab'), 12), Prompt(asked("b"))]


def test_csv_with_chats_in_its_cells(tmp_path: Path) -> None:
    chat = json.dumps(asked("Hi")).replace('"', '""')
    (prompt,) = read_prompt_file(written(tmp_path, f'messages\n"{chat}"\n'.encode(), "p.csv")).prompts
    assert prompt.messages == asked("Hi")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,question\n1,a\n", ":1: no column of this header"),
        ("id,prompt\n1,a\n2,b, c\n", ":3: 3 cells where the header has 2"),
        ('id,prompt\n1,"a\n2,b\n', "is no CSV"),
        ('id,prompt\n1,"a\nb"\n2,\n', ":4: neither"),
        ("messages\n[{]\n", ":2: `messages`: not JSON"),
        ("prompt,max_tokens\na,nan\n", ":2: `max_tokens` is 'nan'"),
        ("prompt\n", "no prompt"),
        ("prompt\n" + "x" * (17 << 20), ":2: is no CSV: field larger"),
    ],
)
def test_what_is_no_csv(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_prompts(written(tmp_path, content.encode(), "p.csv"))


def test_csv_that_is_not_utf_8(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=":3: not UTF-8"):
        read_prompts(written(tmp_path, "prompt\na\nGröße\n".encode("cp1252"), "p.csv"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1), min_size=1))
def test_csv_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[str]
) -> None:
    prompts = [prompt for prompt in prompts if prompt.strip()]
    text = io.StringIO()
    rows = csv.writer(text, quoting=csv.QUOTE_ALL)
    rows.writerows([["prompt"], *([prompt] for prompt in prompts)])
    path = written(tmp_path_factory.getbasetemp(), text.getvalue().encode(), "round.csv")
    if prompts:
        assert read_prompts(path) == [asked(prompt) for prompt in prompts]


# Parquet, from files that another writer made (pyarrow 26.0.1, zstd and snappy).


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    data = (DATA / "conversations.parquet").read_bytes()
    path = written(tmp_path, data, "a[1]*?.bin")  # told by its content; its name is no pattern
    written(tmp_path, b"PAR1", "a1x.bin")
    file = read_prompt_file(path)
    assert (file.form, len(file.prompts)) == ("Parquet", 3)
    assert file.prompts[0].messages == [
        *asked("What is 2+2?"),
        {"role": "assistant", "content": "4"},
        *asked("And 3+3?"),
        {"role": "assistant", "content": "6"},
    ]
    assert file.prompts[1].messages == asked("Grüße, 世界 \u2028 😀")
    assert [prompt.output_tokens for prompt in file.prompts] == [16, None, 7]


def test_what_is_no_parquet(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    with pytest.raises(InputError, match="row 3: neither"):
        read_prompts(DATA / "null_prompt.parquet")
    with pytest.raises(InputError, match="is no Parquet file that can be read"):
        read_prompts(written(tmp_path, b"PAR1" + b"a" * 100 + b"PAR1"))
    with pytest.raises(InputError, match="does not begin with PAR1"):
        read_prompts(written(tmp_path, b'{"prompt": "a"}', "p.parquet"))


def test_parquet_without_its_reader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match="install duckdb"):
        read_prompts(DATA / "conversations.parquet")


# Images.


@pytest.mark.parametrize("url", ["pixel.png", "file://{folder}/pixel.png", "{folder}/pixel.png"])
def test_an_image_file_becomes_a_data_url(tmp_path: Path, url: str) -> None:
    (tmp_path / "pixel.png").write_bytes(PIXEL)
    url = url.format(folder=tmp_path)
    parts = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": url}}]
    content = only(tmp_path, {"messages": [{"role": "user", "content": parts}]}).messages[0]["content"]
    head, _, data = content[1]["image_url"]["url"].partition(",")
    assert (head, base64.b64decode(data)) == ("data:image/png;base64", PIXEL)
    assert content[0] == parts[0]


@pytest.mark.parametrize("url", ["https://example.com/a.png", "data:image/png;base64,AAAA"])
def test_an_image_url_stays_as_it_is(tmp_path: Path, url: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    prompt = only(tmp_path, {"messages": [{"role": "user", "content": [part]}]})
    assert prompt.messages[0]["content"] == [part]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("none.png", ":2: the image 'none.png' is not there"),
        ("/etc/hosts", ":2: the image '/etc/hosts' is no PNG"),
        ("/dev/zero", ":2: the image '/dev/zero' is not there, or no regular file"),
        ("x" * 5000, ":2: the image 'x+' (is not there|cannot be read)"),
        ("a\0b", ":2: the image"),
        ("", ":2: `messages` has an image without a url"),
        (3, ":2: `messages` has an image without a url"),
    ],
)
def test_an_image_that_cannot_be_sent(tmp_path: Path, url: object, message: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}
    record = {"messages": [{"role": "user", "content": [part]}]}
    with pytest.raises(InputError, match=message):
        read_prompts(written(tmp_path, b'{"prompt": "a"}\n' + json.dumps(record).encode()))


# Any bytes are prompts or an InputError.

_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "from", "value", "type", "text", "image_url", "url", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
_RECORD = st.dictionaries(
    st.sampled_from(
        ["prompt", "text", "messages", "conversations", "body", "model", "max_tokens", "tools", "system"]
    ),
    _JSON,
    max_size=4,
)
_NAMES = st.sampled_from(["p.jsonl", "p.json", "p.csv", "p.tsv", "p"])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), _NAMES)
def test_any_bytes_are_prompts_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    with contextlib.suppress(InputError):
        assert read_prompts(written(tmp_path_factory.getbasetemp(), content, name))


@settings(max_examples=150, deadline=None)
@given(st.lists(_RECORD, min_size=1, max_size=3), st.booleans())
def test_any_records_are_prompts_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], as_lines: bool
) -> None:
    content = "\n".join(map(json.dumps, records)) if as_lines else json.dumps(records)
    with contextlib.suppress(InputError):
        for prompt in read_prompt_file(written(tmp_path_factory.getbasetemp(), content.encode())).prompts:
            assert prompt.messages
            json.dumps((prompt.messages, prompt.settings), allow_nan=False)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["prompt", "text", "messages", "conversations"]), st.text(max_size=80), _NAMES)
def test_any_text_below_a_header_is_prompts_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, column: str, text: str, name: str
) -> None:
    content = f"{column},max_tokens\n{text}".encode("utf-8", "surrogatepass")
    with contextlib.suppress(InputError):
        assert read_prompts(written(tmp_path_factory.getbasetemp(), content, name))


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 2331), st.binary(max_size=6), st.integers(0, 6))
def test_a_broken_parquet_file_is_prompts_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, put: bytes, out: int
) -> None:
    pytest.importorskip("duckdb")
    data = (DATA / "conversations.parquet").read_bytes()
    broken = data[:at] + put + data[at + out :]
    with contextlib.suppress(InputError):
        assert read_prompts(written(tmp_path_factory.getbasetemp(), broken, "p.parquet"))


def test_deeply_nested_tools_are_an_input_error_at_most(tmp_path: Path) -> None:
    for depth in (300, 900, 990, 3000):
        content = b'{"prompt": "a", "tools": ' + b"[" * depth + b"]" * depth + b"}"
        with contextlib.suppress(InputError):
            read_prompts(written(tmp_path, content))


# Salts and lengths.


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


def test_a_text_of_any_length_is_the_built_in_ones_in_a_row() -> None:
    row = " ".join(BUILT_IN).split()
    text = Text()
    for start in range(len(BUILT_IN) + 1):
        first = len(" ".join(BUILT_IN[: start % len(BUILT_IN)]).split())
        for words in (1, 15, 231, 232, 500):
            expected = " ".join((row * 4)[first : first + words])
            assert json.loads(b'"' + text.take(words, start) + b'"') == expected


@given(st.integers(1, 2000), st.integers(0, 30))
def test_words_and_pieces_are_each_others_inverse(words: int, start: int) -> None:
    text = Text()
    assert text.words(text.pieces(words, start), start) == words
