"""The runner: gathers the evidence once, asks the judges, keeps everything.

targets -> deployments -> (endpoint) -> instruments -> records -> judges -> report
"""

from __future__ import annotations

import contextlib
import platform
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from preop import __version__
from preop.baseline.compare import Base, compare
from preop.deployment.types import Deployment
from preop.errors import InstrumentError, PreopError, UsageError
from preop.evidence import RECORD_SCHEMA, Live, Payload, Record, Strength
from preop.findings import Finding, Outcome, PitfallResult, Verdict, decide
from preop.gates import DEFAULT_GATE, GATES, Gate
from preop.inputs import Inputs
from preop.instruments import find_instrument
from preop.instruments.fingerprint import fingerprint, mismatch, remembered
from preop.instruments.types import Access, Instrument, Job
from preop.ledger.runs import Run, read_records, stale, utc_now
from preop.pitfalls import all_pitfalls
from preop.pitfalls.contradiction import apply as apply_contradictions
from preop.pitfalls.roles import apart
from preop.pitfalls.types import Case, Pitfall
from preop.report.types import About, Report
from preop.secrets import mask_text
from preop.signals import ignore_interrupts
from preop.text import Text
from preop.thresholds import Thresholds
from preop.waivers import Grant
from preop.waivers import apply as apply_waivers

__all__ = ["Interrupted", "Plan", "Watcher", "about_pitfalls", "check", "measure_one", "read_endpoint"]


class Watcher:
    """Told what the runner does. The command line shows it; by default nobody does."""

    def progress(self, name: str, line: str) -> None:
        """An instrument says how far it is."""

    def done(self, name: str, line: str) -> None:
        """An instrument has ended."""

    def message(self, line: str) -> None:
        """Something that a reader must know."""


