"""Keep secrets out of facts, reports, logs and run folders."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["MASK", "is_secret_name", "mask_text", "mask_value"]

MASK = "***"

_SECRET = re.compile(
    r"(^|_)(api_?keys?|secrets?|passwords?|passwd|passphrase|credentials?|authorization|bearer"
    r"|(access|private|secret|auth|encryption|signing|account)_?keys?(_id)?)(_|$)"
    r"|(^|_)((auth)?token|key|pat|pwd)$"
)
# What ends like a secret and is none: paths to one, and the tokens of a vocabulary.
_HARMLESS = re.compile(
    r"_(file|path|dir|name|header|env)$|^(allow|cors)_credentials$|(^|_)(pad|eos|bos|unk|sep|cls|mask|stop|start|end|image|video|audio"
    r"|special|think|first|per|cache|partition|sort|primary|public|group|by)_(token|key)$"
)

_TEXT = (
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{6,}"), rf"\1\2{MASK}"),
    (re.compile(r"\b(sk|rk|pk)-[A-Za-z0-9_-]{12,}"), MASK),
    (
        re.compile(r"\b(hf_|nvapi-|gh[pousr]_|github_pat_|glpat-|xox[abpr]-|AKIA|ASIA)[A-Za-z0-9_-]{12,}"),
        MASK,
    ),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), MASK),
    (re.compile(r"([a-z][a-z0-9+.-]{0,30}://)[^\s/@:'\"]*(?::[^\s/@'\"]*)?@"), rf"\1{MASK}@"),
)
# NAME=value, --name value, "name": "value": the value goes where the name is a secret's.
_PAIR = re.compile(
    r"""(?P<head>(?P<quote>["']?)(?P<name>-{0,2}[A-Za-z][A-Za-z0-9_.-]{0,60})(?P=quote)\s*[=:]\s*"""
    r"""|(?P<flag>--[A-Za-z][A-Za-z0-9_.-]{0,60})\s+)"""
    r"""(?P<value>"[^"]*"|'[^']*'|[^\s,;&}\]"']+)"""
)


def is_secret_name(name: str) -> bool:
    """Whether a flag, an environment variable or a key of that name holds a secret.

    `--api-key`, `HF_TOKEN` and `password` do; `--tokenizer`, `--max-tokens` and `--ssl-keyfile` do not.
    """
    spread = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-"))
    plain = re.sub(r"[^a-z0-9]+", "_", spread.lower()).strip("_")
    return bool(_SECRET.search(plain)) and not _HARMLESS.search(plain)


def mask_text(text: str) -> str:
    """`text` with everything that looks like a secret replaced by `***`.

    Known shapes (Bearer, `sk-`, `hf_`, passwords in URLs, JSON web tokens), and values beside secret names.
    """
    for shape, mask in _TEXT:
        text = shape.sub(mask, text)
    return _PAIR.sub(_mask_pair, text)


def _mask_pair(match: re.Match[str]) -> str:
    if not is_secret_name(match["name"] or match["flag"]):
        return match[0]
    quote = match["value"][0] if match["value"][0] in "\"'" else ""
    return f"{match['head']}{quote}{MASK}{quote}"


def mask_value(value: Any, name: str = "") -> Any:
    """A JSON value with its secrets replaced, by the names of its keys and by the shape of its texts."""
    if value is not None and name and is_secret_name(name):
        return MASK
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, dict):
        return {key: mask_value(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_value(item) for item in value]
    return value
