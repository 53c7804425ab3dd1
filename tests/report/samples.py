"""Reports made by hand: a NO-GO of two services on one GPU, a HOLD of a CPU engine under load, a GO."""

from __future__ import annotations

import msgspec

from preop.deployment.types import Contradiction, Deployment
from preop.evidence import (
    RECORD_SCHEMA,
    ClientCost,
    Level,
    Load,
    Percentiles,
    Record,
    StreamedRequest,
    Streaming,
    Strength,
)
from preop.facts import Note, Origin, known, unknown
from preop.findings import Finding, Item, Outcome, PitfallResult, Waiver, decide
from preop.gates import Gate
from preop.models.types import Model, Quantization
from preop.report.types import Report
from preop.run import about_pitfalls
from preop.text import Text

PITFALLS = tuple(about_pitfalls())
REQUIRED = frozenset({"P01", "P02", "P04", "P05", "P07", "P13", "P14", "P15"})
DEPLOY = Gate("deploy", Text("before a deployment", "部署前"), dict.fromkeys(REQUIRED))

NA = Finding(
    Outcome.NOT_APPLICABLE, Text("no ONNX file is deployed", "没有部署 ONNX 文件"), Strength.DECLARED
)


def _needs(pitfall: str, summary: Text, needs: Text) -> tuple[str, Finding]:
    return pitfall, Finding(Outcome.UNPROVEN, summary, needs=needs)


UNPROVEN = dict(
    [
        _needs(
            "P01",
            Text("AWQ 4 bit, no reference outputs to hold it against", "AWQ 4 bit，没有可对照的参考输出"),
            Text(
                "--reference MODEL_OR_URL and --prompts FILE with 200 real prompts",
                "--reference 模型或端点，以及 --prompts 含 200 条真实 prompt 的文件",
            ),
        ),
        _needs(
            "P02",
            Text("token ids were not compared", "没有对比 token id"),
            Text(
                "--tokenizer PATH of the training side and --endpoint URL",
                "--tokenizer 训练侧路径，以及 --endpoint URL",
            ),
        ),
        _needs(
            "P03",
            Text(
                "7.6e9 parameters, batch 256: expected to gain, not measured",
                "7.6e9 参数、batch 256：预计有收益，未实测",
            ),
            Text(
                "preop check --measure load with --reference URL",
                "preop check --measure load 并给出 --reference URL",
            ),
        ),
        _needs(
            "P04",
            Text("not measured here", "未在此处测量"),
            Text("preop check --measure load --endpoint URL", "preop check --measure load --endpoint URL"),
        ),
        _needs(
            "P06",
            Text("no GPU sensors were read", "没有读取 GPU 传感器"),
            Text(
                "run where the GPU is: preop check --measure gpu",
                "在 GPU 所在机器上运行：preop check --measure gpu",
            ),
        ),
        _needs(
            "P07",
            Text(
                "max_num_seqs is left at a default that depends on the GPU",
                "max_num_seqs 取决于 GPU 的默认值",
            ),
            Text("--gpu NAME, or set --max-num-seqs", "--gpu 名称，或设置 --max-num-seqs"),
        ),
        _needs(
            "P09",
            Text("no temperature watcher is declared", "没有声明温度监控"),
            Text("a Prometheus rule file", "一份 Prometheus 规则文件"),
        ),
        _needs(
            "P11",
            Text("no earlier version to hold this one against", "没有可对照的旧版本"),
            Text("--reference URL of the version in production", "--reference 生产版本的 URL"),
        ),
        _needs(
            "P14",
            Text("no endpoint to stream from", "没有可测流式的端点"),
            Text("--endpoint URL", "--endpoint URL"),
        ),
    ]
)


def _results(deployments: list[str], judged: dict[str, dict[str, Finding]]) -> tuple[PitfallResult, ...]:
    return tuple(
        PitfallResult(
            pitfall,
            {name: judged.get(pitfall, {}).get(name) or UNPROVEN.get(pitfall, NA) for name in deployments},
        )
        for pitfall in PITFALLS
    )


