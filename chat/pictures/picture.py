"""A picture that was sent, within the limits, and what a row keeps of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _

from chat.pictures import formats
from chat.requests import Message
from core.errors import TalkbackError

MOST = 16
"""Pictures of one request, those of its history among them."""
MOST_BYTES = 5_000_000
"""Of one picture."""
MOST_PIXELS = 16_000_000
"""Of one picture: few bytes may stand for very many."""
MOST_SLENDER = 100
"""How many times as long as it is wide: processors of models refuse what is more so."""

DATA_URL = re.compile(r"data:[\w.+/-]*(?:;[\w.+=-]+)*;base64,", re.IGNORECASE)


class PictureRefused(TalkbackError):
    """The picture cannot be taken; the sentence says why and what to do."""

    code, status = "invalid_image", 400


@dataclass(frozen=True)
class Picture:
    """A picture as it was sent."""

    type: str
    width: int
    height: int
    data: bytes

    @cached_property
    def digest(self) -> str:
        """SHA-256, hex."""
        return hashlib.sha256(self.data).hexdigest()

    def kept(self, at: int) -> dict[str, Any]:
        """What a row keeps of it; `at` is its place among the characters of its message."""
        return {"digest": self.digest, "type": self.type, "width": self.width, "height": self.height, "at": at}


def read_picture(data: bytes) -> Picture:
    """Bytes as a picture, by what they are, whatever they are called. Raises PictureRefused."""
    check_bytes(len(data))
    try:
        read = formats.read(data)
    except formats.Broken as error:
        raise PictureRefused(_("This picture is damaged or cut short: save it once more, then send that.")) from error
    if read is None:
        raise PictureRefused(_("This is no picture that can be read here: send a PNG, JPEG, WebP or GIF."))
    if not read.width or not read.height:
        raise PictureRefused(_("This picture is damaged or cut short: save it once more, then send that."))
    if read.width * read.height > MOST_PIXELS:
        said = _("This picture has %(wide)d × %(high)d pixels; one may have %(most)d million. Make it smaller.")
        raise PictureRefused(said % {"wide": read.width, "high": read.height, "most": MOST_PIXELS // 1_000_000})
    if max(read.width, read.height) > MOST_SLENDER * min(read.width, read.height):
        said = _("This picture is more than %(most)d times as long as it is wide: cut out the part that matters.")
        raise PictureRefused(said % {"most": MOST_SLENDER})
    return Picture(read.type, read.width, read.height, read.data)


def check_bytes(held: float) -> None:
    """Raises PictureRefused for a picture of so many bytes, where those are too many."""
    if held > MOST_BYTES:
        said = _("This picture has %(held).1f MB; one may have at most %(most)d MB. Make it smaller.")
        raise PictureRefused(said % {"held": held / 1e6, "most": MOST_BYTES // 1_000_000})


def read_base64(text: str) -> Picture:
    """Raises PictureRefused."""
    check_bytes(len(text) * 3 // 4 - 2)  # the last two bytes may be filling
    try:
        return read_picture(base64.b64decode(text, validate=True))
    except binascii.Error as error:
        said = _("The picture is not in base64: send its bytes as base64, without line ends.")
        raise PictureRefused(said) from error


def read_url(url: str) -> Picture:
    """A picture of a data: URL. Raises PictureRefused for any other: nothing is fetched."""
    if (begun := DATA_URL.match(url)) is None:
        said = _(
            "Pictures are not fetched from addresses here, for nothing leaves this machine: send its bytes, as %(url)s"
        )
        raise PictureRefused(said % {"url": "data:image/png;base64,…"})
    return read_base64(url[begun.end() :])


def say(parts: Sequence[str | Picture], between: str) -> dict[str, Any]:
    """Words and pictures in their order as fields of a message: `content`, the words joined, and where there are any
    `pictures`, each with its place among the characters."""
    words: list[str] = []
    pictures: list[tuple[Picture, int]] = []
    for part in parts:
        if isinstance(part, str):
            words.append(part)
        else:
            pictures.append((part, len(between.join(words))))
    return {"content": between.join(words)} | ({"pictures": pictures} if pictures else {})


def take_out(messages: Sequence[Message]) -> tuple[list[Message], dict[str, Picture]]:
    """The messages as rows keep them, and the pictures that were sent with them, by digest. Those of a history that
    was kept before are named there already. Raises PictureRefused for too many."""
    sent: dict[str, Picture] = {}
    taken: list[Message] = []
    for message in messages:
        if pictures := message.get("pictures"):
            named = [one if isinstance(one, Mapping) else one[0].kept(one[1]) for one in pictures]
            sent |= {one[0].digest: one[0] for one in pictures if not isinstance(one, Mapping)}
            message = {**message, "pictures": named}
        taken.append(message)
    if (given := len(in_messages(taken))) > MOST:
        said = _(
            "A conversation takes at most %(most)d pictures; these are %(given)d. Leave out older ones, or begin anew."
        )
        raise PictureRefused(said % {"most": MOST, "given": given})
    return taken, sent


def in_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """What rows keep of the pictures in these messages, in their order."""
    return [one for message in messages for one in message.get("pictures") or ()]
