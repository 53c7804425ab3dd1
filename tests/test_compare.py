"""A finding is new where its outcome got worse, not where wording, language, age or line changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from preop.baseline import Base, compare
from preop.deployment.types import Deployment
from preop.evidence import Strength
from preop.facts import Origin, known
from preop.findings import Finding, Item, Outcome, PitfallResult
from preop.text import Text


def service(name: str, file: str = "compose.yml", engine: str = "vllm", **facts: Any) -> Deployment:
    made = {key: known(value, "user", Origin("file", f"{file}:3:1")) for key, value in facts.items()}
    return Deployment(f"{name} ({file})", engine, f"{file}: service {name}", made, own_name=name)


def fail(
    says: str = "65,536 asked", number: Any = 65536, strength: Strength = Strength.DECLARED, line: int = 4
) -> Finding:
    items = (Item("max_model_len", number, "tokens", f"compose.yml:{line}"),)
    return Finding(Outcome.FAIL, Text(says, says), strength, items, where=f"compose.yml:{line}")


def known_to_be(
    was: Finding, now: Finding, before: Deployment | None = None, after: Deployment | None = None
) -> bool:
    before = before or service("chat", model="m")
    after = after or before
    base = Base("b", "run", "then", [before], [PitfallResult("P15", {before.name: was})])
    (result,), _ = compare([PitfallResult("P15", {after.name: now})], [after], base)
    is_known = result.by_deployment[after.name].in_baseline
    assert is_known is not None
    return is_known


UNPROVEN, ERROR, PASS = (
    Finding(outcome, Text("x", "x")) for outcome in (Outcome.UNPROVEN, Outcome.ERROR, Outcome.PASS)
)


@pytest.mark.parametrize(
    ("was", "now", "is_known"),
    [
        (fail(), fail(), True),
        (fail(), fail(line=9), True),
        (fail(), fail("要求 65,536"), True),
        (fail(), fail("131,072 asked", 131072), False),
        (fail("p99 812 ms", 812.0, Strength.MEASURED), fail("p99 815 ms", 815.0, Strength.MEASURED), True),
        (fail("p99 812 ms", 812.0, Strength.MEASURED), fail(), False),
        (UNPROVEN, fail(), False),
        (ERROR, fail(), False),
        (fail(), UNPROVEN, True),
        (UNPROVEN, UNPROVEN, True),
        (PASS, UNPROVEN, False),
        (PASS, PASS, True),
        (msgspec.structs.replace(fail(), outcome=Outcome.WAIVED, waived=Outcome.FAIL), fail(), True),
        (msgspec.structs.replace(UNPROVEN, outcome=Outcome.WAIVED, waived=Outcome.UNPROVEN), fail(), False),
    ],
)
def test_a_finding_is_new_where_its_outcome_got_worse(was: Finding, now: Finding, is_known: bool) -> None:
    assert known_to_be(was, now) is is_known


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (service("chat", model="m"), service("talk", model="m"), True),
        (service("chat", model="m"), service("chat", "app.yml", model="m"), True),
        (service("chat", model="m", max_num_seqs=1), service("talk", model="m", max_num_seqs=2), True),
        (service("chat", "a/c.yml", model="m"), service("chat", "b/c.yml", model="other"), True),
        (service("chat", model="m"), service("talk", model="other"), False),
        (service("chat", model="m"), service("talk", engine="sglang", model="m"), False),
        (service("chat", "./compose.yml", model="m"), service("chat", model="m"), True),
    ],
)
def test_what_is_renamed_or_moved_is_the_same_and_what_is_another_is_new(
    before: Deployment, after: Deployment, same: bool
) -> None:
    assert known_to_be(fail(), fail(), before, after) is same
    assert not known_to_be(fail(), fail("131,072 asked", 131072), before, after)


def test_of_two_that_look_alike_none_is_guessed() -> None:
    before = [service("a", model="m"), service("b", model="m")]
    after = [service("c", model="m"), service("d", model="m")]
    base = Base("b", "git", "c", before, [PitfallResult("P15", {each.name: fail() for each in before})])
    (result,), found = compare([PitfallResult("P15", {each.name: fail() for each in after})], after, base)
    assert all(each.in_baseline is False for each in result.by_deployment.values())
    assert len(found.changes) == 4 and len(found.resolved) == 2


def test_two_of_one_name_in_one_file_are_held_apart() -> None:
    both = [msgspec.structs.replace(service("chat", model="m"), name=name) for name in ("chat", "chat-2")]
    base = Base("b", "git", "c", both, [PitfallResult("P15", {"chat": UNPROVEN, "chat-2": fail()})])
    (result,), _ = compare([PitfallResult("P15", {"chat": fail(), "chat-2": fail()})], both, base)
    assert [each.in_baseline for each in result.by_deployment.values()] == [False, True]
