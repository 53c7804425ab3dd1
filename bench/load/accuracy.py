"""How far a load generator's percentiles lie from what the server did, and what it costs in CPU time.

    python bench/load/accuracy.py [--streams 16,64,256,1024] [--rounds N] [--tools preop,aiperf]

The server is the pacer with a fixed schedule: first token after 20 ms, then one every 5 ms (20 ms at 1,024
streams, which is more than two cores carry otherwise), 150 tokens a request. Its own log of send instants is
the truth: it is late itself when the machine is busy, and that is no error of the client. Tools run one
after another, in turns, on the machine that runs the pacer; the median over the rounds is printed.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
from pathlib import Path

import peers

TOKENS = 150


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", default="16,64,256,1024")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", default=",".join(peers.NAMES))
    given = parser.parse_args()
    tools = given.tools.split(",")
    peers.prepare()
    print(
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {given.rounds} rounds"
    )
    with tempfile.TemporaryDirectory() as folder:
        binary = peers.build_pacer(Path(folder))
        for streams in map(int, given.streams.split(",")):
            rows: dict[str, list[tuple[peers.Seen, peers.Truth]]] = {tool: [] for tool in tools}
            for _ in range(given.rounds):
                for tool in tools:
                    rows[tool].append(one(binary, tool, streams))
            show(streams, rows)


def one(binary: Path, tool: str, streams: int) -> tuple[peers.Seen, peers.Truth]:
    itl = "20000" if streams > 512 else "5000"
    with peers.pacing(binary, "--open", "--ttft-us", "20000", "--itl-us", itl) as (url, log):
        seen = peers.run(tool, url, streams, max(704, 2 * streams), TOKENS)
        return seen, peers.truth(url, log, TOKENS)


def show(streams: int, rows: dict[str, list[tuple[peers.Seen, peers.Truth]]]) -> None:
    print(f"\n{streams} streams: error of the reported percentile in ms (reported - truth), cost")
    print(f"{'':12}{'TTFT p50':>10}{'p99':>9}{'ITL p50':>9}{'p99':>9}{'CPU s':>8}{'events/CPU s':>14}  open")
    for tool, runs in rows.items():
        cells = [
            _median([_error(getattr(seen, name)[i], getattr(true, name)[i]) for seen, true in runs])
            for name in ("ttft", "itl")
            for i in (0, 1)
        ]
        cpu = statistics.median(seen.cpu_s for seen, _ in runs)
        rate = statistics.median(true.tokens / seen.cpu_s for seen, true in runs)
        shown = "".join(f"{'-' if cell is None else format(cell, '+.2f'):>{w}}"
                        for cell, w in zip(cells, (10, 9, 9, 9), strict=True))  # fmt: skip
        print(f"{tool:12}{shown}{cpu:8.2f}{rate:14,.0f}  {max(true.peak for _, true in runs)}", flush=True)
        for seen, _ in runs:
            if seen.note:
                print(f"{'':12}{seen.note}")


def _error(reported: float | None, true: float) -> float | None:
    return None if reported is None else reported - true


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


if __name__ == "__main__":
    main()
