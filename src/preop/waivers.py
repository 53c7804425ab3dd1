"""Waivers: a person accepts one pitfall for a deployment until a day, and says why.

    # preop-waivers.toml, in a file of its own so that it can have owners of its own
    [[waiver]]
    pitfall = "P11"
    deployment = "chat"            # a name or a pattern; needed for a FAIL of one of several
    owner = "ml-platform@corp.example"
    reason = "first deployment of this engine: there is no version before"
    expires = 2026-12-31           # the last day on which it counts

An expired waiver counts as none. What is waived is measured and judged all the same. Without `deployment` a
waiver is for all of them, also for those that come later. Where several are checked it then accepts what is
not proven, and no FAIL: who accepts a failure must have seen whose it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from preop.deployment.types import Deployment
from preop.errors import UsageError
from preop.findings import Finding, Outcome, PitfallResult, Waiver
from preop.secrets import mask_text
from preop.text import Text
from preop.tomls import read_toml

__all__ = ["WAIVERS_FILE", "Grant", "apply", "load_waivers"]

WAIVERS_FILE = "preop-waivers.toml"
_LONGEST = 2000
_LONG_DAYS = 366
"""A waiver that lasts longer has no end that anybody here will meet, and is announced."""
_KEYS = ("pitfall", "deployment", "owner", "reason", "expires")
_NEEDED = ("pitfall", "owner", "reason", "expires")


class Grant(msgspec.Struct, frozen=True):
    """One entry of the file."""

    pitfall: str
    deployment: str
    """A pattern: `*` and `?` stand for any part of a name."""
    waiver: Waiver
    expires: date

    @property
    def is_for_all(self) -> bool:
        """Whether it names no deployment."""
        return not self.deployment.strip("*")

    def concerns(self, deployment: Deployment) -> bool:
        """Whether it speaks of this deployment."""
        pattern = self.deployment.replace("[", "[[]")  # a bracket in a name is only that
        return any(fnmatchcase(name, pattern) for name in (deployment.name, deployment.own_name) if name)

    def covers(self, pitfall: str, deployment: Deployment) -> bool:
        """Whether it speaks of this pitfall for this deployment."""
        return self.pitfall == pitfall and self.concerns(deployment)


def load_waivers(path: Path, pitfalls: Sequence[str]) -> tuple[Grant, ...]:
    """The entries of `path`. `pitfalls` are the ids that there are.

    Raises `UsageError` with the file and the entry where one lacks its owner, reason or last day, names no
    pitfall, or has a key that means nothing.
    """
    table = read_toml(path)
    for key in table:
        if key != "waiver":
            raise UsageError(f"{path}: {key} is not a key of a waivers file; expected [[waiver]] entries")
    entries = table.get("waiver", [])
    if not isinstance(entries, list):
        raise UsageError(f"{path}: waiver is no list of entries; expected [[waiver]] with double brackets")
    return tuple(_grant(path, number, entry, pitfalls) for number, entry in enumerate(entries, start=1))


def _grant(path: Path, number: int, entry: Any, pitfalls: Sequence[str]) -> Grant:
    where = f"{path}: waiver {number}"
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: expected a table with {', '.join(_NEEDED)}")
    for key in entry:
        if key not in _KEYS:
            nearest = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]}?" if nearest else f"expected {', '.join(_KEYS)}"
            raise UsageError(f"{where}: {key} is not a key of a waiver; {hint}")
    for key in _NEEDED:
        if key not in entry:
            raise UsageError(f"{where}: {key} is missing; a waiver needs {', '.join(_NEEDED)}")
    texts = {key: _text(where, key, entry[key]) for key in _KEYS if key in entry and key != "expires"}
    pitfall = texts["pitfall"].upper()
    if pitfall not in pitfalls:
        raise UsageError(f"{where}: pitfall is {texts['pitfall']!r}; expected one of {', '.join(pitfalls)}")
    expires = _day(where, entry["expires"])
    waiver = Waiver(mask_text(texts["owner"]), mask_text(texts["reason"]), expires.isoformat(), where)
    return Grant(pitfall, texts.get("deployment", "*"), waiver, expires)


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: {key} is {value!r}; expected a text that is not empty")
    if len(value) > _LONGEST:
        raise UsageError(f"{where}: {key} is longer than {_LONGEST} characters")
    return value.strip()


def _day(where: str, value: Any) -> date:
    if type(value) is date:
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise UsageError(
            f"{where}: expires is {str(value)[:60]!r}; expected a day such as 2026-12-31"
        ) from None


def apply(
    results: Sequence[PitfallResult],
    deployments: Sequence[Deployment],
    grants: Sequence[Grant],
    today: date,
    warn_days: float,
) -> tuple[list[PitfallResult], list[Text]]:
    """The results with what is accepted made WAIVED, and what must be said of the waivers.

    The last of several entries that cover one finding counts, so that a longer one can be added below.
    """
    valid = [grant for grant in grants if grant.expires >= today]
    used: set[int] = set()
    refused: dict[int, list[str]] = {}
    by_name = {deployment.name: deployment for deployment in deployments}
    waived = []
    for result in results:
        findings: dict[str, Finding] = {}
        for name, finding in result.by_deployment.items():
            covering = [grant for grant in valid if grant.covers(result.pitfall, by_name[name])]
            if finding.outcome is Outcome.FAIL and len(deployments) > 1:
                for grant in (grant for grant in covering if grant.is_for_all):
                    refused.setdefault(id(grant), []).append(name)
                covering = [grant for grant in covering if not grant.is_for_all]
            if covering and finding.outcome in (Outcome.FAIL, Outcome.UNPROVEN, Outcome.ERROR):
                used.update(map(id, covering))
                finding = msgspec.structs.replace(
                    finding, outcome=Outcome.WAIVED, waiver=covering[-1].waiver, waived=finding.outcome
                )
            findings[name] = finding
        waived.append(msgspec.structs.replace(result, by_deployment=findings))
    remarks: list[Text] = []
    for grant in grants:
        is_here = any(map(grant.concerns, deployments))
        said = _said(grant, refused.get(id(grant), []), id(grant) in used, is_here, (today, warn_days))
        if said is not None:
            remarks.append(said)
    return waived, remarks


def _said(
    grant: Grant, refused: Sequence[str], is_used: bool, is_here: bool, when: tuple[date, float]
) -> Text | None:
    waiver, (today, warn_days) = grant.waiver, when
    what = f"{waiver.where} ({grant.pitfall}, {grant.deployment}, {waiver.owner})"
    left = (grant.expires - today).days
    if left < 0:
        return Text(
            f"{what} expired on {waiver.expires}: it counts as none",
            f"{what} 已于 {waiver.expires} 到期，不再生效",
        )
    if refused:
        first, more = refused[0], f" +{len(refused) - 1}" if len(refused) > 1 else ""
        return Text(
            f'{what} names no deployment and accepts no FAIL: add deployment = "{first}" to accept that of '
            f"{first}{more}",
            f"{what} 未指明部署，不能接受 FAIL：要接受 {first}{more} 的不通过项，"
            f'请写明 deployment = "{first}"',
        )
    if not is_here:
        return Text(
            f"{what} speaks of no deployment that is checked here", f"{what} 未涉及此处检查的任何部署"
        )
    if not is_used:
        return Text(f"{what} covers nothing that is open: drop it", f"{what} 没有对应的未关闭项，可以删除")
    if left > _LONG_DAYS:
        return Text(
            f"{what} lasts until {waiver.expires}, {left:,} days from now: is that meant?",
            f"{what} 有效期至 {waiver.expires}，距今还有 {left:,} 天：请确认是否有意为之",
        )
    if left <= warn_days:
        return Text(
            f"{what} expires on {waiver.expires}, in {left} day{'' if left == 1 else 's'}",
            f"{what} 将于 {waiver.expires} 到期，还剩 {left} 天",
        )
    return None
