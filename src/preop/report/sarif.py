"""The check as SARIF 2.1.0, for code scanning: findings at their place in the user's files.

What becomes what, by the standard, and by what its readers do with it (GitHub code scanning raises an alert
for every result, whatever its `kind`, and refuses a whole file in which one result has no file):

- All pitfalls are declared as rules, so that an alert closes when its finding is gone.
- FAIL is a result of kind `fail`, level `error`.
- UNPROVEN and ERROR that keep the gate shut are results of kind `open` ("insufficient information to
  decide", section 3.27.9). The level must then be `none` (3.27.10).
- UNPROVEN and ERROR that the gate does not ask for, or for which it has enough, are notifications of the
  run: they are told, and raise no alert.
- WAIVED is the result that it would be without the waiver, with an accepted `suppression` that names the
  owner, the reason and the last day (section 3.35).
- PASS and N/A are left out, and so is what a baseline had and this check has not: each would be an alert.
- `baselineState` is `new` or `unchanged` where a baseline is given.
- A result without a file has `logicalLocations` only: a command line, a URL, standard input.

Braces are doubled only where they would read as a placeholder: no reader turns the others back, and a
remedy must stay what can be typed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from preop.deployment.types import Deployment
from preop.findings import Finding, Outcome, Waiver
from preop.report.documents import to_json
from preop.report.headline import parsed
from preop.report.places import Place, file_of, places, repository_root, uri
from preop.report.plain import plain
from preop.report.types import Report
from preop.report.words import OUTCOMES, UI, aside
from preop.text import Language

__all__ = ["render_sarif"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MOST_RESULTS = 25_000
"""What GitHub takes in one run: https://docs.github.com/code-security (SARIF support for code scanning)."""
_LONGEST_DESCRIPTION = 1_024
_LONGEST_MESSAGE = 4_000
_BASE = "%SRCROOT%"


def render_sarif(
    report: Report, language: Language, pages: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """One SARIF log with one run. `pages` are the pitfalls' pages in Markdown, by id; paths are seen from
    `folder` (the current one) and written relative to the git repository that it is in."""
    folder = folder or Path.cwd()
    run = _Run(report, language, folder, repository_root(folder))
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run.document(pages or {})]}
    return to_json(log)


