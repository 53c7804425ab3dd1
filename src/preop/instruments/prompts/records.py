"""One record of a prompts file: a prompt, a chat, a recorded conversation, or a whole request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["COLUMNS", "EXPECTED", "Messages", "Prompt", "WrongRecord", "prompt_of"]

Messages = list[dict[str, Any]]
"""One chat: role and content of each message, as the OpenAI API takes them."""

EXPECTED = (
    'expected {"prompt": "..."}, {"text": "..."}, {"messages": [{"role": "user", ...}]}, '
    '{"conversations": [{"from": "human", ...}]} or {"body": {"messages": [...]}}'
)
_CHATS = ("messages", "conversations", "conversation")
_TEXTS = ("prompt", "text")
_LENGTHS = ("output_tokens", "max_tokens", "max_completion_tokens")
_MOST_TOKENS = 10_000_000
COLUMNS = (*_CHATS, *_TEXTS, *_LENGTHS, "model", "system", "tools")
"""What a record may hold, under these names."""

_ROLES = {
    "human": "user",
    "prompter": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "system": "system",
    # What the model reads next. Without a call's id it cannot be a message of role `tool`.
    "observation": "user",
    "tool": "user",
    "function_response": "user",
}
"""Who speaks in ShareGPT's form and those that came of it."""
_MESSAGE = ("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "reasoning_content")
_SETTINGS: dict[str, type | tuple[type, ...]] = {
    "tools": list,
    "tool_choice": (str, dict),
    "response_format": dict,
    "reasoning_effort": str,
    "chat_template_kwargs": dict,
}
"""What else of a request decides how much an engine reads and writes. Sampling is the run's own."""


class WrongRecord(Exception):
    """Why a record is no prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one line of the user's says."""

    messages: Messages
    """With the recorded answers, where there are some."""
    output_tokens: int | None = None
    """Its own length of answer."""
    model: str | None = None
    """Its own model: an adapter's name."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """`tools` and such, as the OpenAI API takes them."""
    whole: bool = False
    """One request with the history that it has, not a conversation to be held again."""


def prompt_of(record: object, image_url: Callable[[str], str]) -> Prompt | None:
    """The record's prompt; None for a recorded conversation in which no user says anything.

    `image_url` makes the URL of an image part from what stands there. Raises `WrongRecord`.
    """
    if not isinstance(record, dict):
        raise WrongRecord(f"not a JSON object; {EXPECTED}")
    body = record.get("body")
    request = body if isinstance(body, dict) else record
    messages = _messages(request, image_url)
    if messages is None:
        return None
    system = request.get("system")
    if isinstance(system, str) and system and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": system})
    return Prompt(
        messages,
        output_tokens=_length(request),
        model=_model(request),
        settings=_settings(request),
        whole=request is body,
    )


def _messages(request: dict[str, Any], image_url: Callable[[str], str]) -> Messages | None:
    for key in _CHATS:
        value = request.get(key)
        if value is not None:
            return _shared(key, value) if _is_shared(value) else _chat(key, value, image_url)
    for key in _TEXTS:
        value = request.get(key)
        if isinstance(value, str) and value:
            return [{"role": "user", "content": value}]
        if isinstance(value, list):
            return _chat(key, value, image_url)
        if value is not None:
            raise WrongRecord(f"`{key}` is not a text; {EXPECTED}")
    raise WrongRecord(f"neither `prompt`, `text` nor `messages` is there; {EXPECTED}")


def _is_shared(value: object) -> bool:
    """ShareGPT's form, or a conversation with nothing in it, as its public file has many."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and ("from" in item or "value" in item) for item in value
    )


def _shared(key: str, value: list[dict[str, Any]]) -> Messages | None:
    if not value and key == "messages":
        raise WrongRecord(f"`{key}` is not a list of messages; {EXPECTED}")
    messages = []
    for item in value:
        said, speaker = item.get("value", item.get("content")), item.get("from", item.get("role"))
        role = _ROLES.get(speaker) if isinstance(speaker, str) else None
        if role is None or not isinstance(said, str | None):
            raise WrongRecord(f"`{key}` has a turn that is not by human, gpt or system with a text `value`")
        if said:
            messages.append({"role": role, "content": said})
    first = next((index for index, item in enumerate(messages) if item["role"] == "user"), None)
    if first is None:
        return None
    # A conversation cut in two begins with an answer: nobody can have asked for that one.
    return [item for item in messages[:first] if item["role"] == "system"] + messages[first:]


def _chat(key: str, value: object, image_url: Callable[[str], str]) -> Messages:
    if not isinstance(value, list) or not value:
        raise WrongRecord(f"`{key}` is not a list of messages; {EXPECTED}")
    messages = []
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("role"), str):
            raise WrongRecord(f"`{key}` is not a list of messages; {EXPECTED}")
        message = {name: item[name] for name in _MESSAGE if item.get(name) is not None}
        content = item.get("content")
        if isinstance(content, list):
            message["content"] = [_part(key, part, image_url) for part in content]
        elif not isinstance(content, str | None):
            raise WrongRecord(f"`{key}` has a message whose content is neither a text nor parts; {EXPECTED}")
        else:
            message["content"] = content
        messages.append(message)
    return messages


def _part(key: str, part: object, image_url: Callable[[str], str]) -> dict[str, Any]:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise WrongRecord(f'`{key}` has a part of content without a type; expected {{"type": "text", ...}}')
    part = {name: value for name, value in part.items() if value is not None}
    if part["type"] == "text" and not isinstance(part.get("text"), str):
        raise WrongRecord(f"`{key}` has a part of type text without a text")
    if part["type"] == "image_url":
        image = part.get("image_url")
        detail = image if isinstance(image, dict) else {"url": image}
        url = detail.get("url")
        if not isinstance(url, str) or not url:
            raise WrongRecord(
                f'`{key}` has an image without a url; expected {{"image_url": {{"url": "..."}}}}'
            )
        others = {name: value for name, value in detail.items() if value is not None}
        part["image_url"] = {**others, "url": image_url(url)}
    return part


def _length(request: dict[str, Any]) -> int | None:
    for key in _LENGTHS:
        value = request.get(key)
        if value is None or value == "":
            continue
        try:
            count = float(value)
        except (TypeError, ValueError, OverflowError):
            count = 0.0
        if isinstance(value, bool) or not 1 <= count <= _MOST_TOKENS or count != int(count):
            raise WrongRecord(
                f"`{key}` is {str(value)[:40]!r}, not a number of tokens from 1 to {_MOST_TOKENS}"
            )
        return int(count)
    return None


def _model(request: dict[str, Any]) -> str | None:
    model = request.get("model")
    if not isinstance(model, str | None):
        raise WrongRecord(f"`model` is {str(model)[:40]!r}, not a name")
    # In ShareGPT's form and its kin it is who gave the recorded answers.
    return None if any(request.get(key) is not None for key in _CHATS[1:]) else model or None


def _settings(request: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, kind in _SETTINGS.items():
        value = request.get(key)
        if value is None or value == "":
            continue
        if not isinstance(value, kind):
            raise WrongRecord(f"`{key}` is not what the OpenAI API takes under this name")
        found[key] = value
    return found
