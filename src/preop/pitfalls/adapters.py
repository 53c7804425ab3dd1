"""LoRA adapters: each is a model of its own to whoever asks for it."""

from __future__ import annotations

from preop.findings import Item
from preop.pitfalls.types import Case
from preop.text import Text

__all__ = ["adapter_names", "adapters_shown", "for_each_adapter"]


def adapter_names(case: Case) -> list[str]:
    """The adapters that the deployment names, as requests name them."""
    value = case.fact("lora_modules").value
    if not isinstance(value, list):
        return []
    return [str(each["name"]) for each in value if isinstance(each, dict) and each.get("name")]


def adapters_shown(case: Case) -> list[Item]:
    """The adapters, as evidence; none where there are none."""
    fact = case.fact("lora_modules")
    if fact.is_known and fact.value:
        return [Item("adapters", adapter_names(case) or fact.value, None, fact.source)]
    loads_any = case.fact("enable_lora").value is True
    return [Item("adapters", None, None, "any that is asked for")] if loads_any and not fact.is_known else []


def for_each_adapter(case: Case, needs: Text) -> Text:
    """What is needed, and that it is needed of each adapter as well: the base's answers are not theirs."""
    count = len(adapter_names(case))
    if not count:
        return needs
    return Text(
        f"{needs.en}; the same for each of {count} adapters", f"{needs.zh}；{count} 个适配器各需同样一次"
    )
