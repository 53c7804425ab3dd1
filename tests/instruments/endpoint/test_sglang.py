"""SGLang, which needs a GPU: answers composed by hand from the source of sglang 0.5.23.

`/server_info` is `server_args.resolved_dict()` with the scheduler's `get_init_info()`, `internal_states` and
`version` (in srt: entrypoints/http_server.py, utils/common.py, scheduler_components/internal_state.py); names
of metrics and labels are those of observability/metrics_collector.py. Not recorded from a running server:
what a real one adds beside these fields is not tested here.
"""

from __future__ import annotations

import json
from typing import Any

from preop.evidence import Live
from preop.instruments.endpoint import models_of, read_endpoint
from preop.instruments.types import Access

from .servers import Page, answering, serving

STATE = {
    "effective_max_running_requests_per_dp": 48,
    "memory_usage": {"weight": 15.2, "kvcache": 40.1, "token_capacity": 350_000, "token_capacity_swa": None},
}
INFO: dict[str, Any] = {
    "model_path": "Qwen/Qwen2.5-7B-Instruct",
    "tokenizer_path": "Qwen/Qwen2.5-7B-Instruct",
    "tokenizer_mode": "auto",
    "served_model_name": "qwen",
    "revision": None,
    "context_length": None,
    "dtype": "auto",
    "quantization": None,
    "kv_cache_dtype": "auto",
    "mem_fraction_static": 0.84,
    "max_running_requests": None,
    "chunked_prefill_size": 8192,
    "page_size": 1,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "disable_radix_cache": False,
    "speculative_algorithm": None,
    "allow_auto_truncate": False,
    "enable_metrics": True,
    "stream_interval": 1,
    "chat_template": None,
    "json_model_override_args": "{}",
    "api_key": "sk-very-secret",
    "admin_api_key": "adm-very-secret",
    "launch_command": "sglang serve --model-path Qwen/Qwen2.5-7B-Instruct --api-key ***",
    "max_total_num_tokens": 350_000,
    "max_req_input_len": 32_762,
    "internal_states": [STATE],
    "version": "0.5.23",
}
MODELS = b'{"object":"list","data":[{"id":"qwen","owned_by":"sglang","root":"qwen","max_model_len":32768}]}'


def metrics(priority: bool = False) -> bytes:
    lines = []
    for rank in ("0", "1"):
        labels = f'model_name="qwen",engine_type="unified",tp_rank="{rank}",pp_rank="0",moe_ep_rank="0"'
        labels += ',priority=""' if priority else ""
        lines += [
            f"sglang:num_running_reqs{{{labels}}} 7.0",
            f"sglang:num_queue_reqs{{{labels}}} 3.0",
            f"sglang:token_usage{{{labels}}} 0.25",
            f"sglang:num_retracted_requests_total{{{labels}}} 2.0",
            f"sglang:max_total_num_tokens{{{labels}}} 350000.0",
        ]
        if priority:
            for level in ("0", "1"):
                part = labels.replace('priority=""', f'priority="{level}"')
                lines.append(f"sglang:num_running_reqs{{{part}}} 4.0")
    lines += ['sglang:generation_tokens_total{model_name="qwen",is_streaming="true"} 100.0']
    lines += ['sglang:generation_tokens_total{model_name="qwen",is_streaming="false"} 20.0']
    return ("\n".join(lines) + "\n").encode()


def read(
    info: dict[str, Any] | None, *, route: str = "/server_info", exposition: bytes | None = None
) -> Live:
    pages = {"/v1/models": Page(MODELS)}
    if info is not None:
        pages[route] = Page(json.dumps(info).encode())
    if exposition is not None:
        pages["/metrics"] = Page(exposition, content_type="text/plain")
    with serving(answering(pages)) as server:
        live = read_endpoint(Access(server.url, timeout_s=5))
        # SGLang's /health generates a token: a check that only reads does not ask for it.
        assert "/health" not in {request.target for request in server.requests}
    return live


def test_facts() -> None:
    live = read(INFO, exposition=metrics())
    assert live.engine == "sglang"
    found = {name: fact.value for name, fact in live.facts.items()}
    assert found["engine_version"] == "0.5.23"
    assert found["model"] == "Qwen/Qwen2.5-7B-Instruct"
    assert models_of(live) == ["qwen"]
    assert found["max_model_len"] == 32_768  # the argument is null, the model list has the resolved length
    assert found["max_num_seqs"] == 48  # the argument is null, the scheduler tells what it uses
    assert found["kv_cache_tokens"] == 350_000
    assert found["gpu_memory_fraction"] == 0.84
    assert found["enable_prefix_caching"] is True
    assert found["auto_truncate"] is False
    assert found["speculative"] is None and live.facts["speculative"].is_known
    assert "quantization" not in found  # null is "not given": the model's files may say otherwise
    assert "very-secret" not in str(live)


def test_ranks_of_one_engine_are_not_added() -> None:
    live = read(INFO, exposition=metrics())
    assert live.metrics == {
        "running": 7,
        "waiting": 3,
        "kv_usage": 0.25,
        "preemptions_total": 2,
        "generation_tokens_total": 120,
    }


def test_a_breakdown_by_priority_is_not_added_to_its_total() -> None:
    assert read(INFO, exposition=metrics(priority=True)).metrics["running"] == 7


def test_data_parallel_ranks_are_added_as_the_flag_counts_them() -> None:
    live = read(INFO | {"dp_size": 2, "max_running_requests": 96, "internal_states": [STATE, STATE]})
    assert live.facts["max_num_seqs"].value == 96


def test_speculation_and_overrides() -> None:
    info = {"speculative_algorithm": "EAGLE", "json_model_override_args": '{"rope_scaling": {"factor": 4}}'}
    live = read(INFO | info)
    assert live.facts["speculative"].value == "EAGLE"
    assert live.facts["hf_overrides"].value == {"rope_scaling": {"factor": 4}}


def test_the_route_of_earlier_releases() -> None:
    live = read(INFO | {"version": "0.4.9"}, route="/get_server_info")
    assert live.facts["engine_version"].value == "0.4.9"
    assert live.facts["engine_version"].source == "GET /get_server_info"


def test_metrics_tell_the_cache_where_server_info_is_closed() -> None:
    live = read(None, exposition=metrics())
    assert live.engine == "sglang"
    assert live.facts["kv_cache_tokens"].value == 350_000
