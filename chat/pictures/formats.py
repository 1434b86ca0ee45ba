"""Read what kind of picture bytes are and how large it is, without decoding a pixel. Pure.

Each reader walks the whole file by the lengths that it states itself, so what is cut short is found out.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

PNG, JPEG, GIF = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", (b"GIF87a", b"GIF89a")

FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""JPEG's markers that say the size."""
BARE = {0x01, *range(0xD0, 0xD9)}
"""JPEG's markers without a length."""
SCAN, END = 0xDA, b"\xff\xd9"

COLOURS, IMAGE, EXTENSION, TRAILER = 0x80, 0x2C, 0x21, b";"
"""GIF's marks: a table of colours follows, a frame, something beside it, the end."""


class Broken(ValueError):
    """The bytes begin as a picture does, and are cut short or damaged."""


class Read(NamedTuple):
    """A picture's type, its width and height in pixels, and its bytes, of a moving GIF those of the first frame."""

    type: str
    width: int
    height: int
    data: bytes


def read(data: bytes) -> Read | None:
    """None where it is no PNG, JPEG, WebP or GIF. Raises Broken."""
    reader = next((reader for begins, reader in READERS if begins(data)), None)
    if reader is None:
        return None
    try:
        return reader(data)
    except (IndexError, struct.error) as error:
        raise Broken("it ends too early") from error


def read_png(data: bytes) -> Read:
    size: tuple[int, int] | None = None
    has_pixels = False
    at = len(PNG)
    while True:
        length, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(name + body) != checksum:
            raise Broken("a part of it is damaged")
        if (name == b"IHDR") != (size is None):  # once, at its beginning: readers believe the last one
            raise Broken("it does not say how large it is")
        if size is None:
            size = struct.unpack_from(">II", body)
        has_pixels = has_pixels or name == b"IDAT"
        at += 12 + length
        if name == b"IEND":
            break
    if not has_pixels:
        raise Broken("it holds no pixels")
    return Read("image/png", *size, data[:at])


def read_jpeg(data: bytes) -> Read:
    size: tuple[int, int] | None = None
    at = 2
    while True:
        if data[at] != 0xFF:
            raise Broken("a part of it is damaged")
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
            continue
        if marker in BARE:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = width, height
        if marker == SCAN:
            break
        at += 2 + length
    if size is None:
        raise Broken("it does not say how large it is")
    if data.find(END, at) < 0:
        raise Broken("it ends too early")
    return Read("image/jpeg", *size, data)


def read_gif(data: bytes) -> Read:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + table_bytes(flags)
    while data[at] == EXTENSION:
        at = end_of_blocks(data, at + 2)
    if data[at] != IMAGE:
        raise Broken("it holds no pixels")
    left, top, wide, high, flags = struct.unpack_from("<HHHHB", data, at + 1)
    end = end_of_blocks(data, at + 10 + table_bytes(flags) + 1)
    return Read("image/gif", max(width, left + wide), max(height, top + high), data[:end] + TRAILER)


def table_bytes(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & COLOURS else 0


def end_of_blocks(data: bytes, at: int) -> int:
    """Behind the empty block that ends a row of blocks."""
    while length := data[at]:
        at += 1 + length
    return at + 1


def read_webp(data: bytes) -> Read:
    whole = 8 + struct.unpack_from("<I", data, 4)[0]
    if whole > len(data):
        raise Broken("it ends too early")
    sizes = [size for name, body in webp_chunks(data, whole) if (size := webp_size(name, body))]
    if not sizes:
        raise Broken("it does not say how large it is")
    return Read("image/webp", max(width for width, _ in sizes), max(height for _, height in sizes), data[:whole])


def webp_chunks(data: bytes, end: int) -> Iterator[tuple[bytes, bytes]]:
    at = 12
    while at < end:
        name, length = struct.unpack_from("<4sI", data, at)
        if at + 8 + length > end:
            raise Broken("it ends too early")
        yield name, data[at + 8 : at + 8 + length]
        at += 8 + length + length % 2


def webp_size(name: bytes, body: bytes) -> tuple[int, int] | None:
    """What a part says of the size; None where it says nothing."""
    if name == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if name == b"VP8 ":
        width, height = struct.unpack_from("<HH", body, 6)
        return width & 0x3FFF, height & 0x3FFF
    if name == b"VP8L":
        (bits,) = struct.unpack_from("<I", body, 1)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if name == b"ANMF":
        return 1 + int.from_bytes(body[6:9], "little"), 1 + int.from_bytes(body[9:12], "little")
    return None


READERS: tuple[tuple[Callable[[bytes], bool], Callable[[bytes], Read]], ...] = (
    (lambda data: data.startswith(PNG), read_png),
    (lambda data: data.startswith(JPEG), read_jpeg),
    (lambda data: data.startswith(GIF), read_gif),
    (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", read_webp),
)
