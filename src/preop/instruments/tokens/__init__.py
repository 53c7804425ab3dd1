"""Instrument "tokens": the engine's token ids held against a reference tokenizer's, text by text."""

from __future__ import annotations

from pathlib import Path

from preop.evidence import Payload
from preop.instruments.types import Instrument, Job
from preop.text import Text

__all__ = ["TOKENS"]


def _run(job: Job) -> Payload:
    from preop.instruments.tokens.measure import measure

    return measure(job)


def _missing(job: Job) -> Text | None:
    if job.access is None:
        return Text(en="give the running endpoint: --endpoint URL", zh="请给出正在运行的端点：--endpoint URL")
    model = job.deployment.model
    given = job.inputs.tokenizer or job.inputs.reference or (model.path if model is not None else None)
    # A llama.cpp server may name its model file itself; that is asked when the instrument runs.
    if (
        given is None
        and job.deployment.engine != "llama.cpp"
        and not _is_path(job.deployment.fact("model").value)
    ):
        return Text(
            en="give the training side's tokenizer: --tokenizer PATH (tokenizer.json, its folder, or GGUF)",
            zh="请给出训练侧的分词器：--tokenizer PATH（tokenizer.json、其目录或 GGUF）",
        )
    return None


def _is_path(value: object) -> bool:
    return isinstance(value, str) and Path(value).exists()


TOKENS = Instrument(
    name="tokens",
    puts_load=False,
    run=_run,
    missing=_missing,
    depends_on=("engine_version", "model", "tokenizer", "tokenizer_mode", "chat_template"),
    reads=("tokenizer",),
)
