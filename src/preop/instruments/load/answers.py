"""What the verdicts on single levels say of the objective together."""

from __future__ import annotations

from preop.evidence import Level, SloAnswer
from preop.instruments.load.search import Boundary
from preop.instruments.load.slo import Count, Objective, verdict_of

__all__ = ["answer_of_rates", "answer_of_search", "answer_of_walk"]

_NO_OBJECTIVE = "no objective was given: --slo ttft_p99=500ms,tpot_p99=50ms"


def answer_of_walk(objective: Objective | None, seen: dict[int, list[Count]]) -> SloAnswer:
    """The highest walked level below which, itself included, none breaks the objective."""
    if objective is None:
        return SloAnswer(None, False, _NO_OBJECTIVE)
    terms = {term.name: term.limit_ms for term in objective.terms}
    if not seen:
        return SloAnswer(None, False, "no level gave valid numbers", terms)
    verdicts = {level: verdict_of(counts) for level, counts in sorted(seen.items())}
    breaks = next((level for level, verdict in verdicts.items() if verdict == "breaks"), None)
    below = [level for level in verdicts if breaks is None or level < breaks]
    if not below:
        assert breaks is not None
        return SloAnswer(
            0 if breaks == 1 else None,
            breaks == 1,
            "one request alone does not keep the objective"
            if breaks == 1
            else f"{breaks}, the lowest level measured, breaks it",
            terms,
            breaks,
            _broken(seen[breaks]),
        )
    holds = below[-1]
    if breaks is None:
        resolved, why = False, f"it is kept up to {holds}, the highest level measured"
    elif breaks - holds > 1:
        resolved, why = False, f"{holds} keeps it, {breaks} breaks it; no level between was measured"
    else:
        resolved, why = True, f"{holds} keeps it, {breaks} breaks it"
    if verdicts[holds] != "holds":
        requests = max(count.of for count in seen[holds])
        resolved, why = False, f"{why}; {requests} requests at {holds} do not prove it"
    broken = _broken(seen[breaks]) if breaks else None
    return SloAnswer(holds, resolved, why, terms, breaks, broken, proved=verdicts[holds] == "holds")


def answer_of_rates(objective: Objective | None, seen: dict[float, list[Count]]) -> SloAnswer:
    """The same of an open loop's rates: `rate_per_s` instead of a concurrency."""
    if objective is None:
        return SloAnswer(None, False, _NO_OBJECTIVE)
    terms = {term.name: term.limit_ms for term in objective.terms}
    verdicts = {rate: verdict_of(counts) for rate, counts in sorted(seen.items())}
    breaks = next((rate for rate, verdict in verdicts.items() if verdict == "breaks"), None)
    below = [rate for rate in verdicts if breaks is None or rate < breaks]
    broken = _broken(seen[breaks]) if breaks is not None else None
    said = [f"{below[-1]:g} requests/s keep it"] if below else []
    if below and verdicts[below[-1]] != "holds":
        said = [f"{below[-1]:g} requests/s do not break it, and their sample does not prove it"]
    if breaks is not None:
        said.append(f"{breaks:g} break it")
    why = ", ".join(said) or "no rate gave numbers"
    proved = bool(below) and verdicts[below[-1]] == "holds" and breaks is not None
    return SloAnswer(None, proved, why, terms, None, broken, rate_per_s=below[-1] if below else None)


def answer_of_search(
    objective: Objective,
    boundary: Boundary,
    seen: dict[int, list[Count]],
    levels: dict[int, Level],
    stopped: str | None,
) -> SloAnswer:
    """What the search found, unless the latency fell with concurrency."""
    terms = {term.name: term.limit_ms for term in objective.terms}
    why = f"{boundary.why}: {stopped}" if stopped else boundary.why
    known = boundary.holds if boundary.holds or boundary.resolved else None
    resolved = boundary.resolved
    if boundary.breaks is not None and boundary.holds:
        low, high = levels[boundary.holds].tpot_ms.p50, levels[boundary.breaks].tpot_ms.p50
        if low and high and high < 0.9 * low:
            resolved = False
            why = f"not monotone: TPOT {low:g} ms at {boundary.holds}, {high:g} ms at {boundary.breaks}"
    broken = _broken(seen[boundary.breaks]) if boundary.breaks in seen else None
    proved = boundary.proved and boundary.holds > 0
    return SloAnswer(known, resolved, why, terms, boundary.breaks, broken, proved=proved)


def _broken(counts: list[Count]) -> str | None:
    """The limits that the level breaks: `tpot_p99: 3 of 40 requests within 50 ms`."""
    said = [
        f"{count.term.name}: {count.kept:.0f} of {count.of} requests within {count.term.limit_ms:g} ms"
        for count in counts
        if count.verdict == "breaks"
    ]
    return "; ".join(said) or None
