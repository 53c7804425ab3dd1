"""The pages: alike in both languages, with what the checklist says, naming nothing that is not there."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from functools import cache
from math import log10
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len

from preop.engines.tables import ENGINES, table, versions
from preop.pitfalls import Pitfall, all_pitfalls, find_pitfall, page
from preop.text import Language
from preop.thresholds import THRESHOLDS, Threshold

LANGUAGES: tuple[Language, ...] = ("en", "zh")
SECTIONS = {
    "en": ["Symptom", "Root cause", "Consequence", "How preop proves it", "The fix", "Sources"],
    "zh": ["症状", "根因", "后果", "preop 如何证明", "修复", "参考"],
}
PITFALLS = [pytest.param(pitfall, id=pitfall.id) for pitfall in all_pitfalls()]
PAGES = [
    pytest.param(pitfall, language, id=f"{pitfall.id}-{language}")
    for pitfall in all_pitfalls()
    for language in LANGUAGES
]
OTHER_TOOLS = {
    # text-generation-launcher, of which preop keeps no table
    *(
        "--quantize",
        "--speculate",
        "--num-shard",
        "--max-total-tokens",
        "--max-input-tokens",
        "--kv-cache-dtype",
    ),
    *(
        "--max-batch-total-tokens",
        "--max-batch-prefill-tokens",
        "--max-concurrent-requests",
        "--rope-scaling",
    ),
    *("--rope-factor", "--tokenizer-config-path", "--cuda-memory-fraction"),
    # nvidia-smi, uv, llama-perplexity
    *("--query-gpu", "--query-compute-apps", "--format", "--generate-hashes", "--require-hashes"),
    *("--kl-divergence", "--kl-divergence-base"),
}
CHECKLIST = {
    "P01": ["MMLU", "AWQ INT4", "200", "0.95", "95", "50"],
    "P02": ["fast", "slow", "left", "right", "max_length", "add_special_tokens", "BOS", "EOS"],
    "P03": ["1.5", "3B", "7B", "128", "10", "20", "30", "60", "INT8", "FP16"],
    "P04": ["20", "200", "32", "22", "25", "24", "28", "35", "180", "64", "1200"],
    "P05": ["500", "256", "4000", "8000", "20", "p99", "1.5"],
    "P06": ["100", "90", "50", "max_num_seqs", "continuous batching", "weight-only"],
    "P07": ["16", "64", "1200", "200", "30", "5"],
    "P08": ["EAGLE", "30", "32", "64", "16", "num_speculative_tokens"],
    "P09": ["200", "280", "80", "85", "90", "20", "40", "nvidia_gpu_temperature_celsius"],
    "P10": ["1e-3", "InferenceSession", "assert_allclose"],
    "P11": ["0.5", "0.6", "20", "enable_chunked_prefill", "5", "24"],
    "P12": ["2.3", "12.1", "12.4", "15", "24.07-py3", "pytorch-cuda=12.1", "cudnn=9.0"],
    "P13": ["nvidia-cuda-mps-control -d", "0.6", "0.2", "1.0", "cgroup"],
    "P14": ["200", "160", "32", "SSE", "EventSourceResponse", "[DONE]"],
    "P15": ["4K", "32K", "28K", "Qwen2.5-7B-Instruct", "Yarn-7B-128K", "RoPE scaling"],
}
"""What the checklist says of each pitfall in numbers and names, in the form common to both languages."""

_FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HAN = "\u3400-\u9fff"


@cache
def tokens(pitfall: Pitfall, language: Language) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page(pitfall, language))


def headings(pitfall: Pitfall, language: Language) -> list[tuple[str, str]]:
    parsed = tokens(pitfall, language)
    return [(t.tag, parsed[at + 1].content) for at, t in enumerate(parsed) if t.type == "heading_open"]


def tables(pitfall: Pitfall, language: Language) -> list[list[int]]:
    """Columns of each row, for each table."""
    found: list[list[int]] = []
    for token in tokens(pitfall, language):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append(0)
        elif token.type in ("th_open", "td_open"):
            found[-1][-1] += 1
    return found


def code(pitfall: Pitfall, language: Language) -> list[str]:
    """Every code span, and every code block's lines."""
    parts: list[str] = []
    for token in tokens(pitfall, language):
        if token.type in ("code_block", "fence"):
            parts.extend(token.content.splitlines())
        parts.extend(child.content for child in token.children or () if child.type == "code_inline")
    return parts


