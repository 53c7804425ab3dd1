"""Who may take what of each GPU: all deployments of a check, sorted once, so that the judge of one need not
look at each of the thousands beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import islice
from operator import is_not

from preop.deployment.types import Deployment
from preop.facts import Fact
from preop.pitfalls.accelerator import cpu
from preop.pitfalls.clip import clip
from preop.pitfalls.p13_gpu_sharing.allocation import is_apart
from preop.pitfalls.p13_gpu_sharing.placement import ALL, Placement, kinds, placement
from preop.pitfalls.readings import hides_flags, release
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["Group", "Tenant", "Tenants", "tenants_of"]

_OWN_SHARE_SINCE = (0, 10, 0)
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


@dataclass(eq=False)
class Tenant:
    """One deployment on a GPU with the share it may take; None where no share can be said, and why."""

    deployment: Deployment
    placement: Placement
    share: Decimal | None
    why: Text | None
    version_stated: bool

    @property
    def name(self) -> str:
        """Its deployment's."""
        return self.deployment.name

    @property
    def fact(self) -> Fact:
        """The share of a GPU's memory, as it is set."""
        return self.deployment.fact("gpu_memory_fraction")

    @cached_property
    def file(self) -> str | None:
        """The compose file that it is a service of: its services run at the same time."""
        file, service, _ = self.deployment.source.partition(": service ")
        return file if service else None


@dataclass(eq=False)
class Group:
    """Tenants that may be together, in their order, and what holds of all of them."""

    tenants: tuple[Tenant, ...]

    @cached_property
    def sharing(self) -> tuple[Tenant, ...]:
        """Those of which a share can be said."""
        return tuple(t for t in self.tenants if t.share is not None)

    @cached_property
    def total(self) -> Decimal:
        """The sum of the shares that can be said."""
        return sum((t.share for t in self.sharing if t.share is not None), Decimal(0))

    @cached_property
    def without_share(self) -> Tenant | None:
        """The first of which no share can be said."""
        return next((t for t in self.tenants if t.share is None), None)

    @cached_property
    def without_version(self) -> Tenant | None:
        """The first of which the version is not stated."""
        return next((t for t in self.tenants if not t.version_stated), None)

    @cached_property
    def placements(self) -> frozenset[Placement]:
        """Where they are."""
        return frozenset(t.placement for t in self.tenants)

    @cached_property
    def are_exact(self) -> bool:
        """Of each all the GPUs that it uses are known."""
        return all(p.exact for p in self.placements)


class Tenants:
    """Deployments that may use a GPU of this machine: not on the CPU, none given a device by its platform."""

    def __init__(self, deployments: Sequence[Deployment]) -> None:
        everyone = tuple(_tenant(d) for d in deployments if not is_apart(d) and cpu(Case(d)) is None)
        self._by_name = {t.name: t for t in everyone}
        self._all = _Side(everyone)
        by_file: defaultdict[str, list[Tenant]] = defaultdict(list)
        for tenant in everyone:
            if tenant.file is not None:
                by_file[tenant.file].append(tenant)
        self._elsewhere: dict[tuple[Placement, str | None, int], list[Tenant]] = {}
        self._files = {file: _Side(tuple(own)) for file, own in by_file.items()}

    def find(self, deployment: Deployment) -> Tenant | None:
        """The deployment as a tenant; None where it is none of them."""
        found = self._by_name.get(deployment.name)
        return found if found is not None and found.deployment is deployment else None

    def neighbours(self, tenant: Tenant) -> int:
        """How many others are services of its file: they run at the same time."""
        side = self._files.get(tenant.file or "")
        return len(side.tenants) - 1 if side is not None else 0

    def on(self, gpu: str, tenant: Tenant) -> Group:
        """Those of its file that surely use that GPU."""
        side = self._files.get(tenant.file or "")
        return side.on[gpu] if side is not None else Group((tenant,))

    def beside(self, tenant: Tenant) -> Group:
        """Those of its file that may be on a GPU of its, with itself."""
        side = self._files.get(tenant.file or "")
        return side.meeting(tenant.placement) if side is not None else Group((tenant,))

    def strangers(self, tenant: Tenant, most: int) -> tuple[int, list[Tenant]]:
        """Those of other files, or of none, that may be on a GPU of its: how many, and the first `most`."""
        everywhere = self._all.meeting(tenant.placement).tenants
        count = len(everywhere) - len(self.beside(tenant).tenants)
        key = tenant.placement, tenant.file, most
        if count and key not in self._elsewhere:
            others = (t for t in everywhere if t.file is None or t.file != tenant.file)
            self._elsewhere[key] = list(islice(others, most + 1))
        return count, [t for t in self._elsewhere.get(key, ()) if t is not tenant][:most]


