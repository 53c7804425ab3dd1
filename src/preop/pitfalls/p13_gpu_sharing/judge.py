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

from collections.abc import Sequence
from decimal import Decimal
from itertools import islice

from msgspec.structs import replace

from preop.evidence import Strength
from preop.findings import Finding, Item, Outcome
from preop.pitfalls.accelerator import cpu, vendor
from preop.pitfalls.clip import clip
from preop.pitfalls.p13_gpu_sharing.allocation import allocated
from preop.pitfalls.p13_gpu_sharing.tenants import Group, Tenant, Tenants, tenants_of
from preop.pitfalls.say import failed, item, not_applicable, passed, place, threshold_item, unproven
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["judge"]

_SHOWN = 8
"""Others named in the evidence: in a file of hundreds each would name all others."""


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
    tenants, me = tenants_of(case)
    for gpu in sorted(me.placement.certain):
        on_it = tenants.on(gpu, me)
        if len(on_it.sharing) > 1 and me.share is not None and _exceeds(case, on_it.total):
            return _too_much(case, gpu, me, on_it)
    beside = tenants.beside(me)
    finding = _together(case, me, beside) if len(beside.tenants) > 1 else None
    finding = finding or _alone(case, me, tenants.neighbours(me) > 0)
    count, shown = _strangers(case, tenants, me)
    return _beside_strangers(finding, count, shown) if count else finding


def _strangers(case: Case, tenants: Tenants, me: Tenant) -> tuple[int, list[str]]:
    """How many more may be on the GPU although nothing can be said of them, and the first of them: services
    of the file that run no known engine, and deployments of other files or of a script, which may run on this
    machine at the same time."""
    unknown = [note.message for note in case.deployment.notes if note.kind == "other-tenant"]
    count, elsewhere = tenants.strangers(me, _SHOWN)
    said = (f"{t.name} ({t.deployment.source}) may be on the same GPU" for t in elsewhere)
    return len(unknown) + count, [*unknown, *said][:_SHOWN]


def _beside_strangers(finding: Finding, count: int, shown: Sequence[str]) -> Finding:
    """No PASS beside someone of whom nothing is known; all else stays as it is, with the strangers shown."""
    if count > len(shown):
        shown = [*shown, f"and {count - len(shown)} more"]
    evidence = (
        *finding.evidence,
        *(Item("also there", said, source="the files given") for said in shown),
    )
    if finding.outcome is not Outcome.PASS:
        return replace(finding, evidence=evidence, holds=None)
    return unproven(
        Text(
            f"{count} more may be on its GPU, share unknown",
            f"还有 {count} 个可能也在这张 GPU 上，占用未知",
        ),
        needs=Text(
            "the memory each process takes, which this release cannot read; or a GPU named for it alone",
            "每个进程实际占用的显存（本版读不到），或者给它单独指定一张 GPU",
        ),
        strength=finding.strength,
        evidence=evidence,
        where=finding.where,
    )


def _exceeds(case: Case, total: Decimal) -> bool:
    return total > Decimal(str(case.thresholds["P13.memory_shares"]))


def _me_first(me: Tenant, group: Group, most: int) -> list[Tenant]:
    """The first of a group, this one before the others."""
    return [me, *islice((t for t in group.tenants if t is not me), most - 1)]


def _sum(me: Tenant, group: Group) -> str:
    """`0.70 + 0.45 = 1.15`, or `5 shares = 1.30` where the terms would not fit in a line."""
    count = len(group.sharing)
    shares = [t.share for t in _me_first(me, group, len(group.tenants)) if t.share] if count <= 3 else []
    terms = " + ".join(map(_number, shares)) if shares else f"{count} shares"
    return f"{terms} = {_number(group.total)}"


def _number(value: Decimal) -> str:
    short = f"{value:.2f}"
    return short if Decimal(short) == value else str(value)


