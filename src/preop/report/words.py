"""The words that the report itself says, in both languages."""

from __future__ import annotations

from preop.evidence import Strength
from preop.findings import Outcome, Verdict
from preop.text import Language, Text

__all__ = [
    "ADVICE",
    "APPROVAL",
    "CHARTS_NEED",
    "COUNTED",
    "EXIT",
    "GROUPS",
    "MARKS",
    "OUTCOMES",
    "SET_BY",
    "STRENGTHS",
    "UI",
    "VERDICTS",
    "aside",
    "gate_line",
]


def gate_line(name: str, language: Language) -> str:
    """What is not required, by which gate."""
    return f"关卡 {name} 不要求" if language == "zh" else f"not required by gate {name}"


def aside(text: str, language: Language) -> str:
    """`text` in the brackets of the language."""
    return f"（{text}）" if language == "zh" else f" ({text})"


OUTCOMES = {
    Outcome.FAIL: Text("FAIL", "不通过"),
    Outcome.ERROR: Text("ERROR", "出错"),
    Outcome.UNPROVEN: Text("UNPROVEN", "未证实"),
    Outcome.WAIVED: Text("WAIVED", "已豁免"),
    Outcome.PASS: Text("PASS", "通过"),
    Outcome.NOT_APPLICABLE: Text("N/A", "不适用"),
}

MARKS = {
    Outcome.FAIL: Text("FAIL", "不通过"),
    Outcome.ERROR: Text("ERROR", "出错"),
    Outcome.UNPROVEN: Text("?", "？"),
    Outcome.WAIVED: Text("waived", "豁免"),
    Outcome.PASS: Text("ok", "通过"),
    Outcome.NOT_APPLICABLE: Text("n/a", "不适用"),
}
"""The outcomes in the terminal's first column."""

COUNTED = {
    Outcome.FAIL: Text("fail", "项不通过"),
    Outcome.ERROR: Text("error", "项出错"),
    Outcome.UNPROVEN: Text("not proven", "项未证实"),
    Outcome.WAIVED: Text("waived", "项豁免"),
    Outcome.PASS: Text("pass", "项通过"),
    Outcome.NOT_APPLICABLE: Text("n/a", "项不适用"),
}
"""The outcomes after a number."""

VERDICTS = {
    Verdict.GO: Text("GO", "GO 可以上线"),
    Verdict.NO_GO: Text("NO-GO", "NO-GO 不可上线"),
    Verdict.HOLD: Text("HOLD", "HOLD 暂缓上线"),
}

ADVICE = {
    Verdict.GO: Text(
        "Everything this gate requires is shown to be in order.", "本关卡要求的各项均已证实没有问题。"
    ),
    Verdict.NO_GO: Text(
        "At least one pitfall is shown to be open. Fix it before going live.",
        "至少有一个陷阱已证实存在，请先修复再上线。",
    ),
    Verdict.HOLD: Text(
        "Nothing is shown to be wrong, but something that this gate requires is not proven.",
        "没有发现问题，但本关卡要求的项目中还有未证实的。",
    ),
}

EXIT = {
    Verdict.GO: Text("exit code 0 (GO)", "退出码 0（GO，可以上线）"),
    Verdict.NO_GO: Text("exit code 1 (NO-GO: a pitfall is open)", "退出码 1（NO-GO，有陷阱未堵上）"),
    Verdict.HOLD: Text(
        "exit code 3 (HOLD: something required is not proven)", "退出码 3（HOLD，有必需项未证实）"
    ),
}

STRENGTHS = {
    Strength.DECLARED: Text("declared", "声明"),
    Strength.COMPUTED: Text("computed", "推算"),
    Strength.MEASURED: Text("measured", "实测"),
}

SET_BY = {
    "user": Text("you", "用户"),
    "default": Text("default", "默认值"),
    "engine": Text("engine", "引擎"),
    "model": Text("model", "模型"),
    "unknown": Text("unknown", "未知"),
}

CHARTS_NEED = Text(
    "Charts need one more install: pip install 'preop[report]'",
    "图表需要另行安装：pip install 'preop[report]'",
)

