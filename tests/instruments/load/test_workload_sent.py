"""What a server gets from a run: the flags of the workload, through the instrument and over the wire."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from wire.servers import Seen, playing, sse

from load.measuring import job, measured
from preop import cli
from preop.errors import InputError, UsageError
from preop.evidence import Load
from preop.inputs import Inputs
from preop.instruments.load import LOAD
from preop.instruments.load.options import options_of

SALT = re.compile(r"^\[[0-9a-f]{12}\] ")


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def _answer(prompt_tokens: int) -> list[Any]:
    return sse(
        _event({"choices": [{"index": 0, "delta": {"content": 'live "1"\n'}}]}),
        _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        _event({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 4}})
        + b"data: [DONE]\n\n",
        pause=0.001,
    )


@contextmanager
def engine() -> Iterator[Seen]:
    """The two requests of the warm-up have lengths of their own, which make a line."""
    with playing(_answer(28), _answer(251), _answer(60), keep=True) as seen:
        yield seen


@dataclass
class Sent:
    """What the server got after the warm-up."""

    load: Load
    bodies: list[dict[str, Any]]

    @property
    def texts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.bodies]


def run(prompts: Path | None = None, **options: object) -> Sent:
    inputs = Inputs(prompts=str(prompts)) if prompts else None
    with engine() as seen:
        load = measured(seen.url, inputs, **{"model": "m", "requests": 12, "concurrency": [2], **options})
    posted = [request.partition(b"\r\n\r\n")[2] for request in seen.requests if b"/chat/" in request[:60]]
    return Sent(load, [json.loads(body) for body in posted[2:]])


def written(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "p.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


OPEN: dict[str, object] = {"rate": "80", "duration_s": 0.2, "concurrency": None, "requests": None}
CHAT = {
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "recorded"},
        {"role": "user", "content": "two"},
    ]
}


def test_no_two_requests_of_a_run_are_equal_unless_hits_are_meant(tmp_path: Path) -> None:
    path = written(tmp_path, {"prompt": "a"}, {"prompt": "b"})
    each: list[dict[str, object]] = [{"concurrency": [1, 2, 4]}, OPEN]
    for options in each:
        texts = run(path, **options).texts
        assert len(set(texts)) == len(texts) > 12 and all(SALT.match(text) for text in texts)
        assert {SALT.sub("", text) for text in texts} == {"a", "b"}
    assert set(run(path, cache_hits=True).texts) == {"a", "b"}


def test_recorded_conversations_go_on_with_the_live_answers(tmp_path: Path) -> None:
    sent = run(written(tmp_path, CHAT), turns="recorded")
    counted = Counter(len(body["messages"]) for body in sent.bodies)
    assert set(counted) == {2, 4} and counted[2] - counted[4] in (0, 1, 2)
    by_salt = defaultdict(list)
    for body in sent.bodies:
        salt, _, text = body["messages"][1]["content"].partition(" ")
        assert text == "one"
        by_salt[salt].append(body["messages"])
    for requests in by_salt.values():
        assert len(requests) <= 2
        for first, second in pairwise(requests):
            live = {"role": "assistant", "content": 'live "1"\n'}
            assert second == [*first, live, {"role": "user", "content": "two"}]


@pytest.mark.parametrize("options", [{}, OPEN])
def test_a_recorded_chat_is_sent_whole_where_nobody_asks_for_turns(
    tmp_path: Path, options: dict[str, object]
) -> None:
    sent = run(written(tmp_path, CHAT), **options)
    for body in sent.bodies:
        said = [SALT.sub("", message["content"]) for message in body["messages"]]
        assert said == ["s", "one", "recorded", "two"]
    assert "1 of them chats sent as one request" in sent.load.notes[0]


def test_synthetic_conversations_grow() -> None:
    sent = run(turns="3", prompt_tokens=40)
    counted = Counter(len(body["messages"]) for body in sent.bodies)
    assert set(counted) == {1, 3, 5} and max(counted.values()) - min(counted.values()) <= 2


def test_a_shared_prefix_is_another_one_with_each_level() -> None:
    sent = run(concurrency=[1, 2], prompt_tokens=60, shared_prefix_tokens=50)
    prefixes = [body["messages"][0]["content"] for body in sent.bodies]
    assert {body["messages"][0]["role"] for body in sent.bodies} == {"system"}
    first, second = dict.fromkeys(prefixes)  # in their order
    assert prefixes == [first] * prefixes.count(first) + [second] * prefixes.count(second)
    assert len(set(sent.texts)) == len(sent.texts)


def test_adapters_come_in_turn() -> None:
    sent = run(adapters="a, b,c", concurrency=[1])
    models = [body["model"] for body in sent.bodies]
    assert models == (["a", "b", "c"] * len(models))[: len(models)]


def test_answers_end_by_themselves() -> None:
    sent = run(natural_end=True)
    assert sent.bodies and not any("max_tokens" in body or "ignore_eos" in body for body in sent.bodies)
    assert "answers end by themselves" in sent.load.notes[0]
    # The first answers of a level are of different lengths, the others as asked.
    lengths = Counter(body["max_tokens"] for body in run(output_tokens=10).bodies)
    assert lengths.most_common(1)[0][0] == 10 and set(lengths) <= {5, 10}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"turns": "2", "rate": "5"}, "--turns goes with levels of concurrency"),
        ({"turns": "recorded", "trace": "t.csv"}, "--turns goes with levels of concurrency"),
        ({"turns": "recorded"}, "--turns recorded goes with --prompts"),
        ({"turns": "many"}, "--turns many: expected a number of turns, or recorded"),
        ({"turns": "0"}, "--turns: 0 is not"),
        ({"turns": "9" * 9_000}, "--turns 9+: expected"),
        ({"turns": "²"}, "--turns ²: expected"),
        ({"natural_end": True, "output_tokens": 9}, "--natural-end and --output-tokens"),
        ({"natural_end": True, "budget": "60s,1Mtok"}, "--natural-end: a budget of tokens"),
        ({"adapters": "a,,b"}, "--adapters: a name is empty"),
        ({"prefix_groups": 3}, "--prefix-groups goes with --shared-prefix$"),
        ({"prompt_tokens_stdev": 3}, "--prompt-tokens-stdev goes with --prompt-tokens$"),
        ({"prompt_tokens": 3.5}, "--prompt-tokens: 3.5 is not a whole number"),
    ],
)
def test_flags_that_do_not_go_together(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        options_of(job("http://127.0.0.1:1", options))


@pytest.mark.parametrize(
    "arguments",
    ["--turns 2 --rate 5", "--turns many", "--natural-end --output-tokens 9", "--adapters a,,b", "--turns 0"],
)
def test_a_wrong_call_is_said_before_anything_is_read(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine() as seen:
        with pytest.raises(SystemExit) as left:
            cli.main(["measure", "load", "--endpoint", seen.url, *arguments.split()])
        said = capsys.readouterr()
        assert (left.value.code, said.out) == (2, "") and said.err.startswith("preop: --")
        assert seen.requests == []


def test_prompts_that_cannot_be_read_put_no_load_on_anything(tmp_path: Path) -> None:
    with engine() as seen:
        with pytest.raises(InputError, match=r"p\.jsonl:2: not JSON"):
            path = tmp_path / "p.jsonl"
            path.write_text('{"prompt": "a"}\n{"prompt": ')
            LOAD.run(job(seen.url, inputs=Inputs(prompts=str(path))))
        assert seen.requests == []