def _too_much(case: Case, gpu: str, me: Tenant, on_it: Group) -> Finding:
    limit = Decimal(str(case.thresholds["P13.memory_shares"]))
    fair = (limit / len(on_it.sharing)).quantize(Decimal("0.01"), rounding="ROUND_DOWN")
    shares = Group(on_it.sharing)
    names = clip(", ".join(t.name for t in _me_first(me, shares, 80)), 80)
    places = (place(t.fact) for t in _me_first(me, shares, _SHOWN))
    return failed(
        Text(
            f"{_sum(me, shares)} of {clip(gpu, 16)}: too much",
            f"{clip(gpu, 16)} 上 {_sum(me, shares)}，装不下",
        ),
        Strength.DECLARED,
        remedy=Text(
            f"--gpu-memory-utilization on {names} so that the sum stays under {limit} with room left, e.g. "
            f"under {fair} each, started one after another; or a GPU of its own for one of them (device_ids)",
            f"调低 {names} 的 --gpu-memory-utilization，让总和低于 {limit} 并留余量，例如各低于 {fair}，"
            "并依次启动；或给其中一个单独的 GPU（device_ids）",
        ),
        evidence=[
            *_share_items(me, shares),
            Item(f"sum on {gpu}", float(shares.total), source="formula: sum of the shares"),
            threshold_item(case.thresholds, "P13.memory_shares"),
        ],
        where=", ".join(dict.fromkeys(where for where in places if where)) or None,
    )


def _share_items(me: Tenant, group: Group) -> list[Item]:
    shown = [item(f"{t.name}: gpu_memory_fraction", t.fact) for t in _me_first(me, group, _SHOWN)]
    left = len(group.tenants) - len(shown)
    return [*shown, Item("not shown", f"{left} more", source="the files given")] if left else shown


def _alone(case: Case, me: Tenant, others: bool) -> Finding:
    """Nobody else in the file may be on the same GPU."""
    evidence = [
        item("gpu_ids", case.fact("gpu_ids")),
        item("gpu_count", case.fact("gpu_count")),
        Item("source", case.deployment.source, source=case.deployment.name),
    ]
    where = place(case.fact("gpu_ids"), case.fact("gpu_count"))
    if others and me.placement.named:
        # Each service names its devices and no two meet: the file divides the GPUs.
        said = clip(", ".join(sorted(me.placement.visible or ())), 20)
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
        holds=Strength.DECLARED if me.file is not None and not others else None,
    )


def _together(case: Case, me: Tenant, beside: Group) -> Finding:
    """Others share, or may share, this GPU, and nothing adds up to too much for certain."""
    evidence = [
        *_share_items(me, beside),
        item("gpu_ids", case.fact("gpu_ids")),
        item("gpu_count", case.fact("gpu_count")),
        threshold_item(case.thresholds, "P13.memory_shares"),
    ]
    where = place(me.fact, case.fact("gpu_ids"), case.fact("gpu_count"))
    others = clip(", ".join(t.name for t in _me_first(me, beside, 17)[1:]), 16)

    def open_(summary: Text, needs: Text) -> Finding:
        return unproven(summary, needs=needs, strength=Strength.DECLARED, evidence=evidence, where=where)

    unknown = me if me.share is None else beside.without_share
    undated = me if not me.version_stated else beside.without_version
    # each of the others surely uses a GPU that this one surely uses
    certain = bool(me.placement.certain) and all(map(me.placement.surely_meets, beside.placements))
    exact = beside.are_exact
    everywhere = beside.total
    if unknown is None and undated is None and (not _exceeds(case, everywhere) or (certain and exact)):
        # Together they fit on any one GPU; or where each is, is known, and no GPU holds too much.
        return passed(
            Text(f"beside {others}: {_sum(me, beside)}", f"与 {others} 共存：{_sum(me, beside)}")
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
        name = unknown.name
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
        name = undated.name
        return open_(
            Text(
                f"{_sum(me, beside)} on one GPU, version not stated",
                f"同一张 GPU 上 {_sum(me, beside)}，但没写版本",
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
