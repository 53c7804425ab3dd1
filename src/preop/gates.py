"""The gates: which pitfalls must be shut on which occasion, and how well that must be known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from preop.evidence import Strength
from preop.text import Text

__all__ = ["DEFAULT_GATE", "GATES", "Gate"]

DEFAULT_GATE = "deploy"


@dataclass(frozen=True)
class Gate:
    """One occasion. A pitfall that fails closes every gate; one that is merely not proven closes those that
    require it."""

    name: str
    title: Text
    required: Mapping[str, Strength | None]
    """By pitfall: the strength of evidence that is enough here; None: what the pitfall itself asks for."""


def _gate(name: str, title: Text, required: Mapping[str, Strength | None]) -> Gate:
    return Gate(name, title, MappingProxyType(dict(required)))


def _each(*numbers: int) -> dict[str, Strength | None]:
    return {f"P{number:02}": None for number in numbers}


GATES: Mapping[str, Gate] = MappingProxyType(
    {
        gate.name: gate
        for gate in (
            _gate(
                "pr",
                Text("a change is proposed: what files alone decide", "提交变更时：仅凭文件即可判定的项"),
                {
                    "P12": Strength.DECLARED,
                    "P13": Strength.DECLARED,
                    "P15": Strength.DECLARED,
                },
            ),
            _gate("deploy", Text("before a deployment: all", "部署前：全部"), _each(*range(1, 16))),
            _gate(
                "upgrade",
                Text(
                    "before an engine, driver or model upgrade: what it can open",
                    "升级引擎、驱动或模型之前：升级可能引入的项",
                ),
                # A new release changes defaults, kernels and quantized code paths (the checklist's pitfall
                # 11): what answers, how fast, how many fit, and on which stack.
                _each(1, 2, 4, 5, 7, 8, 10, 11, 12, 14, 15),
            ),
            _gate(
                "incident",
                Text(
                    "after an incident, before traffic returns: what slows or stops a running service",
                    "故障之后、恢复流量之前：会拖慢或中断线上服务的项",
                ),
                _each(4, 5, 6, 7, 8, 9, 11, 12, 13, 14),
            ),
        )
    }
)
