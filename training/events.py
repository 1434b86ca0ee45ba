"""TensorBoard's event files: frames of TFRecord around `Event` messages, and no library that would bring torch along.

The messages are protobuf's, by hand: a field is its number and kind, then its content (protobuf.dev, "Encoding"). What
is written here of them stands in tensorflow's event.proto and summary.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

VERSION = b"brain.Event:2"
"""What the first event of a file says."""

POLYNOMIAL = 0x82F63B78
"""CRC-32C's (RFC 3720, appendix B.4), its bits reversed."""


def started(at: float) -> bytes:
    """The frame that a file begins with; `at` in seconds since 1970, here and below."""
    return _framed(_double(1, at) + _bytes(3, VERSION))


def scalar(at: float, step: int, tag: str, value: float) -> bytes:
    """One point of a curve."""
    return _event(at, step, _bytes(1, tag.encode()) + bytes([2 << 3 | 5]) + struct.pack("<f", value))


def histogram(at: float, step: int, tag: str, edges: Sequence[float], counts: Sequence[int]) -> bytes:
    """Counts between edges, of which there is one more; what lies between two is taken for their middle."""
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    parts = list(zip(counts, middles, strict=True))
    total, squares = sum(n * x for n, x in parts), sum(n * x * x for n, x in parts)
    numbers = (edges[0], edges[-1], sum(counts), total, squares)
    said = b"".join(_double(field, value) for field, value in enumerate(numbers, 1))
    said += _bytes(6, struct.pack(f"<{len(counts)}d", *edges[1:])) + _bytes(7, struct.pack(f"<{len(counts)}d", *counts))
    return _event(at, step, _bytes(1, tag.encode()) + _bytes(5, said))


def text(at: float, step: int, tag: str, words: str) -> bytes:
    """Words as Markdown."""
    shape = _bytes(2, _bytes(2, _number(1, 1)))  # one string
    tensor = _number(1, 7) + shape + _bytes(8, words.encode())
    metadata = _bytes(1, _bytes(1, b"text"))
    return _event(at, step, _bytes(1, tag.encode()) + _bytes(8, tensor) + _bytes(9, metadata))


def _event(at: float, step: int, value: bytes) -> bytes:
    return _framed(_double(1, at) + _number(2, step) + _bytes(5, _bytes(1, value)))


def _framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _varint(value: int) -> bytes:
    """
    >>> _varint(1), _varint(300)
    (b'\\x01', b'\\xac\\x02')
    """
    said = bytearray()
    while value > 127:
        said.append(value & 127 | 128)
        value >>= 7
    return bytes([*said, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _checksum(data: bytes) -> bytes:
    """CRC-32C, turned as TFRecord wants it."""
    crc = _crc(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc(data: bytes) -> int:
    """
    >>> hex(_crc(b"123456789"))  # RFC 3720's own example of the polynomial
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def _row(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ POLYNOMIAL * (byte & 1)
    return byte


TABLE = [_row(byte) for byte in range(256)]
