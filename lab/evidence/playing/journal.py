"""What was done, a line each, so that a run that was killed goes on where it stopped and asks nothing twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from core.errors import TalkbackError
from core.textfiles import decode_text, split_lines, write_line

Row = dict[str, Any]


class JournalUnreadable(TalkbackError):
    """A line in the middle of a journal is no row: another program wrote to it."""

    code, status = "journal_unreadable", 409


class Journal:
    """A file of JSON lines that only grows. A row is there when `write` returns, also after kill -9 or a power cut; one
    that was cut off while it was written is taken away at the next opening, and done again.

    Rows have a `key`, which is there once: a second row of a key is refused.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or begin it. Raises JournalUnreadable."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._rows: dict[str, Row] = {}
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        try:
            lines = split_lines(decode_text(whole))
        except UnicodeDecodeError as error:
            raise JournalUnreadable(f"{path.name} is not UTF-8 ({error}): begin a new OUT.") from error
        for number, line in enumerate(lines, 1):
            self._keep(_read(line, f"{path.name}, line {number}"))
        self._file: IO[bytes] = path.open("ab")
        if len(whole) < len(content):
            self._file.truncate(len(whole))

    def write(self, key: str, **fields: Any) -> Row:
        """Add a row and see it on the disk."""
        row = {"key": key, **fields}
        if key in self._rows:
            raise ValueError(f"{key} is in {self.path.name} already")
        self._file.write(write_line(row).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._rows[key] = row
        return row

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def __getitem__(self, key: str) -> Row:
        return self._rows[key]

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Row]:
        """Every row, in the order they were written."""
        return iter(list(self._rows.values()))

    def under(self, prefix: str) -> list[Row]:
        """The rows whose key begins so, in order."""
        return [row for key, row in self._rows.items() if key.startswith(prefix)]

    def last(self, prefix: str) -> Row | None:
        """The newest row whose key begins so."""
        rows = self.under(prefix)
        return rows[-1] if rows else None

    def close(self) -> None:
        self._file.close()

    def _keep(self, row: Row) -> None:
        if row["key"] in self._rows:
            raise JournalUnreadable(f"{self.path.name} says {row['key']} twice: two runs wrote to it. Begin a new OUT.")
        self._rows[row["key"]] = row


def _read(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise JournalUnreadable(f"{where} is no JSON ({error}): take the line out, or begin a new OUT.") from error
    if not isinstance(row, dict) or not isinstance(row.get("key"), str):
        raise JournalUnreadable(f"{where} was not written by this command: begin a new OUT.")
    return row
