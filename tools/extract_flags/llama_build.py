"""Which build of llama.cpp a package's source is: that of the binary beside it, where both are the same."""

from __future__ import annotations

import io
import re
import zipfile

from tools.extract_flags.llama_cpp import option_calls, without_comments
from tools.extract_flags.package import Missing, Package

__all__ = ["build_of"]

_BINARY = re.compile(r"(^|/)llama-(b\d+)-bin-[^/]*\.zip$")
_PROGRAM = re.compile(r"(llama-server[^/]*\.(exe|dll)|llama-common\.dll|common[^/]*\.dll)$")
_SHORTEST = 24
"""Characters: a compiler may build shorter texts in pieces."""


def build_of(package: Package) -> str:
    """The build, as the name of the binary's archive states it.

    The source may be newer than the binary packed with it: raises `Missing` where a name or a text of the
    option table is not in the binary, or where there is no binary.
    """
    archives = [name for name in package.names if _BINARY.search(name)]
    if len(archives) != 1:
        raise Missing(f"{package.path.name}: no binary tells which build its source is: give --build bNNNN")
    match = _BINARY.search(archives[0])
    assert match is not None
    table = " ".join(option_calls(without_comments(package.read(package.find("common/arg.cpp")))))
    with zipfile.ZipFile(io.BytesIO(package.read_bytes(archives[0]))) as inner:
        program = b"".join(inner.read(name) for name in inner.namelist() if _PROGRAM.search(name))
    texts = {text for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', table) if text.isascii()}
    absent = [
        text
        for text in texts
        if (len(text) >= _SHORTEST or text.startswith("--")) and _plain(text) not in program
    ]
    if absent:
        what = f"{len(absent)} texts of its source are not in its binary of {match[2]}"
        raise Missing(f"{package.path.name}: {what}: {', '.join(sorted(absent)[:3])}")
    return match[2]


def _plain(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1", "ignore")
