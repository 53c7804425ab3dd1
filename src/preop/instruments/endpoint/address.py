"""The base URL of an endpoint, from what a user types."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit, urlunsplit

from preop.errors import UsageError

__all__ = ["base_url", "origin", "shown"]

# What people copy from a client's settings or a browser: the route after the base.
_ROUTES = re.compile(
    r"/(v1(/(models|completions|chat/completions|embeddings|responses))?|metrics|health|version|props|slots"
    r"|server_info)$"
)
_SCHEMES = ("http", "https")


def base_url(text: str) -> str:
    """`text` as a base URL: no `/v1`, no route, no slash at its end. A path prefix is kept.

    Raises `UsageError` with what is wrong and what was expected.
    """
    text = text.strip()
    if not text:
        raise UsageError("the endpoint is empty: expected a URL such as http://127.0.0.1:8000")
    if any(character.isspace() or not character.isprintable() for character in text):
        raise UsageError(f"{shown(text)!r}: a URL holds no blanks and no control characters")
    if "://" not in text:
        raise UsageError(
            f"{shown(text)}: a URL begins with http:// or https://; did you mean http://{shown(text)}?"
        )
    scheme = text.partition("://")[0].lower()
    if scheme not in _SCHEMES:
        raise UsageError(f"{shown(text)}: {scheme}:// is not spoken here, expected http:// or https://")
    parts = _split(text)
    if parts.query or parts.fragment:
        raise UsageError(f"{shown(text)}: expected a base URL, without `?` and `#`")
    path = parts.path.rstrip("/")
    while found := _ROUTES.search(path):
        path = path[: found.start()].rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        why = "an IPv6 address goes in brackets, http://[::1]:8000" if text.count(":") > 3 else str(error)
        raise UsageError(f"{shown(text)}: {why}") from None
    if not host:
        raise UsageError(f"{shown(text)}: no host in this URL, expected one such as http://127.0.0.1:8000")
    if port == 0:
        raise UsageError(f"{shown(text)}: port 0 cannot be connected to")
    return parts


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: what must not change in a redirect that is followed.

    Raises `ValueError` where `url` is none.
    """
    parts = urlsplit(url)
    return (
        parts.scheme,
        (parts.hostname or "").lower(),
        parts.port or (443 if parts.scheme == "https" else 80),
    )


def shown(url: str) -> str:
    """`url` without user, password, query and fragment: what may be printed and kept."""
    url = re.sub(r"(?:(?<=://)|\A(?![^/?#]*://))[^/?#]*@", "***@", url)
    return re.sub(r"[?#].*", "", url, flags=re.DOTALL)
