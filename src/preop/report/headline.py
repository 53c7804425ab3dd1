"""What was judged, in a few words: engine and version, model, hardware; and who speaks for a pitfall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from preop.deployment.types import Deployment
from preop.findings import Finding, PitfallResult
from preop.report.plain import plain, shown
from preop.report.words import SET_BY, UI
from preop.text import Language

__all__ = [
    "count_by_engine",
    "engine_of",
    "hardware_of",
    "headline",
    "model_of",
    "moment",
    "parsed",
    "said_of_all",
    "speaker",
]


def headline(deployment: Deployment, language: Language) -> str:
    """`vllm 0.32.0 · Qwen2.5-7B-Instruct-AWQ · 1x H100-80GB (you)`."""
    return " · ".join(part(deployment, language) for part in (engine_of, model_of, hardware_of))


def count_by_engine(deployments: Sequence[Deployment], language: Language) -> str:
    """`312 deployments: 280 vllm, 32 sglang`."""
    engines = Counter(plain(each.engine, 20) for each in deployments).most_common(6)
    parts = ", ".join(f"{count} {engine}" for engine, count in engines)
    colon = "：" if language == "zh" else ": "
    return f"{len(deployments):,} {UI['count_deployments'].in_(language)}{colon}{parts}"


def engine_of(deployment: Deployment, language: Language) -> str:
    """Engine and version, as far as they are known."""
    if deployment.engine == "unknown":
        return UI["engine_unknown"].in_(language)
    version = deployment.fact("engine_version")
    return plain(f"{deployment.engine} {version.value}" if version.is_known else deployment.engine, 40)


def model_of(deployment: Deployment, language: Language) -> str:
    """The model's name, or what the deployment calls it."""
    if deployment.model is not None:
        return plain(deployment.model.name, 60)
    for name in ("model", "served_model_name"):
        fact = deployment.fact(name)
        if fact.is_known and fact.value:
            return shown(fact.value, limit=60)
    return UI["model_unknown"].in_(language)


def hardware_of(deployment: Deployment, language: Language) -> str:
    """GPUs by count and name with who said so, or that there are none, or that nothing tells."""
    gpu, count, accelerator = (deployment.fact(name) for name in ("gpu", "gpu_count", "accelerator"))
    if accelerator.is_known and accelerator.value == "none":
        return UI["no_gpu"].in_(language)
    what = gpu if gpu.is_known and gpu.value else accelerator
    if not what.is_known or not what.value:
        return UI["hardware_unknown"].in_(language)
    times = f"{shown(count.value, limit=8)}x " if count.is_known and count.value else ""
    return f"{times}{shown(what.value, limit=80)} ({SET_BY[what.set_by].in_(language)})"


def speaker(result: PitfallResult) -> tuple[str, Finding]:
    """The deployment that is worst off (the first of equals), and what was found of it."""
    finding = result.worst
    name = next(name for name, each in result.by_deployment.items() if each is finding)
    return name, finding


def said_of_all(result: PitfallResult) -> bool:
    """Whether one sentence holds for every deployment, so that none needs to be named."""
    findings = list(result.by_deployment.values())
    return all(
        (each.outcome, each.summary) == (findings[0].outcome, findings[0].summary) for each in findings
    )


def moment(text: str) -> str:
    """`2026-11-03T09:12:44Z` as `2026-11-03 09:12 UTC`; what is no time stays as it is."""
    time = parsed(text)
    return time.strftime("%Y-%m-%d %H:%M UTC") if time else text


def parsed(text: str) -> datetime | None:
    """The time in UTC, or None where `text` is no ISO 8601 time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
