"""Files of prompts: JSON Lines, a JSON array, CSV, Parquet; told by their content, then by their name."""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from preop.errors import InputError
from preop.instruments.prompts.images import Images
from preop.instruments.prompts.records import COLUMNS, EXPECTED, Messages, Prompt, WrongRecord, prompt_of

__all__ = ["Prompt", "Prompts", "read_prompt_file", "read_prompts"]

_LONGEST_LINE = 16 << 20
_MOST_BYTES = 2 << 30
_MOST_CHARACTERS = 4 << 30
"""Of what is kept: an image counts for each prompt that names it."""
_IN_JSON = ("messages", "conversations", "conversation", "tools")
"""Columns whose cells are JSON in a CSV file."""
_NEEDED = {"prompt", "text", "messages", "conversations", "conversation"}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

Record = tuple[str, Any]
"""Where it stands, and what stands there."""


@dataclass(frozen=True)
class Prompts:
    """What a file holds, in its order."""

    prompts: list[Prompt]
    form: str
    """JSON Lines, a JSON array, CSV or Parquet."""
    left_out: int
    """Recorded conversations in which no user says anything."""


def read_prompts(path: str | Path) -> list[Messages]:
    """The chats of a file, with the recorded answers. Raises `InputError` as `read_prompt_file` does."""
    return [prompt.messages for prompt in read_prompt_file(path).prompts]


def read_prompt_file(path: str | Path) -> Prompts:
    """The prompts of a JSONL, JSON (ShareGPT), CSV or Parquet file.

    Raises `InputError`, with the line or row, for what is not a prompt, and when there is none.
    """
    place = Path(path)
    form, records = _records(place)
    images = Images(place.parent)
    prompts, left_out, size = [], 0, 0
    for where, record in records:
        try:
            prompt = prompt_of(record, images.url)
            if prompt is not None:
                _check_json(prompt)
        except WrongRecord as error:
            raise InputError(f"{where}: {error}") from None
        if prompt is None:
            left_out += 1
            continue
        prompts.append(prompt)
        size += sum(_size(message.get("content")) for message in prompt.messages)
        if size > _MOST_CHARACTERS:
            raise InputError(
                f"{where}: the prompts and images up to here are more than {_MOST_CHARACTERS >> 30} GiB; "
                "give a part of them"
            )
    if not prompts:
        raise InputError(f"{path}: there is no prompt in it; {EXPECTED} on each line")
    return Prompts(prompts, form, left_out)


def _size(content: Any) -> int:
    if isinstance(content, list):
        return sum(_size(part) for part in content)
    if isinstance(content, dict):
        return sum(_size(value) for value in content.values())
    return len(content) if isinstance(content, str) else 0


def _check_json(prompt: Prompt) -> None:
    """Raise `WrongRecord` where a request cannot hold it: too deeply nested, or Parquet's own types."""
    parts = [value for item in prompt.messages for value in item.values() if not isinstance(value, str)]
    if prompt.settings or any(part is not None for part in parts):
        try:
            json.dumps((parts, prompt.settings), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise WrongRecord(f"a part of it is nothing that JSON can hold: {error}") from None


def _records(path: Path) -> tuple[str, Iterator[Record]]:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: cannot be read: it is not a regular file; expected a file of prompts")
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: is larger than {_MOST_BYTES >> 30} GiB; give a part of it")
        with path.open("rb") as file:
            if file.read(4) == b"PAR1":
                return "Parquet", _parquet(path)
            file.seek(0)
            data = file.read()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"{path}: cannot be read: {said or error}; expected a file of prompts") from None
    if path.suffix.lower() in (".parquet", ".pq"):
        raise InputError(f"{path}: is no Parquet file: it does not begin with PAR1")
    data = _utf8(path, data)
    first = data.lstrip()[:1]
    if first == b"[":
        return "a JSON array", _array(path, data)
    if first != b"{":
        separator = _separator(data)
        if separator is not None:
            return "CSV", _csv(path, data, separator)
        if path.suffix.lower() in (".csv", ".tsv") and first:
            raise InputError(
                f"{path}:1: no column of this header is `prompt`, `text`, `messages` or `conversations`"
            )
    return "JSON Lines", _lines(path, data)


