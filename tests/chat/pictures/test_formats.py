"""What a picture's bytes say of its size is what its readers believe."""

from __future__ import annotations

import struct
import zlib

import pytest

from chat.pictures.formats import PNG, Broken, read
from tests.chat.pictures.samples import png


def test_a_second_head_that_says_another_size_is_refused():
    # Decoders that read on to the pixels believe the last head: 60,000 × 60,000 of them, behind one of 3 × 2.
    body = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    second = struct.pack(">I", len(body)) + b"IHDR" + body + struct.pack(">I", zlib.crc32(b"IHDR" + body))
    end_of_first = len(PNG) + 12 + 13
    with pytest.raises(Broken):
        read(png()[:end_of_first] + second + png()[end_of_first:])