def prose(pitfall: Pitfall, language: Language) -> list[str]:
    """Each block's text as it is written, code left out."""
    return [
        "".join("`" if child.type == "code_inline" else child.content for child in token.children or ())
        for token in tokens(pitfall, language)
        if token.type == "inline"
    ]


def flags(pitfall: Pitfall, language: Language) -> set[str]:
    return set(_FLAG.findall(page(pitfall, language)))


def plain(pitfall: Pitfall, language: Language) -> str:
    """The page with numbers written alike in both languages: no thousands separators."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", page(pitfall, language))


@cache
def options(command: str) -> frozenset[str]:
    """Every option that `preop COMMAND --help` lists."""
    from preop.cli import check, explain, measure

    top: dict[str, click.Command] = {"check": check.command, "explain": explain.command}
    top |= {f"measure {name}": one for name, one in measure.command.commands.items()}
    given = top[command]
    said = given.get_help(click.Context(given, info_name=command))
    return frozenset(_FLAG.findall(said))


@cache
def engine_flags() -> frozenset[str]:
    """Flags of the engines that preop keeps tables of, removed ones included."""
    found: set[str] = set()
    for engine in ENGINES:
        for version in versions(engine):
            known = table(engine, version)
            assert known is not None
            found.update(f"--{name}" for name in (*known.flags, *known.removed))
            for flag in known.flags.values():
                found.update((*flag.aliases, *flag.negations))
    return frozenset(found)


def written(threshold: Threshold, language: Language) -> str:
    """A pattern for the default as the pages write it."""
    value = threshold.default
    if threshold.unit in ("share", "share of traffic"):
        return rf"(?<![\d.]){value * 100:g} ?%"
    if threshold.unit == "parameters":
        return re.escape(f"{value / 1e9:g}e9")
    if threshold.unit in ("relative", "absolute"):
        return rf"\b1e-{round(-log10(value))}\b"
    if threshold.unit == "times":
        return rf"(?<![\d.]){value:g}0*(?![\d.])"
    if threshold.unit in ("ms", "GiB per GPU"):
        return rf"(?<![\d.]){value:g} {threshold.unit.split()[0]}"
    if threshold.key == "P13.memory_shares":
        return r"\b1\.0\b"
    if threshold.key == "P04.levels":
        return {"en": "three levels", "zh": "三档"}[language]
    return rf"(?<![\d.]){value:g}(?![\d]|\.\d)"


@pytest.mark.parametrize(("pitfall", "language"), PAGES)
def test_title_and_sections_are_in_their_order(pitfall: Pitfall, language: Language) -> None:
    mark = {"en": ": ", "zh": "："}[language]
    wanted = [("h1", f"{pitfall.id}{mark}{pitfall.title.in_(language)}")]
    wanted += [("h2", section) for section in SECTIONS[language]]
    assert headings(pitfall, language) == wanted


@pytest.mark.parametrize(("pitfall", "language"), PAGES)
def test_every_section_says_something(pitfall: Pitfall, language: Language) -> None:
    parts = re.split(r"^## .*$", page(pitfall, language), flags=re.MULTILINE)[1:]
    assert all(len(part.strip()) > 15 for part in parts)
    assert 60 <= len(page(pitfall, language).splitlines()) <= 120


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_both_languages_have_the_same_tables_blocks_and_flags(pitfall: Pitfall) -> None:
    assert tables(pitfall, "en") == tables(pitfall, "zh")
    assert all(len(set(columns)) == 1 and len(columns) > 1 for columns in tables(pitfall, "en"))
    kinds = ("code_block", "fence", "list_item_open")
    english, chinese = (
        [token.type for token in tokens(pitfall, language) if token.type in kinds] for language in LANGUAGES
    )
    assert english == chinese
    assert flags(pitfall, "en") == flags(pitfall, "zh")


@pytest.mark.parametrize(("pitfall", "language"), PAGES)
def test_the_markdown_renders(pitfall: Pitfall, language: Language) -> None:
    html = MarkdownIt("commonmark").enable("table").render(page(pitfall, language))
    assert html.count("<table>") == len(tables(pitfall, language))
    for text in prose(pitfall, language):
        assert not re.search(r"^\s*\|", text, re.MULTILINE), "a row that became no table"
        assert "**" not in text, "bold that did not close"
        assert "](" not in text


@pytest.mark.parametrize(("pitfall", "language"), PAGES)
def test_it_names_only_flags_that_exist(pitfall: Pitfall, language: Language) -> None:
    own = {name for command in ("check", "measure load", "measure tokens") for name in options(command)}
    own |= {"--lang"}
    assert flags(pitfall, language) <= own | engine_flags() | OTHER_TOOLS


@pytest.mark.parametrize(("pitfall", "language"), PAGES)
def test_a_call_of_preop_is_one_that_it_takes(pitfall: Pitfall, language: Language) -> None:
    from preop.cli import measure

    for part in code(pitfall, language):
        call = re.match(r"\s*preop (check|explain|measure(?: \w+)?)\b(.*)", part)
        if call is None:
            continue
        command, rest = call[1], call[2].split(" -- ")[0]
        if command == "measure":
            continue
        if command.startswith("measure "):
            assert command.split()[1] in measure.command.commands
        assert set(_FLAG.findall(rest)) <= options(command), part
        asked = re.search(r"--measure (\S+)", rest)
        assert asked is None or set(asked[1].split(",")) <= {"streaming", "load", "tokens", "all", "LIST"}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "threshold", [pytest.param(t, id=key) for key, t in THRESHOLDS.items() if key.startswith("P")]
)
def test_the_default_of_each_threshold_is_on_its_page(threshold: Threshold, language: Language) -> None:
    text = plain(find_pitfall(threshold.key.split(".")[0]), language)
    assert re.search(written(threshold, language), text), written(threshold, language)


@pytest.mark.parametrize(("pitfall", "language"), PAGES)
def test_what_the_checklist_says_is_there(pitfall: Pitfall, language: Language) -> None:
    text = plain(pitfall, language)
    missing = [fact for fact in CHECKLIST[pitfall.id] if fact not in text]
    assert missing == []


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_chinese_is_written_in_chinese(pitfall: Pitfall) -> None:
    for text in prose(pitfall, "zh"):
        assert not re.search(rf"[{_HAN}][,;:?!()]|[,;:?!][{_HAN}]", text), "half-width punctuation"
        assert not re.search(rf"[{_HAN}`]\.(?:\s|$)", text), "an English full stop"
    assert not re.search(rf"[{_HAN}]", page(pitfall, "en"))
    assert sum(len(re.findall(rf"[{_HAN}]", text)) for text in prose(pitfall, "zh")) > 500


@pytest.mark.parametrize(("pitfall", "language"), PAGES)
def test_it_shows_no_path_of_a_machine(pitfall: Pitfall, language: Language) -> None:
    assert not re.search(r"(?<![\w}])/(?:work|tmp|home|root|mnt|Users)\b", page(pitfall, language))


class Terminal(io.StringIO):
    """A terminal that remembers what it was shown."""

    def isatty(self) -> bool:
        return True


def explained(pitfall: Pitfall, language: Language, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `preop explain` shows on a terminal of 80 columns, colours taken off."""
    from preop.cli.explain import command

    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setattr(sys, "stdout", terminal)
        command.main([pitfall.id, "--lang", language], standalone_mode=False)
    return _ANSI.sub("", terminal.getvalue())


