"""P09: a CPU has no GPU to overheat; all else needs a sensor that this release lacks."""

from __future__ import annotations

import pytest
from made import case, check, deployment

from preop.findings import Outcome
from preop.pitfalls.p09_gpu_temperature import PITFALL


@pytest.mark.parametrize("vendor", ["amd", "intel", "google", "habana", "apple"])
def test_other_accelerators_are_named_and_get_no_cuda_advice(vendor: str) -> None:
    h100 = deployment(accelerator="nvidia", gpu="h100-80gb")
    finding = check(PITFALL, case(h100, thresholds={"P09.warn_c": 75}))
    assert finding.outcome is Outcome.UNPROVEN
    warn = next(i for i in finding.evidence if i.name == "threshold P09.warn_c")
    assert (warn.value, warn.unit, warn.source) == (75, "C", "preop.toml")