@dataclass(frozen=True)
class Plan:
    """What to check and how, with every setting already merged."""

    deployments: Sequence[Deployment]
    endpoints: Mapping[str, Access] = field(default_factory=dict)
    """By deployment name; "" stands for the only deployment, or for one that only its endpoint tells of."""
    gate: Gate = GATES[DEFAULT_GATE]
    inputs: Inputs = field(default_factory=Inputs)
    measure: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    """For the instruments, by the names of their flags."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    evidence_roots: Sequence[Path] = ()
    """Run folders whose valid evidence is used besides what this run measures."""
    waivers: Sequence[Grant] = ()
    base: Base | None = None
    """What the findings are held against."""
    unread: Sequence[str] = ()
    """Sentences about what looks like a deployment and could not be read: no GO while there are any."""
    remarks: Sequence[Text] = ()
    """What else a reader must know that came up before the check."""


class Interrupted(Exception):
    """The user stopped the run; what had finished is kept in `run`."""


def check(plan: Plan, run: Run | None, watcher: Watcher) -> Report:
    """Judge every deployment for all fifteen pitfalls.

    `run` keeps each record as it comes; None keeps nothing. Raises `PreopError` when there is nothing to
    judge, `Interrupted` on Ctrl-C.
    """
    began, started_at = time.monotonic(), utc_now().isoformat()
    records: list[Record] = []

    def keep(record: Record) -> None:
        records.append(record)
        if run is not None:
            try:
                run.keep(record)
            except OSError as error:
                watcher.message(
                    f"{record.instrument}: the record could not be kept: {error.strerror or error}"
                )

    try:
        deployments, access = _read_endpoints(plan, keep, watcher)
        jobs = _jobs(plan, deployments, access, watcher)
        for record in _measure(jobs, watcher):
            keep(record)
    except (KeyboardInterrupt, PreopError) as end:
        if isinstance(end, KeyboardInterrupt):
            ignore_interrupts()
        if run is not None:
            with contextlib.suppress(OSError):  # what had finished is there all the same
                run.interrupt()
        if isinstance(end, PreopError):
            raise
        raise Interrupted from None
    fresh = {(record.instrument, record.deployment) for record in records}
    earlier = [
        record
        for record in _earlier(plan, deployments, watcher)
        if (record.instrument, record.deployment) not in fresh
    ]
    results = [_judge(pitfall, deployments, [*earlier, *records], plan) for pitfall in all_pitfalls()]
    baseline = None
    if plan.base is not None:
        results, baseline = compare(results, deployments, plan.base)
    warn_days = plan.thresholds["waiver.warn_days"]
    results, said = apply_waivers(results, deployments, plan.waivers, utc_now().date(), warn_days)
    verdict = decide(results, plan.gate)
    if verdict is Verdict.GO and plan.unread:
        verdict = Verdict.HOLD
    return Report(
        preop_version=__version__,
        verdict=verdict,
        gate=plan.gate.name,
        required=frozenset(plan.gate.required),
        deployments=tuple(deployments),
        results=tuple(results),
        records=(*earlier, *records),
        about=about_pitfalls(),
        thresholds=plan.thresholds,
        started_at=started_at,
        took_s=round(time.monotonic() - began, 3),
        run_path=str(run.path) if run is not None else None,
        baseline=baseline,
        remarks=(*_not_read(plan.unread), *plan.remarks, *said),
    )


def _not_read(unread: Sequence[str]) -> list[Text]:
    return [
        Text(f"not judged, which keeps the verdict from GO: {said}", f"未判定，因此不能给出 GO：{said}")
        for said in unread
    ]


def about_pitfalls() -> dict[str, About]:
    """What a report must know of every pitfall."""
    return {
        pitfall.id: About(pitfall.label, pitfall.title, pitfall.group, pitfall.item, pitfall.needs)
        for pitfall in all_pitfalls()
    }


def measure_one(
    instrument: Instrument,
    job: Job,
    watcher: Watcher,
    partial: Callable[[Record], None] = lambda record: None,
) -> Record:
    """Run one instrument and turn whatever happens into a record. KeyboardInterrupt passes through.

    `partial` takes a record of what is measured so far, each time it is more.
    """
    began, taken_at = time.monotonic(), utc_now().isoformat()
    payload: Payload | None = None
    error: str | None = None

    def record() -> Record:
        return Record(
            schema=RECORD_SCHEMA,
            instrument=instrument.name,
            deployment=job.deployment.name,
            strength=Strength.MEASURED,
            taken_at=taken_at,
            took_s=round(time.monotonic() - began, 3),
            fingerprint=fingerprint(instrument, job.deployment, job.access, job.inputs),
            conditions={
                "preop": __version__,
                "client": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
                **{name: value for name, value in job.options.items() if value is not None},
            },
            payload=payload,
            error=mask_text(error) if error else None,
        )

    def so_far(measured: Payload) -> None:
        nonlocal payload
        payload = measured
        partial(record())

    job = replace(job, progress=lambda line: watcher.progress(instrument.name, line), partial=so_far)
    try:
        payload = instrument.run(job)
    except PreopError as failure:
        error = str(failure)
    except Exception as crash:  # noqa: BLE001 a crashed instrument is an ERROR for its pitfalls, no more
        error = f"the instrument crashed: {type(crash).__name__}: {crash}"
    watcher.done(instrument.name, "failed" if error else "measured")
    return record()


def read_endpoint(declared: Deployment | None, target: Access, watcher: Watcher) -> tuple[Deployment, Record]:
    """What the running engine says, joined with what is declared.

    A declared deployment stays as it is when the engine cannot be read: the record says why. Raises
    `InstrumentError` when no engine is declared either.
    """
    from preop.deployment.join import from_live, join

    asked = declared or Deployment(target.url, "unknown", target.url, {})
    record = measure_one(find_instrument("endpoint"), Job(asked, target), watcher)
    if isinstance(record.payload, Live):
        joined = join(declared, record.payload) if declared else from_live(record.payload)
        return joined, msgspec.structs.replace(record, deployment=joined.name)
    why = record.error or f"{target.url}: nothing there could be read"
    if declared is None or declared.engine == "unknown":
        raise InstrumentError(why)
    watcher.message(why)
    return declared, record


def _read_endpoints(
    plan: Plan, keep: Callable[[Record], None], watcher: Watcher
) -> tuple[list[Deployment], dict[str, Access]]:
    deployments = list(plan.deployments)
    access: dict[str, Access] = {}
    for name, target in plan.endpoints.items():
        at = _index_of(deployments, name)
        joined, record = read_endpoint(None if at is None else deployments[at], target, watcher)
        if at is None:
            deployments.append(joined)
        else:
            deployments[at] = joined
        access[joined.name] = target
        keep(record)
    if not deployments:
        raise UsageError("nothing to check: give a file, `--endpoint URL`, or a serve command after `--`")
    return deployments, access


def _index_of(deployments: Sequence[Deployment], name: str) -> int | None:
    if not name:
        if len(deployments) > 1:
            one_of = _names(deployments)
            raise UsageError(
                f"--endpoint: which deployment is it? Give --endpoint NAME=URL with one of {one_of}"
            )
        return 0 if deployments else None
    for at, deployment in enumerate(deployments):
        if deployment.name == name:
            return at
    raise UsageError(f"--endpoint {name}=...: no such deployment (there is: {_names(deployments)})")


def _names(deployments: Sequence[Deployment]) -> str:
    shown = [deployment.name for deployment in deployments[:12]]
    more = f" and {len(deployments) - 12:,} more" if len(deployments) > 12 else ""
    return (", ".join(shown) or "none") + more


def _jobs(
    plan: Plan, deployments: Sequence[Deployment], access: Mapping[str, Access], watcher: Watcher
) -> list[tuple[Instrument, Job]]:
    jobs = []
    for name in plan.measure:
        instrument = find_instrument(name)
        for deployment in deployments:
            job = Job(deployment, access.get(deployment.name), plan.inputs, options=dict(plan.options))
            missing = instrument.missing(job)
            if missing is None:
                jobs.append((instrument, job))
            else:
                watcher.message(f"{name} was not measured for {deployment.name}: {missing.en}")
    return jobs


def _measure(jobs: Sequence[tuple[Instrument, Job]], watcher: Watcher) -> Iterator[Record]:
    """Those that put no load on an engine side by side; then the others, each alone."""
    quiet = [(instrument, job) for instrument, job in jobs if not instrument.puts_load]
    done: queue.SimpleQueue[Record] = queue.SimpleQueue()

    def work(instrument: Instrument, job: Job) -> None:
        done.put(measure_one(instrument, job, watcher))

    for instrument, job in quiet:
        # Daemons: Ctrl-C must not wait for a server that does not answer.
        threading.Thread(target=work, args=(instrument, job), daemon=True).start()
    for _ in quiet:
        yield done.get()
    for instrument, job in jobs:
        if instrument.puts_load:
            yield measure_one(instrument, job, watcher)


def _earlier(plan: Plan, deployments: Sequence[Deployment], watcher: Watcher) -> list[Record]:
    """Evidence of earlier runs that still speaks for one of the deployments, oldest first.

    Where there is some that does not any more, and none that does, the newest says why.
    """
    lifetime = timedelta(days=min(plan.thresholds["evidence.lifetime_days"], 36_500))  # or it overflows
    now, found = utc_now(), []
    expected: dict[tuple[str, str, Inputs], dict[str, Any]] = {}
    refused: dict[tuple[str, str], str] = {}
    for record in read_records(plan.evidence_roots):
        if isinstance(record, str):
            watcher.message(record)
            continue
        instrument = _instrument_of(record)
        if instrument is None:
            continue
        for deployment in _deployments_of(record, instrument, deployments):
            key = (instrument.name, deployment.name)
            inputs = remembered(plan.inputs, record.fingerprint)
            if (*key, inputs) not in expected:
                access = plan.endpoints.get(deployment.name) or plan.endpoints.get("")
                expected[*key, inputs] = fingerprint(instrument, deployment, access, inputs)
            why = mismatch(instrument, record.fingerprint, expected[*key, inputs])
            if why is None:
                why = stale(record, now, lifetime)
            if why is None:
                found.append(msgspec.structs.replace(record, deployment=deployment.name))
            else:
                what = f"{instrument.name} evidence of {record.taken_at[:10]}"
                refused[key] = f"{what} is not used for {deployment.name}: {why}"
    for key in refused.keys() - {(record.instrument, record.deployment) for record in found}:
        watcher.message(mask_text(refused[key]))
    return sorted(found, key=lambda record: datetime.fromisoformat(record.taken_at))


def _instrument_of(record: Record) -> Instrument | None:
    """None where the record's evidence is never used again: what an engine said of itself, a failure."""
    if record.instrument == "endpoint" or record.payload is None:
        return None
    try:
        return find_instrument(record.instrument)
    except UsageError:
        return None


