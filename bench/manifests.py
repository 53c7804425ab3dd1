"""How long preop takes to read and judge a monorepo, as a ratio to PyYAML in the same run.

    python bench/manifests.py [--files N] [--documents N] [--runs N]

Writes N files (Kubernetes manifests, compose files, scripts and what else lies about; three in ten serve an
engine) into a temporary folder and runs `preop check FOLDER` on it, then one stream of N documents through
`preop check -`. The peer is PyYAML's CSafeLoader, which does nothing but load the same YAML: each round runs
both, so that a slow moment of the machine falls on both, and the medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S = 10.0
LIMIT_STREAM_S = 15.0
LOAD = """
import pathlib, sys, yaml
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if path.suffix in (".yaml", ".yml", ".json"):
        list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
"""

SERVE = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: team-{team}
  labels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/part-of: inference, tier: serving}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app.kubernetes.io/name: {name}}}}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: {name}}}
      annotations: {{prometheus.io/scrape: "true", prometheus.io/port: "8000"}}
    spec:
      terminationGracePeriodSeconds: 120
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
      containers:
        - name: engine
          image: vllm/vllm-openai:v0.10.2
          args: [--model, {model}, --max-model-len, "{length}", --max-num-seqs, "{seqs}",
                 --gpu-memory-utilization, "0.{memory}", --enable-prefix-caching]
          env:
            - {{name: VLLM_LOGGING_LEVEL, value: INFO}}
            - {{name: HF_TOKEN, valueFrom: {{secretKeyRef: {{name: hub, key: token}}}}}}
          ports: [{{containerPort: 8000, name: http}}]
          resources:
            limits: {{nvidia.com/gpu: "1", memory: 64Gi, cpu: "8"}}
            requests: {{nvidia.com/gpu: "1", memory: 64Gi, cpu: "8"}}
          readinessProbe: {{httpGet: {{path: /health, port: 8000}}, periodSeconds: 5, failureThreshold: 120}}
          volumeMounts: [{{name: cache, mountPath: /root/.cache}}, {{name: shm, mountPath: /dev/shm}}]
      volumes:
        - {{name: cache, persistentVolumeClaim: {{claimName: models}}}}
        - {{name: shm, emptyDir: {{medium: Memory, sizeLimit: 16Gi}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: team-{team}}}
spec: {{selector: {{app.kubernetes.io/name: {name}}}, ports: [{{port: 80, targetPort: http}}]}}
"""
OTHER = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: team-{team}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
        - name: web
          image: registry.example.com/team-{team}/{name}:1.4.{seqs}
          env:
            - {{name: LOG_LEVEL, value: info}}
            - {{name: DB, valueFrom: {{secretKeyRef: {{name: db, key: url}}}}}}
          ports: [{{containerPort: 8080}}]
          resources: {{limits: {{memory: 512Mi}}, requests: {{cpu: 100m, memory: 256Mi}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: team-{team}}}
data:
  settings.toml: |
    [server]
    workers = {replicas}
{lines}
"""
COMPOSE = """
x-gpu: &gpu
  deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: 1, capabilities: [gpu]}}]}}}}}}
services:
  {name}:
    <<: *gpu
    image: vllm/vllm-openai:v0.10.2
    command: >
      --model {model} --max-model-len {length} --max-num-seqs {seqs} --gpu-memory-utilization 0.{memory}
    ports: ["8000:8000"]
    volumes: ["models:/root/.cache/huggingface"]
  web: {{image: "nginx:1.27", ports: ["80:80"]}}
volumes: {{models: {{}}}}
"""
MODELS = [
    "Qwen/Qwen2.5-7B-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.3",
]


def manifest(kind: str, number: int, chance: random.Random) -> str:
    values = {
        "name": f"service-{number}",
        "team": number % 20,
        "replicas": chance.randint(1, 4),
        "model": chance.choice(MODELS),
        "length": chance.choice([4096, 8192, 32768]),
        "seqs": chance.choice([32, 64, 256]),
        "memory": chance.choice([85, 90, 92]),
        "lines": "\n".join(f"    key_{line} = {chance.random():.6f}" for line in range(40)),
    }
    return {"serve": SERVE, "other": OTHER, "compose": COMPOSE}[kind].format(**values).lstrip()


def write_monorepo(folder: Path, files: int) -> None:
    """A quarter manifests that serve, a twentieth compose files that do, and three kinds of neighbours."""
    chance = random.Random(7)
    for number in range(files):
        place = folder / f"team-{number % 20}" / f"service-{number}"
        place.mkdir(parents=True)
        at = number % 20
        if at < 5:
            (place / "serve.yaml").write_text(manifest("serve", number, chance))
        elif at < 6:
            (place / "compose.yml").write_text(manifest("compose", number, chance))
        elif at < 14:
            (place / "deploy.yaml").write_text(manifest("other", number, chance))
        elif at < 17:
            numbers = {f"key{key}": [chance.random() for _ in range(8)] for key in range(20)}
            (place / "data.json").write_text(json.dumps(numbers, indent=1))
        elif at < 19:
            (place / "build.sh").write_text("#!/bin/sh\nset -eu\n" + "make all && make test\n" * 60)
        else:
            (place / "README.md").write_text("vllm serve is what this service does not do\n" * 40)


def seconds(command: list[str], folder: Path, text: str | None = None) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(
        command, input=text, capture_output=True, cwd=folder, text=True, check=False, timeout=600
    )
    took = time.perf_counter() - began
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return took, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000, help="files of the monorepo (default 1,000)")
    parser.add_argument(
        "--documents", type=int, default=10_000, help="documents of the stream (default 10,000)"
    )
    parser.add_argument("--runs", type=int, default=3, help="rounds (default 3)")
    asked = parser.parse_args()
    preop = str(Path(sys.executable).with_name("preop"))
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, "
        f"{asked.runs} rounds"
    )
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        monorepo, streams, work = root / "monorepo", root / "streams", root / "work"
        write_monorepo(monorepo, asked.files)
        streams.mkdir()
        work.mkdir()
        chance = random.Random(8)
        # two documents each, every fiftieth an engine: a cluster's rendered state
        parts = [
            manifest("serve" if at % 50 == 0 else "other", at, chance) for at in range(asked.documents // 2)
        ]
        stream = "---\n".join(parts)
        (streams / "all.yaml").write_text(stream)
        check = [preop, "check", "--format", "json", "--quiet"]
        peer = [sys.executable, "-c", LOAD]
        files: list[tuple[float, float]] = []
        documents: list[tuple[float, float]] = []
        judged = ["", ""]
        for _ in range(asked.runs):
            took, judged[0] = seconds([*check, str(monorepo)], work)
            files.append((took, seconds([*peer, str(monorepo)], work)[0]))
            took, judged[1] = seconds([*check, "-"], work, stream)
            documents.append((took, seconds([*peer, str(streams)], work)[0]))
    within = True
    for what, rounds, answer, limit in (
        (f"{asked.files:,} files", files, judged[0], LIMIT_S),
        (f"{asked.documents:,} documents", documents, judged[1], LIMIT_STREAM_S),
    ):
        own = statistics.median(mine for mine, _ in rounds)
        ratio = statistics.median(mine / base for mine, base in rounds)
        count = len(json.loads(answer)["deployments"])
        within &= own < limit
        print(
            f"preop check, {what}, {count} deployments judged: {own:.1f} s, "
            f"{ratio:.1f}x PyYAML loading the same (limit {limit:.0f} s)"
        )
    print(f"limits: {'kept' if within else 'NOT kept'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
