"""Every threshold that a judge uses: its default, its unit, and where the default comes from.

A judge never carries a number of its own. `preop.toml` overrides one under `[thresholds.PNN]`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["THRESHOLDS", "Threshold", "Thresholds"]


class Threshold(msgspec.Struct, frozen=True):
    """One number that decides. `key` is `PNN.name`."""

    key: str
    default: float
    unit: str
    source: str
    meaning: str


_LIST = "the pre-deployment checklist of fifteen pitfalls that preop is built on"

THRESHOLDS: dict[str, Threshold] = {
    threshold.key: threshold
    for threshold in (
        Threshold(
            "P01.prompts", 200, "prompts", f"{_LIST}, pitfall 1", "real prompts in the business evaluation"
        ),
        Threshold(
            "P03.small_model_parameters",
            3.5e9,
            "parameters",
            f"{_LIST}, pitfall 3: up to 3B is a loss at any batch, 7B and more gains; 3.5e9 parts them",
            "below it weight-only quantization is expected to cost speed",
        ),
        Threshold(
            "P03.large_model_parameters",
            6.5e9,
            "parameters",
            f"{_LIST}, pitfall 3: 7B and more gains; the smallest models sold as 7B have 6.7e9",
            "from it weight-only quantization is expected to pay at any batch",
        ),
        Threshold(
            "P03.least_gain",
            1.10,
            "times",
            f"{_LIST}, pitfall 3: the least gain in its table is 10 %",
            "speed-up by the roofline that counts as one",
        ),
        Threshold(
            "P04.ttft_p99_ms",
            500,
            "ms",
            "a usual interactive objective; set your own SLO",
            "p99 time to first token at the concurrency of production",
        ),
        Threshold(
            "P04.tpot_p99_ms",
            50,
            "ms",
            f"{_LIST}, pitfall 4: 20 ms promised, 50 ms and more seen at 32",
            "p99 time per output token at the concurrency of production",
        ),
        Threshold(
            "P04.levels",
            3,
            "levels",
            "a bend cannot be seen on fewer points",
            "valid levels of concurrency, the first of them 1",
        ),
        Threshold(
            "P05.headroom", 1.5, "times", f"{_LIST}, pitfall 5", "KV budget over p99 length x batch cap"
        ),
        Threshold(
            "P05.other_gib",
            5,
            "GiB per GPU",
            "vLLM logs 0.65 to 2.24 GiB of CUDA graphs, an estimator takes 3.5 GB in all; rounded up",
            "memory for context, activations and graphs, besides weights and KV cache",
        ),
        Threshold(
            "P08.break_even",
            32,
            "concurrent requests",
            f"{_LIST}, pitfall 8; public measurements run from 2 to over 200: a prior, never a proof",
            "batch from which speculation is expected to lose",
        ),
        Threshold(
            "P08.safe",
            16,
            "concurrent requests",
            f"{_LIST}, pitfall 8",
            "batch up to which speculation is expected to pay",
        ),
        Threshold("P09.warn_c", 80, "C", f"{_LIST}, pitfall 9", "GPU temperature that warns"),
        Threshold("P09.alarm_c", 85, "C", f"{_LIST}, pitfall 9", "GPU temperature that alarms"),
        Threshold("P09.shed_c", 90, "C", f"{_LIST}, pitfall 9", "GPU temperature that sheds load"),
        Threshold("P10.rtol", 1e-3, "relative", f"{_LIST}, pitfall 10", "tolerated drift of an ONNX export"),
        Threshold("P10.atol", 1e-3, "absolute", f"{_LIST}, pitfall 10", "tolerated drift of an ONNX export"),
        Threshold(
            "P13.memory_shares",
            1.0,
            "of the GPU's memory",
            f"{_LIST}, pitfall 13",
            "sum of the memory shares on one GPU",
        ),
        Threshold(
            "evidence.lifetime_days",
            30,
            "days",
            "preop's own: long enough for a release, short enough to notice",
            "age up to which measured evidence is used",
        ),
        Threshold(
            "waiver.warn_days",
            14,
            "days",
            "preop's own: two weekly reviews before it ends",
            "days before its end on which a waiver is announced",
        ),
    )
}


class Thresholds:
    """The thresholds in force: the defaults, with those that the user set laid over them."""

    def __init__(self, overrides: Mapping[str, float] | None = None) -> None:
        """`overrides` by key; each key must be one of `THRESHOLDS` (KeyError otherwise)."""
        self._overrides = dict(overrides or {})
        for key in self._overrides:
            if key not in THRESHOLDS:
                raise KeyError(key)

    def __getitem__(self, key: str) -> float:
        """The number in force."""
        return self._overrides.get(key, THRESHOLDS[key].default)

    def source(self, key: str) -> str:
        """Where the number in force comes from."""
        return "preop.toml" if key in self._overrides else THRESHOLDS[key].source