class _Run:
    def __init__(self, report: Report, language: Language, folder: Path, root: Path) -> None:
        self.report = report
        self.language: Language = language
        self.folder = folder
        self.root = root
        self._at = {pitfall: number for number, pitfall in enumerate(report.about)}

    def document(self, pages: Mapping[str, str]) -> dict[str, Any]:
        report = self.report
        results = list(self._results())
        notifications = list(self._notifications())
        if len(results) > _MOST_RESULTS:
            left = len(results) - _MOST_RESULTS
            notifications.insert(0, {"level": "warning", "message": {"text": f"{left:,} results left out"}})
            results = results[:_MOST_RESULTS]
        invocation: dict[str, Any] = {
            "executionSuccessful": True,
            "exitCode": report.verdict.exit_code,
            "exitCodeDescription": report.verdict.value,
            "toolExecutionNotifications": notifications,
        }
        began = parsed(report.started_at)
        if began is not None:
            invocation["startTimeUtc"] = began.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "tool": {
                "driver": {
                    "name": "preop",
                    "version": report.preop_version,
                    "language": "zh-CN" if self.language == "zh" else "en-US",
                    "rules": [self._rule(pitfall, pages.get(pitfall, "")) for pitfall in report.about],
                }
            },
            "automationDetails": {"id": f"preop/{plain(report.gate, 40)}/"},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {_BASE: {"description": {"text": "the root of the repository"}}},
            "invocations": [invocation],
            "results": results,
            "properties": {
                "verdict": report.verdict.value,
                "gate": plain(report.gate, 40),
                "required": sorted(report.required),
                "notRequired": report.not_required,
            },
        }

    def _rule(self, pitfall: str, page: str) -> dict[str, Any]:
        about = self.report.about[pitfall]
        title = about.title.in_(self.language)
        rule: dict[str, Any] = {
            "id": pitfall,
            "name": "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", about.title.en)),
            "shortDescription": {"text": _text(title, _LONGEST_DESCRIPTION)},
            "fullDescription": {"text": _text(_symptom(page) or title, _LONGEST_DESCRIPTION)},
            "defaultConfiguration": {"level": "error"},
            "properties": {"tags": ["llm-inference", about.group], "precision": "very-high"},
        }
        if page:
            rule["help"] = {"text": page, "markdown": page}
        return rule

    def _results(self) -> Iterator[dict[str, Any]]:
        by_name = {deployment.name: deployment for deployment in self.report.deployments}
        for result in self.report.worst_first:
            for name, finding in result.by_deployment.items():
                if self._is_result(result.pitfall, finding):
                    yield self._result(result.pitfall, by_name.get(name), name, finding)

    def _is_result(self, pitfall: str, finding: Finding) -> bool:
        """What fails, what is waived, and what keeps the gate shut (or did already in the baseline)."""
        if finding.outcome in (Outcome.FAIL, Outcome.WAIVED):
            return True
        return self.report.blocks(pitfall, _as_new(finding))

    def _result(
        self, pitfall: str, deployment: Deployment | None, name: str, finding: Finding
    ) -> dict[str, Any]:
        outcome = finding.waived or Outcome.FAIL if finding.outcome is Outcome.WAIVED else finding.outcome
        fails = outcome is Outcome.FAIL
        found: dict[str, Any] = {
            "ruleId": pitfall,
            "ruleIndex": self._at[pitfall],
            "kind": "fail" if fails else "open",
            "level": "error" if fails else "none",
            "message": {"text": self._message(name, finding)},
        }
        places = self._places(deployment, finding)
        logical = {"name": plain(name, 200), "kind": "module"}
        first = {"physicalLocation": places[0]} if places else {}
        found["locations"] = [{**first, "logicalLocations": [logical]}]
        if places[1:]:
            found["relatedLocations"] = [{"physicalLocation": physical} for physical in places[1:]]
        own = deployment.own_name if deployment and deployment.own_name else name
        where = places[0]["artifactLocation"]["uri"] if places else ""
        key = "\0".join((pitfall, own, where)).encode("utf-8", "replace")
        found["partialFingerprints"] = {"preop/v1": hashlib.sha256(key).hexdigest()}
        found["properties"] = {
            "deployment": plain(name, 200),
            "outcome": finding.outcome.value,
            "strength": finding.strength.value if finding.strength else None,
            "required": pitfall in self.report.required,
        }
        if finding.in_baseline is not None:
            found["baselineState"] = "unchanged" if finding.in_baseline else "new"
        if finding.waiver is not None:
            found["suppressions"] = [self._suppression(finding.waiver)]
        return found

    def _message(self, name: str, finding: Finding) -> str:
        ui = {key: UI[key].in_(self.language) for key in ("fix", "needs")}
        colon = "：" if self.language == "zh" else ": "
        several = len(self.report.deployments) > 1
        lines = [(f"{name}{colon}" if several else "") + finding.summary.in_(self.language)]
        if finding.outcome in (Outcome.UNPROVEN, Outcome.ERROR):
            lines[0] += aside(OUTCOMES[finding.outcome].in_(self.language), self.language)
        if finding.remedy is not None:
            lines.append(f"{ui['fix']}{colon}{finding.remedy.in_(self.language)}")
        if finding.needs is not None:
            lines.append(f"{ui['needs']}{colon}{finding.needs.in_(self.language)}")
        return "\n".join(_text(line, _LONGEST_MESSAGE) for line in lines)

    def _places(self, deployment: Deployment | None, finding: Finding) -> list[dict[str, Any]]:
        """Where it stands in the user's files; else the head of the file that the deployment came from."""
        found = places(finding.where)
        file = file_of(deployment.source) if deployment is not None else None
        if not found and file is not None:
            found = [Place(file, 1)]
        return [self._physical(place) for place in found]

    def _physical(self, place: Place) -> dict[str, Any]:
        address, inside = uri(place.path, self.folder, self.root)
        region: dict[str, int] = {"startLine": place.line}
        if place.column is not None:
            region["startColumn"] = place.column
        artifact = {"uri": address, "uriBaseId": _BASE} if inside else {"uri": address}
        return {"artifactLocation": artifact, "region": region}

    def _suppression(self, waiver: Waiver) -> dict[str, Any]:
        suppression: dict[str, Any] = {
            "kind": "external",
            "status": "accepted",
            "justification": f"{plain(waiver.owner, 200)}: {plain(waiver.reason, 2_000)}",
            "properties": {"owner": plain(waiver.owner, 200), "expires": plain(waiver.expires, 40)},
        }
        place = places(waiver.where)
        if place:
            suppression["location"] = {"physicalLocation": self._physical(place[0])}
        return suppression

    def _notifications(self) -> Iterator[dict[str, Any]]:
        for result in self.report.results:
            for name, finding in result.by_deployment.items():
                if finding.outcome not in (Outcome.UNPROVEN, Outcome.ERROR) or self._is_result(
                    result.pitfall, finding
                ):
                    continue
                yield {
                    "level": "error" if finding.outcome is Outcome.ERROR else "note",
                    "message": {"text": self._message(name, finding)},
                    "associatedRule": {"id": result.pitfall, "index": self._at[result.pitfall]},
                }
        for remark in self.report.remarks:
            yield {"level": "warning", "message": {"text": _text(remark.in_(self.language), 1_000)}}


def _as_new(finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, in_baseline=None) if finding.in_baseline else finding


def _text(text: str, limit: int) -> str:
    """Plain text of a message; what would read as a link or a placeholder is escaped (3.11.5, 3.11.6)."""
    safe = re.sub(r"\[(?=[^\[\]]*\]\()", r"\\[", plain(text, limit - 100))
    safe = re.sub(r"\{(\d+)\}", r"{{\1}}", safe)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def _symptom(page: str) -> str:
    """The first paragraph of a page."""
    paragraphs = (block.strip() for block in page.split("\n\n"))
    first = next((block for block in paragraphs if block and not block.startswith("#")), "")
    return re.sub(r"[*`]", "", " ".join(first.split()))
