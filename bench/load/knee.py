"""Whether the search finds the concurrency that a known law allows, and what that costs.

    python bench/load/knee.py [--runs N] [--busy] [--peers] [--laws 0,3,7]

Twelve laws of the pacer (base, slope, cap, prefill), each with an objective whose boundary a simulation
of the law gives. Printed for each run: the level found, its distance from the truth, the request-seconds
that the engine worked for it, and their share of a full walk over 1, 2, 4, ... 256 with the 662 requests
that a p99 takes at each level. `--busy`: a process keeps one core busy meanwhile. `--peers`: guidellm's
`goodput` as well.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import peers
from law import Law, boundary, closed_loop

TOKENS = 32
PROMPT = 96
TOP = 256
LAWS: list[tuple[Law, str, float]] = [
    (Law(5_000, 200), "tpot", 9.0),
    (Law(5_000, 200), "tpot", 13.0),
    (Law(8_000, 50), "tpot", 12.0),
    (Law(8_000, 50), "tpot", 18.0),
    (Law(4_000, 1_000), "tpot", 15.0),
    (Law(4_000, 30, slots=24), "ttft", 40.0),
    (Law(6_000, 20, slots=64), "ttft", 60.0),
    (Law(5_000, 100, free_seqs=16), "tpot", 9.0),
    (Law(10_000, 100), "e2e", 600.0),
    (Law(5_000, 60, prefill_us=20, prompt_tokens=PROMPT), "tpot", 14.0),
    (Law(6_000, 40, prefill_us=20, prompt_tokens=PROMPT), "ttft", 45.0),
    (Law(3_000, 80, slots=48), "e2e", 400.0),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--laws", default=",".join(map(str, range(len(LAWS)))))
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--peers", action="store_true")
    given = parser.parse_args()
    if given.peers:
        peers.prepare()
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if given.busy else None
    try:
        with tempfile.TemporaryDirectory() as folder:
            run(peers.build_pacer(Path(folder)), given)
    finally:
        if burner is not None:
            burner.kill()


def run(binary: Path, given: argparse.Namespace) -> None:
    print("law objective        truth  found    off resolved   req s of walk")
    within, shares = [], []
    for index in map(int, given.laws.split(",")):
        law, quantity, limit = LAWS[index]
        true = boundary(law, quantity, limit, TOKENS, TOP)
        walk = walk_cost(law)
        for _ in range(given.runs):
            with peers.pacing(binary, *law.options()) as (url, log):
                found, resolved = search(url, quantity, limit)
                spent = request_seconds(url, log)
            off = abs(found - true) / true if true else float(found > 0)
            within.append(off <= 0.10)
            shares.append(spent / walk)
            line = f"{index:>3} {f'{quantity}_p99={limit:g}ms':16} {true:>5} {found:>6} {off:>6.1%}"
            print(f"{line} {resolved!s:>8} {spent:>7.1f} {spent / walk:>7.1%}", flush=True)
            if given.peers:
                with peers.pacing(binary, *law.options()) as (url, log):
                    level = guidellm(url, quantity, limit)
                    spent = request_seconds(url, log)
                said = f"{'':20} guidellm goodput {level if level is not None else 'none':>6}"
                print(f"{said} {'':>15} {spent:>7.1f} {spent / walk:>7.1%}", flush=True)
    print(f"within 10 %: {sum(within)} of {len(within)}; request-seconds of a full walk: "
          f"{statistics.median(shares):.1%} median, {max(shares):.1%} most")  # fmt: skip


def search(url: str, quantity: str, limit: float) -> tuple[int, bool]:
    command = [
        str(Path(sys.executable).parent / "preop"), "measure", "load", "--endpoint", url, "--slo",
        f"{quantity}_p99={limit}ms", "--output-tokens", str(TOKENS), "--prompt-tokens", str(PROMPT),
        "--budget", "600", "-q",
        "--format", "json",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, cwd=folder, timeout=700)
    slo = json.loads(done.stdout)["slo"]
    return slo["concurrency"] or 0, slo["resolved"]


def request_seconds(url: str, log: Path) -> float:
    """Time that finished requests spent in the engine, summed."""
    peers.metrics(url)
    rows = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    return sum(last - arrived for arrived, _, last, _ in rows) / 1e9


def walk_cost(law: Law) -> float:
    """Request-seconds of 662 requests at each of 1, 2, 4, ... 256."""
    levels = [1 << power for power in range(TOP.bit_length())]
    return sum(662 * statistics.fmean(closed_loop(law, n, TOKENS, 200 + n).e2e) / 1e3 for n in levels)


def guidellm(url: str, quantity: str, limit: float) -> int | None:
    """The concurrency that guidellm's own search finds; None where it ends without one."""
    names = {"tpot": "tpot_ms", "ttft": "ttft_ms", "e2e": "e2el_ms"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [
            str(peers.VENVS / "guidellm" / "bin" / "guidellm"), "run",
            "--backend", f"kind=openai_http,target={url}",
            "--profile", json.dumps({"kind": "goodput", "slo": {names[quantity]: limit}}),
            "--constraint", "kind=max_requests,count=662",
            "--tokenizer", f"kind=huggingface_auto,model={peers.TOKENIZER}",
            "--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={TOKENS}",
            "--output", f"kind=json,path={out}", "--disable-console-interactive",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, cwd=folder, timeout=900)
        if not out.exists():
            print(done.stderr.decode("utf-8", "replace")[-300:], file=sys.stderr)
            return None
        document = json.loads(out.read_text())
    kept = [
        benchmark["config"]["strategy"]["streams"]
        for benchmark in document["benchmarks"]
        if (benchmark["metrics"].get("slo_attainment") or {}).get("rate", 0) >= 0.99
    ]
    return max(kept, default=None)


if __name__ == "__main__":
    main()
