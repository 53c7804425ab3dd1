"""From a name to a model: files, hub cache, catalog; the hub only when asked."""

from __future__ import annotations

import builtins
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preop.errors import InputError
from preop.models.catalog import find_in_catalog
from preop.models.find import find_model
from preop.models.types import Rope

from .folders import LLAMA, folder, safetensors
from .test_gguf import LLAMA as GGUF_KEYS
from .test_gguf import write

PUBLISHED = {
    # Parameters as stated on the models' pages, from the weights themselves.
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248,
    "meta-llama/Llama-3.1-70B-Instruct": 70_553_706_496,
    "meta-llama/Llama-3.2-1B-Instruct": 1_235_814_400,
    "meta-llama/Llama-3.2-3B-Instruct": 3_212_749_824,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-3B-Instruct": 3_085_938_688,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "mistralai/Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "mistralai/Mistral-Nemo-Instruct-2407": 12_247_782_400,
    "google/gemma-2-2b-it": 2_614_341_888,
    "google/gemma-2-9b-it": 9_241_705_984,
    "google/gemma-2-27b-it": 27_227_128_320,
    "google/gemma-3-1b-it": 999_885_952,
    "microsoft/Phi-3.5-mini-instruct": 3_821_079_552,
    "microsoft/phi-4": 14_659_507_200,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def cached(hub: Path, name: str, revision: str = "abc123", config: Any = LLAMA) -> Path:
    repository = hub / ("models--" + name.replace("/", "--"))
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text(revision)
    return folder(repository / "snapshots" / revision, config)


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_parameters_counted_from_the_config_are_the_published_ones(name: str, parameters: int) -> None:
    model = find_model(name)
    assert model is not None and model.parameters == parameters


def test_the_catalog() -> None:
    text = (files("preop.models") / "data/catalog.json").read_text(encoding="utf-8")
    names = list(json.loads(text)["models"])
    assert len(names) >= 60
    for name in names:
        model = find_in_catalog(name)
        assert model is not None and model.name == name
        assert model.origin.kind == "catalog" and name in model.origin.where
        assert not any("expected" in note for note in model.notes), model.notes


@pytest.mark.parametrize(
    ("name", "method", "bits", "weight_only"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "awq", 4, True),
        ("Qwen/Qwen3-32B-AWQ", "awq", 4, True),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct-GPTQ-Int4", "gptq", 4, True),
        ("Qwen/Qwen3-235B-A22B-FP8", "fp8", 8, False),
        ("moonshotai/Kimi-K2.5", "compressed-tensors", 4, True),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "modelopt FP8", 8, False),
        ("openai/gpt-oss-20b", "mxfp4", 4, None),
    ],
)
def test_quantized_models_in_the_catalog(
    name: str, method: str, bits: float, weight_only: bool | None
) -> None:
    model = find_model(name)
    assert model is not None and model.quantization is not None
    assert (model.quantization.method, model.quantization.bits, model.quantization.weight_only) == (
        method,
        bits,
        weight_only,
    )


def test_a_partial_entry_does_not_claim_what_it_does_not_say() -> None:
    model = find_model("Qwen/Qwen2.5-7B-Instruct-AWQ")
    assert model is not None
    assert (model.native_context, model.weight_bytes) == (32768, 5_570_829_760)
    assert model.rope is None and model.attention_heads is None and model.is_mixture is False