class _Side:
    """Tenants by the GPUs that they use for certain, and by those that they may use."""

    def __init__(self, tenants: tuple[Tenant, ...]) -> None:
        self.tenants = tenants
        self._met: dict[Placement, Group] = {}

    @cached_property
    def on(self) -> dict[str, Group]:
        found: defaultdict[str, list[Tenant]] = defaultdict(list)
        for tenant in self.tenants:
            for gpu in tenant.placement.certain:
                found[gpu].append(tenant)
        return {gpu: Group(tuple(own)) for gpu, own in found.items()}

    @cached_property
    def _anywhere(self) -> list[int]:
        """Those that name no devices: they may meet everyone."""
        return [at for at, t in enumerate(self.tenants) if not t.placement.named]

    @cached_property
    def _by_kinds(self) -> dict[frozenset[str], list[int]]:
        found: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        for at, tenant in enumerate(self.tenants):
            if tenant.placement.named:
                found[kinds(tenant.placement)].append(at)
        return found

    @cached_property
    def _by_device(self) -> dict[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for at, tenant in enumerate(self.tenants):
            for device in tenant.placement.visible or ():
                found[device].append(at)
        return found

    def meeting(self, where: Placement) -> Group:
        """Those that may meet one that is there, as `Placement.may_meet` says."""
        if where not in self._met:
            self._met[where] = Group(tuple(self.tenants[at] for at in self._indices(where)))
        return self._met[where]

    def _indices(self, where: Placement) -> Sequence[int]:
        if not where.named:
            return range(len(self.tenants))
        own = kinds(where)
        found = set(self._anywhere)
        for other, there in self._by_kinds.items():
            if other != own:
                found.update(there)
        for device in (where.visible or ALL) - ALL:
            found.update(self._by_device.get(device, ()))
        return sorted(found)


_newest: tuple[Sequence[Deployment], Tenants] = ((), Tenants(()))


def tenants_of(case: Case) -> tuple[Tenants, Tenant]:
    """The tenants of the check, and this case's own among them: it must be one that may use a GPU."""
    global _newest  # a judge is asked for one deployment after another of the same check
    siblings, tenants = _newest
    if len(siblings) != len(case.siblings) or any(map(is_not, siblings, case.siblings)):
        tenants = Tenants(case.siblings)
        _newest = (tuple(case.siblings), tenants)
    mine = tenants.find(case.deployment)
    if mine is None:  # it is not among its siblings
        others = [d for d in case.siblings if d.name != case.deployment.name]
        tenants = Tenants([case.deployment, *others])
        mine = tenants.find(case.deployment)
    assert mine is not None
    return tenants, mine


def _tenant(deployment: Deployment) -> Tenant:
    version = release(Case(deployment))
    stated = version is not None
    name = clip(deployment.name, 16)
    where = placement(deployment)

    def no_share(why: Text) -> Tenant:
        return Tenant(deployment, where, None, why, stated)

    if deployment.engine != "vllm":
        unknown = Text(f"what {name} may take is not known", f"不知道 {name} 会占多少")
        return no_share(_MEANING.get(deployment.engine, unknown))
    fixed = deployment.fact("kv_cache_memory_bytes")
    if fixed.is_known and fixed.value is not None:
        return no_share(
            Text(
                f"{name}: kv_cache_memory_bytes overrides its share",
                f"{name} 设了 kv_cache_memory_bytes，比例不再起作用",
            )
        )
    if not fixed.is_known and hides_flags(Case(deployment)):
        return no_share(
            Text(f"{name}: kv_cache_memory_bytes cannot be seen", f"看不到 {name} 的 kv_cache_memory_bytes")
        )
    fraction = deployment.fact("gpu_memory_fraction")
    share = fraction.value
    a_share = isinstance(share, int | float) and not isinstance(share, bool) and 0 < share <= 1
    if not a_share or (fraction.set_by == "default" and not stated):
        return no_share(Text(f"the share of {name} is not stated", f"没写 {name} 的显存比例"))
    if version is not None and version < _OWN_SHARE_SINCE:
        shown = deployment.fact("engine_version").value
        return no_share(
            Text(
                f"vLLM {shown} may charge neighbours too: no sum",
                f"vLLM {shown} 可能把邻居的显存也算进去，不能相加",
            )
        )
    return Tenant(deployment, where, Decimal(str(share)), None, stated)
