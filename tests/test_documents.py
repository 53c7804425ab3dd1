"""What the documents show is what the commands print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_shown_output_is_real() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.refresh_docs", "--check", "README.md", "README.zh.md"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("document", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=str)
def test_links_within_the_repository_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name}: {target}"
