"""The terminal: one screen that fits, in both languages, whatever text it is given."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from preop.findings import Finding, Outcome, PitfallResult
from preop.report.plain import amount, plain, shown
from preop.report.terminal import render_terminal
from preop.report.wrap import end_that_fits, wrap
from preop.text import Language, Text

from . import samples

SAMPLES = [samples.no_go, samples.hold, samples.go, samples.hostile]
SGR = re.compile(r"\x1b\[[0-9;]*m")


def width_of(text: str) -> int:
    """Cells, by two references that are not the code under test; the wider counts."""
    marks = {"Mn", "Me", "Mc", "Cf"}
    standard = sum(
        0 if unicodedata.category(c) in marks else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
        if not "\u1160" <= c <= "\u11ff"
    )
    return max(standard, cell_len(text))


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [40, 80, 81, 120, 200])
@pytest.mark.parametrize("colour", [True, False])
def test_no_line_is_wider_than_the_terminal(
    sample: Any, language: Language, width: int, colour: bool
) -> None:
    shown_ = render_terminal(sample(), language=language, width=width, colour=colour)
    for line in SGR.sub("", shown_).split("\n"):
        assert width_of(line) <= width, line


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_colour_changes_nothing_but_colour(sample: Any, language: Language) -> None:
    piped = render_terminal(sample(), language=language, width=80, colour=False)
    coloured = render_terminal(sample(), language=language, width=80, colour=True)
    assert "\x1b" not in piped and "\x1b" in coloured
    assert [line.rstrip() for line in SGR.sub("", coloured).split("\n")] == piped.split("\n")


@pytest.mark.parametrize("colour", [True, False])
def test_hostile_text_steers_nothing(colour: bool) -> None:
    screen = render_terminal(samples.hostile(), language="en", width=80, colour=colour)
    rest = SGR.sub("", screen) if colour else screen
    assert {unicodedata.category(c) for c in rest if c != "\n"} & {
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Zl",
        "Zp",
    } == set()
    # Written out, so that a reader sees that it was there; rich's markup is text like any other.
    joined = re.sub(r"\s+", " ", rest)
    assert "\\x1b[31mred" in joined and "[red]markup[/red]" in joined
    assert len(rest) < 60_000
    rest.encode("utf-8")


def test_what_a_no_go_says() -> None:
    screen = render_terminal(samples.no_go(), language="en", width=80, colour=False)
    lines = screen.splitlines()
    assert lines[0].startswith("chat: vllm 0.32.0 · Qwen/Qwen2.5-7B-Instruct-AWQ · 1x H100-80GB")
    assert "gate: deploy" in screen
    assert any(
        line.startswith(" NO-GO") and "3 fail · 9 not proven · 1 pass · 2 n/a" in line for line in lines
    )
    assert [m.group(2) for m in map(re.compile(r"(FAIL|\?|ok|n/a) +(P\d\d) ").match, lines) if m] == [
        result.pitfall for result in samples.no_go().worst_first
    ]
    joined = re.sub(r"\s+", " ", screen)
    assert "fix: --max-model-len 32768" in joined
    assert joined.count("needs: ") == 9
    # The worst of several deployments is named; where one sentence holds for all, nobody is.
    assert "long context [chat] 131,072 tokens" in joined
    assert "GPU sharing 0.70 + 0.45" in joined
    assert "max_model_len declared 131,072 tokens (docker-compose.yml:14:9)" in joined
    assert "--max-model-length is no flag of vLLM 0.32.0 → --max-model-len" in joined
    assert "preop explain P13" in screen
    assert "kept in .preop/runs/2026-11-03T09-12-44Z-7f3a" in lines
    assert lines[-1].startswith("exit code 1")
    places = [line for line in lines if line.endswith("docker-compose.yml:14:9")]
    assert places and len(places[0]) == 80, "at the right edge"


def test_what_a_pitfall_needs_is_one_line_unless_all_is_asked_for() -> None:
    def screen(verbose: bool) -> str:
        return render_terminal(samples.no_go(), language="en", width=60, colour=False, verbose=verbose)

    assert " …\n" in screen(False) and "--verbose" in screen(False)
    assert " …\n" not in screen(True) and "--verbose" not in screen(True)
    assert len(screen(False).splitlines()) < len(screen(True).splitlines())


def test_exit_codes_are_said_in_both_languages() -> None:
    for sample, code in ((samples.go, 0), (samples.no_go, 1), (samples.hold, 3)):
        assert f"exit code {code}" in render_terminal(sample(), language="en", width=80, colour=False)
        assert f"退出码 {code}" in render_terminal(sample(), language="zh", width=80, colour=False)


def test_notes_beyond_a_screen_are_counted() -> None:
    assert "+4 more in the JSON document" in render_terminal(
        samples.hostile(), language="en", width=80, colour=False
    )


@given(st.text(), st.text(), st.integers(40, 130))
@settings(max_examples=40, deadline=None)
def test_any_text_fits(summary: str, where: str, width: int) -> None:
    base = samples.go()
    bad = Finding(Outcome.FAIL, Text(summary, summary), remedy=Text(where, where), where=where)
    report = msgspec.structs.replace(base, results=(PitfallResult("P01", {"chat": bad}), *base.results[1:]))
    for line in render_terminal(report, language="zh", width=width, colour=False).split("\n"):
        assert width_of(line) <= width


@given(st.text(max_size=600), st.integers(1, 300))
@settings(max_examples=150, deadline=None)
def test_plain_text_is_plain(text: str, limit: int) -> None:
    safe = plain(text, limit)
    assert len(safe) <= limit + len("… (+1,000)")
    for character in safe:
        category = unicodedata.category(character)
        assert category not in {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
        assert category != "Cf" or character in "\u200c\u200d"


def test_plain_leaves_what_is_harmless() -> None:
    for text in ("Qwen2.5-7B", "C:\\models\\a b", "长上下文", "naïve – 5 %", "मराठी", "a→b"):
        assert plain(text) == text
    assert plain("x" * 1000, 10) == "xxxxxxxxxx… (+990)"
    assert plain("x" * 20, 10) == "xxxxxxxxxx…"
    assert plain("a\n b\tc\u2028d\r\n") == "a b c d"
    assert plain("\u202egnp.exe") == "\\u202egnp.exe"


@given(st.text(alphabet=st.characters(exclude_categories=["C", "M", "Zl", "Zp"])), st.integers(2, 60))
@settings(max_examples=150, deadline=None)
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    pieces = [text[start:end] for start, end in wrap(text, width)]
    assert "".join("".join(pieces).split()) == "".join(text.split())
    for piece in pieces:
        assert piece == piece.strip() and piece


def test_wrapping_keeps_words_and_punctuation_together() -> None:
    def lines(text: str, width: int) -> list[str]:
        return [text[start:end] for start, end in wrap(text, width)]

    assert lines("one two three", 7) == ["one two", "three"]
    assert lines("abcdefgh", 3) == ["abc", "def", "gh"]
    assert lines("你好，世界", 5) == ["你", "好，", "世界"]
    assert lines("用 vLLM", 6) == ["用", "vLLM"]


def test_the_end_of_a_path_says_most() -> None:
    assert end_that_fits("very/long/folder/compose.yml:14:9", 16) == "…ompose.yml:14:9"
    assert end_that_fits("a.yml:1:1", 16) == "a.yml:1:1"


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (131072, "tokens", "131,072 tokens"),
        (0.7, None, "0.7"),
        (1.0, "share", "1 share"),
        (1234.56, "ms", "1,234.6 ms"),
        (23_622_320_128, "bytes", "22.00 GiB"),
        (1_572_864, "bytes", "1.50 MiB"),
        (512, "bytes", "512 bytes"),
        (True, None, "true"),
        (None, "tokens", "—"),
        (float("nan"), "ms", "—"),
        (float("-inf"), "ms", "—"),
        ("Q4_K_M", None, "Q4_K_M"),
        ({"factor": 4}, None, '{"factor": 4}'),
        ([0, 1], None, "[0, 1]"),
        (10**30, None, "1.000e+30"),
        (0.00001, None, "1e-05"),
    ],
)
def test_numbers_as_a_reader_reads_them(value: Any, unit: str | None, said: str) -> None:
    assert shown(value, unit) == said


def test_value_and_unit_stand_apart_where_a_table_wants_them() -> None:
    assert amount(23_622_320_128, "bytes") == ("22.00", "GiB")
    assert amount(float("nan"), "ms") == ("—", None)


def test_the_terminal_needs_no_heavy_library() -> None:
    code = (
        "import sys; import preop.report, preop.report.charts;"
        "print(sorted({'jinja2', 'altair', 'vl_convert', 'numpy', 'httpx', 'rich'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_no_line_of_a_log_is_a_command_to_the_server_that_shows_it() -> None:
    report = samples.no_go()
    hostile = "::stop-commands::pause ##vso[task.setvariable]x ##[error]y"
    chat = msgspec.structs.replace(report.deployments[0], name=hostile)
    results = tuple(
        msgspec.structs.replace(
            result,
            by_deployment={
                hostile if name == "chat" else name: msgspec.structs.replace(
                    finding, summary=Text(f"{'x ' * 30}{hostile}", hostile), where=hostile
                )
                for name, finding in result.by_deployment.items()
            },
        )
        for result in report.results
    )
    report = msgspec.structs.replace(report, deployments=(chat, *report.deployments[1:]), results=results)
    for language in ("en", "zh"):
        for width in (40, 80):
            said = render_terminal(report, language=language, width=width, colour=False)
            assert "stop-commands" in said
            assert "##" not in said and not re.search(r"(?m)^\s*::", said)
    assert "torch::nn" in render_terminal(
        msgspec.structs.replace(report, remarks=(Text("torch::nn", "torch::nn"),)),
        language="en", width=80, colour=False,
    )  # fmt: skip


def test_what_keeps_a_gate_shut_is_not_hidden_behind_a_failure_that_the_baseline_has() -> None:
    report = samples.no_go()
    known = Finding(Outcome.FAIL, Text("old", "旧"), remedy=Text("r", "r"), in_baseline=True)
    new = Finding(Outcome.UNPROVEN, Text("nobody knows", "无人知晓"), needs=Text("n", "n"), in_baseline=False)
    names = [each.name for each in report.deployments]
    results = tuple(
        PitfallResult("P13", {names[0]: known, names[1]: new}) if each.pitfall == "P13" else each
        for each in report.results
    )
    report = msgspec.structs.replace(report, results=results)
    said = render_terminal(report, language="en", width=100, colour=False)
    assert f"[{names[1]}] not proven: nobody knows (new since the baseline)" in said.replace(
        "UNPROVEN", "not proven"
    )
