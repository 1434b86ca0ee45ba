"""Read examples that an operator brings: JSON lines, JSON, Parquet, pairs of texts, or a zip of these.

Nothing in a file is trusted: not its size, not how it is packed, not its texts. What cannot be learned from is refused
by its place, with a reason, and the rest is read.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from django.utils.translation import gettext_noop as _

from core.errors import TalkbackError
from evaluation.datasets import files
from evaluation.datasets.cleaning import ROLES
from evaluation.datasets.columns import Lesson, Message

MOST_BYTES = 64 * 2**20
"""Of a file as it is brought."""
MOST_UNPACKED = 256 * 2**20
"""Of all that a zip holds."""
MOST_JSON = 8 * 2**20
"""Of a file of JSON that is one value, which is read as a whole."""
AT_ONCE = 20
"""Rows of a Parquet file in memory: a small file may hold large texts."""
MOST_ROWS = 10_000
MOST_FILES = 2_000
LONGEST_LINE = 2**20
"""Bytes of a line of JSON."""
LONGEST = 100_000
"""Characters of an example."""
MOST_MESSAGES = 200

SUFFIXES = (".jsonl", ".json", ".parquet", ".zip")
PAIR = re.compile(r"^(?P<name>.+)\.(?P<part>prompt|completion)\.(?:txt|md)$")
"""Two files that are one example: NAME.prompt.md and NAME.completion.md."""

UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that no database and no UTF-8 holds."""


class ImportRefused(TalkbackError):
    """This file cannot be imported."""

    code, status = "import_refused", 422


@dataclass(frozen=True)
class Example:
    """One example, and where it stands."""

    place: str
    """`line 3`, and in a zip which file's."""
    lesson: Lesson


@dataclass(frozen=True)
class Refused:
    """What is no example, and why."""

    place: str
    why: str


class NoExample(Exception):
    """A row is no example; says why."""


