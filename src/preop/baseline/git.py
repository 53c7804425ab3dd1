"""The files of a git commit, written into a folder of their own.

Read from the object store alone (`ls-tree`, `cat-file`): the working tree is not touched, no hook, filter,
attribute or pager of the repository runs, and nothing is fetched.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from preop.errors import UsageError

__all__ = ["BaseTree", "base_tree"]

_MAX_FILE = 4 << 20
"""Bytes of a file that is taken; what describes a deployment is smaller."""
_MAX_FILES = 200_000
_MAX_TOTAL = 1 << 30
_TIMEOUT_S = 120
_SAFE = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.quotePath=false")


@dataclass(frozen=True)
class BaseTree:
    """The files of the commit."""

    root: Path
    """Stands for the folder in which preop runs."""
    commit: str
    """The commit whose files these are, in full."""
    here: Path
    """The folder in which preop runs, and the top of its repository, without links."""
    top: Path
    remarks: tuple[str, ...] = ()

    def path_of(self, target: str) -> str:
        """`target`, a path of the checkout however it is written, as it is seen from `root`.

        Raises `UsageError` where it lies outside of the repository.
        """
        given = Path(os.path.normpath(self.here / target))
        if given.is_relative_to(self.top):
            return os.path.relpath(given, self.here)
        real = given.resolve()  # the way there may lead over a link
        if real.is_relative_to(self.top):
            return os.path.relpath(real, self.here)
        raise UsageError(
            f"--baseline: {target} lies outside of the repository {self.top}; "
            "expected files or folders of it, or an earlier run"
        )

    def has(self, path: str) -> bool:
        """Whether a file or folder of the checkout is, byte for byte, the same in the commit."""
        try:
            inside = self.path_of(path)
        except UsageError:
            return False
        return _content(self.here / inside) == _content(self.root / inside)


@contextlib.contextmanager
def base_tree(ref: str, here: Path) -> Iterator[BaseTree]:
    """The files of the commit in which `ref` and HEAD began to differ, in a folder that is removed after.

    `here` is a folder inside the repository. Raises `UsageError` where there is no repository or no such
    commit.
    """
    top = Path(_text(ref, here, "rev-parse", "--show-toplevel")).resolve()
    here = here.resolve()
    commit, remarks = _commit(ref, here)
    with tempfile.TemporaryDirectory(prefix="preop-baseline-") as folder:
        tree = Path(folder)
        root = tree / os.path.relpath(here, top)
        try:
            remarks += _write(ref, here, commit, tree)
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise UsageError(
                f"--baseline {ref}: its files cannot be written below {tree.parent}: {why}; "
                "TMPDIR names another folder for them"
            ) from None
        yield BaseTree(root, commit, here, top, tuple(remarks))


def _content(path: Path) -> dict[str, bytes | None]:
    """The files of a folder, or the one file, by their paths below; None for what cannot be read."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {os.path.relpath(file, path): _bytes(file) for file in files if not file.is_dir()}


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= _MAX_FILE else None
    except OSError:
        return None


