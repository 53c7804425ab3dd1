"""Judge of P13: who is on each GPU, what may each take, and does it add up?

Shares are added only where they mean the same thing. vLLM's `gpu_memory_utilization` is a share of the
GPU's total memory for this instance alone, surely since 0.10.0; before, some releases charged an instance
with its neighbours' memory as well (vLLM issue 10451, pull requests 10511 and 18974), so that 0.45 and then
0.9 was the way to share. SGLang's share is of what is free when it loads: no sum, TensorRT-LLM's of the
memory free after, TGI's bounds what is free, llama.cpp takes what it needs: these are never added.
`kv_cache_memory_bytes` puts vLLM's share out of force.

Two deployments share a GPU only where the files say so: the same device ids, or each the first of all the
machine's GPUs. Docker gives `count: N` of NVIDIA the first N (moby's countToDevices): the reader names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from msgspec.structs import replace

from preop.deployment.types import Deployment
from preop.evidence import Strength
from preop.facts import Fact
from preop.findings import Finding, Item, Outcome
from preop.pitfalls.accelerator import cpu, vendor
from preop.pitfalls.clip import clip
from preop.pitfalls.p13_gpu_sharing.allocation import allocated, is_apart
from preop.pitfalls.p13_gpu_sharing.once import once
from preop.pitfalls.p13_gpu_sharing.placement import Placement, placement
from preop.pitfalls.readings import hides_flags, release
from preop.pitfalls.say import failed, item, not_applicable, passed, place, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_OWN_SHARE_SINCE = (0, 10, 0)
_SHOWN = 8
"""Strangers named in the evidence: in a folder of hundreds each would name all others."""
_MEANING = {
    "sglang": Text(
        "SGLang's share is of what is free when it loads: no sum",
        "SGLang 的比例按加载前空闲显存算，不能相加",
    ),
    "tensorrt-llm": Text(
        "TensorRT-LLM's share is of what is left once loaded: no sum",
        "TensorRT-LLM 的比例按加载后的空闲显存算，不能相加",
    ),
    "tgi": Text("TGI's share counts its neighbours too: no sum", "TGI 的比例会把邻居也算进去，不能相加"),
    "llama.cpp": Text(
        "llama.cpp takes what model and context need: no share",
        "llama.cpp 按模型和上下文占用，没有比例",
    ),
}


@dataclass(frozen=True)
class _Tenant:
    """One deployment on a GPU with the share it may take; None where no share can be said, and why."""

    deployment: Deployment
    share: Decimal | None
    why: Text | None
    version_stated: bool

    @property
    def fact(self) -> Fact:
        return self.deployment.fact("gpu_memory_fraction")


def judge(case: Case) -> Finding:
    """P13 for one deployment."""
    on_cpu = cpu(case)
    if on_cpu is not None:
        return not_applicable(
            Text("runs on the CPU: it shares no GPU", "跑在 CPU 上，不占用 GPU"),
            Strength.DECLARED,
            evidence=[item("accelerator", on_cpu)],
            where=place(on_cpu),
        )
    by_platform = allocated(case)
    if by_platform is not None:
        return by_platform
    me = case.deployment
    mine = placement(me)
    neighbours = _neighbours(case)
    beside = {d.name: placement(d) for d in neighbours}
    tenants = {d.name: _tenant(d) for d in (me, *neighbours)}
    for gpu in sorted(mine.certain):
        on_it = [tenants[me.name], *(tenants[n] for n, p in beside.items() if gpu in p.certain)]
        shares = [t for t in on_it if t.share is not None]
        if len(shares) > 1 and tenants[me.name].share is not None and _exceeds(case, _total(shares)):
            return _too_much(case, gpu, shares)
    maybe = [tenants[n] for n, p in beside.items() if mine.may_meet(p)]
    finding = _together(case, mine, beside, [tenants[me.name], *maybe]) if maybe else None
    finding = finding or _alone(case, mine, bool(beside))
    strangers = _strangers(case, mine)
    return _beside_strangers(finding, strangers) if strangers else finding


@once
def _file(deployment: Deployment) -> str | None:
    """The compose file that the deployment is a service of: its services run at the same time."""
    file, service, _ = deployment.source.partition(": service ")
    return file if service else None


def _others(case: Case) -> list[Deployment]:
    """The other deployments that may use a GPU."""
    me = case.deployment
    return [d for d in case.siblings if d.name != me.name and _may_use_a_gpu(d)]


@once
def _may_use_a_gpu(deployment: Deployment) -> bool:
    return not is_apart(deployment) and cpu(Case(deployment)) is None


def _neighbours(case: Case) -> list[Deployment]:
    """Those in the same compose file."""
    file = _file(case.deployment)
    return [d for d in _others(case) if file is not None and _file(d) == file]


def _strangers(case: Case, mine: Placement) -> list[str]:
    """Who else may be on the GPU although nothing can be said of it: services of the file that run no known
    engine, and deployments of other files or of a script, which may run on this machine at the same time."""
    unknown = [note.message for note in case.deployment.notes if note.kind == "other-tenant"]
    here = {d.name for d in _neighbours(case)}
    elsewhere = [d for d in _others(case) if d.name not in here and mine.may_meet(placement(d))]
    return [*unknown, *(f"{d.name} ({d.source}) may be on the same GPU" for d in elsewhere)]


def _beside_strangers(finding: Finding, strangers: Sequence[str]) -> Finding:
    """No PASS beside someone of whom nothing is known; all else stays as it is, with the strangers shown."""
    shown = list(strangers[:_SHOWN])
    if len(strangers) > _SHOWN:
        shown.append(f"and {len(strangers) - _SHOWN} more")
    evidence = (
        *finding.evidence,
        *(Item("also there", said, source="the files given") for said in shown),
    )
    if finding.outcome is not Outcome.PASS:
        return replace(finding, evidence=evidence, holds=None)
    return unproven(
        Text(
            f"{len(strangers)} more may be on its GPU, share unknown",
            f"还有 {len(strangers)} 个可能也在这张 GPU 上，占用未知",
        ),
        needs=Text(
            "the memory each process takes, which this release cannot read; or a GPU named for it alone",
            "每个进程实际占用的显存（本版读不到），或者给它单独指定一张 GPU",
        ),
        strength=finding.strength,
        evidence=evidence,
        where=finding.where,
    )


@once
def _tenant(deployment: Deployment) -> _Tenant:
    version = release(Case(deployment))
    stated = version is not None
    name = clip(deployment.name, 16)
    if deployment.engine != "vllm":
        why = _MEANING.get(
            deployment.engine,
            Text(f"what {name} may take is not known", f"不知道 {name} 会占多少"),
        )
        return _Tenant(deployment, None, why, stated)
    fixed = deployment.fact("kv_cache_memory_bytes")
    if fixed.is_known and fixed.value is not None:
        why = Text(
            f"{name}: kv_cache_memory_bytes overrides its share",
            f"{name} 设了 kv_cache_memory_bytes，比例不再起作用",
        )
        return _Tenant(deployment, None, why, stated)
    if not fixed.is_known and hides_flags(Case(deployment)):
        why = Text(f"{name}: kv_cache_memory_bytes cannot be seen", f"看不到 {name} 的 kv_cache_memory_bytes")
        return _Tenant(deployment, None, why, stated)
    fraction = deployment.fact("gpu_memory_fraction")
    share = fraction.value
    a_share = isinstance(share, int | float) and not isinstance(share, bool) and 0 < share <= 1
    if not a_share or (fraction.set_by == "default" and not stated):
        why = Text(f"the share of {name} is not stated", f"没写 {name} 的显存比例")
        return _Tenant(deployment, None, why, stated)
    if version is not None and version < _OWN_SHARE_SINCE:
        why = Text(
            f"vLLM {deployment.fact('engine_version').value} may charge neighbours too: no sum",
            f"vLLM {deployment.fact('engine_version').value} 可能把邻居的显存也算进去，不能相加",
        )
        return _Tenant(deployment, None, why, stated)
    return _Tenant(deployment, Decimal(str(share)), None, stated)


def _exceeds(case: Case, total: Decimal) -> bool:
    return total > Decimal(str(case.thresholds["P13.memory_shares"]))


def _total(tenants: Iterable[_Tenant]) -> Decimal:
    return sum((t.share for t in tenants if t.share is not None), Decimal(0))


def _sum(tenants: Sequence[_Tenant]) -> str:
    """`0.70 + 0.45 = 1.15`, or `5 shares = 1.30` where the terms would not fit in a line."""
    shares = [t.share for t in tenants if t.share is not None]
    terms = " + ".join(map(_number, shares)) if len(shares) <= 3 else f"{len(shares)} shares"
    return f"{terms} = {_number(_total(tenants))}"


def _number(value: Decimal) -> str:
    short = f"{value:.2f}"
    return short if Decimal(short) == value else str(value)


def _too_much(case: Case, gpu: str, shares: Sequence[_Tenant]) -> Finding:
    limit = Decimal(str(case.thresholds["P13.memory_shares"]))
    fair = (limit / len(shares)).quantize(Decimal("0.01"), rounding="ROUND_DOWN")
    names = clip(", ".join(t.deployment.name for t in shares), 80)
    return failed(
        Text(
            f"{_sum(shares)} of {clip(gpu, 16)}: too much",
            f"{clip(gpu, 16)} 上 {_sum(shares)}，装不下",
        ),
        Strength.DECLARED,
        remedy=Text(
            f"--gpu-memory-utilization on {names} so that the sum stays under {limit} with room left, e.g. "
            f"under {fair} each, started one after another; or a GPU of its own for one of them (device_ids)",
            f"调低 {names} 的 --gpu-memory-utilization，让总和低于 {limit} 并留余量，例如各低于 {fair}，"
            "并依次启动；或给其中一个单独的 GPU（device_ids）",
        ),
        evidence=[
            *_share_items(shares),
            Item(f"sum on {gpu}", float(_total(shares)), source="formula: sum of the shares"),
            threshold_item(case.thresholds, "P13.memory_shares"),
        ],
        where=", ".join(dict.fromkeys(w for t in shares if (w := place(t.fact)))) or None,
    )


def _share_items(tenants: Sequence[_Tenant]) -> list[Item]:
    return [item(f"{t.deployment.name}: gpu_memory_fraction", t.fact) for t in tenants]


def _alone(case: Case, mine: Placement, others: bool) -> Finding:
    """Nobody else in the file may be on the same GPU."""
    evidence = [
        item("gpu_ids", case.fact("gpu_ids")),
        item("gpu_count", case.fact("gpu_count")),
        Item("source", case.deployment.source, source=case.deployment.name),
    ]
    where = place(case.fact("gpu_ids"), case.fact("gpu_count"))
    if others and mine.named:
        # Each service names its devices and no two meet: the file divides the GPUs.
        said = clip(", ".join(sorted(mine.visible or ())), 20)
        return passed(
            Text(f"GPU {said}: no other service of the file is on it", f"GPU {said}：文件里没有别的服务用它"),
            Strength.DECLARED,
            evidence=evidence,
            where=where,
        )
    return unproven(
        Text("nothing shows who else is on its GPU", "看不出它的 GPU 上还有谁"),
        needs=Text(
            "a compose file with every service of the machine and device_ids for each, or the processes on "
            "each GPU, which this release of preop cannot read; by hand: " + _tool(case).en,
            "包含本机所有服务并逐个写明 device_ids 的 compose 文件，或每张 GPU 上的进程列表"
            "（本版 preop 读不到）；人工查看：" + _tool(case).zh,
        ),
        evidence=evidence,
        where=where,
        # a compose file without another tenant is in order as far as files can tell
        holds=Strength.DECLARED if _file(case.deployment) is not None and not others else None,
    )


def _together(
    case: Case, mine: Placement, beside: dict[str, Placement], tenants: Sequence[_Tenant]
) -> Finding:
    """Others share, or may share, this GPU, and nothing adds up to too much for certain."""
    evidence = [
        *_share_items(tenants),
        item("gpu_ids", case.fact("gpu_ids")),
        item("gpu_count", case.fact("gpu_count")),
        threshold_item(case.thresholds, "P13.memory_shares"),
    ]
    where = place(tenants[0].fact, case.fact("gpu_ids"), case.fact("gpu_count"))
    others = clip(", ".join(t.deployment.name for t in tenants[1:]), 16)

    def open_(summary: Text, needs: Text) -> Finding:
        return unproven(summary, needs=needs, strength=Strength.DECLARED, evidence=evidence, where=where)

    unknown = next((t for t in tenants if t.share is None), None)
    undated = next((t for t in tenants if not t.version_stated), None)
    certain = all(mine.surely_meets(beside[t.deployment.name]) for t in tenants[1:])
    exact = mine.exact and all(beside[t.deployment.name].exact for t in tenants[1:])
    everywhere = _total(tenants)
    if unknown is None and undated is None and (not _exceeds(case, everywhere) or (certain and exact)):
        # Together they fit on any one GPU; or where each is, is known, and no GPU holds too much.
        return passed(
            Text(f"beside {others}: {_sum(tenants)}", f"与 {others} 共存：{_sum(tenants)}")
            if not _exceeds(case, everywhere)
            else Text(f"beside {others}: each GPU within its memory", f"与 {others} 共存：每张 GPU 都装得下"),
            Strength.DECLARED,
            evidence=[*evidence, Item("sum", float(everywhere), source="formula: sum of the shares")],
            where=where,
        )
    if not certain:
        return open_(
            Text(f"not stated whether {others} is on the same GPU", f"没写清 {others} 是否在同一张 GPU 上"),
            Text(
                "device_ids for each service (count: N names no device; Docker gives the first N each time)",
                "给每个服务写 device_ids（count: N 不指定具体设备，Docker 每次都给最前面的 N 张）",
            ),
        )
    if unknown is not None and unknown.why is not None:
        name = unknown.deployment.name
        return open_(
            Text(unknown.why.en, unknown.why.zh),
            Text(
                f"--gpu-memory-utilization of {name}, on vLLM 0.10 or newer with its version stated",
                f"写明 {name} 的 --gpu-memory-utilization，并使用写明版本的 vLLM 0.10 及以上",
            )
            if unknown.deployment.engine == "vllm"
            else Text(
                f"the memory each process takes, which this release cannot read; by hand: {_tool(case).en}",
                f"每个进程实际占用的显存，本版读不到；人工查看：{_tool(case).zh}",
            ),
        )
    if undated is not None:
        name = undated.deployment.name
        return open_(
            Text(
                f"{_sum(tenants)} on one GPU, version not stated",
                f"同一张 GPU 上 {_sum(tenants)}，但没写版本",
            ),
            Text(
                f"--engine-version, or an image tag that states it, for {name}: before vLLM 0.10 a share may "
                "count the neighbours too",
                f"用 --engine-version 或镜像标签写明 {name} 的版本：vLLM 0.10 之前的比例可能把邻居也算进去",
            ),
        )
    return open_(
        Text(f"not stated which of {others} meet on one GPU", f"没写清 {others} 中谁和谁在同一张 GPU 上"),
        Text(
            "device_ids for each service, and --tensor-parallel-size",
            "给每个服务写 device_ids 和 --tensor-parallel-size",
        ),
    )


def _tool(case: Case) -> Text:
    if vendor(case) == "nvidia":
        command = "nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv"
        return Text(command, command)
    return Text("the tool of the accelerator's vendor", "加速器厂商自己的工具")
