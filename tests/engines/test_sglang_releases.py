"""SGLang's releases, against `server_args.py` in their own packages."""

from __future__ import annotations

import pytest

from preop.engines import table, versions

from .commandline import flags_of, read
from .test_facts import facts_of


@pytest.mark.parametrize(
    ("version", "flag", "default"),
    [
        ("0.1.3", "port", 30000),
        ("0.1.3", "trust-remote-code", False),  # the class says True, the parser's store_true wins
        ("0.2.0", "schedule-conservativeness", 1.0),
        ("0.3.6", "dtype", "auto"),
        ("0.4.6", "disaggregation-mode", "null"),
        ("0.5.3", "stream-interval", 1),
        ("0.5.12", "max-loras-per-batch", 8),
        ("0.5.23", "port", 30000),
    ],
)
def test_a_default_of_a_release(version: str, flag: str, default: object) -> None:
    found = table("sglang", version)
    assert found is not None
    assert (found.flags[flag].default, found.flags[flag].how) == (default, "literal")


@pytest.mark.parametrize("version", ["0.2.12", "0.3.6", "0.4.6", "0.5.3", "0.5.23"])
def test_what_depends_on_the_gpu_is_no_number(version: str) -> None:
    """0.3.6 states 8192, and its `__post_init__` takes a quarter of it below 25 GB."""
    found = table("sglang", version)
    assert found is not None
    for flag in ("chunked-prefill-size", "mem-fraction-static"):
        assert flag not in found.flags or found.flags[flag].how == "computed"
    assert not facts_of("sglang", "--model-path", "M", version=version)["gpu_memory_fraction"].is_known


def test_every_release_starts_a_model_on_a_port() -> None:
    for version in versions("sglang"):
        found = table("sglang", version)
        assert found is not None and found.flags["port"].default == 30000, version
        parsed = read("sglang", "--model-path", "M", "--tp-size", "2", "--port", "1", version=version)
        assert sorted(flags_of(parsed).values(), key=str) == [1, 2, "M"], version
        assert parsed.notes == (), version


def test_speculation_came_with_0_4() -> None:
    texts = ["--model-path", "M", "--speculative-algorithm", "EAGLE"]
    old = read("sglang", *texts, version="0.3.6")
    assert [note.kind for note in old.notes] == ["unknown-flag"]
    assert facts_of("sglang", "--model-path", "M", version="0.3.6")["speculative"].value is None
    assert facts_of("sglang", *texts, version="0.4.6")["speculative"].value["method"] == "EAGLE"


def test_a_long_context_has_suffixes_only_in_newer_releases() -> None:
    assert flags_of(read("sglang", "--context-length", "8k", version="0.5.23")) == {"context-length": 8000}
    assert [note.kind for note in read("sglang", "--context-length", "8k", version="0.4.6").notes] == [
        "bad-value"
    ]