def _commit(ref: str, here: Path) -> tuple[str, list[str]]:
    found = _git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if found.returncode != 0:
        shallow = _git(here, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        hint = "this clone is shallow: " if shallow else "if it is on the server only: "
        name = ref.removeprefix("origin/")
        raise UsageError(
            f"--baseline {ref}: neither a run nor a commit of this repository; {hint}git fetch origin {name}"
        )
    commit = found.stdout.decode().strip()
    base = _git(here, "merge-base", "HEAD", commit)
    if base.returncode != 0:
        return commit, [
            f"--baseline {ref}: no common ancestor of it and HEAD is here (a shallow clone?); "
            f"compared with {commit[:12]} itself"
        ]
    return base.stdout.decode().strip(), []


def _write(ref: str, here: Path, commit: str, tree: Path) -> list[str]:
    """Write the commit's files below `tree`; what was left out is said."""
    listed = _git(here, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
    if listed.returncode != 0:
        why = _first_line(listed.stderr)
        partial = (
            "; this clone is a partial one, expected a whole one" if b"lazy fetch" in listed.stderr else ""
        )
        raise UsageError(f"--baseline {ref}: {why}{partial}")
    blobs: list[tuple[str, str, str]] = []
    modules, total = 0, 0
    for entry in listed.stdout.split(b"\0"):
        if not entry:
            continue
        head, _, name = entry.partition(b"\t")
        mode, kind, blob, size = head.decode("ascii").split()
        if kind == "commit":
            modules += 1
        elif kind == "blob" and int(size) <= _MAX_FILE:
            total += int(size)
            blobs.append((mode, blob, name.decode("utf-8", "surrogateescape")))
    if len(blobs) > _MAX_FILES or total > _MAX_TOTAL:
        raise UsageError(
            f"--baseline {ref}: {len(blobs):,} files of {total / 2**20:,.0f} MiB are more than preop takes; "
            "give an earlier run instead: --baseline RUN"
        )
    _extract(ref, here, tree, blobs)
    named = f"{modules} submodule{'' if modules == 1 else 's'}"
    return [f"--baseline {ref}: the files of {named} are not part of it"] if modules else []


def _extract(ref: str, here: Path, tree: Path, blobs: Sequence[tuple[str, str, str]]) -> None:
    links: list[tuple[Path, str]] = []
    with subprocess.Popen(
        _command(here, "cat-file", "--batch"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        for mode, blob, name in blobs:
            reader.stdin.write(blob.encode() + b"\n")
            reader.stdin.flush()
            head = reader.stdout.readline().split()
            if len(head) != 3:
                raise UsageError(
                    f"--baseline {ref}: object {blob[:12]} ({name}) is not here; a partial clone? git fetch"
                )
            data = reader.stdout.read(int(head[2]))
            reader.stdout.read(1)
            path = tree / PurePosixPath(name)
            if ".." in PurePosixPath(name).parts or not path.is_relative_to(tree):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if mode == "120000":
                links.append((path, data.decode("utf-8", "surrogateescape")))
            else:
                path.write_bytes(data)
        reader.stdin.close()
    for path, target in links:  # last, so that nothing is written through one
        if _stays(path, target, tree):
            with contextlib.suppress(OSError):
                path.symlink_to(target)


def _stays(path: Path, target: str, tree: Path) -> bool:
    joined = Path(os.path.normpath(path.parent / target))
    return not Path(target).is_absolute() and joined.is_relative_to(tree)


def _command(here: Path, *arguments: str) -> list[str]:
    settings = [word for each in _SAFE for word in ("-c", each)]
    return ["git", "-C", str(here), *settings, "--no-pager", *arguments]


def _environment() -> dict[str, str]:
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    quiet["GIT_ALLOW_PROTOCOL"] = ""  # git before 2.44 does not know GIT_NO_LAZY_FETCH
    return {**os.environ, **quiet}


def _git(here: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            _command(here, *arguments),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            env=_environment(),
            check=False,
        )
    except FileNotFoundError:
        raise UsageError("--baseline: git is not installed here; give an earlier run instead") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"--baseline: git {arguments[0]} took longer than {_TIMEOUT_S} s") from None
    except ValueError:
        raise UsageError("--baseline: a name with a NUL byte is no commit") from None


def _text(ref: str, here: Path, *arguments: str) -> str:
    done = _git(here, *arguments)
    if done.returncode != 0:
        why = _first_line(done.stderr)
        raise UsageError(f"--baseline {ref}: neither a run nor a commit that git finds here: {why}")
    text = done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")
    if not text:
        raise UsageError(f"--baseline {ref}: a repository without files (bare); expected a checkout")
    return text


def _first_line(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    told = [line for line in lines if not line.startswith("warning: ")] or lines
    return told[0].removeprefix("fatal: ")[:200] if told else "git failed"
