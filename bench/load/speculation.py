"""Whether the comparison finds the level where two known laws cross.

    python bench/load/speculation.py [--levels 1,4,16,32,64]

Pairs of pacers: with speculation a step takes longer and gives several tokens, without it is quick and gives
one. The time per token of a law is (base + slope x N) / accepted, so the crossing is a line of arithmetic.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import peers

# base, slope (us), tokens a step; of A, then of B
PAIRS = [
    ((12_000, 900, 3), (10_000, 100, 1)),
    ((9_000, 600, 2), (8_000, 50, 1)),
    ((10_000, 2_500, 4), (9_000, 100, 1)),
    ((6_000, 50, 2), (8_000, 50, 1)),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--levels", default="1,4,8,16,32,64")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        binary = peers.build_pacer(Path(folder))
        for a, b in PAIRS:
            one(binary, a, b, given.levels)


def one(binary: Path, a: tuple[int, int, int], b: tuple[int, int, int], levels: str) -> None:
    slopes = a[1] / a[2] - b[1] / b[2]
    crossing = (b[0] / b[2] - a[0] / a[2]) / slopes if slopes else -1.0
    top = max(map(int, levels.split(",")))
    said = f"{crossing:.1f}" if 0 < crossing <= top else f"none up to {top}"
    flags = [
        ["--base-us", str(base), "--per-seq-us", str(slope), "--accept", str(accept), "--slots", "256"]
        for base, slope, accept in (a, b)
    ]
    with peers.pacing(binary, *flags[0]) as (url_a, _), peers.pacing(binary, *flags[1]) as (url_b, _):
        command = [
            str(Path(sys.executable).parent / "preop"), "measure", "load", "--compare", url_a, url_b,
            "--concurrency", levels, "--output-tokens", "60", "--budget", "600", "--format", "json", "-q",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, timeout=700)
    found = json.loads(done.stdout)
    even = found["break_even"]
    at = f"none up to {even['up_to']}" if even["concurrency"] is None else f"{even['concurrency']:g}"
    print(f"A {a}, B {b}: truth {said}, found {at}")
    for pair in found["pairs"]:
        n = pair["concurrency"]
        law = (a[0] + a[1] * n) / a[2] / ((b[0] + b[1] * n) / b[2])
        shown = (
            "void"
            if pair["ratio"] is None
            else f"{pair['ratio']:.3f} [{pair['low']:.3f}, {pair['high']:.3f}]"
        )
        print(f"    {n:>3}: A/B by the law {law:.3f}, measured {shown}", flush=True)


if __name__ == "__main__":
    main()
