"""The page in a real browser: nothing complained of, nothing asked of the network, nothing over the edge."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

import pytest

from preop.report import Approval, render_approval
from preop.report.html import render_html
from preop.text import Language

from . import samples

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
]

# Measures the page from inside a frame of the width asked for (a window has a least width) and leaves the
# numbers in the frame's owner. The page's own policy forbids scripts: the copy that is measured goes without.
PROBE = """<script>
const page = document.documentElement, style = getComputedStyle(document.body);
const over = [...document.querySelectorAll("body *")].filter(e => !e.closest("svg") && !e.closest(".scroll")
  && e.getBoundingClientRect().right > page.clientWidth + 1).map(e => e.tagName + "." + e.className);
const bottom = document.querySelector("h1").getBoundingClientRect().bottom;
const figures = [...document.querySelectorAll("figure svg")].map(e => e.getBoundingClientRect().width);
parent.document.title = JSON.stringify({wide: page.scrollWidth, view: page.clientWidth,
  over: over.slice(0, 5), ground: style.backgroundColor, h1: bottom, figures: figures});
</script>"""
FRAME = """<!doctype html><meta charset="utf-8">
<meta name="color-scheme" content="light dark"><title>-</title>
<iframe srcdoc="{}" style="width:{}px;height:900px;border:0"></iframe>"""


def chromium(tmp_path: Path, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    return subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-default-apps", "--hide-scrollbars", f"--user-data-dir={tmp_path / 'profile'}", *flags,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )  # fmt: skip


def measured(tmp_path: Path, html: str, width: int, dark: bool) -> dict[str, Any]:
    page = tmp_path / "probe.html"
    probed = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    probed = probed.replace("</body>", f"{PROBE}</body>")
    page.write_text(FRAME.format(escape(probed), width), encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    dom = chromium(tmp_path, page, "--dump-dom", "--window-size=1400,1000", scheme).stdout
    found = re.search(r"<title>(\{.*?\})</title>", dom)
    assert found, dom[:500]
    numbers: dict[str, Any] = json.loads(found.group(1))
    return numbers


@pytest.mark.parametrize("sample", [samples.no_go, samples.hold, samples.hostile])
@pytest.mark.parametrize(
    ("width", "dark", "language"), [(390, False, "zh"), (390, True, "en"), (1280, True, "zh")]
)
def test_nothing_runs_over_the_edge(
    tmp_path: Path, sample: Any, width: int, dark: bool, language: Language
) -> None:
    numbers = measured(tmp_path, render_html(sample(), language), width, dark)
    assert numbers["view"] == width
    assert numbers["wide"] <= width and numbers["over"] == []
    assert numbers["ground"] == ("rgb(18, 19, 22)" if dark else "rgb(245, 244, 241)")
    if sample is not samples.hostile:
        assert numbers["h1"] < 400, "the verdict is on the first screen"
    assert all(drawn >= 250 for drawn in numbers["figures"])
    assert len(numbers["figures"]) == (3 if sample is samples.hold else 0 if sample is samples.no_go else 2)


def test_no_complaint_and_no_request(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_html(samples.hostile(), "en"), encoding="utf-8")
    log = tmp_path / "net.json"
    flags = ("--dump-dom", "--enable-logging=stderr", f"--log-net-log={log}")
    ran = chromium(tmp_path, page, *flags)
    assert "CONSOLE" not in ran.stderr, ran.stderr
    assert "<h1>" in ran.stdout
    asked = set(re.findall(r'"url":"([^"]+)"', log.read_text(encoding="utf-8")))
    assert not [url for url in asked if "evil.test" in url], asked


def test_the_page_prints(tmp_path: Path) -> None:
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(render_html(samples.hold(), "zh"), encoding="utf-8")
    chromium(tmp_path, page, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    pdf = paper.read_bytes()
    assert pdf.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 3 <= pages <= 8, "fifteen cards and a curve, without half-empty sheets"


@pytest.mark.parametrize("sample", [samples.no_go, samples.hold, samples.go])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_approval_is_one_sheet(tmp_path: Path, sample: Any, language: Language) -> None:
    page, paper = tmp_path / "approval.html", tmp_path / "approval.pdf"
    said = Approval(service="chat", change="vLLM 0.31 to 0.32", rollback="helm rollback chat", gpu_hour=2.5)
    page.write_text(render_approval(sample(), language, said), encoding="utf-8")
    chromium(tmp_path, page, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    assert len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) == 1