@pytest.mark.parametrize(
    ("quantized", "inner", "heads", "tied", "more"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", 18944, 28, False, 0.0),
        # GPTQ stores, besides, the group of each input channel: 4 bytes
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct-GPTQ-Int4", 8960, 12, True, 4.0),
    ],
)
def test_an_entry_quoted_in_part_holds_together(
    quantized: str, inner: int, heads: int, tied: bool, more: float
) -> None:
    """The bytes of the weight files are those that its geometry, 4 bits and groups of 128 give: each weight
    half a byte, each group an fp16 scale and a 4-bit zero, embeddings and norms in fp16."""
    model = find_model(quantized)
    assert model is not None and model.layers is not None and model.hidden_size is not None
    (group,) = model.layers
    hidden, keys, vocabulary = model.hidden_size, group.kv_heads * group.key_dim, 151936 if tied else 152064
    assert heads * group.key_dim == hidden
    weights = group.count * (2 * hidden * hidden + 2 * hidden * keys + 3 * hidden * inner)
    inputs = group.count * (6 * hidden + inner)
    biases = group.count * (hidden + 2 * keys)
    norms = (2 * group.count + 1) * hidden
    halves = vocabulary * hidden * (1 if tied else 2) + biases + norms
    expected = weights * (0.5 + 2.5 / 128) + 2 * halves + more * inputs
    assert model.weight_bytes == pytest.approx(expected, rel=2e-4)


def test_the_awq_model_has_the_geometry_of_its_base() -> None:
    base, awq = find_model("Qwen/Qwen2.5-7B-Instruct"), find_model("Qwen/Qwen2.5-7B-Instruct-AWQ")
    assert base is not None and awq is not None and base.parameters is not None
    assert (awq.layers, awq.hidden_size, awq.native_context) == (
        base.layers,
        base.hidden_size,
        base.native_context,
    )
    assert awq.parameters == pytest.approx(base.parameters, rel=1e-3)  # its card rounds


def test_a_quantized_name_is_not_taken_for_its_base() -> None:
    assert find_model("Qwen/Qwen2.5-3B-Instruct-GPTQ-Int4") is None
    assert find_model("Qwen/Qwen2.5-3B-Instruct") is not None


def test_case_of_a_hub_id_does_not_matter() -> None:
    model = find_model("qwen/qwen3-8b")
    assert model is not None and model.name == "Qwen/Qwen3-8B"


