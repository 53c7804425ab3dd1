"""What is sent: bodies against what `chat_body` makes of the same messages, salts, lengths, conversations."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire.pacers import pacing

from preop.errors import InputError, InstrumentError, UsageError
from preop.instruments.load.closed import Limits, Session, run_level
from preop.instruments.load.workload import Workload, WorkloadOptions, workload_of
from preop.instruments.prompts import ROUND, Text, of_length, salted
from preop.instruments.types import Access
from preop.instruments.wire.ask import Asker
from preop.instruments.wire.chat import ChatStream, chat_body, parse_chat
from preop.instruments.wire.client import Target, run_loop

SALT = re.compile(r"^\[[0-9a-f]{12}\] ")
POINTS = [(8, 8 + 20), (ROUND, ROUND + 20)]


def workload(
    path: Path | None = None,
    points: list[tuple[int, int]] = POINTS,
    ignore_eos: bool = False,
    output_tokens: int | None = 64,
    **options: Any,
) -> Workload:
    path_text = None if path is None else str(path)
    return workload_of(WorkloadOptions(output_tokens, **options), path_text, "m", ignore_eos, points)


def prompts(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "p.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def sent(session: Session, output_tokens: int = 64) -> dict[str, Any]:
    body = session.next(output_tokens)
    assert body is not None
    decoded = json.loads(body.decode("utf-8"), parse_constant=pytest.fail)
    assert isinstance(decoded, dict)
    return decoded


def bodies(work: Workload, count: int, output_tokens: int = 64) -> list[dict[str, Any]]:
    return [sent(work.session(), output_tokens) for _ in range(count)]


def unsalted(text: str) -> str:
    assert SALT.match(text), text
    return SALT.sub("", text)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_a_body_is_what_chat_body_makes(tmp_path: Path) -> None:
    path = prompts(tmp_path, {"prompt": 'Où? \u2028 😀 "quoted" \\ \x00'})
    for ignore_eos in (False, True):
        body = sent(workload(path, ignore_eos=ignore_eos).session(), 7)
        salt = body["messages"][0]["content"][1:13]
        messages = salted([user('Où? \u2028 😀 "quoted" \\ \x00')], salt)
        assert body == json.loads(chat_body("m", messages, 7, ignore_eos=ignore_eos))


def test_a_session_of_one_request_is_over_after_it() -> None:
    session = workload().session()
    assert not session.needs_answer
    assert session.next(8) and session.next(8) is None


# Salts.


def test_no_two_requests_of_any_level_begin_alike(tmp_path: Path) -> None:
    path = prompts(tmp_path, {"prompt": "same"})
    for work in (workload(path), workload(prompt_tokens=50), workload()):
        seen: set[str] = set()
        for _ in range(3):
            work.new_level()
            seen |= {body["messages"][0]["content"][:6] for body in bodies(work, 300)}
        assert len(seen) > 890  # of 900, by five random hex digits and a bracket


def test_salts_are_all_different_over_many_requests() -> None:
    work = workload()
    salts = {(work.session().next(1) or b"")[43:55] for _ in range(200_000)}
    assert len(salts) == 200_000


def test_clients_of_one_run_share_the_prompts_and_no_salt(tmp_path: Path) -> None:
    path = prompts(tmp_path, *({"prompt": f"p{number}"} for number in range(60)))
    clients = [
        workload(path, seed=5, client=client, clients=3, shared_prefix_tokens=9) for client in range(3)
    ]
    for work in clients:
        work.new_level()
    said = [body["messages"] for work in clients for body in bodies(work, 20)]
    assert len({messages[1]["content"] for messages in said}) == 60
    assert {unsalted(messages[1]["content"]) for messages in said} == {f"p{number}" for number in range(60)}
    assert len({messages[0]["content"] for messages in said}) == 1


def test_each_level_sends_the_same_prompts_in_a_mixed_order(tmp_path: Path) -> None:
    path = prompts(tmp_path, *({"prompt": f"p{number}"} for number in range(100)))
    work = workload(path)
    levels = []
    for _ in range(2):
        work.new_level()
        levels.append([unsalted(body["messages"][0]["content"]) for body in bodies(work, 20)])
    assert levels[0] == levels[1]
    numbers = [int(text[1:]) for text in levels[0]]
    assert numbers != sorted(numbers) and max(numbers) > 60


def test_with_cache_hits_prompts_repeat_as_they_are_in_the_file(tmp_path: Path) -> None:
    path = prompts(tmp_path, *({"prompt": f"p{number}"} for number in range(5)))
    work = workload(path, cache_hits=True, shared_prefix_tokens=10)
    said = [body["messages"] for body in bodies(work, 3)]
    work.new_level()
    said += [body["messages"] for body in bodies(work, 4)]
    assert [messages[1]["content"] for messages in said] == ["p0", "p1", "p2", "p3", "p4", "p0", "p1"]
    assert len({messages[0]["content"] for messages in said}) == 1
    assert "no salt" in work.describe()


def test_a_system_prompt_of_the_users_stays_shared(tmp_path: Path) -> None:
    record = {"messages": [{"role": "system", "content": "Be brief."}, user("a")]}
    work = workload(prompts(tmp_path, record))
    first, second = bodies(work, 2)
    assert first["messages"][0] == second["messages"][0] == record["messages"][0]
    assert first["messages"][1] != second["messages"][1]


# Shared prefixes.


def test_a_shared_prefix_is_new_at_each_level() -> None:
    work = workload(prompt_tokens=60, shared_prefix_tokens=50)
    systems = []
    for _ in range(3):
        work.new_level()
        messages = [body["messages"] for body in bodies(work, 10)]
        assert {each[0]["role"] for each in messages} == {"system"}
        (prefix,) = {each[0]["content"] for each in messages}
        assert len({each[1]["content"] for each in messages}) == 10
        systems.append(prefix)
    assert len({prefix[:5] for prefix in systems}) == 3
    assert 40 < len(systems[0].split()) < 60


def test_groups_have_prefixes_of_their_own() -> None:
    for hits in (False, True):
        work = workload(shared_prefix_tokens=30, prefix_groups=4, cache_hits=hits)
        counted = Counter(body["messages"][0]["content"] for body in bodies(work, 40))
        assert sorted(counted.values()) == [10] * 4


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("content", ["own", [{"type": "text", "text": "own"}]])
def test_a_shared_prefix_goes_into_the_system_prompt_that_is_there(
    tmp_path: Path, role: str, content: object
) -> None:
    path = prompts(tmp_path, {"messages": [{"role": role, "content": content}, user("a")]})
    one, two = (body["messages"] for body in bodies(workload(path, shared_prefix_tokens=20), 2))
    assert len(one) == 2 and one[0] == two[0] and one[0]["role"] == role
    said = one[0]["content"]
    prefix, own = said.split("\n\n") if isinstance(said, str) else (part["text"] for part in said)
    assert SALT.match(prefix.replace(" 0]", "]")) and own == "own"
    assert unsalted(one[1]["content"]) == "a"


# Lengths.


def pieces(messages: list[dict[str, Any]]) -> int:
    """The tokens of a tokenizer that makes one of each piece of `Text`, with 20 around a prompt."""
    text = Text()
    words = len(unsalted(messages[-1]["content"]).split())
    start = next(
        start for start in range(12) if of_length(words, start) == [user(unsalted(messages[-1]["content"]))]
    )
    return 20 + text.pieces(words, start)


def test_synthetic_prompts_have_the_length_that_is_asked_for() -> None:
    text = Text()
    points = [(words, 20 + text.pieces(words)) for words in (8, ROUND)]
    for tokens in (25, 64, 512, 5_000):
        work = workload(prompt_tokens=tokens, points=points)
        for body in bodies(work, 24):
            assert abs(pieces(body["messages"]) - tokens) <= 2  # a word is at most a few pieces


def test_a_length_below_the_templates_own_is_one_word() -> None:
    (body,) = bodies(workload(prompt_tokens=1), 1)
    assert len(unsalted(body["messages"][0]["content"]).split()) == 1


def test_lengths_vary_as_asked() -> None:
    points = [(words, 20 + Text().pieces(words)) for words in (8, ROUND)]
    work = workload(prompt_tokens=400, prompt_tokens_stdev=200, points=points)
    lengths = [pieces(body["messages"]) for body in bodies(work, 256)]
    assert mean(lengths) == pytest.approx(400, rel=0.02)
    assert pstdev(lengths) == pytest.approx(200, rel=0.05)
    assert mean(lengths[:32]) == pytest.approx(400, rel=0.25)  # mixed: no start of short ones only
    # Log-normal: the median is m / sqrt(1 + (sd/m)^2).
    assert sorted(lengths)[128] == pytest.approx(400 / 1.25**0.5, rel=0.03)


def test_a_session_can_have_a_length_of_its_own() -> None:
    points = [(words, 20 + Text().pieces(words)) for words in (8, ROUND)]
    work = workload(prompt_tokens=400, points=points)
    assert abs(pieces(sent(work.session(prompt_tokens=100))["messages"]) - 100) <= 2


@pytest.mark.parametrize(
    "points", [[], [(8, 20)], [(8, 20), (8, 20)], [(8, 20), (231, 20)], [(8, 30), (231, 9)]]
)
def test_without_a_line_no_length_can_be_met(points: list[tuple[int, int]]) -> None:
    each: list[dict[str, Any]] = [{"prompt_tokens": 100}, {"shared_prefix_tokens": 100}]
    for options in each:
        with pytest.raises(InstrumentError, match=r"usage|no more prompt tokens"):
            workload(points=points, **options)
    assert bodies(workload(points=points), 1)  # the built-in prompts need none


# Conversations.

CALL = {**assistant("b"), "tool_calls": [{"id": "1", "type": "function"}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "result"}


def test_a_recorded_conversation_is_held_again_with_the_live_answers(tmp_path: Path) -> None:
    record = {
        "conversations": [
            {"from": "system", "value": "s"},
            {"from": "human", "value": "one"},
            {"from": "gpt", "value": "recorded 1"},
            {"from": "human", "value": "two"},
            {"from": "gpt", "value": "recorded 2"},
        ]
    }
    work = workload(prompts(tmp_path, record), turns="recorded")
    session = work.session()
    assert session.needs_answer
    first = sent(session)["messages"]
    assert first[0] == {"role": "system", "content": "s"} and unsalted(first[1]["content"]) == "one"
    session.answered('live "1" \ud800 \n')
    assert sent(session)["messages"] == [*first, assistant('live "1" ? \n'), user("two")]
    session.answered("live 2")
    assert session.next(64) is None
    assert "1 of them conversations" in work.describe() and "2.0 turns" in work.describe()


def test_history_grows_turn_by_turn() -> None:
    each: list[dict[str, Any]] = [{"turns": 5}, {"turns": 5, "prompt_tokens": 60}]
    for options in each:
        work = workload(**options)
        session = work.session()
        history: list[dict[str, Any]] = []
        for turn in range(5):
            messages = sent(session)["messages"]
            assert messages[:-1] == history and messages[-1]["role"] == "user"
            history = [*messages, assistant(f"answer {turn}")]
            session.answered(f"answer {turn}")
        assert session.next(64) is None
        said = [each["content"] for each in history if each["role"] == "user"]
        assert len(set(said)) == 5 and not any(SALT.match(text) for text in said[1:])


def test_later_turns_add_the_tokens_that_are_asked_for() -> None:
    text = Text()
    points = [(words, 20 + text.pieces(words)) for words in (8, ROUND)]
    session = workload(prompt_tokens=300, turns=3, points=points).session()
    sent(session)
    session.answered("a")
    words = len(sent(session)["messages"][-1]["content"].split())
    assert min(abs(text.pieces(words, start) - 300) for start in range(12)) <= 2


@pytest.mark.parametrize(
    ("record", "turns", "requests"),
    [
        ({"messages": [user("a"), assistant("b")]}, None, [["a"]]),
        ({"messages": [user("a"), assistant("b")]}, 5, [["a"]]),
        ({"messages": [user("a"), assistant("b"), user("c")]}, "recorded", [["a"], ["a", "live", "c"]]),
        ({"messages": [user("a"), assistant("b"), user("c")]}, 1, [["a"]]),
        ({"messages": [user("a"), assistant("b"), user("c")]}, 5, [["a"], ["a", "live", "c"]]),
        ({"messages": [user("a"), assistant("b"), user("c")]}, None, [["a", "b", "c"]]),
        ({"messages": [user("a"), assistant("b"), user("c"), assistant("d")]}, None, [["a", "b", "c"]]),
        ({"messages": [assistant("hello"), user("a"), user("b")]}, 5, [["hello", "a", "b"]]),
        ({"body": {"messages": [user("a"), assistant("b"), user("c")]}}, 5, [["a", "b", "c"]]),
        ({"messages": [user("a"), CALL, RESULT, assistant("c")]}, 5, [["a", "b", "result"]]),
    ],
)  # fmt: skip
def test_which_chats_are_held_again(
    tmp_path: Path, record: dict[str, Any], turns: object, requests: list[list[str]]
) -> None:
    session = workload(prompts(tmp_path, record), turns=turns).session()
    for expected in requests:
        said = [each["content"] for each in sent(session)["messages"]]
        assert [SALT.sub("", text) for text in said] == expected
        session.answered("live")
    assert session.next(64) is None


@pytest.mark.parametrize(
    "record",
    [
        {"prompt": "a"},
        {"messages": [user("a"), assistant("b")]},
        {"messages": [user("a"), CALL, RESULT, user("c")]},
        {"body": {"messages": [user("a"), assistant("b"), user("c")]}},
    ],
)
def test_conversations_that_are_asked_for_and_not_there(tmp_path: Path, record: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"p\.jsonl: --turns recorded, but no chat in it"):
        workload(prompts(tmp_path, record), turns="recorded")


def test_what_is_done_with_recorded_chats_is_said(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "s"}, user("a"), assistant("b"), user("c")]
    path = prompts(tmp_path, {"messages": chat}, {"prompt": "x"})
    whole = workload(path).describe()
    assert "1 of them chats sent as one request, with the recorded answers" in whole
    assert "1 of them with a system prompt, which stays without a salt" in whole and "live" not in whole
    held = workload(path, turns="recorded").describe()
    assert "1 of them conversations held with live answers" in held and "recorded answers" not in held


# Models, answers, images, settings.


def test_adapters_are_asked_for_in_turn_unless_a_line_names_one(tmp_path: Path) -> None:
    work = workload(adapters=("a", "b", "c"))
    assert [body["model"] for body in bodies(work, 6)] == ["a", "b", "c"] * 2
    own = workload(prompts(tmp_path, {"prompt": "x", "model": "own"}), adapters=("a", "b"))
    assert {body["model"] for body in bodies(own, 4)} == {"own"}
    assert "own" in own.describe() and "a, b" in own.describe()
    assert {body["model"] for body in bodies(workload(), 4)} == {"m"}
    hostile = workload(prompts(tmp_path, {"prompt": "x", "model": "\x1b[31m\n" + "y" * 9_000}))
    assert hostile.describe().isprintable() and len(hostile.describe()) < 1_000


def test_a_conversation_stays_with_its_adapter() -> None:
    session = workload(turns=3, adapters=("a", "b")).session()
    models = []
    for _ in range(3):
        models.append(sent(session)["model"])
        session.answered("x")
    assert models == ["a"] * 3


def test_an_answer_may_end_by_itself() -> None:
    (body,) = bodies(workload(output_tokens=None, ignore_eos=True), 1)
    assert "max_tokens" not in body and "ignore_eos" not in body
    assert "max_tokens" not in json.loads(chat_body("m", [], None))


def test_a_line_has_its_own_length_of_answer(tmp_path: Path) -> None:
    path = prompts(tmp_path, {"prompt": "a", "output_tokens": 1000})
    for whole, asked, expected in ((64, 64, 1000), (64, 16, 250), (None, 64, 1000), (2000, 2000, 1000)):
        (body,) = bodies(workload(path, output_tokens=whole), 1, asked)
        assert body["max_tokens"] == expected
    assert "1,000 tokens" in workload(path).describe()


def test_tools_and_images_are_sent(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    tools = [{"type": "function", "function": {"name": "f"}}]
    record = {"messages": [{"role": "user", "content": [image]}], "tools": tools}
    work = workload(prompts(tmp_path, record))
    (body,) = bodies(work, 1)
    salt, sent_image = body["messages"][0]["content"]
    assert sent_image == image and SALT.match(salt["text"] + " ") and body["tools"] == tools
    assert "1 of them with images" in work.describe()


# What cannot be, and whatever there is.


@pytest.mark.parametrize(
    "options",
    [
        {"prompt_tokens": 0},
        {"prompt_tokens": 2_000_000},
        {"prompt_tokens_stdev": 5},
        {"prompt_tokens": 10, "prompt_tokens_stdev": -1},
        {"prompt_tokens": 10, "prompt_tokens_stdev": 50},
        {"turns": 0},
        {"prefix_groups": 2},
        {"shared_prefix_tokens": 0},
        {"adapters": ("a", " ")},
        {"output_tokens": 0},
        {"clients": 0},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^--"):
        WorkloadOptions(**{"output_tokens": 64, **options})


def test_prompts_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=":1: not JSON"):
        path = tmp_path / "p.jsonl"
        path.write_text("hello")
        workload(path)


_CONTENT = st.text(max_size=30) | st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=10)), max_size=2
)
_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant"]), "content": _CONTENT | st.none()}
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(_MESSAGE, min_size=1, max_size=5), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([None, 40]),
    st.sampled_from([None, 1, 2, "recorded"]),
)
def test_any_chats_make_requests_in_which_all_that_the_user_says_is_sent(
    tmp_path_factory: pytest.TempPathFactory,
    chats: list[list[dict[str, Any]]],
    hits: bool,
    prefix: int | None,
    turns: Any,
) -> None:
    path = prompts(tmp_path_factory.getbasetemp(), *({"messages": chat} for chat in chats))
    try:
        work = workload(path, cache_hits=hits, shared_prefix_tokens=prefix, turns=turns)
    except InputError as error:
        assert turns == "recorded" and "no chat in it" in str(error)
        return
    assert work.describe().isprintable()
    said: list[Any] = []
    for _ in chats:
        session = work.session()
        while (body := session.next(8)) is not None:
            said += [each["content"] for each in json.loads(body)["messages"] if each["role"] == "user"]
            session.answered("live")
    if turns in (None, "recorded"):
        for each in (each for chat in chats for each in chat if each["role"] == "user"):
            if isinstance(each["content"], str):
                assert any(isinstance(text, str) and text.endswith(each["content"]) for text in said)


def test_the_next_request_is_made_in_microseconds() -> None:
    """An event loop that is measured with waits for it."""
    each: list[dict[str, Any]] = [{}, {"prompt_tokens": 512, "turns": 2, "shared_prefix_tokens": 500}]
    for options in each:
        work = workload(**options)
        took = []
        for _ in range(2000):
            session = work.session()
            began = time.perf_counter_ns()
            session.next(64)
            took.append(time.perf_counter_ns() - began)
        assert median(took) < 20_000


def test_a_level_of_conversations_runs() -> None:
    """The pacer counts a token for each 4 bytes of the body, so each turn's prompt is longer."""
    work = workload(turns=3, prompt_tokens=200)
    limits = Limits(requests=18, limit_s=20)
    with pacing(slots=4, base_us=500) as url:
        run = run_loop(
            run_level(Target.of(Access(url)), 2, limits=limits, output_tokens=4, session=work.session)
        )
    streams = [parse_chat(response) for response in run.counted]
    assert len(streams) == 18 and not any(stream.error for stream in streams)
    lengths = sorted(stream.prompt_tokens or 0 for stream in streams)
    assert lengths[5] < 0.7 * lengths[6] and lengths[11] < 0.8 * lengths[12]  # a third of them each