def _at(where: str) -> Origin:
    return Origin("file", where)


def no_go() -> Report:
    """Two services on one GPU; a context beyond the native one; an endpoint that contradicts its file."""
    chat = Deployment(
        name="chat",
        engine="vllm",
        source="docker-compose.yml",
        facts={
            "engine_version": known("0.32.0", "user", _at("docker-compose.yml:4:12")),
            "model": known("Qwen/Qwen2.5-7B-Instruct-AWQ", "user", _at("docker-compose.yml:6:9")),
            "max_model_len": known(131072, "user", _at("docker-compose.yml:14:9"), unit="tokens"),
            "max_num_seqs": unknown("the default depends on the GPU", unit="requests"),
            "gpu_memory_fraction": known(0.7, "user", _at("docker-compose.yml:9:9")),
            "enable_prefix_caching": known(True, "default", Origin("default", "vLLM 0.32.0 default")),
            "speculative": known(None, "default", Origin("default", "vLLM 0.32.0 default")),
            "kv_cache_tokens": known(412_000, "engine", Origin("route", "GET /metrics"), unit="tokens"),
            "gpu": known("H100-80GB", "user", Origin("option", "--gpu")),
            "gpu_count": known(1, "user", _at("docker-compose.yml:20:13"), unit="GPUs"),
            "gpu_ids": known(["0"], "user", _at("docker-compose.yml:21:13")),
        },
        model=Model(
            name="Qwen/Qwen2.5-7B-Instruct-AWQ",
            origin=Origin("catalog", "published config of Qwen2.5-7B-Instruct-AWQ"),
            parameters=7_615_616_512,
            weight_bytes=5_570_000_000,
            quantization=Quantization("awq", 4, True),
            quantization_known=True,
            native_context=32768,
        ),
        notes=(
            Note(
                "unknown-flag",
                "--max-model-length is no flag of vLLM 0.32.0",
                "docker-compose.yml:13:9",
                "--max-model-len",
            ),
            Note(
                "repeated-flag",
                "--gpu-memory-utilization is given twice; the last one, 0.70, counts",
                "docker-compose.yml:9:9",
            ),
        ),
        contradictions=(
            Contradiction(
                "max_model_len",
                known(131072, "user", _at("docker-compose.yml:14:9"), unit="tokens"),
                known(32768, "engine", Origin("route", "GET /v1/models"), unit="tokens"),
            ),
        ),
        endpoint="http://127.0.0.1:8000",
    )
    embed = Deployment(
        name="embed",
        engine="vllm",
        source="docker-compose.yml",
        facts={
            "engine_version": known("0.32.0", "user", _at("docker-compose.yml:26:12")),
            "model": known("BAAI/bge-m3", "user", _at("docker-compose.yml:28:9")),
            "gpu_memory_fraction": known(0.45, "user", _at("docker-compose.yml:31:9")),
            "gpu": known("H100-80GB", "user", Origin("option", "--gpu")),
            "gpu_count": known(1, "user", _at("docker-compose.yml:36:13"), unit="GPUs"),
        },
    )
    sharing = Finding(
        Outcome.FAIL,
        Text("0.70 + 0.45 = 1.15 of GPU 0: never both", "GPU 0 上 0.70 + 0.45 = 1.15：不可能同时容纳"),
        Strength.DECLARED,
        evidence=(
            Item("chat gpu_memory_fraction", 0.7, "of the GPU's memory", "docker-compose.yml:9:9"),
            Item("embed gpu_memory_fraction", 0.45, "of the GPU's memory", "docker-compose.yml:31:9"),
            Item(
                "threshold P13.memory_shares",
                1.0,
                "of the GPU's memory",
                "the pre-deployment checklist, pitfall 13",
            ),
        ),
        remedy=Text(
            "make the shares add up to 1.0 or less: --gpu-memory-utilization 0.60 for chat, 0.30 for embed",
            "让份额之和不超过 1.0：chat 用 --gpu-memory-utilization 0.60，embed 用 0.30",
        ),
        where="docker-compose.yml:9:9",
    )
    long = Finding(
        Outcome.FAIL,
        Text(
            "131,072 tokens asked, 32,768 native, no RoPE scaling",
            "要求 131,072 token，原生 32,768，且没有 RoPE scaling",
        ),
        Strength.DECLARED,
        evidence=(
            Item("max_model_len", 131072, "tokens", "docker-compose.yml:14:9"),
            Item("native context", 32768, "tokens", "config.json: max_position_embeddings"),
        ),
        remedy=Text(
            "--max-model-len 32768, or --hf-overrides with YaRN factor 4 if long context is meant",
            "--max-model-len 32768；确需长上下文时用 --hf-overrides 设置 YaRN factor 4",
        ),
        where="docker-compose.yml:14:9",
    )
    kv = Finding(
        Outcome.PASS,
        Text("412,000 tokens fit, 180,400 asked for", "可容纳 412,000 token，需要 180,400"),
        Strength.COMPUTED,
        evidence=(
            Item("KV capacity", 412_000, "tokens", "GET /metrics"),
            Item("KV bytes of one token", 57_344, "bytes", "28 layers x 4 KV heads x 128 x 2 x 2 bytes"),
            Item("GPU memory", 79.65, "GiB", "the sheet of H100-80GB (--gpu)"),
            Item("weights", 5.19, "GiB", "model.safetensors.index.json: total_size"),
            Item("memory left for the KV cache", 50.56, "GiB, at most", "formula: memory - weights"),
            Item("KV cache of all full requests", 23_625_728_000, "bytes", "capacity x bytes of one token"),
        ),
    )
    digest = Finding(
        Outcome.FAIL,
        Text(
            "image tag v0.32.0 without a digest: it can change under you",
            "镜像标签 v0.32.0 没有 digest，可能悄悄变化",
        ),
        Strength.DECLARED,
        evidence=(Item("image", "vllm/vllm-openai:v0.32.0", None, "docker-compose.yml:4:12"),),
        remedy=Text(
            "pin it: vllm/vllm-openai:v0.32.0@sha256:…", "固定版本：vllm/vllm-openai:v0.32.0@sha256:…"
        ),
        where="docker-compose.yml:4:12",
    )
    fits = Finding(Outcome.PASS, Text("8,192 tokens, native", "8,192 token，原生支持"), Strength.DECLARED)
    results = _results(
        ["chat", "embed"],
        {
            "P05": {"chat": kv, "embed": NA},
            "P12": {"chat": digest, "embed": digest},
            "P13": {"chat": sharing, "embed": sharing},
            "P15": {"chat": long, "embed": fits},
        },
    )
    return _report(results, (chat, embed), gate="deploy", run=".preop/runs/2026-11-03T09-12-44Z-7f3a")


