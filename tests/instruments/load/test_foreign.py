"""Results of other load generators, read as evidence.

`guidellm-0.8.json`, `vllm-bench.json` and `aiperf-0.13.json` are cut down from runs of those tools, 16
streams against the pacer at one token in 5 ms; the others are written from the schemas with round numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.errors import InputError
from preop.evidence import Level, Load, Percentiles
from preop.instruments.load.foreign import files, read_results

DATA = Path(__file__).parents[2] / "data" / "load_results"
SINGLE = sorted(each.name for each in DATA.iterdir() if each.is_file())
Change = Callable[[dict[str, Any]], object]


def document(name: str) -> dict[str, Any]:
    text = (DATA / name).read_text()
    if name.endswith(".jsonl"):
        text = text.splitlines()[0]
    read = yaml.safe_load(text) if name.endswith(".yaml") else json.loads(text)
    assert isinstance(read, dict)
    return read


def changed(name: str, folder: Path, *changes: Change) -> str:
    """The path of a copy that is not what it was."""
    copy = document(name)
    for change in changes:
        change(copy)
    path = folder / "copy.json"
    path.write_text(json.dumps(copy))
    return str(path)


def only(load: Load) -> Level:
    assert len(load.levels) == 1
    return load.levels[0]


def says(load: Load, words: str) -> bool:
    return any(words in said for said in load.cannot_show)


@pytest.mark.parametrize("name", ["guidellm-0.8.json", "vllm-bench.json", "aiperf-0.13.json"])
def test_three_tools_saw_the_same_engine(name: str) -> None:
    load = read_results(str(DATA / name))
    level = only(load)
    assert (load.model, load.loop, load.output_tokens) == ("pacer", "closed", 150)
    assert (level.concurrency, level.requests, level.errors) == (16, 64, 0)
    # The pacer's law: a token in 5 ms after some 20 ms; 16 streams of 150 tokens in some 770 ms.
    assert level.tpot_ms.p50 == pytest.approx(5.0, rel=0.02)
    assert level.ttft_ms.p50 is not None and 20 < level.ttft_ms.p50 < 50
    assert level.e2e_ms.p50 == pytest.approx(780, rel=0.02)
    assert level.output_tokens_per_s == pytest.approx(16 * 150 / 0.78, rel=0.15)
    # 64 requests carry no p99.
    assert level.ttft_ms.p99 is level.tpot_ms.p99 is level.e2e_ms.p99 is None
    assert any("662" in said for said in level.warnings)
    assert level.client is None and says(load, "load generator itself kept up")
    assert says(load, "all started at once")


def test_guidellm_names_its_version_and_did_not_keep_its_streams_busy() -> None:
    load = read_results(str(DATA / "guidellm-0.8.json"))
    assert (load.tool, load.url) == ("guidellm 0.8.1", "http://127.0.0.1:18600")
    assert only(load).voided_because == "only 14.1 of 16 requests were in flight on average"
    assert says(load, "no ITL") and only(load).itl_ms == Percentiles()


def test_guidellm_counts_from_the_intended_start_in_an_open_loop() -> None:
    load = read_results(str(DATA / "guidellm-0.3.json"))
    level = only(load)
    # Each request started 20 ms late, had its first token 50 ms and its end 160 ms after that.
    assert (load.loop, level.offered_per_s, level.concurrency) == ("open", 10.0, 2)
    assert level.start_delay_ms.p50 == pytest.approx(20.0)
    assert level.ttft_ms.p50 == pytest.approx(70.0) and level.e2e_ms.p50 == pytest.approx(180.0)
    assert level.tpot_ms.p50 == pytest.approx(10.0)
    assert level.voided_because is not None and "20.0 ms late" in level.voided_because
    assert (load.model, load.url) == ("tiny", "http://127.0.0.1:8000")


def test_guidellm_without_all_its_requests_has_no_tpot(tmp_path: Path) -> None:
    def sampled(copy: dict[str, Any]) -> None:
        copy["benchmarks"][0]["requests"]["successful"] = copy["benchmarks"][0]["requests"]["successful"][:5]

    load = read_results(changed("guidellm-0.8.json", tmp_path, sampled))
    assert only(load).tpot_ms == Percentiles() and says(load, "weighs TPOT by tokens")
    assert only(load).ttft_ms.p50 == pytest.approx(39.1, rel=0.01)


def test_guidellm_sweep_keeps_the_loop_with_more_levels(tmp_path: Path) -> None:
    def sweep(copy: dict[str, Any]) -> None:
        first = copy["benchmarks"][0]
        text = json.dumps(first)
        copy["benchmarks"] = []
        for strategy in (
            {"type_": "synchronous"},
            {"type_": "throughput", "max_concurrency": None},
            {"type_": "constant", "rate": 5.0},
            {"type_": "poisson", "rate": 2.5, "max_concurrency": 512},
            {"type_": "constant", "rate": 7.5},
        ):
            copy["benchmarks"].append(json.loads(text))
            copy["benchmarks"][-1]["config"]["strategy"] = strategy

    load = read_results(changed("guidellm-0.8.json", tmp_path, sweep))
    assert load.loop == "open" and [level.offered_per_s for level in load.levels] == [2.5, 5.0, 7.5]
    assert any("2 levels of the closed loop left out" in note for note in load.notes)


def test_aiperf_tokens_are_the_engines() -> None:
    # AIPerf re-tokenised 2250 tokens an answer where the engine had sent 150.
    load = read_results(str(DATA / "aiperf-0.13.json"))
    assert load.tool == "aiperf 0.13.0" and says(load, "converted to the engine's count")
    assert only(load).output_tokens == 150


def test_aiperf_has_no_tpot_where_the_counts_cannot_be_converted(tmp_path: Path) -> None:
    varied: Change = lambda copy: copy["usage_completion_tokens"].update(min=140.0)  # noqa: E731
    load = read_results(changed("aiperf-0.13.json", tmp_path, varied))
    assert only(load).tpot_ms == Percentiles() and says(load, "there is no TPOT")


def test_aiperf_before_phases(tmp_path: Path) -> None:
    def older(copy: dict[str, Any]) -> None:
        copy["input_config"] = {
            "endpoint": {"model_names": ["tiny"], "url": "localhost:8000", "type": "chat"},
            "loadgen": {"concurrency": 16, "request_rate": None},
        }
        for name in [name for name in copy if "usage" in name] + ["effective_concurrency", "aiperf_version"]:
            del copy[name]

    load = read_results(changed("aiperf-0.13.json", tmp_path, older))
    assert (load.tool, load.model, load.url) == ("aiperf", "tiny", "localhost:8000")
    assert says(load, "counted by AIPerf's own tokenizer")
    assert only(load).tpot_ms.p50 == pytest.approx(0.337, abs=0.001)
    # Little's law: 64 requests of 792.3 ms in 3.349 s.
    assert only(load).effective_concurrency == pytest.approx(15.14, abs=0.01)


def test_a_cancelled_run_is_void(tmp_path: Path) -> None:
    cancelled: Change = lambda copy: copy.update(was_cancelled=True)  # noqa: E731
    assert only(read_results(changed("aiperf-0.13.json", tmp_path, cancelled))).voided_because


def test_failures_are_the_slowest_where_each_request_is_known() -> None:
    # 800 answers with TTFT 1, 2, ... 800 ms and 8 failures: rank 800 of 808 is 800 ms, not numpy's 792.01.
    level = only(read_results(str(DATA / "vllm-bench-detailed.json")))
    assert (level.requests, level.errors, level.valid) == (808, 8, True)
    assert level.ttft_ms == Percentiles(p50=404.0, p99=800.0)
    assert level.tpot_ms == Percentiles(p50=10.0, p99=10.0)
    assert level.itl_ms == Percentiles(p50=10.0, p99=10.0)
    assert level.effective_concurrency == pytest.approx(7.9)


def test_failures_take_the_p99_where_only_percentiles_are_known(tmp_path: Path) -> None:
    def summary(copy: dict[str, Any]) -> None:
        for name in ("ttfts", "itls", "input_lens", "output_lens", "errors"):
            del copy[name]

    level = only(read_results(changed("vllm-bench-detailed.json", tmp_path, summary)))
    assert level.ttft_ms == Percentiles(p50=400.5, p99=None)
    assert "8 requests failed, so there is no p99" in level.warnings
    whole: Change = lambda copy: copy.update(failed=0)  # noqa: E731
    assert (
        only(read_results(changed("vllm-bench-detailed.json", tmp_path, summary, whole))).ttft_ms.p99
        == 792.01
    )


def test_many_failures_void_a_level_and_name_the_commonest(tmp_path: Path) -> None:
    def failing(copy: dict[str, Any]) -> None:
        for index in range(100):
            copy["errors"][index] = "Traceback:\n  line\nHTTP 503, Authorization: Bearer abcdefgh12345"
        copy.update(completed=700, failed=108)

    level = only(read_results(changed("vllm-bench-detailed.json", tmp_path, failing)))
    assert level.voided_because is not None and level.voided_because.startswith("108 of 808 requests failed")
    assert "HTTP 503" in level.voided_because and "abcdefgh" not in level.voided_because


def test_a_p99_below_the_median_is_refused(tmp_path: Path) -> None:
    wrong: Change = lambda copy: copy.update(completed=1000, num_prompts=1000, p99_ttft_ms=1.0)  # noqa: E731
    with pytest.raises(
        InputError, match=r"copy\.json: ttft_ms has a p50 of .* and a p99 of 1, which cannot be"
    ):
        read_results(changed("vllm-bench.json", tmp_path, wrong))


def test_all_requests_at_once_are_no_level(tmp_path: Path) -> None:
    burst: Change = lambda copy: copy.update(max_concurrency=None)  # noqa: E731
    level = only(read_results(changed("vllm-bench.json", tmp_path, burst)))
    assert (level.concurrency, level.valid) == (64, False)
    assert level.voided_because == "all 64 requests were started at once: there is no steady state"


def test_a_role_alone_may_be_the_first_token_of_vllm_bench(tmp_path: Path) -> None:
    assert says(read_results(str(DATA / "vllm-bench.json")), "only a role")
    completions: Change = lambda copy: copy.update(backend="openai", endpoint_type="openai")  # noqa: E731
    assert not says(read_results(changed("vllm-bench.json", tmp_path, completions)), "only a role")


def test_a_folder_of_vllm_runs_is_sorted_by_level(tmp_path: Path) -> None:
    for concurrency in (64, 8, 16):
        copy = {**document("vllm-bench.json"), "max_concurrency": concurrency}
        (tmp_path / f"run-{concurrency}.json").write_text(json.dumps(copy))
    (tmp_path / "run.pytorch.json").write_text("[]")
    load = read_results(str(tmp_path))
    assert [level.concurrency for level in load.levels] == [8, 16, 64]
    assert any("run.pytorch.json" in note for note in load.notes)


def test_a_run_written_twice_is_one_level(tmp_path: Path) -> None:
    # AIPerf writes a run again under phases/, its warm-up too, all with one benchmark_id.
    text = json.dumps({**document("aiperf-0.13.json"), "benchmark_id": "abc"})
    for name in ("profile_export_aiperf.json", "phases/warmup/profile_export_aiperf.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    load = read_results(str(tmp_path))
    assert len(load.levels) == 1
    assert any("phases/warmup/profile_export_aiperf.json" in note for note in load.notes)


def test_aiperf_told_to_take_the_engines_count(tmp_path: Path) -> None:
    def told(copy: dict[str, Any]) -> None:
        for name in ("output_sequence_length", "usage_completion_tokens"):
            copy[name].update(min=140.0, max=160.0, p50=150.0, p99=158.0, sum=9600.0)
        del copy["usage_completion_tokens_diff_pct"]

    load = read_results(changed("aiperf-0.13.json", tmp_path, told))
    assert only(load).tpot_ms.p50 is not None and not says(load, "tokenizer")


def test_a_foreign_line_among_results_is_named(tmp_path: Path) -> None:
    (tmp_path / "mixed.jsonl").write_text((DATA / "sglang.jsonl").read_text() + '{"note": 1}\n')
    with pytest.raises(InputError, match=r"mixed\.jsonl:3: not a result"):
        read_results(str(tmp_path / "mixed.jsonl"))


def test_vllm_open_loop_is_a_level_of_rate(tmp_path: Path) -> None:
    rate: Change = lambda copy: copy.update(request_rate=25.0, max_concurrency=32)  # noqa: E731
    load = read_results(changed("vllm-bench.json", tmp_path, rate))
    level = only(load)
    assert (load.loop, level.offered_per_s, level.concurrency) == ("open", 25.0, 16)
    assert says(load, "not from the intended one")
    assert any("never more than 32 in flight" in said for said in level.warnings)


def test_sglang_lines_are_levels() -> None:
    load = read_results(str(DATA / "sglang.jsonl"))
    assert [level.concurrency for level in load.levels] == [4, 16]
    assert (load.tool, load.model) == ("sglang bench_serving", "tiny")
    assert [level.tpot_ms.p50 for level in load.levels] == [5.0, 8.0]
    # Nobody counted failures: there may have been some.
    assert load.levels[0].ttft_ms == Percentiles(p50=20.0) and says(
        load, "Failed requests are not in the file"
    )


def test_sglang_with_details_counts_failures(tmp_path: Path) -> None:
    def detailed(copy: dict[str, Any]) -> None:
        copy.update(ttfts=[0.04] * 700, errors=[""] * 700, output_lens=[100] * 700, input_lens=[32] * 700)

    level = only(read_results(changed("sglang.jsonl", tmp_path, detailed)))
    assert level.ttft_ms == Percentiles(p50=40.0, p99=40.0) and level.tpot_ms.p99 == 9.0


def test_inference_perf_stages_in_seconds() -> None:
    load = read_results(str(DATA / "inference-perf"))
    assert (load.tool, load.model, load.loop) == ("inference-perf", "tiny", "open")
    assert "secret" not in load.url and load.url.endswith("@127.0.0.1:8000")
    kept, late = load.levels
    assert kept.valid and kept.offered_per_s == 2.0 and kept.effective_concurrency == pytest.approx(2.04)
    assert kept.ttft_ms == Percentiles(p50=30.0, p99=40.0) and kept.tpot_ms == Percentiles(p50=10.0, p99=11.0)
    assert late.voided_because is not None and "2500.0 ms late" in late.voided_because
    assert any("summary_lifecycle_metrics.json" in note for note in load.notes)


def test_inference_perf_concurrency_closes_the_loop(tmp_path: Path) -> None:
    closed: Change = lambda copy: copy["load_summary"].update(concurrency=2)  # noqa: E731
    load = read_results(changed("inference-perf/stage_0_lifecycle_metrics.json", tmp_path, closed))
    assert load.loop == "closed" and only(load).concurrency == 2 and only(load).offered_per_s is None


def test_llm_d_reports_in_their_own_units(tmp_path: Path) -> None:
    newer, older = (read_results(str(DATA / f"llm-d-{version}.yaml")) for version in ("0.2", "0.1"))
    assert newer.tool == "llm-d-benchmark report 0.2.1 (vllm-benchmark 0.11)" and newer.model == "tiny"
    level = only(newer)
    assert (newer.loop, level.concurrency) == ("closed", 32)
    assert level.ttft_ms == Percentiles(p50=45.0, p99=90.0) and level.e2e_ms == Percentiles(1035.0, 1200.0)
    assert (older.loop, only(older).offered_per_s, only(older).tpot_ms.p50) == ("open", 4.0, 10.0)
    guidellm: Change = lambda copy: copy["scenario"]["load"].update(  # noqa: E731
        standardized={"tool": "guidellm", "concurrency": 32}
    )
    assert only(read_results(changed("llm-d-0.2.yaml", tmp_path, guidellm))).tpot_ms == Percentiles()


def put(*path: Any, value: Any) -> Change:
    def change(copy: dict[str, Any]) -> None:
        inner: Any = copy
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("vllm-bench.json", put("p99_ttft_ms", value=float("nan")), "p99_ttft_ms"),
        ("vllm-bench.json", put("median_ttft_ms", value=-3.0), "median_ttft_ms"),
        ("vllm-bench.json", put("duration", value=float("inf")), "duration"),
        ("vllm-bench.json", put("max_concurrency", value=0), "max_concurrency"),
        ("vllm-bench.json", put("ramp_up_strategy", value="linear"), "ramped up"),
        ("vllm-bench-detailed.json", put("ttfts", value=[0.1]), "differ in length"),
        ("vllm-bench-detailed.json", put("completed", value=801), "808"),
        ("guidellm-0.8.json", put("benchmarks", value=[]), "without any benchmark"),
        ("guidellm-0.8.json", put("benchmarks", 0, "config", "strategy", "type_", value="trace"), "'trace'"),
        (
            "guidellm-0.8.json",
            put("benchmarks", 0, "config", "strategy", "streams", value=None),
            "no concurrency",
        ),
        ("guidellm-0.8.json", put("benchmarks", 0, "metrics", value={}), "requests_per_second"),
        ("aiperf-0.13.json", put("request_latency", "unit", value="parsec"), "'parsec'"),
        ("aiperf-0.13.json", put("input_config", "phases", value=[]), "no concurrency"),
        ("aiperf-0.13.json", put("input_config", "models", "items", 0, value={"name": 7}), "models"),
        ("sglang.jsonl", put("request_rate", value="soon"), "'soon'"),
        ("inference-perf/summary_lifecycle_metrics.json", put("x", value=1), "summary over all stages"),
        ("inference-perf/stage_0_lifecycle_metrics.json", put("failures", "count", value=9), "700 requests"),
        ("llm-d-0.1.yaml", put("scenario", "load", "args", value={}), "no concurrency"),
        (
            "llm-d-0.2.yaml",
            put(
                "results",
                "request_performance",
                "aggregate",
                "latency",
                "request_latency",
                "units",
                value="h",
            ),
            "'h'",
        ),
        ("llm-d-0.2.yaml", put("results", value={}), "without the performance"),
    ],
)
def test_wrong_values_are_named(name: str, change: Change, words: str, tmp_path: Path) -> None:
    if words == "808":  # lists and counts contradict
        words = "differ in length"
    with pytest.raises(InputError) as caught:
        read_results(changed(name, tmp_path, change))
    assert words in str(caught.value) and "copy.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"{}", "not a result of guidellm"),
        (b"[1, 2]", "not a result of guidellm"),
        (b"\x80\x81\x82", "neither JSON nor valid YAML"),
        (b"key: [1, 2", "neither JSON nor valid YAML"),
        (b"a: &a [1]\nb: *a\n", "alias"),
        (b"[" * 100_000, "only a part"),
        (b'{"a": NaN, "b": ', "only a part"),
        (b"hello", "not a result of guidellm"),
    ],
)
def test_other_files_are_refused_in_a_sentence(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_results(str(path))
    assert "some.json" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in SINGLE if name.endswith(".json")])
def test_half_a_file_is_refused(name: str, tmp_path: Path) -> None:
    text = (DATA / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(text[: len(text) // 2])
    with pytest.raises(InputError, match="only a part"):
        read_results(str(path))


def test_half_a_line_is_named(tmp_path: Path) -> None:
    text = (DATA / "sglang.jsonl").read_bytes()
    (tmp_path / "half.jsonl").write_bytes(text[:-200])
    with pytest.raises(InputError, match=r"half\.jsonl:2: not valid JSON"):
        read_results(str(tmp_path / "half.jsonl"))


@pytest.mark.parametrize("path", ["nowhere.json", "nul\0.json", "/dev/null"])
def test_no_file_is_said(path: str) -> None:
    with pytest.raises(InputError):
        read_results(path)


def test_a_folder_without_results_and_a_file_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"no \.json"):
        read_results(str(tmp_path))
    monkeypatch.setattr(files, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="the largest file read"):
        read_results(str(DATA / "vllm-bench.json"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("model_id", value="other"), r"several models: 'pacer' .* and 'other'"),
        (put("label", value="again"), r"two results at 16 concurrent requests"),
    ],
)
def test_a_mixed_folder_is_refused(change: Change, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes((DATA / "vllm-bench.json").read_bytes())
    changed("vllm-bench.json", tmp_path, change)
    with pytest.raises(InputError, match=words):
        read_results(str(tmp_path))


def test_two_tools_in_a_folder_are_refused() -> None:
    with pytest.raises(InputError, match=r"several tools: 'aiperf 0\.13\.0'"):
        read_results(str(DATA))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def load_or_refusal(path: Path) -> None:
    try:
        load = read_results(str(path))
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert load.levels == sorted(load.levels, key=lambda level: level.offered_per_s or level.concurrency)
    assert msgspec.json.decode(msgspec.json.encode(load), type=Load) == load


@given(content=st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_content_gives_levels_or_a_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "any.json"
    path.write_bytes(content)
    load_or_refusal(path)


@given(data=st.data(), name=st.sampled_from([*SINGLE, "inference-perf/stage_0_lifecycle_metrics.json"]))
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_value_in_the_place_of_another_gives_levels_or_a_sentence(
    data: st.DataObject, name: str, tmp_path: Path
) -> None:
    copy = document(name)
    inner: Any = copy
    while True:
        keys = sorted(inner) if isinstance(inner, dict) else range(min(3, len(inner)))
        key = data.draw(st.sampled_from(list(keys)))
        if isinstance(inner[key], (dict, list)) and inner[key] and data.draw(st.booleans()):
            inner = inner[key]
            continue
        inner[key] = data.draw(VALUES)
        break
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(copy))
    load_or_refusal(path)