@pytest.mark.engine
def test_a_real_engine_counts_the_lengths_and_caches_what_it_should() -> None:
    """llama.cpp says how many prompt tokens it took from the cache of its one slot."""
    from preop.demo.engine import running_engine

    async def ask(asker: Asker, body: bytes | None) -> ChatStream:
        assert body is not None
        stream = await asker.ask_and_read(body, 60)
        assert stream.error is None and stream.prompt_tokens is not None
        return stream

    async def main(asker: Asker) -> None:
        points = []
        for words in (8, ROUND):
            body = chat_body(None, salted(of_length(words), "0123456789ab"), 1)
            points.append((words, (await ask(asker, body)).prompt_tokens or 0))

        for tokens in (64, 400):
            work = workload(prompt_tokens=tokens, points=points)
            streams = [await ask(asker, work.session().next(1)) for _ in range(6)]
            assert mean(stream.prompt_tokens or 0 for stream in streams) == pytest.approx(tokens, rel=0.03)
            # The chat template's own beginning, and perhaps a first digit of the salt.
            assert max(stream.cached_tokens or 0 for stream in streams) < 45

        work = workload(prompt_tokens=100, shared_prefix_tokens=300, points=points)
        first, *others = [await ask(asker, work.session().next(1)) for _ in range(3)]
        assert (first.cached_tokens or 0) < 45
        assert all(280 < (stream.cached_tokens or 0) < 350 for stream in others)
        work.new_level()
        assert ((await ask(asker, work.session().next(1))).cached_tokens or 0) < 45

        work = workload(prompt_tokens=200, cache_hits=True, points=points)
        session, again = workload(prompt_tokens=200, turns=2, points=points).session(), work.session()
        one = await ask(asker, session.next(8))
        session.answered(one.text)
        two = await ask(asker, session.next(8))
        assert (two.cached_tokens or 0) >= (one.prompt_tokens or 0) - 5  # its own history
        repeated = again.next(1)
        await ask(asker, repeated)
        assert ((await ask(asker, repeated)).cached_tokens or 0) > 150

    with running_engine(context=2048, parallel=1) as engine:
        asker = Asker(Target.of(Access(engine.url)))
        try:
            run_loop(main(asker))
        finally:
            asker.close()
