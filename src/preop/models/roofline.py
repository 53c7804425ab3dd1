"""The roofline of a decode step: how fast it can be at best, and what fewer bits per weight can gain.

A step reads all weights once and each request's KV cache once, and multiplies every weight with every request
in the batch. Matrices and attention run one after the other; attention in decode is bound by memory at any
batch. With W weights of `bits`, B requests of L tokens, and the fp16 peak of the matrices:

    max(W * bits / 8 / bandwidth, 2 * W * B / peak) + B * kv(L) / bandwidth

Weight-only quantization makes the weights' bytes fewer and leaves the rest as it is, because the
multiplication still runs in 16 bits. So it gains while a step is bound by memory, and nothing once it is
bound by compute. The gain computed here is a ceiling: unpacking the weights, layers left in 16 bits, and
everything that is neither matrix nor cache make the real one smaller, and below 1 past the ceiling's end.
"""

from __future__ import annotations

from preop.models.gpus import Gpu
from preop.models.kv_cache import kv_bytes
from preop.models.types import Model

__all__ = ["decode_step_s", "weight_only_gain"]

_BASE_BITS = 16.0


def decode_step_s(model: Model, gpu: Gpu, *, bits: float, batch: int, context: int) -> float | None:
    """Seconds that a decode step takes at best, on one GPU that holds the whole model.

    `bits` per weight, `batch` requests, each `context` tokens long. None where a figure is not known, and for
    mixtures of experts, whose weights are read by the choice of the experts.
    """
    if model.is_mixture is not False or model.parameters is None or bits <= 0 or batch < 1 or context < 0:
        return None
    if gpu.fp16_tflops is None or gpu.bandwidth_gb_s is None:
        return None
    cache = kv_bytes(model, context) if context else 0.0
    if cache is None:
        return None
    bandwidth, weights = gpu.bandwidth_gb_s * 1e9, model.parameters
    matrices = max(weights * bits / 8 / bandwidth, 2 * weights * batch / (gpu.fp16_tflops * 1e12))
    return matrices + batch * cache / bandwidth


def weight_only_gain(model: Model, gpu: Gpu, bits: float, batch: int, context: int) -> float | None:
    """How many times faster a decode step can be with `bits` per weight than with 16, at best.

    1.0 says that nothing is to be gained. It falls with the batch and with the context. None as for
    `decode_step_s`.
    """
    before = decode_step_s(model, gpu, bits=_BASE_BITS, batch=batch, context=context)
    after = decode_step_s(model, gpu, bits=bits, batch=batch, context=context)
    return None if before is None or after is None else before / after