@pytest.mark.parametrize(("pitfall", "language"), PAGES)
def test_it_fits_a_terminal_of_80_columns(
    pitfall: Pitfall, language: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = explained(pitfall, language, monkeypatch)
    assert max(cell_len(line) for line in shown.splitlines()) <= 80
    assert pitfall.title.in_(language) in shown
    assert all(section in shown for section in SECTIONS[language])


def test_no_cell_is_cut_off_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = [
        f"{pitfall.id}-{language}"
        for pitfall in all_pitfalls()
        for language in LANGUAGES
        if explained(pitfall, language, monkeypatch).count("…") > page(pitfall, language).count("…")
    ]
    assert cut == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_explain_prints_the_page_into_a_pipe(tmp_path: Path, language: Language) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "preop", "explain", "P05", "--lang", language],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == page(find_pitfall("P05"), language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_explain_prints_the_page_at_80_columns(tmp_path: Path, language: Language) -> None:
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "preop", "explain", "P05", "--lang", language],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
    )
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    except OSError:  # how Linux says that the other side has closed
        pass
    finally:
        os.close(ours)
    _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (0, b"")
    shown = _ANSI.sub("", b"".join(parts).decode("utf-8")).replace("\r", "")
    lines = shown.splitlines()
    assert len(lines) > 60
    assert max(cell_len(line) for line in lines) <= 80
    assert find_pitfall("P05").title.in_(language) in shown
    assert all(any(section in line for line in lines) for section in SECTIONS[language])