def _level(
    concurrency: int, ttft: tuple[float, float], tpot: tuple[float, float], why: str | None = None
) -> Level:
    return Level(
        concurrency=concurrency,
        valid=why is None,
        voided_because=why,
        requests=concurrency * 120,
        errors=0,
        ttft_ms=Percentiles(*ttft),
        tpot_ms=Percentiles(*tpot),
        itl_ms=Percentiles(*tpot),
        e2e_ms=Percentiles(ttft[0] + 64 * tpot[0], ttft[1] + 64 * tpot[1]),
        output_tokens_per_s=concurrency * 1000 / tpot[0],
        client=ClientCost(0.2 * concurrency, 64 * concurrency),
    )


def _record(
    instrument: str, deployment: str, payload: Load | Streaming | None, error: str | None = None
) -> Record:
    return Record(
        schema=RECORD_SCHEMA,
        instrument=instrument,
        deployment=deployment,
        strength=Strength.MEASURED,
        taken_at="2026-11-03T08:40:00Z",
        took_s=42.5,
        fingerprint={"model": "SmolLM2-135M-Instruct", "engine_version": "b7000"},
        conditions={"cpu": "2 cores"},
        payload=payload,
        error=error,
    )


LOAD = Load(
    url="http://127.0.0.1:8080",
    model="smollm2",
    prompt_tokens=128,
    output_tokens=64,
    levels=[
        _level(1, (42, 61), (9.1, 10.2)),
        _level(2, (55, 90), (11.0, 13.9)),
        _level(4, (96, 210), (17.5, 26.0)),
        _level(8, (260, 740), (33.0, 61.0)),
        _level(16, (900, 2400), (64.0, 118.0), "the load generator used 0.93 of its core"),
    ],
)


