"""Decompress request bodies, as their Content-Encoding says."""

from __future__ import annotations

import asyncio
import zlib
from io import BytesIO
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig

from core.errors import TalkbackError
from webapp.errors import RequestInvalid

Scope = dict[str, Any]

GZIP = zlib.MAX_WBITS | 16
"""What zlib calls gzip's format."""

WINDOWS = {"gzip": (GZIP,), "x-gzip": (GZIP,), "deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS)}
"""The formats of each coding; of deflate some clients leave zlib's own wrapper away (RFC 9110, 8.4.1)."""

CODINGS = "gzip, deflate"


class EncodingUnknown(TalkbackError):
    """A body in a coding that is not read here."""

    code, status = "unsupported_encoding", 415
    headers = {"Accept-Encoding": CODINGS}


async def decode(scope: Scope, body: IO[bytes]) -> tuple[Scope, IO[bytes]]:
    """The request as if it had come plain. Decoded it has the same bound as a plain one: nothing grows beyond it.

    Raises EncodingUnknown, RequestInvalid or RequestDataTooBig.
    """
    named = b",".join(value for name, value in scope["headers"] if name == b"content-encoding").decode("latin1")
    codings = [coding for coding in (one.strip().lower() for one in named.split(",")) if coding not in ("", "identity")]
    if not codings:
        return scope, body
    if len(codings) > 1 or codings[0] not in WINDOWS:
        raise EncodingUnknown(f"Content-Encoding {named[:100]} is not read here: send it plain, or as gzip or deflate.")
    most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    try:
        plain = await asyncio.to_thread(inflated, body.read(), codings[0], most)
    except zlib.error as error:
        raise RequestInvalid(f"The body is not {codings[0]}, as its Content-Encoding says.") from error
    headers = [header for header in scope["headers"] if header[0] not in (b"content-encoding", b"content-length")]
    headers.append((b"content-length", str(len(plain)).encode()))
    return scope | {"headers": headers}, BytesIO(plain)


def inflated(packed: bytes, coding: str, most: int) -> bytes:
    """What is packed. Raises zlib.error, and RequestDataTooBig beyond `most` bytes."""
    *others, last = WINDOWS[coding]
    for window in others:
        try:
            return unpack(packed, window, most)
        except zlib.error:
            continue
    return unpack(packed, last, most)


def unpack(packed: bytes, window: int, most: int) -> bytes:
    found = b""
    while packed:  # gzip may have several members, one behind the other
        member = zlib.decompressobj(window)
        found += member.decompress(packed, most + 1 - len(found))
        if len(found) > most:
            raise RequestDataTooBig
        if not member.eof:
            raise zlib.error("it ends before its end")
        packed = member.unused_data
    return found
