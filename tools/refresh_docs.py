"""Put the real output of commands into the documents.

    python -m tools.refresh_docs [--check] [--engine] FILE...

In a document, what stands between

    <!-- output: preop check examples/shared-gpu.yml -->
    <!-- end of output -->

is replaced by a fenced block with what that command prints on standard output, 80 columns wide, run in the
checkout's root. Blocks marked `output with engine:` start an engine and are run only with `--engine`.
`--check` writes nothing and exits 1 where a document is not what the commands print.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(
    r"(?P<open><!-- output(?P<engine> with engine)?: (?P<command>[^\n]+?) -->\n)"
    r"(?P<old>.*?)(?P<close><!-- end of output -->)",
    re.DOTALL,
)


def printed(command: str) -> str:
    """What a preop command prints on standard output, without machine paths."""
    words = shlex.split(command)
    if words[0] != "preop":
        raise SystemExit(f"{command}: only preop commands are run")
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-m", "preop", *words[1:]],
        capture_output=True, text=True, cwd=ROOT, env=environment, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{command}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout.replace(f"{ROOT}/", "").rstrip()


def refreshed(text: str, *, engine: bool) -> str:
    """The document with each block as its command prints it now."""

    def replace(block: re.Match[str]) -> str:
        if block["engine"] and not engine:
            return block[0]
        shown = f"$ {block['command']}\n{printed(block['command'])}"
        return f"{block['open']}```text\n{shown}\n```\n{block['close']}"

    return _BLOCK.sub(replace, text)


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something is stale")
    parser.add_argument("--engine", action="store_true", help="run the blocks that start an engine, too")
    arguments = parser.parse_args()
    stale = False
    for path in arguments.files:
        old = path.read_text(encoding="utf-8")
        new = refreshed(old, engine=arguments.engine)
        if new == old:
            continue
        stale = True
        if arguments.check:
            print(f"{path}: not what its commands print; run `make docs`")
        else:
            path.write_text(new, encoding="utf-8")
            print(f"{path}: refreshed")
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