def _streamed(first: float, last: float, events: int) -> StreamedRequest:
    return StreamedRequest(
        200, "text/event-stream", events - 2, events + 2, events, first, last, events, True
    )


STREAMING = Streaming(
    url="http://127.0.0.1:8080",
    model="smollm2",
    requests=[_streamed(44, 640, 64), _streamed(51, 655, 64), _streamed(47, 612, 61)],
    verdict="streams",
    why="text arrived in 62 reads spread over 596 ms",
)


def hold() -> Report:
    """A CPU engine under load: the curve is there, and not everything is proven."""
    demo = Deployment(
        name="demo",
        engine="llama.cpp",
        source="http://127.0.0.1:8080",
        facts={
            "engine_version": known("b7000", "engine", Origin("route", "GET /props")),
            "model": known("SmolLM2-135M-Instruct-Q8_0.gguf", "engine", Origin("route", "GET /props")),
            "accelerator": known("none", "user", Origin("argument", "argument 6, --device")),
            "max_num_seqs": known(4, "user", Origin("argument", "argument 4, --parallel"), unit="requests"),
            "max_model_len": known(2048, "engine", Origin("route", "GET /props"), unit="tokens"),
        },
        endpoint="http://127.0.0.1:8080",
    )
    curve = Finding(
        Outcome.UNPROVEN,
        Text(
            "p99 TTFT 740 ms at 8 concurrent, where production runs is not said",
            "8 并发时 TTFT p99 为 740 ms，但未说明生产并发",
        ),
        Strength.MEASURED,
        evidence=(
            Item("p99 TTFT at 1", 61.0, "ms", "load, 120 requests"),
            Item("p99 TTFT at 8", 740.0, "ms", "load, 960 requests"),
        ),
        needs=Text("--concurrency N of production", "--concurrency 生产并发数"),
    )
    streams = Finding(
        Outcome.PASS,
        Text("SSE: 64 events in 62 reads over 596 ms", "SSE：64 个事件，62 次读取，历时 596 ms"),
        Strength.MEASURED,
        evidence=(Item("events with text", 64, "events", "streaming, 3 requests"),),
    )
    same = Finding(
        Outcome.PASS, Text("240 texts, token ids equal", "240 段文本，token id 一致"), Strength.MEASURED
    )
    crashed = Finding(
        Outcome.ERROR,
        Text("the load instrument stopped: connection reset", "load 测量中断：连接被重置"),
        needs=Text("a running endpoint", "一个运行中的端点"),
    )
    results = _results(
        ["demo"],
        {
            "P02": {"demo": same},
            "P04": {"demo": curve},
            "P07": {"demo": crashed},
            "P14": {"demo": streams},
            "P06": {"demo": NA},
            "P09": {"demo": NA},
            "P11": {
                "demo": msgspec.structs.replace(
                    UNPROVEN["P11"],
                    outcome=Outcome.WAIVED,
                    waived=Outcome.UNPROVEN,
                    waiver=Waiver("ml-platform", "first deployment", "2026-12-31", "preop-waivers.toml:3"),
                )
            },
        },
    )
    records = (_record("load", "demo", LOAD), _record("streaming", "demo", STREAMING))
    return _report(
        results, (demo,), gate="deploy", run=".preop/runs/2026-11-03T09-12-44Z-1c20", records=records
    )


