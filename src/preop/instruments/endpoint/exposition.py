"""Prometheus expositions of servers that nobody vouches for, and preop's names for what is in them."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

__all__ = ["Exposition", "Sample", "canonical", "in_range", "names", "parse", "total"]

_MAX_LINE = 65_536
_MAX_SAMPLES = 50_000
_MAX_KEPT = 1_000
"""Characters of a series that is remembered."""


@dataclass(frozen=True)
class Sample:
    """One line of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Exposition:
    """The samples that belong to a known engine. `note` says what could not be read, in one sentence."""

    samples: tuple[Sample, ...] = ()
    note: str | None = None

    def of(self, engine: str) -> tuple[Sample, ...]:
        """The engine's own samples: those of a router that speaks for several engines are not among them."""
        known = names().get(engine, {})
        prefix, foreign = known.get("prefix"), known.get("foreign", ())
        return tuple(
            sample
            for sample in self.samples
            if prefix
            and sample.name.startswith(prefix)
            and not any(label in sample.labels for label in foreign)
        )

    def labels_of(self, engine: str, name: str) -> list[Mapping[str, str]]:
        """The label sets of one metric."""
        return [sample.labels for sample in self.of(engine) if sample.name == name]


@cache
def names() -> dict[str, dict[str, Any]]:
    """`metrics.toml`: by engine, what its metrics are called."""
    return tomllib.loads((files(__package__) / "metrics.toml").read_text(encoding="utf-8"))


def parse(body: bytes) -> Exposition:
    """Read an exposition line by line: a bad line costs itself, not those after it.

    Lines that belong to no known engine are skipped. Never raises.
    """
    prefixes = tuple(known["prefix"] for known in names().values())
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    bad, many = 0, False
    for line in body.decode("utf-8", "replace").split("\n"):
        line = line.strip("\r")
        if not line.startswith(prefixes):
            continue
        if len(found) >= _MAX_SAMPLES:
            many = True
            break
        try:
            if len(line) > _MAX_LINE:
                raise ValueError("line too long")
            sample = _sample(line)
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            bad += 1
    notes = [f"{bad} of its lines could not be read"] if bad else []
    notes += [f"more than {_MAX_SAMPLES} samples: the rest was not read"] if many else []
    return Exposition(tuple(found.values()), "; ".join(notes) or None)


def _sample(line: str) -> Sample:
    """One line. Its series is the same each time that the exposition is read; only the number is another."""
    series, brace, number = line.rpartition("}")
    if not brace:
        series, _, number = line.replace("\t", " ").partition(" ")
    name, labels = (_series if len(series) <= _MAX_KEPT else _series.__wrapped__)(series + brace)
    value, *timestamp = number.split()
    if len(timestamp) > 1 or "_" in number:
        raise ValueError("no number")
    return Sample(name, labels, float(value))


@lru_cache(maxsize=4096)
def _series(text: str) -> tuple[str, Mapping[str, str]]:
    """The name and the labels of `name{label="value"}`. Raises `ValueError` for anything else."""
    from prometheus_client.parser import text_string_to_metric_families

    (family,) = text_string_to_metric_families(f"{text} 0\n")
    (sample,) = family.samples
    return sample.name, {str(key): str(value) for key, value in sample.labels.items()}


def total(samples: Iterable[Sample], engine: str) -> float | None:
    """The sum of one metric over all that the engine tells apart; None where it holds no usable number."""
    return _combine(samples, names()[engine], "sum")


def canonical(
    exposition: Exposition, engine: str, version: str | None
) -> tuple[dict[str, float], str | None]:
    """The engine's gauges and counters under preop's names, and a sentence about what is missing or unusable.

    Where the version is known and its release prints a name by default, a missing one is told: a renamed
    metric never fails, it is just absent.
    """
    known = names().get(engine)
    samples = exposition.of(engine)
    if known is None or not samples:
        return {}, None
    values: dict[str, float] = {}
    missing, unusable = [], []
    for name, spec in known["metrics"].items():
        expected = [entry for entry in spec["names"] if in_range(version, entry) is True]
        for entry in expected or spec["names"]:
            own = [sample for sample in samples if sample.name == entry["name"]]
            if own:
                value = _combine(own, known, spec["combine"])
                if value is None:
                    unusable.append(entry["name"])
                else:
                    values[name] = value
                break
        else:
            if expected and "when" not in spec and version in known["read"]:
                missing.append(expected[0]["name"])
    notes = []
    if missing:
        notes.append(f"{', '.join(missing)} not there, though {engine} {version} prints it")
    if unusable:
        notes.append(f"{', '.join(unusable)} holds no usable number")
    return values, "; ".join(notes) or None


def _combine(samples: Iterable[Sample], known: Mapping[str, Any], how: str) -> float | None:
    """One number of many samples; None where one of them is NaN, infinite or negative."""
    replica = set(known.get("replica", ()))
    parts: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in samples:
        if any(sample.labels.get(label, value) != value for label, value in known.get("total", {}).items()):
            continue
        if not math.isfinite(sample.value) or sample.value < 0:
            return None
        key = tuple(sorted((label, value) for label, value in sample.labels.items() if label not in replica))
        parts[key] = max(sample.value, parts.get(key, sample.value))
    if not parts:
        return None
    total = max(parts.values()) if how == "max" else sum(parts.values())
    return total if math.isfinite(total) else None


def in_range(version: str | None, bounds: Mapping[str, str]) -> bool | None:
    """Whether a release lies within `since` and `until`, both included; None where it is no release."""
    at = _release(version)
    if at is None:
        return None
    since, until = _release(bounds.get("since")), _release(bounds.get("until"))
    return (since is None or at >= since) and (until is None or at <= until)


def _release(version: str | None) -> tuple[int, int, int] | None:
    """`0.32.0`, `0.10.1.1`, `0.32.0+cpu`, `0.11.0rc2`; a development build (`0.1.dev1+g..`) is none."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?![\d.]*\.?dev)", version or "")
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
