"""Images that a prompts file names by their path."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import unquote, urlsplit

from preop.instruments.prompts.records import WrongRecord

__all__ = ["Images"]

_MOST_BYTES = 32 << 20
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""The first bytes of each form. Nothing else leaves this machine because a prompts file names it."""


class Images:
    """The images beside one prompts file, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._urls: dict[str, str] = {}

    def url(self, text: str) -> str:
        """What goes into a request: a `data:` or `http(s):` URL as it is, a file as a `data:` URL.

        Paths are relative to the prompts file's folder. Raises `WrongRecord` for what is no image.
        """
        if text[:5].lower() == "data:" or text[:8].lower().startswith(("http://", "https://")):
            return text
        if text not in self._urls:
            self._urls[text] = self._read(text)
        return self._urls[text]

    def _read(self, text: str) -> str:
        shown = f"the image {text[:100]!r}"
        try:
            name = unquote(urlsplit(text).path) if text[:7].lower() == "file://" else text
            path = self._folder / name
            if not path.is_file():
                raise WrongRecord(f"{shown} is not there, or no regular file")
            if path.stat().st_size > _MOST_BYTES:
                raise WrongRecord(f"{shown} is larger than {_MOST_BYTES >> 20} MiB")
            data = path.read_bytes()
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else None
            raise WrongRecord(f"{shown} cannot be read: {said or error}") from None
        kind = next((kind for start, kind in _STARTS if data.startswith(start)), None)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            kind = "image/webp"
        if data[:2] == b"BM" and int.from_bytes(data[2:6], "little") == len(data):
            kind = "image/bmp"
        if kind is None:
            raise WrongRecord(f"{shown} is no PNG, JPEG, GIF, WebP or BMP")
        return f"data:{kind};base64,{base64.b64encode(data).decode()}"