def _utf8(path: Path, data: bytes) -> bytes:
    """The text in UTF-8 without a mark, whatever Unicode encoding it has."""
    mark, encoding = next(((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", ""))
    if not mark and data[:1] and data[1:2] == b"\0":
        encoding = "utf-16-le"  # JSON and a header both begin with a character of ASCII
    elif not mark and data[:1] == b"\0" and data[1:2] != b"\0":
        encoding = "utf-16-be"
    data = data[len(mark) :]
    if encoding in ("", "utf-8"):
        return data
    try:
        return data.decode(encoding).encode("utf-8", "replace")
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, "replace").count("\n") + 1
        raise InputError(f"{path}:{line}: not {encoding[:6].upper()} text, as its start says") from None


def _lines(path: Path, data: bytes) -> Iterator[Record]:
    for number, line in enumerate(io.BytesIO(data), 1):
        if len(line) > _LONGEST_LINE:
            raise InputError(f"{path}:{number}: this line is longer than {_LONGEST_LINE >> 20} MiB")
        if line.strip():
            where = f"{path}:{number}"
            yield where, _json(line, where)


def _array(path: Path, data: bytes) -> Iterator[Record]:
    import msgspec

    try:
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
    except RecursionError:
        raise InputError(f"{path}:1: not JSON: nested too deeply; {EXPECTED}") from None
    except msgspec.DecodeError as error:
        at = re.search(r"\(byte (\d+)\)", str(error))
        line = data.count(b"\n", 0, int(at[1])) + 1 if at else data.rstrip().count(b"\n") + 1
        raise InputError(f"{path}:{line}: not JSON: {error}; {EXPECTED}") from None
    position, line = 0, 1
    for item in items:
        raw = bytes(item)
        start = data.find(raw, position)
        line += data.count(b"\n", position, start)
        position = start
        yield f"{path}:{line}", _json(raw, f"{path}:{line}")


def _json(text: bytes | str, where: str) -> Any:
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}: not UTF-8 text; {EXPECTED}") from None
    try:
        return json.loads(decoded, parse_constant=_no_number, parse_float=_number)
    except _NoNumber as error:
        raise InputError(f"{where}: not JSON: {error} is no number there; {EXPECTED}") from None
    except (ValueError, RecursionError):
        hint = " on one line, as jq -c writes it" if decoded.strip() in ("{", "[") else ""
        raise InputError(f"{where}: not JSON; {EXPECTED}{hint}") from None


class _NoNumber(ValueError):
    """NaN, Infinity, or too large to be told from it."""


def _no_number(text: str) -> NoReturn:
    raise _NoNumber(text)


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _NoNumber(text[:20])
    return value


def _separator(data: bytes) -> str | None:
    """What stands between the columns, where the first line is the header of a file of prompts."""
    header = data[: 1 << 16].lstrip().partition(b"\n")[0].decode("utf-8", "replace")
    for separator in (",", "\t", ";", "|"):
        try:
            names = next(csv.reader([header], delimiter=separator), [])
        except csv.Error:
            continue
        if _NEEDED & {name.strip().lower() for name in names}:
            return separator
    return None


def _csv(path: Path, data: bytes, separator: str) -> Iterator[Record]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 text; save the CSV as UTF-8") from None
    skipped = len(text) - len(text.lstrip())
    blank = text.count("\n", 0, skipped)
    limit = csv.field_size_limit(_LONGEST_LINE)
    reader = csv.reader(io.StringIO(text[skipped:], newline=""), delimiter=separator, strict=True)
    try:
        names = [name.strip().lower() for name in next(reader)]
        line = reader.line_num + blank + 1
        for row in reader:
            where, line = f"{path}:{line}", reader.line_num + blank + 1
            if not any(cell.strip() for cell in row):
                continue
            if len(row) > len(names):
                raise InputError(
                    f"{where}: {len(row)} cells where the header has {len(names)}: "
                    "a text with a separator in it needs quotes"
                )
            record: dict[str, Any] = {
                name: cell for name, cell in zip(names, row, strict=False) if name in COLUMNS and cell != ""
            }
            for name in _IN_JSON:
                if name in record:
                    record[name] = _json(record[name], f"{where}: `{name}`")
            yield where, record
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num + blank}: is no CSV: {error}") from None
    finally:
        csv.field_size_limit(limit)


def _parquet(path: Path) -> Iterator[Record]:
    try:
        import duckdb
    except ImportError:
        raise InputError(
            f"{path}: to read Parquet, install duckdb (pip install 'preop[parquet]'), or give JSON Lines"
        ) from None
    # Nothing but this file: no extension from the network, no other path.
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "threads": 1,
    }
    literal = re.sub(r"([*?\[])", r"[\1]", str(path.absolute()))
    try:
        with duckdb.connect(":memory:", config=config) as database:
            described = database.execute("DESCRIBE SELECT * FROM read_parquet(?)", [literal]).fetchall()
            names = [str(row[0]) for row in described if str(row[0]).lower() in (*COLUMNS, "body")]
            if not {name.lower() for name in names} & (_NEEDED | {"body"}):
                raise InputError(f"{path}: no column is `prompt`, `text`, `messages` or `conversations`")
            quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
            rows = database.execute(f"SELECT {quoted} FROM read_parquet(?)", [literal])
            number = 0
            while batch := rows.fetchmany(1000):
                for values in batch:
                    number += 1
                    record = {name.lower(): value for name, value in zip(names, values, strict=True)}
                    yield f"{path}: row {number}", _plain(record, f"{path}: row {number}")
    except duckdb.Error as error:
        said = "".join(c if c.isprintable() else " " for c in str(error).partition("\n")[0][:200])
        raise InputError(f"{path}: is no Parquet file that can be read: {said}") from None


def _plain(record: dict[str, Any], where: str) -> dict[str, Any]:
    """The record with its columns of JSON texts read. A column of numbers has NaN where nothing is."""
    for name, value in record.items():
        if isinstance(value, float) and math.isnan(value):
            record[name] = None
        elif name in (*_IN_JSON, "body") and isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            record[name] = _json(value, f"{where}: `{name}`")
    return record
