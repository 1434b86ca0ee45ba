"""Open a file of chats: JSON, or a zip with JSON in it, of bounded size; and tell whose export it is."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import orjson
from django.utils.translation import gettext_noop

from chat.imports import chatgpt, openwebui, talkback
from chat.imports.conversations import Found, ImportRefused

LARGEST = 100 * 2**20
"""Bytes of a file, and of what is read of a zip once it is unpacked."""

TOO_LARGE = gettext_noop(
    "The file is larger than 100 MB. Export fewer chats at once, or take the pictures out of the zip."
)
UNPACKS_TO_MORE = gettext_noop(
    "The zip unpacks to more than 100 MB of chats, so it is not read. Import conversations.json in parts."
)
NOT_KNOWN = gettext_noop(
    "This is none of the files that can be imported: ChatGPT’s zip or its conversations.json, Open WebUI’s export of "
    "chats, or chats exported here as JSON."
)

NO_CHATS = gettext_noop(
    "The zip holds no conversations.json. This is none of the files that can be imported: ChatGPT’s zip or its "
    "conversations.json, Open WebUI’s export of chats, or chats exported here as JSON."
)
NO_LIST = gettext_noop(
    "A file of chats in the zip is not a list. This is none of the files that can be imported: ChatGPT’s zip or its "
    "conversations.json, Open WebUI’s export of chats, or chats exported here as JSON."
)
NO_JSON = gettext_noop(
    "The file is no JSON that could be read. This is none of the files that can be imported: ChatGPT’s zip or its "
    "conversations.json, Open WebUI’s export of chats, or chats exported here as JSON."
)

RATINGS = "message_feedback.json"
MOST_PARTS = 1000
"""Files of chats in one zip."""
TOO_MANY = gettext_noop("The zip holds more than 1000 files of chats.")


def read(path: Path) -> Found:
    """What this file holds. Raises ImportRefused with a sentence for the person."""
    if path.stat().st_size > LARGEST:
        raise ImportRefused(TOO_LARGE)
    if zipfile.is_zipfile(path):
        return _read_zip(path)
    return _tell(_json(path.read_bytes()), [])


def _read_zip(path: Path) -> Found:
    chats: list[Any] = []
    ratings: list[Any] = []
    left = LARGEST
    try:
        with zipfile.ZipFile(path) as archive:
            named = [one for one in archive.infolist() if _is_chats(one.filename) or _is_ratings(one.filename)]
            if not any(_is_chats(one.filename) for one in named):
                raise ImportRefused(NO_CHATS)
            if len(named) > MOST_PARTS:
                raise ImportRefused(TOO_MANY)
            for one in sorted(named, key=lambda one: one.filename):
                data = _unpack(archive, one, left)
                left -= len(data)
                value = _json(data)
                if not isinstance(value, list):
                    raise ImportRefused(NO_LIST)
                (ratings if _is_ratings(one.filename) else chats).extend(value)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ImportRefused(
            gettext_noop("The zip is damaged, or locked with a password: export it once more.")
        ) from error
    return _tell(chats, ratings)


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    """Whatever the zip says of its size, no more than `most` bytes are unpacked."""
    if member.file_size > most:
        raise ImportRefused(UNPACKS_TO_MORE)
    with archive.open(member) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ImportRefused(UNPACKS_TO_MORE)
    return data


def _is_chats(name: str) -> bool:
    base = name.rpartition("/")[2]
    return base.startswith("conversations") and base.endswith(".json") and "__MACOSX" not in name


def _is_ratings(name: str) -> bool:
    return name.rpartition("/")[2] == RATINGS and "__MACOSX" not in name


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise ImportRefused(NO_JSON) from error


def _tell(value: Any, ratings: list[Any]) -> Found:
    if isinstance(value, dict) and value.get("object") == talkback.OBJECT:
        return talkback.read(value)
    rows = value if isinstance(value, list) else [value]
    kinds = [one for one in rows if isinstance(one, dict)]
    if any("mapping" in one for one in kinds):
        return chatgpt.read(rows, ratings)
    if any(isinstance(one.get("chat"), dict) for one in kinds):
        return openwebui.read(rows)
    if not rows and value == []:
        raise ImportRefused(gettext_noop("There is no chat in this file."))
    raise ImportRefused(NOT_KNOWN)


def encode(value: Any) -> bytes:
    """JSON as it is exported."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)
