"""The comparison: which reference, which route, which texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from preop.errors import InputError, InstrumentError
from preop.evidence import TokenDifference, Tokens
from preop.instruments.prompts import read_prompts, texts
from preop.instruments.tokens.candidate import Candidate, Dialect
from preop.instruments.tokens.compare import name_pre_tokenizer, plain_difference, special_difference
from preop.instruments.tokens.corpus import CORPUS
from preop.instruments.tokens.reference import Reference, load_reference
from preop.instruments.types import Access, Job
from preop.instruments.wire.ask import model_name, reachable
from preop.instruments.wire.client import Connection, Target, run_loop
from preop.instruments.wire.errors import WireError

__all__ = ["compare", "measure"]

_MOST_PROMPTS = 1000
_LONGEST_TEXT = 100_000


def measure(job: Job) -> Tokens:
    """Hold the engine's ids against the reference's on the built-in texts and the user's prompts.

    Raises `InstrumentError` when there is no reference or no route, `InputError` for files that are wrong.
    """
    access = reachable(job)
    own = texts(read_prompts(job.inputs.prompts)) if job.inputs.prompts else []
    return run_loop(_measure(job, access, own))


async def _measure(job: Job, access: Access, own: list[str]) -> Tokens:
    target = Target.of(access)
    left_out = ["the chat template: what it renders is not compared"]
    reference = _given(job)
    if reference is None:
        reference = await _served(job, target, access.timeout_s)
        left_out.append(
            "the training side's own tokenizer: the engine's model file was the reference (--tokenizer)"
        )
    if len(own) > _MOST_PROMPTS:
        left_out.append(f"{len(own) - _MOST_PROMPTS} of the {len(own)} texts of the prompts")
    asked = [*CORPUS, *own[:_MOST_PROMPTS]]
    candidate = await _candidate(job, target, access.timeout_s)
    try:
        return await compare(job, reference, candidate, asked, left_out)
    finally:
        candidate.close()


async def compare(
    job: Job, reference: Reference, candidate: Candidate, asked: Sequence[str], left_out: list[str]
) -> Tokens:
    """Compare text by text. A difference in BOS or EOS is the same for all texts and reported once."""
    differences: list[TokenDifference] = []
    special: dict[str, TokenDifference] = {}
    seen: list[tuple[str, list[int]]] = []
    unsaid = cut = 0
    for number, text in enumerate(asked):
        if number % 20 == 0:
            job.progress(f"{number} of {len(asked)} texts, {len(differences)} differ")
        text = text.encode("utf-8", "replace").decode("utf-8")  # no engine takes half a surrogate pair
        if len(text) > _LONGEST_TEXT:
            cut += 1
            text = text[:_LONGEST_TEXT]
        ids = await candidate.encode(text, special=False)
        seen.append((text, ids))
        found = plain_difference(reference, text, ids)
        if found is not None:
            differences.append(found)
            continue
        expected = reference.encode_special(text)
        if expected is None:
            unsaid += 1
            continue
        found = special_difference(reference, text, expected, await candidate.encode(text, special=True))
        if found is not None:
            special.setdefault(found.cause, found)
    if unsaid:
        left_out.append("BOS and EOS: the reference does not say whether it adds them")
    if cut:
        left_out.append(f"what comes after {_LONGEST_TEXT} characters in {cut} texts")
    return Tokens(
        reference=reference.name,
        candidate=candidate.name,
        compared=len(asked),
        differences=[*special.values(), *name_pre_tokenizer(reference, seen, differences)],
        not_compared=left_out,
    )


def _given(job: Job) -> Reference | None:
    if job.inputs.tokenizer:
        return load_reference(job.inputs.tokenizer)
    given = job.inputs.reference
    if given and "://" not in given and Path(given).exists():
        return load_reference(given)
    return None


async def _served(job: Job, target: Target, timeout_s: float) -> Reference:
    """The tokenizer inside the files that the engine serves, where they are on this machine."""
    model = job.deployment.model
    places = [model.path if model is not None else None]
    places += [job.deployment.fact(name).value for name in ("tokenizer", "model", "weights_path")]
    if job.deployment.engine in ("llama.cpp", "unknown"):
        places.append(await _model_path(target, timeout_s))
    problem: InputError | None = None
    for place in places:
        if isinstance(place, str) and Path(place).exists():
            try:
                return load_reference(place)
            except InputError as error:
                problem = problem or error
    why = f" ({problem})" if problem is not None else ""
    raise InstrumentError(f"there is no tokenizer to compare with: give --tokenizer PATH{why}")


async def _model_path(target: Target, timeout_s: float) -> str | None:
    connection = await Connection.open(target, timeout_s)
    try:
        response = await connection.request("GET", "/props", timeout_s=timeout_s)
    finally:
        connection.close()
    try:
        path = json.loads(response.body())["model_path"] if response.status == 200 else None
    except (ValueError, KeyError, TypeError, RecursionError, WireError):
        return None
    return path if isinstance(path, str) else None


async def _candidate(job: Job, target: Target, timeout_s: float) -> Candidate:
    """The engine's route, in the first dialect that it answers."""
    model = await model_name(target, job, timeout_s)
    engine = job.deployment.engine
    dialects: tuple[Dialect, ...] = ("llama.cpp",) if engine == "llama.cpp" else ("vllm",)
    if engine == "unknown":
        dialects = ("vllm", "llama.cpp")
    elif engine not in ("llama.cpp", "vllm", "sglang"):
        raise InstrumentError(f"{engine} has no /tokenize route that is known here")
    problem: InstrumentError | None = None
    for dialect in dialects:
        candidate = Candidate(target, model, dialect, timeout_s)
        try:
            if await candidate.encode("probe", special=False):
                return candidate
        except InstrumentError as error:
            problem = problem or error
        candidate.close()
    raise problem or InstrumentError("POST /tokenize gives no ids for a text")