def _deployments_of(
    record: Record, instrument: Instrument, deployments: Sequence[Deployment]
) -> list[Deployment]:
    """Those that the record may speak of: the one of that name; else those that have it in their own files,
    where the way to the engine does not matter."""
    named = [each for each in deployments if each.name == record.deployment]
    if named or instrument.at_endpoint:
        return named
    return [each for each in deployments if each.own_name == record.deployment.partition(" (")[0]]


def _judge(
    pitfall: Pitfall, deployments: Sequence[Deployment], records: Sequence[Record], plan: Plan
) -> PitfallResult:
    findings = {}
    for deployment in deployments:
        own = tuple(record for record in records if record.deployment == deployment.name)
        case = Case(deployment, tuple(deployments), own, plan.thresholds, plan.inputs)
        findings[deployment.name] = _judge_one(pitfall, case)
    return PitfallResult(pitfall.id, findings)


def _judge_one(pitfall: Pitfall, case: Case) -> Finding:
    try:
        finding = apply_contradictions(pitfall, case, apart(pitfall, case) or pitfall.judge(case))
        _refuse_weak_pass(pitfall, finding)
    except Exception as crash:  # noqa: BLE001 one judge's defect must not cost the other fourteen answers
        why = mask_text(f"{type(crash).__name__}: {crash}")
        return Finding(
            Outcome.ERROR,
            Text(f"preop's judge failed: {why}", f"preop 的判定程序出错:{why}"),
            needs=Text("report this to the preop project", "请向 preop 项目报告此问题"),
        )
    if finding.outcome is Outcome.UNPROVEN:
        finding = _failed_instrument(pitfall, case, finding)
    return finding


def _refuse_weak_pass(pitfall: Pitfall, finding: Finding) -> None:
    strength = finding.strength
    if finding.outcome is Outcome.PASS and (strength is None or strength.rank < pitfall.least.rank):
        raise ValueError(f"{pitfall.id} passed on {strength} evidence, but needs {pitfall.least}")


def _failed_instrument(pitfall: Pitfall, case: Case, finding: Finding) -> Finding:
    """An instrument that this pitfall waits for was tried and failed: ERROR, with its reason."""
    for name in pitfall.needs:
        record = case.record(name)
        if record is not None and record.error is not None:
            return msgspec.structs.replace(
                finding,
                outcome=Outcome.ERROR,
                summary=Text(f"{name} failed: {record.error}", f"{name} 测量失败:{record.error}"),
            )
    return finding
