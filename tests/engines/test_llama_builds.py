"""What llama-server's builds do differently, as their own source says it.

Builds were read from packages that carry llama.cpp's source beside a binary of a stated build; only those
count in which every name and text of the option table is in the binary too.
"""

from __future__ import annotations

import pytest

from preop.engines import table

from .commandline import flags_of, read
from .test_facts import facts_of


@pytest.mark.parametrize(
    ("build", "flag", "default"),
    [
        # common/common.h of each build
        ("b5480", "ctx-size", 4096),
        ("b5480", "parallel", 1),
        ("b5480", "no-context-shift", False),
        ("b5480", "flash-attn", False),
        ("b6341", "context-shift", False),
        ("b7376", "ctx-size", 4096),
        ("b10605", "batch-size", 2048),
    ],
)
def test_a_default_of_a_build(build: str, flag: str, default: object) -> None:
    found = table("llama.cpp", build)
    assert found is not None
    assert (found.flags[flag].default, found.flags[flag].how) == (default, "literal")


@pytest.mark.parametrize(
    ("build", "texts", "slots", "context"),
    [
        # tools/server/server.cpp: n_ctx / n_parallel, whatever the cache
        ("b6497", [], 1, 4096),
        ("b6497", ["-c", "8192", "-np", "4"], 4, 2048),
        ("b6497", ["-c", "8192", "-np", "4", "-kvu"], 4, 2048),
        # "setting n_parallel = 4 and kv_unified = true"
        ("b6957", [], 4, 4096),
        ("b7376", ["-c", "8192", "-np", "1"], 4, 8192),
        ("b7376", ["-c", "8192", "-np", "1", "-kvu"], 1, 8192),
        ("b7376", ["-c", "8192", "-np", "1", "-md", "d.gguf"], 1, 8192),
        ("b7376", ["-c", "8192", "-np", "4"], 4, 2048),
        ("b7376", ["-c", "8192", "-np", "4", "-kvu"], 4, 8192),
        # n_parallel < 0 is auto
        ("b7488", ["-c", "8192"], 4, 8192),
        ("b7488", ["-c", "8192", "-np", "1"], 1, 8192),
        # between b6916 and b6957 the rule changed
        ("b6930", ["-c", "8192"], None, None),
        ("b6930", ["-c", "8192", "-np", "1"], None, None),
        ("b6930", ["-c", "8192", "-np", "4"], 4, 2048),
        ("b6930", ["-c", "8192", "-np", "4", "-kvu"], 4, None),
    ],
)
def test_slots_and_their_context(
    build: str, texts: list[str], slots: int | None, context: int | None
) -> None:
    found = facts_of("llama.cpp", "-m", "M", *texts, version=build)
    assert (found["max_num_seqs"].value, found["max_model_len"].value) == (slots, context)


@pytest.mark.parametrize(
    ("build", "texts", "shift"),
    [
        ("b5480", [], True),
        ("b5480", ["--no-context-shift"], False),
        ("b6341", [], False),
        ("b6341", ["--context-shift"], True),
        ("b6341", ["--no-context-shift"], False),
        ("b10605", [], False),
        ("b10605", ["--context-shift"], True),
    ],
)
def test_context_shift_was_on_once(build: str, texts: list[str], shift: bool) -> None:
    assert facts_of("llama.cpp", "-m", "M", *texts, version=build)["context_shift"].value is shift


def test_a_draft_model_alone_speculated_before_there_were_kinds() -> None:
    found = facts_of("llama.cpp", "-m", "M", "-md", "d.gguf", "--draft-max", "8", version="b6497")
    assert found["speculative"].value == {"method": "draft", "model": "d.gguf", "num_speculative_tokens": 8}
    newer = facts_of("llama.cpp", "-m", "M", "-md", "d.gguf", version="b10605")["speculative"]
    assert not newer.is_known


def test_a_build_between_two_says_what_both_say() -> None:
    between, before, after = (table("llama.cpp", build) for build in ("b9500", "b9453", "b9538"))
    assert between is not None and before is not None and after is not None
    assert between.source["between"] == ["b9453", "b9538"]
    assert before.flags.keys() | after.flags.keys() == between.flags.keys()
    for name, flag in between.flags.items():
        assert flag.how == "unknown" or flag == before.flags.get(name) == after.flags.get(name), name
    fact = facts_of("llama.cpp", "-m", "M", version="b9500")["max_num_batched_tokens"]
    assert fact.value == 2048 and "b9453 and b9538" in (fact.note or "")


@pytest.mark.parametrize("build", ["b5479", "b10606", "b99999999", "b", "9500", "b9500-dirty", "b09500"])
def test_a_build_outside_or_no_build_has_no_table(build: str) -> None:
    assert table("llama.cpp", build) is None


def test_a_build_whose_source_is_not_its_binarys_is_only_between() -> None:
    """b10359 was packed with a source that has another text for --load-mode than its binary."""
    found = table("llama.cpp", "b10359")
    assert found is not None and found.source["between"] == ["b10327", "b10605"]


def test_flash_attention_took_no_value_once() -> None:
    parsed = read("llama.cpp", "-fa", "-ngl", "99", version="b5480")
    assert flags_of(parsed) == {"flash-attn": True, "gpu-layers": 99} and parsed.notes == ()
