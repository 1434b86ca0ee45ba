"""Read the pictures of a request, in each protocol's shape. What cannot be shown is refused by its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chat.api.sent import NotOffered
from chat.pictures import sight
from chat.pictures.picture import Picture, PictureRefused, read_base64, read_url

KINDS = ("image_url", "input_image", "image")
"""What the protocols call a part that is a picture."""


def read_part(part: Any, noun: str, at: str) -> Picture:
    """The picture of a part at this place of the request; `noun` is the protocol's word for a part. Raises NotOffered
    where it is none, or where the model sees none, and PictureRefused."""
    if part.type not in KINDS:
        raise NotOffered(f"This model reads text only: {noun} of type {part.type!r} cannot be used.", f"{at}.type")
    if why := sight.why_blind():
        raise NotOffered(f"{noun.capitalize()} of type {part.type!r} cannot be used. {why}", f"{at}.type")
    more = part.model_extra or {}
    if part.type == "image":
        return read_source(more.get("source"), f"{at}.source")
    given = more.get("image_url")
    inner, place = (given.get("url"), f"{at}.image_url.url") if isinstance(given, dict) else (given, f"{at}.image_url")
    if not isinstance(inner, str):
        raise named(PictureRefused("A picture is sent in image_url, as data:image/png;base64,…"), place)
    return placed(lambda: read_url(inner), place)


def read_source(source: Any, at: str) -> Picture:
    """Anthropic's. Raises PictureRefused."""
    source = source if isinstance(source, dict) else {}
    if source.get("type") == "url":
        return placed(lambda: read_url(str(source.get("url", ""))), f"{at}.url")
    data = source.get("data")
    if source.get("type") != "base64" or not isinstance(data, str):
        raise named(PictureRefused("A picture's source is of type base64, with its bytes in data."), at)
    return placed(lambda: read_base64(data), f"{at}.data")


def placed(read: Callable[[], Picture], at: str) -> Picture:
    """Read it; a refusal says where it stands."""
    try:
        return read()
    except PictureRefused as refusal:
        raise named(refusal, at) from refusal


def named(refusal: PictureRefused, at: str) -> PictureRefused:
    refusal.param = at
    return refusal