def read(path: Path) -> Iterator[Example | Refused]:
    """The examples of a file, one by one. Raises ImportRefused for a file that cannot be read at all."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ImportRefused(_("The file has more than 64 MiB, the most that are read at once: split it."))
    for rows, one in enumerate(_rows(path)):
        if rows >= MOST_ROWS:
            yield Refused(one.place, _("only the first 10,000 examples of a file are read: split it"))
            return
        yield one


def lesson_of(row: Any) -> Lesson:
    """A row in TRL's columns as a lesson. Raises NoExample.

    >>> lesson_of({"prompt": "Hi", "completion": "Hello."}).completion
    'Hello.'
    """
    if not isinstance(row, Mapping):
        raise NoExample(_("it is no object with columns"))
    if row.get("tools") or row.get("images"):
        raise NoExample(_("tools and pictures cannot be imported"))
    if "chosen" in row or "rejected" in row:
        lesson = _pair(row)
    elif "messages" in row:
        messages = _messages(row["messages"])
        if len(messages) < 2 or messages[-1]["role"] != "assistant":
            raise NoExample(_("its messages do not end with a reply"))
        lesson = Lesson(messages[:-1], messages[-1]["content"])
    elif "prompt" in row and "completion" in row:
        lesson = Lesson(_prompt(row["prompt"]), _reply(row["completion"]))
    else:
        raise NoExample(
            _("it has none of these columns: prompt and completion, messages, or prompt, chosen and rejected")
        )
    if row.get("label") is not None:
        if not isinstance(row["label"], bool):
            raise NoExample(_("its label is neither true nor false"))
        if not row["label"]:
            raise NoExample(_("it is marked bad, and shows no better reply: bring it as a pair with one"))
    _check(lesson)
    return lesson


def _pair(row: Mapping[str, Any]) -> Lesson:
    if "prompt" in row:
        return Lesson(_prompt(row["prompt"]), _reply(row.get("chosen")), _reply(row.get("rejected")))
    chosen, rejected = _messages(row.get("chosen")), _messages(row.get("rejected"))
    if chosen[:-1] != rejected[:-1] or len(chosen) < 2:
        raise NoExample(_("chosen and rejected do not answer the same prompt"))
    return Lesson(chosen[:-1], _reply(chosen[-1:]), _reply(rejected[-1:]))


def _check(lesson: Lesson) -> None:
    texts = [one["content"] for one in lesson.prompt] + [lesson.completion, lesson.rejected]
    if not lesson.prompt or lesson.prompt[-1]["role"] != "user" or not lesson.prompt[-1]["content"].strip():
        raise NoExample(_("its prompt does not end with what a person asked"))
    if not lesson.completion.strip():
        raise NoExample(_("its reply is empty"))
    if lesson.rejected.strip() == lesson.completion.strip():
        raise NoExample(_("both of its replies say the same"))
    if sum(map(len, texts)) > LONGEST:
        raise NoExample(_("it has more than 100,000 characters"))
    if any(UNWRITABLE.search(text) for text in texts):
        raise NoExample(_("it holds characters that no text may hold"))


def _prompt(value: Any) -> list[Message]:
    return [{"role": "user", "content": value}] if isinstance(value, str) else _messages(value)


def _reply(value: Any) -> str:
    if isinstance(value, str):
        return value
    messages = _messages(value)
    if len(messages) != 1 or messages[0]["role"] != "assistant":
        raise NoExample(_("its reply is not one message of the assistant's"))
    return messages[0]["content"]


def _messages(value: Any) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise NoExample(_("a column is neither a text nor a list of messages"))
    if len(value) > MOST_MESSAGES:
        raise NoExample(_("it has more than 200 messages"))
    said: list[Message] = []
    for message in value:
        role = ROLES.get(message.get("role", "")) if isinstance(message, Mapping) else None
        if role is None or not isinstance(message.get("content"), str) or message.get("tool_calls"):
            raise NoExample(_("a message is not a role (system, user or assistant) and a text"))
        said.append({"role": role, "content": message["content"]})
    return said


def _rows(path: Path) -> Iterator[Example | Refused]:
    suffix = path.suffix.lower()
    if suffix == ".zip":
        yield from _zipped(path)
        return
    with path.open("rb") as stream:
        yield from _of_file(stream, suffix)


def _of_file(stream: BinaryIO, suffix: str) -> Iterator[Example | Refused]:
    if suffix == ".jsonl":
        yield from _lines(stream)
    elif suffix == ".json":
        yield from _json(stream)
    elif suffix == ".parquet":
        yield from _parquet(stream)
    else:
        raise ImportRefused(_("The name of a file ends with .jsonl, .json, .parquet or .zip; this one does not."))


def _lines(stream: BinaryIO) -> Iterator[Example | Refused]:
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        place = f"line {number}"
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
            yield Refused(place, _("it has more than 1 MiB"))
        elif line.strip():
            yield _parsed(place, line)


def _parsed(place: str, line: bytes) -> Example | Refused:
    try:
        return Example(place, lesson_of(json.loads(line.decode("utf-8-sig"))))
    except NoExample as error:
        return Refused(place, str(error))
    except (ValueError, RecursionError):  # UnicodeDecodeError is one
        return Refused(place, _("it is no JSON"))


def _json(stream: BinaryIO) -> Iterator[Example | Refused]:
    try:
        text = stream.read(MOST_JSON + 1)
        if len(text) > MOST_JSON:
            yield Refused("the file", _("it has more than 8 MiB: write it as JSON lines"))
            return
        told = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        yield Refused("the file", _("it is no JSON"))
        return
    for number, row in enumerate(told if isinstance(told, list) else [told], start=1):
        yield _tried(f"row {number}", row)


def _parquet(stream: BinaryIO) -> Iterator[Example | Refused]:
    files.require_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(stream)
        if table.metadata.num_rows > MOST_ROWS or _unpacked(table) > MOST_UNPACKED:
            raise ImportRefused(_("A Parquet file may have 10,000 rows and 256 MiB unpacked at most: split it."))
        number = 0
        for batch in table.iter_batches(batch_size=AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield _tried(f"row {number}", row)
    except (pa.ArrowException, OSError) as error:
        raise ImportRefused(_("This is no Parquet file, or a broken one.")) from error


def _unpacked(table: Any) -> int:
    groups = range(table.metadata.num_row_groups)
    return sum(table.metadata.row_group(at).total_byte_size for at in groups)


def _tried(place: str, row: Any) -> Example | Refused:
    try:
        return Example(place, lesson_of(row))
    except NoExample as error:
        return Refused(place, str(error))


def _zipped(path: Path) -> Iterator[Example | Refused]:
    """The files of a zip in the order of their names, read out one by one: nothing is unpacked to the disk."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = sorted((one for one in archive.infolist() if not one.is_dir()), key=lambda one: one.filename)
            if len(members) > MOST_FILES:
                raise ImportRefused(_("A zip may hold 2,000 files at most: split it."))
            if any(one.file_size > MOST_BYTES for one in members):
                raise ImportRefused(_("Unpacked, one of the zip's files has more than 64 MiB: split it."))
            if sum(one.file_size for one in members) > MOST_UNPACKED:
                raise ImportRefused(_("Unpacked, the zip has more than 256 MiB: split it."))
            yield from _members(archive, members)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:  # also: it wants a password
        raise ImportRefused(_("This is no zip, or a broken or locked one.")) from error


def _members(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Example | Refused]:
    pairs: dict[str, dict[str, str]] = {}
    for member in members:
        name = PurePosixPath(member.filename)
        if name.name.startswith(".") or "__MACOSX" in name.parts:
            continue
        if pair := PAIR.match(member.filename):
            pairs.setdefault(pair["name"], {})[pair["part"]] = _text(archive, member)
        elif name.suffix.lower() in (".jsonl", ".json", ".parquet"):
            stream = io.BytesIO(_bytes(archive, member))
            for one in _of_file(stream, name.suffix.lower()):
                yield replace(one, place=f"{shown(member.filename)}, {one.place}")
        else:
            yield Refused(shown(member.filename), _("it is no file of examples"))
    for stem, parts in pairs.items():
        if len(parts) < 2:
            is_asked = "prompt" in parts
            why = _("it has no completion beside it") if is_asked else _("it has no prompt beside it")
            yield Refused(shown(stem), why)
        else:
            yield _tried(shown(stem), parts)


def _bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """What this file holds; as much as it says it does. Raises ImportRefused where it holds more."""
    with archive.open(member) as stream:
        data = stream.read(member.file_size + 1)
    if len(data) > member.file_size:
        raise ImportRefused(_("The zip holds more than it says."))
    return data


def _text(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    return _bytes(archive, member).decode("utf-8-sig", errors="surrogateescape")


def shown(name: str) -> str:
    """A file's name as a place, short and writable."""
    return UNWRITABLE.sub("�", name)[-80:]
