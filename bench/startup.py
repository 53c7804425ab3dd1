"""How long preop takes to answer, as a ratio to the bare interpreter in the same run.

    python bench/startup.py [--runs N]

Each round runs the interpreter doing nothing and then each command, so that a slow moment of the machine
falls on both; the ratio is taken round by round and its median is printed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVE = (
    "vllm serve Qwen/Qwen2.5-7B-Instruct-AWQ --max-model-len 32768 --max-num-seqs 256 "
    "--gpu-memory-utilization 0.95"
)
COMMANDS = {
    "preop --help": ["--help"],
    "preop check -- vllm serve ...": ["check", "--no-keep", "--", *SERVE.split()],
    "preop check --format json -- vllm serve ...": [
        "check",
        "--no-keep",
        "--format",
        "json",
        "--",
        *SERVE.split(),
    ],
    "preop explain P05": ["explain", "P05"],
}
LIMIT_S = 0.5
LIMIT_RATIO = 30


def seconds(command: list[str], folder: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, check=False)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="rounds (default 15)")
    runs = parser.parse_args().runs
    preop = str(Path(sys.executable).with_name("preop"))
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, "
        f"{runs} rounds"
    )
    print(f"{'command':<46} {'median':>9} {'ratio to `python -c pass`':>26}")
    within = True
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in COMMANDS.items():
            command = [preop, *arguments]
            seconds(command, folder)  # warm-up: byte code and file cache
            bare, own = [], []
            for _ in range(runs):
                bare.append(seconds([sys.executable, "-c", "pass"], folder))
                own.append(seconds(command, folder))
            ratio = statistics.median(mine / base for mine, base in zip(own, bare, strict=True))
            median = statistics.median(own)
            within &= median < LIMIT_S and ratio <= LIMIT_RATIO
            print(f"{name:<46} {median * 1e3:>6.0f} ms {ratio:>25.1f}x")
    print(f"limits: {LIMIT_S} s and {LIMIT_RATIO}x: {'kept' if within else 'NOT kept'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
