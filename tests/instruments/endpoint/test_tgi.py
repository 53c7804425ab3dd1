"""TGI, which is not in any registry: its /info as its docs/openapi.json gives it, with the examples there."""

from __future__ import annotations

import json

from preop.instruments.endpoint import read_endpoint
from preop.instruments.types import Access

from .servers import Page, answering, serving

INFO = {
    "model_id": "bigscience/blomm-560m",
    "model_sha": "e985a63cdc139290c5f700ff1929f0b5942cced2",
    "model_pipeline_tag": "text-generation",
    "max_concurrent_requests": 128,
    "max_best_of": 2,
    "max_stop_sequences": 4,
    "max_input_tokens": 1024,
    "max_total_tokens": 2048,
    "validation_workers": 2,
    "max_client_batch_size": 32,
    "router": "text-generation-router",
    "version": "0.5.0",
    "sha": None,
    "docker_label": None,
}
METRICS = b"tgi_queue_size 3\ntgi_batch_current_size 8\n"


def test_facts_and_metrics() -> None:
    pages = {"/info": Page(json.dumps(INFO).encode()), "/metrics": Page(METRICS, content_type="text/plain")}
    with serving(answering(pages)) as server:
        live = read_endpoint(Access(server.url, timeout_s=5))
        # Its /health may make a token: a check that only reads does not ask for it.
        assert "/health" not in {request.target for request in server.requests}
    assert live.engine == "tgi"
    assert {name: fact.value for name, fact in live.facts.items()} == {
        "engine_version": "0.5.0",
        "model": "bigscience/blomm-560m",
        "max_model_len": 2048,
        "max_num_seqs": 128,
    }
    assert live.metrics == {"running": 8, "waiting": 3}


def test_another_server_with_an_info_route_is_not_taken_for_it() -> None:
    """The embeddings server of the same family has /info with other fields."""
    info = {
        "model_id": "BAAI/bge-m3",
        "max_concurrent_requests": 512,
        "max_batch_tokens": 16384,
        "version": "1.8",
    }
    pages = {"/info": Page(json.dumps(info).encode()), "/v1/models": Page(b'{"data":[{"id":"bge"}]}')}
    with serving(answering(pages)) as server:
        assert read_endpoint(Access(server.url, timeout_s=5)).engine == "unknown"