UI = {
    "title": Text("Deployment check", "部署检查"),
    "gate": Text("gate", "关卡"),
    "fix": Text("fix", "修复"),
    "needs": Text("needs", "需要"),
    "where": Text("where", "位置"),
    "note": Text("note", "提示"),
    "nearest": Text("nearest", "最接近的是"),
    "contradiction": Text("contradiction", "矛盾"),
    "declared": Text("declared", "声明为"),
    "running": Text("running engine says", "运行中的引擎为"),
    "kept": Text("kept in", "记录保存在"),
    "not_kept": Text("nothing was kept", "未保存记录"),
    "engine_unknown": Text("engine unknown", "引擎未知"),
    "model_unknown": Text("model unknown", "模型未知"),
    "hardware_unknown": Text("hardware not stated", "硬件未声明"),
    "no_gpu": Text("CPU, no GPU", "CPU，无 GPU"),
    "required": Text("required by the gate", "关卡必需"),
    "optional": Text("not required", "非必需"),
    "enough": Text("enough for this gate", "足以通过本关卡"),
    "known": Text("in the baseline already", "基线中已有"),
    "new": Text("new since the baseline", "相对基线新增"),
    "resolved": Text("resolved since the baseline", "相对基线已消除"),
    "baseline": Text("baseline", "基线"),
    "requires": Text("requires", "要求"),
    "count_deployments": Text("deployments", "个部署"),
    "more_deployments": Text("more deployments", "个部署未列出"),
    "overview": Text("The fifteen at a glance", "十五项一览"),
    "findings": Text("Findings", "检查结果"),
    "deployments": Text("What was judged", "检查对象"),
    "evidence": Text("evidence", "证据"),
    "value": Text("value", "值"),
    "unit": Text("unit", "单位"),
    "source": Text("source", "来源"),
    "name": Text("name", "名称"),
    "fact": Text("fact", "事实"),
    "set_by": Text("set by", "设定者"),
    "strength": Text("strength", "证据强度"),
    "taken": Text("measured at", "测量时间"),
    "age": Text("age at this check", "检查时已过"),
    "by_deployment": Text("by deployment", "按部署"),
    "engine": Text("engine", "引擎"),
    "model": Text("model", "模型"),
    "hardware": Text("hardware", "硬件"),
    "endpoint": Text("endpoint", "端点"),
    "notes": Text("Notes", "提示"),
    "contradictions": Text("The running engine says otherwise", "与运行中的引擎不一致"),
    "took": Text("took", "用时"),
    "concurrency": Text("concurrent", "并发"),
    "requests": Text("requests", "请求数"),
    "errors": Text("errors", "错误"),
    "voided": Text("voided", "作废"),
    "in_ms": Text(
        "TTFT and TPOT in ms; — where the sample is too small for that percentile",
        "TTFT 与 TPOT 单位为毫秒；样本不足以给出该分位数时为 —",
    ),
    "explain": Text("more", "详情"),
    "cut": Text(
        "lines cut at … stand whole with --verbose, in --format json and in the HTML report",
        "以 … 截断的内容可用 --verbose、--format json 或 HTML 报告查看全文",
    ),
    "more_in_json": Text("more in the JSON document", "条见 JSON 文档"),
    "checklist": Text("Pre-deployment checklist for LLM inference", "推理部署前自检清单"),
    "unticked": Text(
        "A box is ticked only where evidence shut the pitfall, or showed that it cannot occur here (N/A).",
        "只有证据表明陷阱已堵上、或在此不会出现（不适用）的项才会打勾。",
    ),
    "facts_more": Text("all facts", "全部事实"),
    "unknown_facts": Text("not known", "未知"),
}

GROUPS = {
    "quantization": Text("Quantization and precision", "量化与精度"),
    "scheduling": Text("Scheduling and concurrency", "调度与并发"),
    "operations": Text("Monitoring and operations", "监控与运维"),
    "design": Text("Protocol and design", "协议与设计"),
}
"""The groups of the checklist, in its order."""

APPROVAL = {
    "approval": Text("Change approval", "变更审批"),
    "no_service": Text("Inference service", "推理服务"),
    "what_changed": Text("What changes", "变更内容"),
    "since": Text("since", "相对"),
    "no_baseline": Text(
        "Not known: no baseline was given (--baseline REF or RUN).",
        "未知：没有给出基线（--baseline REF 或 RUN）。",
    ),
    "no_change": Text(
        "Nothing that preop reads differs from the baseline.", "preop 读取的内容与基线没有差别。"
    ),
    "deployment": Text("deployment", "部署"),
    "before": Text("before", "之前"),
    "after": Text("after", "之后"),
    "whole": Text("the whole deployment", "整个部署"),
    "not_there": Text("not set", "未设置"),
    "accepted": Text("Risks accepted", "已接受的风险"),
    "none_accepted": Text("None.", "无。"),
    "rollback": Text("How to roll back", "如何回滚"),
    "to_commit": Text("The files before are those of commit {commit}.", "变更前的文件在提交 {commit}。"),
    "to_image": Text("{deployment} ran {image}.", "{deployment} 之前运行 {image}。"),
    "no_rollback": Text(
        "Not stated: [approval] rollback in preop.toml, or --baseline.",
        "没有写明：请在 preop.toml 的 [approval] rollback 中说明，或使用 --baseline。",
    ),
    "cost": Text("Cost per million output tokens at the objective", "满足目标时每百万输出 token 的成本"),
    "cost_line": Text(
        "{deployment}: {per_million:.2f} {currency}, at {concurrency} concurrent requests and "
        "{output_tokens_per_s:,.0f} output tokens/s on {gpus} GPU(s) of {gpu_hour:g} {currency} an hour; "
        "p99 TTFT {ttft_p99_ms:,.0f} ms, TPOT {tpot_p99_ms:,.1f} ms; measured {taken_at}",
        "{deployment}：{per_million:.2f} {currency}，并发 {concurrency}，{gpus} 张 GPU（每小时 {gpu_hour:g} "
        "{currency}）上 {output_tokens_per_s:,.0f} 输出 token/s；p99 TTFT {ttft_p99_ms:,.0f} ms，TPOT "
        "{tpot_p99_ms:,.1f} ms；测量于 {taken_at}",
    ),
    "no_price": Text(
        "Not stated: [cost] gpu_hour in preop.toml.",
        "没有写明：请在 preop.toml 的 [cost] gpu_hour 中给出价格。",
    ),
    "no_cost": Text(
        "Not measured: no valid level meets the objective with its p99, or the number of GPUs is not known.",
        "未测得：没有一个有效并发级别的 p99 满足目标，或 GPU 数量未知。",
    ),
    "requested_by": Text("Requested by, date", "申请人，日期"),
    "approved_by": Text("Approved by, date", "批准人，日期"),
}
"""The change-approval page."""