def go() -> Report:
    """Everything shut."""
    name = "chat"
    deployment = Deployment(
        name=name,
        engine="sglang",
        source="command line",
        facts={
            "engine_version": known("0.5.23", "user", Origin("option", "--engine-version")),
            "model": known("Qwen/Qwen3-8B", "user", Origin("argument", "argument 2, --model-path")),
            "gpu": known("A100-80GB", "user", Origin("option", "--gpu")),
            "gpu_count": known(2, "user", Origin("argument", "argument 6, --tp-size"), unit="GPUs"),
        },
    )
    shut = Finding(Outcome.PASS, Text("shown to be in order", "已证实没有问题"), Strength.MEASURED)
    results = _results(
        [name], {pitfall: {name: shut} for pitfall in PITFALLS if pitfall not in ("P10", "P13")}
    )
    return _report(results, (deployment,), gate="pr", run=None)


def hostile() -> Report:
    """Names, prompts and answers that try to steer the terminal, the page and the checklist."""
    nasty = HOSTILE
    deployment = Deployment(
        name=nasty,
        engine="vllm",
        source=nasty,
        facts={
            "model": known(nasty, "user", _at(nasty)),
            "engine_version": known(nasty, "engine", Origin("route", nasty)),
            "served_model_name": known([nasty, float("nan")], "user", Origin("file", nasty), note=nasty),
            nasty: known({nasty: float("inf")}, "user", Origin("file", nasty), unit=nasty),
        },
        model=Model(name=nasty, origin=Origin("file", nasty), notes=(nasty,)),
        notes=tuple(Note("unknown-flag", nasty, nasty, nasty) for _ in range(12)),
        contradictions=(
            Contradiction(nasty, known(nasty, "user", _at(nasty)), known(float("nan"), "engine", _at(nasty))),
        ),
        endpoint=nasty,
    )
    text = Text(nasty, nasty)
    bad = Finding(
        Outcome.FAIL,
        text,
        Strength.MEASURED,
        evidence=(Item(nasty, nasty, nasty, nasty), Item("nan", float("nan"), "ms", None)),
        needs=text,
        remedy=text,
        where=nasty,
    )
    open_ = Finding(Outcome.UNPROVEN, text, needs=text, where=nasty)
    load = Load(nasty, nasty, None, None, [_level(1, (float("nan"), 5), (1, float("inf")), nasty)])
    streaming = Streaming(
        nasty, nasty, [StreamedRequest(None, nasty, 0, 0, 0, None, None, None, False, nasty)], "failed", nasty
    )
    results = tuple(
        PitfallResult(pitfall, {nasty: bad if number % 2 else open_})
        for number, pitfall in enumerate(PITFALLS)
    )
    records = (_record("load", nasty, load), _record("streaming", nasty, streaming))
    return _report(results, (deployment,), gate=nasty, run=nasty, records=records)


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> [red]markup[/red] [click](http://evil.test/a) "
    "![p](http://evil.test/b.png) `code` | cell | @everyone www.evil.test http://evil.test/c $x$ **bold** "
    "&lt; {{ 7*7 }} "
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \r\n# heading\n- [x] ticked\n\u202eesrever\u2066 \u2028line "
    "\ud800 \x00 \u200b " + "A" * 10_000
)


def _report(
    results: tuple[PitfallResult, ...],
    deployments: tuple[Deployment, ...],
    *,
    gate: str,
    run: str | None,
    records: tuple[Record, ...] = (),
) -> Report:
    return Report(
        preop_version="0.1.0",
        verdict=decide(results, DEPLOY),
        gate=gate,
        required=REQUIRED,
        deployments=deployments,
        results=results,
        about=about_pitfalls(),
        records=records,
        started_at="2026-11-03T09:12:44Z",
        took_s=0.21,
        run_path=run,
    )


SAMPLES = {"no_go": no_go, "hold": hold, "go": go, "hostile": hostile}
"""Reports of each verdict, and one of hostile text, by name."""