def test_a_folder_here(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", LLAMA)
    for name in (str(path), "./m", "m"):
        model = find_model(name)
        assert model is not None and model.origin.kind == "model" and model.hidden_size == 2048
    model = find_model("/models/inside", path=str(path))
    assert model is not None and model.name == "/models/inside"


def test_gguf_here(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", **GGUF_KEYS)
    for model in (find_model(str(path)), find_model("./m.gguf"), find_model("x", path=str(tmp_path))):
        assert model is not None and model.architecture == "llama"
    write(tmp_path / "n.gguf", **GGUF_KEYS)
    with pytest.raises(InputError, match="2 GGUF models"):
        find_model("x", path=str(tmp_path))


@pytest.mark.parametrize(
    "name",
    ["/models/x", "./x", "../x", "~/x", "~nobody-such/x", "x.gguf", "/x\0y", "", "a/b/c", "x" * 5000, "é"],
)
def test_what_looks_local_and_is_not_here_is_not_known(name: str) -> None:
    assert find_model(name) is None


def test_a_path_that_the_user_gave_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        find_model("m", path=str(tmp_path / "absent"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no config\.json and no GGUF"):
        find_model("m", path=str(tmp_path / "empty"))
    with pytest.raises(InputError):
        find_model("m", path="a\0b")


def test_the_hub_cache_goes_before_the_catalog(own_cache: Path) -> None:
    cached(own_cache, "Qwen/Qwen3-8B", config={**LLAMA, "hidden_size": 64, "head_dim": 2})
    model = find_model("Qwen/Qwen3-8B")
    assert model is not None and model.hidden_size == 64 and model.origin.kind == "model"
    assert model.name == "Qwen/Qwen3-8B"


def test_a_part_of_a_repository_does_not_say_what_is_not_in_it(own_cache: Path) -> None:
    path = cached(own_cache, "some/model")
    model = find_model("some/model")
    assert model is not None and model.quantization is None and not model.quantization_known
    assert model.rope == Rope("default") and model.is_mixture is False
    (path / "model.safetensors").write_bytes(safetensors(a=[4]))
    model = find_model("some/model")
    assert model is not None and model.quantization_known


def test_a_cached_repository_of_several_gguf_files_is_no_model(own_cache: Path) -> None:
    path = cached(own_cache, "some/gguf")
    (path / "config.json").unlink()
    write(path / "q4.gguf", **GGUF_KEYS)
    model = find_model("some/gguf")
    assert model is not None and model.architecture == "llama"
    write(path / "q8.gguf", **GGUF_KEYS)
    assert find_model("some/gguf") is None


def test_hf_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    cached(tmp_path / "home/hub", "some/model")
    assert find_model("some/model") is not None


@pytest.mark.parametrize("revision", ["../../../..", "", "a/b", "\0", "x" * 500])
def test_a_revision_that_leads_elsewhere_is_not_followed(own_cache: Path, revision: str) -> None:
    cached(own_cache, "some/model")
    (own_cache / "models--some--model/refs/main").write_text(revision)
    assert find_model("some/model") is None


def test_a_broken_config_in_the_cache_is_said(own_cache: Path) -> None:
    cached(own_cache, "some/model", config=b"{")
    with pytest.raises(InputError, match="not JSON"):
        find_model("some/model")


def test_fetch_without_the_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_client(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("huggingface_hub"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_client)
    with pytest.raises(InputError, match="pip install huggingface_hub"):
        find_model("some/model", fetch=True)
    assert find_model("some/model") is None


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as fetching small files takes. Asked for weights, it answers 404."""

    asked: ClassVar[list[str]] = []
    files: ClassVar[dict[str, bytes]] = {
        "config.json": json.dumps(LLAMA).encode(),
        "model.safetensors": b"x" * 99,
    }

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def answer(self, body: bool) -> None:
        self.asked.append(self.path)
        if self.path.startswith("/api/models/some/model"):
            siblings = [{"rfilename": file} for file in self.files]
            raw = json.dumps({"id": "some/model", "sha": "a" * 40, "siblings": siblings}).encode()
        elif self.path == "/some/model/resolve/main/config.json":
            raw = self.files["config.json"]
        else:
            self.send_error(404)
            return
        self.send_response(200)
        for key, value in (("Content-Length", str(len(raw))), ("ETag", '"e"'), ("X-Repo-Commit", "a" * 40)):
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        pass


FETCH = """
import sys
from preop.errors import InputError
from preop.models.find import find_model
try:
    model = find_model("some/model", fetch=True)
    print(model.hidden_size, model.origin.kind)
except InputError as error:
    print(error)
"""


def fetch_from(endpoint: str, cache: Path) -> str:
    env = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FETCH], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_fetch_takes_the_small_files_only(own_cache: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert fetch_from(f"http://127.0.0.1:{server.server_port}", own_cache) == "2048 model"
    finally:
        server.shutdown()
        server.server_close()
    assert not any("safetensors" in path for path in Hub.asked)
    model = find_model("some/model")  # it is in the local cache now
    assert model is not None and model.hidden_size == 2048


def test_fetch_without_a_network_is_one_sentence(own_cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    said = fetch_from(f"http://127.0.0.1:{port}", own_cache)
    assert said.startswith("some/model: could not be fetched") and "\n" not in said


@settings(max_examples=100, deadline=None)
@given(name=st.text(max_size=40))
def test_any_name_is_a_model_or_not(name: str) -> None:
    try:
        find_model(name)
    except InputError as error:
        assert len(str(error).splitlines()) == 1


HEAVY = ["numpy", "torch", "transformers", "huggingface_hub", "httpx", "jinja2", "pydantic", "tokenizers"]


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from preop.models.find import find_model; from preop.models.gpus import find_gpu\n"
        "find_model('Qwen/Qwen3-8B'); find_gpu('h200'); import preop.models.roofline\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
