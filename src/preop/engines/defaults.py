"""Defaults that an engine decides when it starts, where the machine is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from preop.engines.tables import label, order
from preop.facts import Fact, Origin, known, unknown

__all__ = ["Accelerator", "vllm_batch_defaults"]

Look = Callable[[str], Fact]


@dataclass(frozen=True)
class Accelerator:
    """One GPU as far as a default depends on it."""

    name: str | None
    """As its driver names it (`NVIDIA A100-SXM4-80GB`); None: not known."""
    memory_gib: float | None
    """All of its memory, as its driver reports it."""


_RULE_SINCE = (0, 12)
"""The first release with `_set_default_max_num_seqs_and_batched_tokens_args`; before, other rules held."""
_LARGE_SINCE = (0, 28)
"""The first release with a step at 160 GiB."""
_WITHOUT_GB10_SINCE = (0, 33)
"""The first release in which compute capability 12.1 (GB10) is left out of the step at 70 GiB."""
_RAISED_SINCE = (0, 22)
"""The first release that raises the tokens to one item (image, video) of a multimodal prefix-LM model."""
_TEXT_ONLY_SINCE = (0, 28)
"""The first release in which such a model counts as text alone with --language-model-only."""


def _by_memory(accelerator: Accelerator, version: tuple[int, ...]) -> tuple[int, int] | None:
    """`max_num_seqs` and `max_num_batched_tokens` of vLLM's server on that GPU.

    Source: `EngineArgs.get_batch_defaults` of vLLM 0.12.0 to 0.33.0: from 160 GiB 1024 and 16384 (since
    0.28.0); from 70 GiB, A100 excepted, 1024 and 8192; else 256 and 2048.
    """
    memory = accelerator.memory_gib
    if memory is None or version < _RULE_SINCE:
        return None
    if "gb10" in (accelerator.name or "").lower() and version >= _WITHOUT_GB10_SINCE:
        return 256, 2048
    if memory >= 160 and version >= _LARGE_SINCE:
        return 1024, 16384
    if memory < 70:
        return 256, 2048
    if accelerator.name is None:
        return None
    return (256, 2048) if "a100" in accelerator.name.lower() else (1024, 8192)


def vllm_batch_defaults(look: Look, accelerator: Accelerator, version: str) -> dict[str, Fact]:
    """`max_num_seqs` and `max_num_batched_tokens` where they are left to vLLM and the GPU is known.

    `look` gives a fact by its name, `language_model_only` and `enable_mm_embeds` among them. What cannot be
    told is left out. Source of the order of the rules: vLLM 0.32.0,
    `EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`.

    Since 0.22.0 it raises the tokens to the largest single item of a multimodal prefix-LM model (Gemma 3 and
    4, PaliGemma, Molmo 2; `is_mm_prefix_lm`). The model's processor says how large that is, so the tokens are
    known only where they cannot be raised. The requests are the same either way.
    """
    base = _by_memory(accelerator, order(version))
    engine = label("vllm", version)
    mode = look("performance_mode")
    if base is None or not mode.is_known:
        return {}
    factor = 2 if mode.value == "throughput" else 1
    seqs, tokens = look("max_num_seqs"), look("max_num_batched_tokens")
    memory = f"{accelerator.memory_gib:g} GiB"
    origin = Origin("formula", f"{engine} on {accelerator.name or 'a GPU'} with {memory}")
    found: dict[str, Fact] = {}
    seqs_value = seqs.value if seqs.set_by == "user" else base[0] * factor
    if tokens.set_by == "user":
        tokens_value = tokens.value
    else:
        tokens_value = _batched_tokens(look, base[1] * factor, seqs_value)
        if tokens_value is not None and _may_be_raised(look, order(version), tokens_value, seqs_value):
            found["max_num_batched_tokens"] = unknown(
                f"{tokens_value} on this GPU; more where one image or video of a multimodal prefix-LM model "
                "(Gemma 3 and 4, PaliGemma, Molmo 2) has more tokens",
                unit="tokens",
            )
        elif tokens_value is not None:
            found["max_num_batched_tokens"] = known(tokens_value, "default", origin, unit="tokens")
    if seqs.set_by != "user":
        if isinstance(tokens_value, int):
            seqs_value = min(seqs_value, tokens_value)
            found["max_num_seqs"] = known(seqs_value, "default", origin, unit="requests")
        else:
            found["max_num_seqs"] = unknown(
                f"{seqs_value} on this GPU, unless max_num_batched_tokens, which is not known, is smaller",
                unit="requests",
            )
    return found


def _may_be_raised(look: Look, version: tuple[int, ...], tokens: int, seqs: object) -> bool:
    """Whether an item of a multimodal prefix-LM model may raise the tokens above `tokens`."""
    text_only = look("language_model_only").value is True and look("enable_mm_embeds").value is False
    if version < _RAISED_SINCE or (version >= _TEXT_ONLY_SINCE and text_only):
        return False
    length = look("max_model_len")
    # what all requests have together is the limit, raised or not
    return not (isinstance(seqs, int) and isinstance(length.value, int) and tokens == seqs * length.value)


def _batched_tokens(look: Look, tokens: int, seqs: object) -> int | None:
    """None where the model or the parallelism has a say and is not known."""
    length, chunked = look("max_model_len"), look("enable_chunked_prefill")
    parallel = look("data_parallel_size")
    if parallel.value != 1 or not parallel.is_known or not isinstance(seqs, int):
        return None  # some mixture-of-experts layouts use 256
    if chunked.set_by == "user" and chunked.value is False:
        return None  # at least max_model_len then
    if isinstance(length.value, int) and length.value > 0:
        return min(seqs * length.value, tokens)
    # The context is never shorter than a few tokens: with many requests the product does not bind.
    return tokens if seqs >= 256 else None
