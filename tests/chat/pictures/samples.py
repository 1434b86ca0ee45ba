"""Pictures of every kind that is read, and the bytes of a few that are not."""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode, b64encode


def png(width: int = 3, height: int = 2, *, said: tuple[int, int] | None = None, shade: int = 200) -> bytes:
    """A grey PNG; `said`: the size that its head states, whatever its pixels are."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", *(said or (width, height)), 8, 0, 0, 0, 0)
    rows = (b"\0" + bytes([shade]) * width) * height
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{b64encode(data).decode()}"


GIF_FRAME = b64decode("R0lGODdhBwAFAIEAAP8AAAAAAAAAAAAAACwAAAAABwAFAAAIDAABCBxIsKDBgwcDAgA7")
"""7 × 5, one frame."""
GIF = GIF_FRAME[:-1] + b64decode("IfkEAQAAAQAsAAAAAAcABQCBAAD/AAAAAAAAAAAACAwAAQgcSLCgwYMHAwIAOw==")
"""The same with a second frame behind it."""
WEBP = b64decode("UklGRjAAAABXRUJQVlA4ICQAAABwAQCdASoDAAIADMDOJaACdAFAAAD+2iYRho1+LuxHGSQAAAA=")
"""3 × 2."""
JPEG = (
    b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x11\x00\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x01\xff\xd9"
)
"""3 × 2: a frame's head, a scan, the end."""
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
