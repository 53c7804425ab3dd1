"""Programs that start an engine with flags of their own beside the engine's.

Their own flags are taken out, and what they say of the engine is set as the engine's flag would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from preop.engines.reading import Reading
from preop.facts import Origin, Word

__all__ = ["KV_ROLE", "LABELS", "TASK", "take_own"]

LABELS = {"kserve": "KServe", "dynamo": "Dynamo", "embeddings": "trtllm-serve", "rerank": "trtllm-serve"}
KV_ROLE = "kv-role"
"""The name under which a role is set that no flag of the engine sets."""
TASK = "serves"
"""The same for a task."""

# KServe's `huggingfaceserver` (python/huggingfaceserver/huggingfaceserver/__main__.py): its flag, vLLM's.
_KSERVE = {
    "--model-id": "model",
    "--model-dir": "model",
    "--model-name": "served-model-name",
    "--model-revision": "revision",
    "--tokenizer-revision": "tokenizer-revision",
    "--max-length": "max-model-len",
}
_KSERVE_TASKS = {
    "text_generation": "generate",
    "text2text_generation": "generate",
    "text_embedding": "embed",
    "sequence_classification": "classify",
}
_ROLES = {"prefill": "prefill", "decode": "decode", "agg": "both", "prefill_and_decode": "both"}


def take_own(state: Reading, through: str, words: Sequence[Word]) -> list[Word]:
    """The words that are the engine's; the others are set in `state`."""
    state.extended_by = LABELS.get(through)
    if through == "kserve":
        state.note("other", "KServe serves with vLLM where it can, else with Transformers")
        return _walk(state, words, _KSERVE_OWN, _kserve)
    if through == "dynamo":
        words = _walk(state, words, _DYNAMO_OWN, _dynamo)
        return _spelled_for_tensorrt(words) if state.engine == "tensorrt-llm" else words
    task = {"embeddings": "embed", "rerank": "score"}.get(through)
    if task is not None and words:
        _tell(state, TASK, task, through, words[0])
    return list(words)


_Take = Callable[[Reading, str, Word], None]
"""What the front makes of one of its own flags: its name, and the word of its value."""


def _walk(state: Reading, words: Sequence[Word], own: frozenset[str], take: _Take) -> list[Word]:
    rest: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        head, equals, tail = (word.text or "").partition("=")
        name = "--" + head[2:].replace("_", "-")
        if not head.startswith("--") or name not in own:
            rest.append(word)
            continue
        value = Word(None, word.origin, "its value is missing", single=True)
        if equals:
            value = msgspec.structs.replace(word, text=tail)
        elif name not in _SWITCHES and at < len(words):
            value = words[at]
            at += 1
        take(state, name, value)
        if value.text is None and not value.single:
            state.hide(value)
    return rest


def _kserve(state: Reading, name: str, value: Word) -> None:
    if name == "--task":
        task = _KSERVE_TASKS.get((value.text or "").replace("-", "_"))
        if task is not None:
            _tell(state, TASK, task, name, value)
    elif name in _KSERVE:
        flag = _KSERVE[name]
        if name == "--model-dir" and flag in state.given:
            return  # KServe mounts it beside --model_id, which names the same model
        state.on_command.discard(flag)
        state.value(flag, state.table.flags[flag], [value])
        if flag == "model":
            state.settled.add(flag)


def _dynamo(state: Reading, name: str, value: Word) -> None:
    role = {"--is-prefill-worker": "prefill", "--is-decode-worker": "decode"}.get(name)
    if name == "--disaggregation-mode":
        role = _ROLES.get((value.text or "").replace("-", "_"))
    _tell(state, KV_ROLE, role, name, value)


def _tell(state: Reading, name: str, value: str | None, flag: str, word: Word) -> None:
    """Set what no flag of the engine sets; the last one counts."""
    origin = word.origin
    if origin.kind == "argument" and "," not in origin.where:
        origin = Origin("argument", f"{origin.where}, {flag}")
    state.on_command.discard(name)
    why = None if value else word.note or f"{flag} has a value that preop does not know"
    state.set(name, value, origin, known=value is not None, note=why)


_SWITCHES = frozenset({"--is-prefill-worker", "--is-decode-worker"})
_KSERVE_OWN = frozenset({*_KSERVE, "--task", "--backend"})
_DYNAMO_OWN = frozenset({*_SWITCHES, "--disaggregation-mode"})


def _spelled_for_tensorrt(words: Sequence[Word]) -> list[Word]:
    """`python -m dynamo.trtllm` has TensorRT-LLM's options with dashes, and three under other names."""
    names = {"model_path": "model", "model": "model", "extra_engine_args": "config"}
    rest: list[Word] = []
    model: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        head, equals, tail = (word.text or "").partition("=")
        name = head[2:].replace("-", "_")
        if not head.startswith("--"):
            rest.append(word)
        elif names.get(name) == "model":
            if equals:
                model = [msgspec.structs.replace(word, text=tail)]
            elif at < len(words):
                model = [words[at]]
                at += 1
        else:
            rest.append(msgspec.structs.replace(word, text=f"--{names.get(name, name)}{equals}{tail}"))
    return [*model, *rest]
