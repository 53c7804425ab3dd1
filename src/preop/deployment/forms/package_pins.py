"""Which version of an engine a `RUN` line installs: `pip install vllm==0.9.1`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from preop.deployment.environment import read_text
from preop.deployment.forms.dockerfile_text import Instruction, replaced
from preop.deployment.tokens import Token
from preop.errors import InputError
from preop.facts import Fact, Origin, known, unknown

__all__ = ["pinned"]

_PACKAGES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": r"tensorrt[-_]llm",
    "llama-cpp-python": r"llama[-_]cpp[-_]python",
}
_INSTALL = re.compile(
    r"\b(?:(?:uv\s+)?pip3?(?:\.\d+)?|uv|poetry|pdm)\s+(?:install|sync|add)\b([^;&|\n]*(?:\\?\n[^;&|\n]*)*)"
)
_REQUIREMENTS = re.compile(r"(?<!\S)(?:-r\s*|--requirement[ =]\s*)(\S+)")


def pinned(engine: str, run: Instruction, variables: Mapping[str, Token], folder: Path | None) -> Fact | None:
    """The version that the line installs, unknown where it installs one that it does not state; None where it
    does not touch the engine."""
    package = _PACKAGES.get(engine)
    if package is None:
        return None
    told: Fact | None = None
    bodies = [run.text, *(document.text for document in run.documents)]
    for body in bodies:
        for install in _INSTALL.finditer(body):
            own = _in_words(package, install[1], variables, run.origin)
            for name in _REQUIREMENTS.findall(install[1]):
                listed = _requirements(package, name.strip("\"'"), variables, folder, run.origin)
                own = listed if listed is not None else own
            told = own if own is not None else told
        if told is None and re.search(rf"git\s+clone\s+\S*/{package}(\.git)?\b", body, re.IGNORECASE):
            told = unknown(f"{engine} is built from its source", origin=run.origin)
    return told


def _in_words(package: str, text: str, variables: Mapping[str, Token], origin: Origin) -> Fact | None:
    """The package among the words after `pip install`."""
    found = re.search(
        rf"(?<![\w./-]){package}(?:\[[^\]]*\])?(?![\w-])\s*([=<>!~@][^\s\"'\\]*)?", text, re.IGNORECASE
    )
    if found is None:
        source = re.search(rf"(?:git\+\S*/|\S*/){package}[\w.+-]*", text, re.IGNORECASE)
        return (
            unknown("it is installed from a source that states no release", origin=origin) if source else None
        )
    wanted = re.fullmatch(r"={2,3}(\S+)", found[1] or "")
    if wanted is None:
        return unknown("a RUN line installs it without a version", origin=origin)
    value = replaced(Token(wanted[1], origin), variables)
    if value.visible is None or not re.fullmatch(r"v?\d+(\.\w+)*(\+[\w.]+)?", value.text):
        return unknown(value.note or f"{value.text[:40]!r} is no version", origin=origin)
    return known(
        value.text.removeprefix("v").partition("+")[0], "user", origin, note="a RUN line installs it"
    )


def _requirements(
    package: str, name: str, variables: Mapping[str, Token], folder: Path | None, origin: Origin
) -> Fact | None:
    """The package in a requirements file, by its name in the folder of the build."""
    path = (folder or Path()) / Path(name).name if folder is not None else None
    try:
        text = read_text(path, "a list of packages", may_be_empty=True) if path and path.is_file() else None
    except InputError:
        text = None
    if text is None:
        return unknown(f"{name[:60]} is not here, and it may install another version", origin=origin)
    lines = [line.partition("#")[0] for line in text.splitlines()]
    told = [fact for line in lines if (fact := _in_words(package, line, variables, origin)) is not None]
    return told[-1] if told else None
