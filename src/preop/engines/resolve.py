"""From flags to facts in the canonical vocabulary."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from preop.engines.defaults import Accelerator, vllm_batch_defaults
from preop.engines.refinements import refine_tensorrt, refine_tgi
from preop.engines.roles import role_facts
from preop.engines.tables import find, label, table, vocabulary
from preop.engines.types import Flag, Given, ParsedFlags
from preop.engines.values import loads, read
from preop.facts import Fact, Origin, Word, known, unknown
from preop.secrets import mask_value

__all__ = ["facts"]

_ALLOW_LONG = {
    "vllm": ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", frozenset({"1", "true"})),
    "sglang": ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", frozenset({"1", "true", "yes", "y"})),
}
_SET_BY_ENVIRONMENT = frozenset({"llama.cpp", "tgi", "tei"})
"""Engines whose flags have twins among the environment variables."""
_TRUE, _FALSE = {"on", "enabled", "true", "1"}, {"off", "disabled", "false", "0"}
_PAD = 256
"""llama.cpp rounds contexts up to this (`GGML_PAD(n_ctx, 256)` in `llama-context.cpp`)."""
_AUTO_SLOTS = 4
"""Slots of llama-server where --parallel is auto, over one unified cache (`server.cpp`)."""


def facts(
    engine: str,
    version: str | None,
    parsed: ParsedFlags,
    environment: Mapping[str, Word],
    *,
    hidden: Sequence[str] = (),
    hidden_environment: Sequence[str] = (),
    accelerator: Accelerator | None = None,
) -> dict[str, Fact]:
    """Every fact of the vocabulary that this engine has, by canonical name.

    A fact that nobody set has the default of `version` where that version is stated and its table is here;
    else it is unknown, and `note` says what the newest known default is. `hidden` are the reasons why flags
    or environment may exist that cannot be seen: they make unknown whatever nobody is seen to set;
    `hidden_environment` those that concern the environment alone.
    `accelerator` resolves the defaults of vLLM that depend on GPU memory.
    """
    hidden = (*parsed.hidden, *hidden)
    if engine in _SET_BY_ENVIRONMENT:
        hidden, hidden_environment = (*hidden, *hidden_environment), ()
    source = _Source(
        engine, version, parsed, environment, tuple(dict.fromkeys(hidden)), tuple(hidden_environment)
    )
    found = {}
    for name, entry in vocabulary().items():
        flags = entry.get(engine)
        if flags is not None:
            fact = source.fact([flags] if isinstance(flags, str) else list(flags))
            found[name] = msgspec.structs.replace(fact, unit=entry.get("unit"))
    if engine == "vllm":
        _refine_vllm(found, source, accelerator)
    elif engine == "sglang":
        _refine_sglang(found, source)
    elif engine == "llama.cpp":
        _refine_llama(found, source)
    elif engine == "tgi":
        refine_tgi(found)
    elif engine == "tensorrt-llm":
        refine_tensorrt(found)
    found |= role_facts(engine, source.fact, found)
    if engine in _ALLOW_LONG:
        found["allow_long_max_model_len"] = source.switch(*_ALLOW_LONG[engine])
    return found


class _Source:
    """Where a fact may come from: the command line, the environment, the defaults of the version."""

    def __init__(
        self,
        engine: str,
        version: str | None,
        parsed: ParsedFlags,
        environment: Mapping[str, Word],
        hidden: tuple[str, ...],
        hidden_environment: tuple[str, ...] = (),
    ) -> None:
        self.engine, self.parsed, self.environment, self.hidden = engine, parsed, environment, hidden
        self.hidden_environment = hidden_environment
        self.exact = table(engine, version) if version else None
        self.flags = self.exact or table(engine)
        self.version = version

    def fact(self, names: Sequence[str]) -> Fact:
        """The fact that the first of `names` that is set gives; where none is set, their default."""
        if self.flags is None:
            return unknown(f"preop has no table of the flags of {label(self.engine)}")
        candidates = [found for name in names if (found := find(self.flags, name)) is not None]
        for name in (
            *(name for name, _ in candidates),
            *names,
        ):  # a flag of an older version has no candidate
            if name in self.parsed.given:
                return _of_given(self.parsed.given[name])
        if not candidates:
            why = f"{label(self.engine, self.flags.version)} has no flag for it"
            if self.exact is None:
                return unknown(why)
            return known(None, "default", Origin("default", label(self.engine, self.exact.version)), note=why)
        for name, flag in candidates:
            if flag.environment and (fact := self._of_environment(name, flag)) is not None:
                return fact
        if self.hidden:
            return unknown(f"not seen to be set, and it may be set where it cannot be seen: {self.hidden[0]}")
        return self._default(*self._telling(candidates))

    @staticmethod
    def _telling(candidates: list[tuple[str, Flag]]) -> tuple[str, Flag]:
        """Of several flags unset, the one whose default says most: a value, then none, then unknown."""
        return min(candidates, key=lambda found: (found[1].how != "literal", found[1].default is None))

    def _default(self, name: str, flag: Flag) -> Fact:
        assert self.flags is not None
        engine = label(self.engine, self.flags.version)
        if flag.how == "unknown":
            why = f": {flag.why}" if flag.why else ""
            return unknown(f"not set; preop does not know the default in {engine}{why}")
        if flag.how == "computed":
            return unknown(f"not set; the default in {engine} is decided when it starts: {flag.why}")
        note = f"it stands for: {flag.why}" if flag.why else None
        if self.exact is not None and "between" in self.exact.source:
            read = " and ".join(self.exact.source["between"])
            note = f"as in {read}, between which it lies" + (f"; {note}" if note else "")
        if self.exact is not None:
            return known(flag.default, "default", Origin("default", f"{engine} default"), note=note)
        value = "none" if flag.default is None else json.dumps(flag.default)
        why = "the engine's version is not stated"
        if self.version:
            why = f"preop has no table of {label(self.engine, self.version)}"
        return unknown(f"not set, and {why}; the default in {engine} is {value}")

    def _of_environment(self, name: str, flag: Flag) -> Fact | None:
        variable = flag.environment or ""
        opposite = variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_") if flag.negations else None
        if opposite and opposite in self.environment:
            return known(False, "user", self.environment[opposite].origin)
        word = self.environment.get(variable)
        if word is None:
            return None
        if word.text is None:
            return unknown(word.note or f"{variable} cannot be seen", origin=word.origin)
        try:
            value = (
                _switch(word.text, self.engine) if flag.kind == "bool" else read(flag, word.text, self.engine)
            )
        except ValueError as error:
            return unknown(f"{variable} cannot be its value, {error}", origin=word.origin)
        return known(mask_value(value, name), "user", word.origin)

    def switch(self, variable: str, true: frozenset[str]) -> Fact:
        """A boolean that only the environment sets."""
        word = self.environment.get(variable)
        if word is not None:
            if word.text is None:
                return unknown(word.note or f"{variable} cannot be seen", origin=word.origin)
            return known(word.text.strip().lower() in true, "user", word.origin)
        unseen = (*self.hidden, *self.hidden_environment)
        if unseen:
            return unknown(
                f"{variable} is not seen to be set, and it may be where it cannot be seen: {unseen[0]}"
            )
        if self.exact is None:
            return unknown(f"{variable} is not set, and the engine's version is not stated")
        return known(False, "default", Origin("default", f"{label(self.engine, self.exact.version)} default"))


def _switch(text: str, engine: str) -> bool:
    if engine != "llama.cpp":  # clap
        if text in ("true", "false"):
            return text == "true"
        raise ValueError("it must be true or false")
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise ValueError("it must be on, off, true, false, 1 or 0")


def _of_given(given: Given) -> Fact:
    if not given.is_known:
        return unknown(given.note or "its value cannot be seen", origin=given.origin)
    return known(given.value, "user", given.origin, note=given.note)


def _map(fact: Fact, change: Callable[[Any], Any]) -> Fact:
    """The fact with its value changed; an unknown stays as it is. `ValueError` makes it unknown."""
    if not fact.is_known or fact.value is None:
        return fact
    try:
        return msgspec.structs.replace(fact, value=change(fact.value))
    except ValueError as error:
        return unknown(str(error), origin=fact.origin, unit=fact.unit)


def _parts(source: _Source, keys: Mapping[str, str]) -> tuple[dict[str, Any], Fact | None]:
    """Values of flags that make up one object, and the first of these facts that is unknown though given."""
    values: dict[str, Any] = {}
    for key, flag in keys.items():
        fact = source.fact([flag])
        if fact.set_by == "user" and fact.value is not None:
            values[key] = fact.value
        elif not fact.is_known and fact.origin is not None:
            return values, fact
    return values, None


# --- vLLM


def _refine_vllm(found: dict[str, Fact], source: _Source, accelerator: Accelerator | None) -> None:
    found["speculative"] = _vllm_speculative(found["speculative"], source)
    found["served_model_name"] = _map(
        found["served_model_name"], lambda names: names[0] if len(names) == 1 else names
    )
    length = found["max_model_len"]
    if length.is_known and length.value == -1:
        found["max_model_len"] = unknown(
            "auto: the longest context that fits the memory", origin=length.origin, unit=length.unit
        )
    if accelerator is not None and source.exact is not None and not source.hidden:
        more = ("language-model-only", "enable-mm-embeds")
        looked = found | {name.replace("-", "_"): source.fact([name]) for name in more}
        found |= {
            name: fact
            for name, fact in vllm_batch_defaults(
                lambda n: looked.get(n) or unknown(""), accelerator, source.exact.version
            ).items()
            if not _is_given(source, name)
        }


def _is_given(source: _Source, name: str) -> bool:
    """Whether the command line sets the fact, be it to a value that cannot be seen."""
    return name.replace("_", "-") in source.parsed.given


_SPECULATIVE_BEFORE = {
    "model": "speculative-model",
    "num_speculative_tokens": "num-speculative-tokens",
    "prompt_lookup_max": "ngram-prompt-lookup-max",
    "prompt_lookup_min": "ngram-prompt-lookup-min",
}
"""Until 0.8.2 each part of the speculative configuration had a flag of its own."""


def _vllm_speculative(fact: Fact, source: _Source) -> Fact:
    """`--speculative-config`, and the flags that set single keys of it (`create_speculative_config`)."""
    keys = {"method": "spec-method", "model": "spec-model", "num_speculative_tokens": "spec-tokens"}
    if source.flags is not None and find(source.flags, "speculative-model") is not None:
        keys = _SPECULATIVE_BEFORE
    values, unseen = _parts(source, keys)
    if unseen is not None:
        return unseen
    if not fact.is_known and fact.origin is not None:
        return fact
    if isinstance(fact.value, str):  # 0.8.2 takes the JSON as a text
        try:
            fact = msgspec.structs.replace(fact, value=loads(fact.value))
        except ValueError:
            return unknown("the speculative configuration must be JSON", origin=fact.origin)
    if isinstance(fact.value, dict):
        plain = {str(key).replace("-", "_"): value for key, value in fact.value.items()}
        return msgspec.structs.replace(fact, value=plain | values)
    if fact.is_known and fact.value is not None:
        return unknown("the speculative configuration must be a JSON object", origin=fact.origin)
    if values:
        first = next(source.fact([flag]) for key, flag in keys.items() if key in values)
        return known(values, "user", first.origin or Origin("argument", "--spec-method"))
    return fact


# --- SGLang


def _refine_sglang(found: dict[str, Fact], source: _Source) -> None:
    found["hf_overrides"] = _map(found["hf_overrides"], _object)
    keys = {
        "model": "speculative-draft-model-path",
        "num_steps": "speculative-num-steps",
        "eagle_topk": "speculative-eagle-topk",
        "num_speculative_tokens": "speculative-num-draft-tokens",
    }
    found["speculative"] = _map(
        found["speculative"], lambda method: {"method": method} | _parts(source, keys)[0]
    )
    if found["max_num_batched_tokens"].value == -1:
        found["max_num_batched_tokens"] = known(
            None,
            "user",
            found["max_num_batched_tokens"].origin or Origin("argument", "--chunked-prefill-size"),
            unit="tokens",
            note="chunked prefill is off",
        )


def _object(text: Any) -> Any:
    try:
        value = loads(text)
    except ValueError:
        raise ValueError("the overrides of the model's config must be JSON") from None
    return mask_value(value)


# --- llama.cpp


def _refine_llama(found: dict[str, Fact], source: _Source) -> None:
    found["gpu_layers"] = _map(found["gpu_layers"], _layers)
    found["speculative"] = _llama_speculative(source)
    found["context_shift"] = _context_shift(found["context_shift"], source)
    parallel, context, unified = found["max_num_seqs"], found["context_size"], found["kv_unified"]
    slots = find(source.flags, "parallel") if source.flags else None
    rule = slots[1] if slots else None
    is_unsure = rule is not None and rule.how == "unknown"  # a build between two with different rules
    if is_unsure and parallel.value in (None, 1) and not source.hidden:
        parallel = unknown(
            "one slot or four: the builds read before and after differ", origin=parallel.origin
        )
    elif rule is not None and rule.default == 1 and rule.how == "computed":
        parallel = _one_or_four(parallel, unified, found["speculative"], source)
    elif parallel.is_known and isinstance(parallel.value, int) and parallel.value < 0:
        parallel = _auto_slots(parallel.origin, parallel.set_by == "user", source)
    elif not parallel.is_known and parallel.origin is None and not source.hidden:
        parallel = _auto_slots(None, False, source)
    is_auto = parallel.note is not None and parallel.note.startswith("auto")
    found["max_num_seqs"] = msgspec.structs.replace(parallel, unit="requests")
    if is_auto and parallel.is_known:
        # Auto sets the cache unified whatever --no-kv-unified says.
        unified = known(True, parallel.set_by, parallel.origin or _AUTO, note="auto slots share one cache")
    elif not unified.is_known and unified.origin is None and not source.hidden and parallel.is_known:
        unified = _plain_default(False, source, "off where the number of slots is set")
    found["kv_unified"] = unified
    if context.is_known and context.value == 0:
        context = unknown(
            "0: the context that the model was trained with", origin=context.origin, unit="tokens"
        )
        found["context_size"] = context
    if rule is not None and rule.default == 1 and rule.how == "literal" and unified.is_known:
        unified = known(False, unified.set_by, unified.origin or _AUTO)  # shared all the same, until b6916
    elif is_unsure and unified.value is True:
        unified = unknown(
            "whether one cache means one context differs between the builds read before and after"
        )
    found["max_model_len"] = _slot_context(context, parallel, unified)


def _one_or_four(parallel: Fact, unified: Fact, speculative: Fact, source: _Source) -> Fact:
    """b6957 to b7376: one slot becomes four over one cache, unless that is set or the engine speculates."""
    is_user = parallel.set_by == "user"
    if (is_user and parallel.value != 1) or (not is_user and (parallel.origin is not None or source.hidden)):
        return parallel
    if not speculative.is_known and speculative.origin is not None:
        return unknown("1, or 4 where the engine does not speculate", origin=parallel.origin)
    if (unified.set_by == "user" and unified.value is True) or speculative.value is not None:
        return parallel if is_user else _plain_default(1, source, "one slot")
    return _auto_slots(parallel.origin, is_user, source)


def _context_shift(fact: Fact, source: _Source) -> Fact:
    """Before b7376 `--no-context-shift` was a flag of its own, at first the only one."""
    off = find(source.flags, "no-context-shift") if source.flags else None
    if off is None or off[0] != "no-context-shift":
        return fact
    given = source.fact([off[0]])
    has_on = source.flags is not None and find(source.flags, "context-shift") is not None
    is_set = given.set_by == "user" or (not given.is_known and given.origin is not None)
    return fact if has_on and not is_set else _map(given, lambda value: not value)


_AUTO = Origin("default", "llama.cpp default")


def _auto_slots(origin: Origin | None, is_user: bool, source: _Source) -> Fact:
    note = f"auto: {_AUTO_SLOTS} slots over one unified cache"
    if is_user and origin is not None and source.exact is not None:
        return known(_AUTO_SLOTS, "user", origin, note=note)
    return _plain_default(_AUTO_SLOTS, source, note)


def _plain_default(value: Any, source: _Source, note: str) -> Fact:
    if source.exact is None:
        return unknown(f"not set, and the version is not stated; the newest known default: {note}")
    origin = Origin("default", f"{label(source.engine, source.exact.version)} default")
    return known(value, "default", origin, note=note)


def _slot_context(context: Fact, parallel: Fact, unified: Fact) -> Fact:
    """The context of one slot (`llama_context` and `server-context.cpp` of b10605).

    The whole context where the cache is unified, else its part, each rounded up to 256. The server caps it
    at the context the model was trained with.
    """
    if not context.is_known or not isinstance(context.value, int):
        why = context.note or "the context size is not known"
        return unknown(f"one slot's share of the context: {why}", origin=context.origin, unit="tokens")
    whole = _padded(context.value)
    note = "llama-server caps it at the context the model was trained with"
    origin = context.origin or Origin("formula", "--ctx-size")
    if (parallel.is_known and parallel.value == 1) or (unified.is_known and unified.value is True):
        return known(whole, context.set_by, origin, unit="tokens", note=note)
    if not unified.is_known or not parallel.is_known or not isinstance(parallel.value, int):
        reason = (unified if not unified.is_known else parallel).note
        return unknown(
            f"{whole} tokens are shared by the slots, and how is not known ({reason})",
            origin=origin,
            unit="tokens",
        )
    share = _padded(whole // parallel.value) if parallel.value > 0 else whole
    note = f"{whole} tokens over {parallel.value} slots; {note}"
    return known(share, context.set_by, origin, unit="tokens", note=note)


def _padded(tokens: int) -> int:
    return -(-tokens // _PAD) * _PAD


def _layers(value: Any) -> Any:
    """auto and all stay words; numbers are numbers (-1 is auto, below that all)."""
    text = str(value).strip()
    if text in ("auto", "all"):
        return text
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no number of layers") from None
    return number if number >= 0 else "auto" if number == -1 else "all"


def _llama_speculative(source: _Source) -> Fact:
    """Kinds from --spec-type and --spec-default.

    Whether a draft model alone speculates depends on the version and on what the draft's file holds
    (`common_models_handler_init` of b10605 infers a kind from it, and none for a plain model).
    """
    kinds, preset = source.fact(["spec-type"]), source.fact(["spec-default"])
    drafts = [source.fact([name]) for name in ("model-draft", "hf-repo-draft")]
    given = [
        fact for fact in (kinds, *drafts, preset) if fact.origin is not None and fact.set_by != "default"
    ]
    unseen = next((fact for fact in given if not fact.is_known), None)
    if unseen is not None:
        return unseen
    if not given:
        return _map(kinds, lambda kind: None if kind == "none" else {"method": kind})
    origin = given[0].origin or Origin("argument", "--spec-type")
    if source.hidden:
        return unknown(f"more of it may be set where it cannot be seen: {source.hidden[0]}", origin=origin)
    names = [n for n in str(kinds.value).split(",") if n != "none"] if kinds.set_by == "user" else []
    if preset.set_by == "user" and preset.value:
        names.append("ngram-mod")
    draft = next((fact.value for fact in drafts if fact.set_by == "user"), None)
    if draft is not None and source.exact is not None and find(source.exact, "spec-type") is None:
        names = ["draft"]  # there was one kind then, and a draft model alone was it
    if not names and draft is not None and kinds.set_by != "user":
        return unknown("a draft model without --spec-type: its file and the version decide", origin=origin)
    if not names:
        return known(None, "user", origin)
    value = {"method": ",".join(dict.fromkeys(names))} | ({"model": draft} if draft else {})
    limit = source.fact(["spec-draft-n-max", "draft-max"])
    if limit.set_by == "user":
        value["num_speculative_tokens"] = limit.value
    return known(value, "user", origin)
