"""Whatever bytes a server sends, reading them ends in facts or in preop's own error."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import PreopError, UsageError
from preop.facts import Fact
from preop.instruments.endpoint.address import base_url, shown
from preop.instruments.endpoint.client import Answer
from preop.instruments.endpoint.exposition import canonical, in_range, parse
from preop.instruments.endpoint.live import interpret

ROUTES = (
    "/v1/models",
    "/metrics",
    "/version",
    "/props",
    "/slots",
    "/server_info",
    "/get_server_info",
    "/info",
)

# Keys that are read somewhere, so that random JSON gets past the first look.
KEYS = st.sampled_from(
    re.findall(
        r"\S+",
        """data id owned_by root parent max_model_len meta n_ctx n_ctx_train version model_path
        mem_fraction_static disable_radix_cache internal_states effective_max_running_requests_per_dp
        json_model_override_args
        default_generation_settings total_slots build_info chat_template speculative model_id max_total_tokens
        max_concurrent_requests vllm_config model_config cache_config scheduler_config speculative_config
        device_config vllm_env max_num_seqs gpu_memory_utilization served_model_name hf_overrides""",
    )
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["vllm", "sglang", "llamacpp", "cpu", "{}", "[", "b11549-abc"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=5), inner),
    max_leaves=12,
)
LABELS = st.lists(st.text(max_size=8), max_size=3)
LINE = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda name, labels, value: f"{name}{labels} {value}".encode(),
        st.sampled_from(
            [
                "vllm:num_requests_running",
                "vllm:cache_config_info",
                "vllm:kv_cache_usage_perc",
                "sglang:token_usage",
                "sglang:max_total_num_tokens",
                "llamacpp:requests_processing",
                "tgi_queue_size",
            ]
        ),
        st.sampled_from(
            [
                "",
                "{}",
                "{",
                '{engine="0"}',
                '{engine="0",engine="1"}',
                '{a="\\"}',
                '{num_gpu_blocks="٣"}',
                '{kv_cache_size_tokens="999999999999999999"}',
                '{block_size="-1"}',
                '{gpu_memory_utilization="nan"}',
            ]
        ),
        st.sampled_from(["1", "NaN", "+Inf", "-Inf", "1e999", "", "x", "0x10", "1 2 3", "1_0", "1 # {} 2"]),
    ),
)


def check(answers: list[Answer]) -> None:
    try:
        live = interpret("http://127.0.0.1", answers)
    except PreopError as error:
        assert "\n" not in str(error)
        return
    assert all(math.isfinite(value) for value in live.metrics.values())
    for fact in live.facts.values():
        assert isinstance(fact, Fact)
        assert not isinstance(fact.value, float) or math.isfinite(fact.value)
        if fact.unit in ("tokens", "requests", "blocks", "GPUs", "bytes") and fact.is_known:
            assert isinstance(fact.value, int) and fact.value > 0


@settings(max_examples=150, deadline=None)
@given(st.lists(LINE, max_size=8))
def test_any_exposition(lines: list[bytes]) -> None:
    check([Answer("/metrics", 200, b"\n".join(lines))])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(ROUTES), JSON, min_size=1, max_size=4))
def test_any_json(bodies: dict[str, object]) -> None:
    import msgspec

    check([Answer(path, 200, msgspec.json.encode(body)) for path, body in bodies.items()])


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(ROUTES), st.binary(max_size=200), max_size=8))
def test_any_bytes(bodies: dict[str, bytes]) -> None:
    check([Answer(path, 200, body) for path, body in bodies.items()])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40) | st.text("htps:/[]@?#.127v8 ", max_size=30).map(lambda rest: "http://" + rest))
def test_any_url(text: str) -> None:
    try:
        base = base_url(text)
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert base.startswith(("http://", "https://")) and not base.endswith("/")
        assert base_url(base) == base


def test_a_bad_line_costs_itself_alone() -> None:
    body = (
        b'vllm:num_requests_running{engine="0" 1\nvllm:num_requests_waiting{engine="0"} 4\nrubbish } line\n'
    )
    exposition = parse(body)
    assert exposition.note == "1 of its lines could not be read"
    assert canonical(exposition, "vllm", None)[0] == {"waiting": 4}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e999", "-1"])
def test_no_number_that_is_none(value: str) -> None:
    exposition = parse(f"vllm:num_requests_running {value}\nvllm:num_requests_waiting 4\n".encode())
    values, note = canonical(exposition, "vllm", None)
    assert values == {"waiting": 4}
    assert note == "vllm:num_requests_running holds no usable number"


def test_an_exposition_without_end_is_cut_off() -> None:
    body = b"".join(b'vllm:x{a="%d"} 1\n' % number for number in range(60_000))
    exposition = parse(body)
    assert len(exposition.samples) == 50_000 and "not read" in (exposition.note or "")


@pytest.mark.parametrize(
    "text, base",
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        (" https://h/v1/ ", "https://h"),
        ("http://h:1/a/b/v1/chat/completions", "http://h:1/a/b"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
        ("http://h/v1beta", "http://h/v1beta"),
        ("HTTP://h", "http://h"),
    ],
)
def test_base_url(text: str, base: str) -> None:
    assert base_url(text) == base


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "empty"),
        ("127.0.0.1:8000", "did you mean http://127.0.0.1:8000?"),
        ("localhost:8000/v1", "did you mean http://localhost:8000/v1?"),
        ("ftp://h", "expected http:// or https://"),
        ("unix:///run/x.sock", "expected http:// or https://"),
        ("http://", "no host"),
        ("http://::1:8000", "in brackets"),
        ("http://h:99999", "ort"),
        ("http://h:0", "port 0"),
        ("http://h/?token=secret", "without `?` and `#`"),
        ("http://h /v1", "blanks"),
    ],
)
def test_not_a_base_url(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        base_url(text)
    assert says in str(caught.value) and "secret" not in str(caught.value)


def test_shown_hides_what_is_secret() -> None:
    assert shown("https://user:pass@h:1/p?key=k#f") == "https://***@h:1/p"


@pytest.mark.parametrize(
    "version, inside",
    [
        ("0.11.0", True),
        ("0.32.0", True),
        ("0.32.0+cpu", True),
        ("0.12.0rc1", True),
        ("0.10.2", False),
        ("0.32.1", False),
        ("0.1.dev1+g0123", None),
        ("0.20.0.dev3", None),
        ("latest", None),
        (None, None),
    ],
)
def test_ranges_of_releases(version: str | None, inside: bool | None) -> None:
    assert in_range(version, {"since": "0.11.0", "until": "0.32.0"}) is inside
