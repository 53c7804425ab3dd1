"""TensorRT-LLM's flags, from the reference of its command line that its own tests compare with.

The repository's `tests/unittest/api_stability/references/trtllm_serve_cli.yaml`. The packages of its releases
are not served by PyPI, so a table is of one commit, and stands for no release: it says how flags are
read, and its defaults and choices are nobody's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from preop.engines.types import Flag, Table
from tools.extract_flags.package import Missing
from tools.extract_flags.writing import SCHEMA, annotations_of

__all__ = ["extract"]

SOURCE = "tests/unittest/api_stability/references/trtllm_serve_cli.yaml"


def extract(source: Path, commit: str) -> Table:
    """The options of `trtllm-serve serve` at a commit. Raises `Missing` where the file has another shape."""
    import yaml

    document = yaml.safe_load(source.read_text(encoding="utf-8"))
    try:
        options: dict[str, dict[str, Any]] = document["commands"]["serve"]["options"]
        flags = dict(_flag(option) for option in options.values())
    except (KeyError, TypeError) as error:
        raise Missing(f"{source}: no commands.serve.options as expected ({error})") from error
    known = annotations_of("tensorrt-llm")
    return Table(
        schema=SCHEMA,
        engine="tensorrt-llm",
        version=f"main@{commit[:8]}",
        source={"package": "TensorRT-LLM", "version": commit, "files": [SOURCE]},
        flags=known.apply(flags | {"model": Flag(kind="str")}),
        removed=known.removed(flags),
        positional="model",
    )


def _flag(option: dict[str, Any]) -> tuple[str, Flag]:
    """The longest spelling is the name: `--tensor_parallel_size`, and `--tp_size` the alias."""
    spellings = sorted(option["flags"], key=len)
    negations = tuple(text for text in spellings if text.startswith("--no-"))
    names = [text for text in spellings if text not in negations]
    kind = "bool" if option["is_flag"] else option["type"] if option["type"] in ("int", "float") else "str"
    return (
        names[-1].lstrip("-"),
        Flag(
            kind=kind,  # type: ignore[arg-type]  # one of Kind by construction
            aliases=tuple(names[:-1]),
            negations=negations,
            repeats=bool(option["multiple"]),
            default=option["default"],
        ),
    )
