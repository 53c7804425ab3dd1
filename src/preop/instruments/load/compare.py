"""Two endpoints under the same load, in turns: A B B A at each level, so that a drift of the machine cancels.

What is compared is the time per output token (tokens from `usage`, never chunks), counted after the first
read with text: where that holds several tokens, as with speculation, TPOT's n - 1 would be too many. The
ratio is that of the medians over both turns. Its interval is a bootstrap over turns and, in them, requests:
requests of one turn share its disturbances.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

import msgspec

from preop.errors import InstrumentError
from preop.evidence import BreakEven, Comparison, Level, Pair
from preop.instruments.load.levels import summarize
from preop.instruments.load.options import Options, options_of
from preop.instruments.load.permission import refusal
from preop.instruments.load.runner import Runner
from preop.instruments.load.samples import LevelSamples, merged
from preop.instruments.prompts import read_prompts
from preop.instruments.types import Access, Job
from preop.instruments.wire.ask import reachable
from preop.instruments.wire.client import run_loop

__all__ = ["break_even", "compare", "ratio_of"]

_BUDGET_S = 300.0
_RESAMPLES = 1000
_LEAST_A_TURN = 12
_SAME_LENGTH = 0.05


def compare(job: Job) -> Comparison:
    """Measure the job's endpoint (A) against `compare` in its options (B), level by level.

    Raises `InstrumentError` when one of them cannot be measured at all.
    """
    access = reachable(job)
    other = replace(access, url=str(job.options["compare"]))
    for each in (job, replace(job, access=other)):
        refused = refusal(each)
        if refused is not None:
            raise InstrumentError(refused.en)
    about = job.options.get("about")
    speculates = _speculates(other)
    options = options_of(job, budget_s=_BUDGET_S)
    if job.inputs.prompts is not None:
        read_prompts(job.inputs.prompts)  # what is wrong with them is said before anything is sent
    # Another seed for each side: else B would be sent the salts that A was.
    sides = [Runner(job, access, options), Runner(job, other, options_of(job, budget_s=_BUDGET_S))]

    async def main() -> Comparison:
        for side, name in zip(sides, "AB", strict=True):
            side.name = f"{name}: "
            await side.ready()
        pairs = await _pairs(options, *sides)
        return Comparison(
            url_a=access.url,
            url_b=other.url,
            model_a=sides[0].model,
            model_b=sides[1].model,
            pairs=pairs,
            break_even=break_even(pairs),
            about=about if about in ("speculation", "quantization") else None,
            b_speculates=speculates,
            notes=[sides[0].workload.describe(), *_differences(pairs)],
        )

    return run_loop(main())


def _speculates(access: Access) -> bool | None:
    """Whether the engine there says that it speculates. Not being told is no reason not to measure."""
    from preop.instruments.endpoint import read_endpoint

    try:
        fact = read_endpoint(access).facts.get("speculative")
    except InstrumentError:
        return None
    return bool(fact.value) if fact is not None and fact.is_known else None


async def _pairs(options: Options, a: Runner, b: Runner) -> list[Pair]:
    end = time.monotonic() + options.budget.seconds
    levels = options.concurrency or tuple(_doubling(options.top))
    pairs = []
    for index, concurrency in enumerate(levels):
        left = end - time.monotonic()
        if left <= 0:
            why = f"the budget of {options.budget.seconds:g} s was over before this level"
            pairs.append(Pair(concurrency, None, None, None, voided_because=why))
            continue
        turn_s = left / (len(levels) - index) / 4
        requests = options.requests_at(concurrency)
        if options.requests is None and requests is not None:
            requests = max(requests, _LEAST_A_TURN)
        turns = [await side.closed(concurrency, requests, turn_s) for side in (a, b, b, a)]
        pairs.append(_pair(concurrency, *turns))
    return pairs


def _doubling(top: int) -> list[int]:
    return sorted({1 << power for power in range(top.bit_length()) if 1 << power <= top} | {top})


def _pair(concurrency: int, a1: LevelSamples, b1: LevelSamples, b2: LevelSamples, a2: LevelSamples) -> Pair:
    levels = [_level(concurrency, one, two) for one, two in ((a1, a2), (b1, b2))]
    why = next(
        (
            f"{name}: {level.voided_because}"
            for name, level in zip("AB", levels, strict=True)
            if not level.valid
        ),
        None,
    )
    ratio = None if why else ratio_of([_times(a1), _times(a2)], [_times(b1), _times(b2)])
    if why is None and ratio is None:
        why = "an answer states no usage, so there is no time per output token"
    value, low, high = ratio or (None, None, None)
    return Pair(concurrency, value, low, high, levels[0], levels[1], why)


def _level(concurrency: int, one: LevelSamples, two: LevelSamples) -> Level:
    """Two turns of one side as one level. Each has a time of its own, so rates are averaged."""
    each = [summarize(one), summarize(two)]
    both = merged([one, two])
    both.concurrency = concurrency
    level = summarize(both)
    bad = next((turn for turn in each if not turn.valid), None)
    rates = [turn.output_tokens_per_s for turn in each if turn.output_tokens_per_s is not None]
    flights = [turn.effective_concurrency for turn in each if turn.effective_concurrency is not None]
    return msgspec.structs.replace(
        level,
        valid=bad is None,
        voided_because=bad.voided_because if bad else None,
        output_tokens_per_s=round(sum(rates) / len(rates), 2) if rates else None,
        effective_concurrency=round(sum(flights) / len(flights), 2) if flights else None,
        window_s=sum(turn.window_s or 0.0 for turn in each),
        achieved_per_s=None,
    )


def _times(samples: LevelSamples) -> list[float]:
    return [value for sample in samples.finished if (value := sample.ms_per_later_token) is not None]


def ratio_of(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> tuple[float, float, float] | None:
    """Median of A over median of B with a 95 % interval, from the two turns of each; None without samples."""
    if not all([*a, *b]):
        return None
    draw = random.Random(20)  # the same answer for the same samples
    drawn = sorted(_ratio(_resampled(a, draw), _resampled(b, draw)) for _ in range(_RESAMPLES))
    low, high = drawn[round(0.025 * _RESAMPLES)], drawn[round(0.975 * _RESAMPLES) - 1]
    found = _ratio(a, b)
    return found, min(low, found), max(high, found)


def _ratio(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> float:
    above, below = (median([value for turn in side for value in turn]) for side in (a, b))
    return above / below if below > 0 else math.inf


def _resampled(side: Sequence[Sequence[float]], draw: random.Random) -> list[list[float]]:
    return [draw.choices(turn, k=len(turn)) for turn in draw.choices(side, k=len(side))]


def break_even(pairs: Sequence[Pair]) -> BreakEven:
    """Where the ratio crosses 1 for good: between the last level at which one side is the faster one beyond
    doubt and the first later one at which the other is; on a line through log2 of the level and log of the
    ratio."""
    known = [
        (pair.concurrency, pair.ratio, pair.low, pair.high)
        for pair in sorted(pairs, key=lambda pair: pair.concurrency)
        if pair.ratio and pair.low is not None and pair.high is not None
    ]
    if not known:
        return BreakEven(None, None, "no level gave a ratio")
    up_to = known[-1][0]
    signs = [-1 if high < 1 else 1 if low > 1 else 0 for _, _, low, high in known]
    first = next((index for index, sign in enumerate(signs) if sign), None)
    if first is None:
        return BreakEven(None, up_to, "no level tells the two apart")
    faster, slower = ("A", "B") if signs[first] < 0 else ("B", "A")
    turned = next((index for index in range(first, len(signs)) if signs[index] == -signs[first]), None)
    if turned is None:
        return BreakEven(None, up_to, f"{faster} is never beyond doubt the slower one")
    last = max(index for index in range(turned) if signs[index] == signs[first])
    points = [(math.log2(level), math.log(ratio)) for level, ratio, _, _ in known[last : turned + 1]]
    (x0, y0), (x1, y1) = next(
        (before, after)
        for before, after in pairwise(points)
        if before[1] * signs[first] >= 0 >= after[1] * signs[first]
    )
    at = 2 ** (x0 + (x1 - x0) * (y0 / (y0 - y1) if y0 != y1 else 0.5))
    why = f"{faster} is faster at {known[last][0]}, {slower} at {known[turned][0]}"
    return BreakEven(round(at, 1), up_to, why)


def _differences(pairs: Sequence[Pair]) -> list[str]:
    """What a reader must know of the two sides."""
    for pair in pairs:
        a, b = pair.a and pair.a.output_tokens, pair.b and pair.b.output_tokens
        if a and b and abs(a - b) > _SAME_LENGTH * max(a, b):
            return [f"answers differ in length: {a} and {b} tokens at {pair.concurrency}; TPOT is per token"]
    return []
