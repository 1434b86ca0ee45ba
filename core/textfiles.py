"""Read and write text files: UTF-8, with or without a byte order mark, a line ended by a line feed.

`str.splitlines` ends lines at U+2028, U+2029 and U+0085 too, which JSON lets stand raw in a string: files of JSON lines
are read and written by the functions here, and by no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ENCODING = "utf-8-sig"
"""UTF-8; a byte order mark, which editors on Windows write, is no part of the text."""

SEPARATORS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}
"""What ends a line for some readers and may stand raw in JSON, and how JSON writes it otherwise."""


def read_text(file: Path | str) -> str:
    """The text of a file. Raises OSError and UnicodeDecodeError."""
    return decode_text(Path(file).read_bytes())


def decode_text(content: bytes) -> str:
    """The text of what was read from a file. Raises UnicodeDecodeError."""
    return content.decode(ENCODING)


def split_lines(text: str) -> list[str]:
    r"""Split at line feeds alone; a carriage return before one is a part of the ending.

    >>> split_lines('{"a": "b\u2028c"}\r\n{}\n')
    ['{"a": "b\u2028c"}', '{}']
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()  # the last line was ended, too
    return [line.removesuffix("\r") for line in lines]


def read_lines(file: Path | str) -> list[str]:
    """The lines of a file, empty ones too, so that the first is line 1. Raises OSError and UnicodeDecodeError."""
    return split_lines(read_text(file))


def stream_lines(file: Path | str) -> Iterator[str]:
    """The same, a line at a time, for files that are larger than memory."""
    with Path(file).open(encoding=ENCODING, newline="\n") as lines:
        for line in lines:
            yield line.removesuffix("\n").removesuffix("\r")


def escape_separators(written: str) -> str:
    r"""JSON in which no reader sees the end of a line: what may stand raw in a string is written as an escape.

    >>> escape_separators('"a\u2028b"')
    '"a\\u2028b"'
    """
    return written if written.isascii() else written.translate(SEPARATORS)


def write_line(value: Any) -> str:
    """A value as a line of a file of JSON lines, with its line feed."""
    return escape_separators(json.dumps(value, ensure_ascii=False)) + "\n"
