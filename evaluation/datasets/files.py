"""Write rows into files one by one: JSON lines, or Parquet in groups of rows."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from django.utils.translation import gettext as _

from evaluation.datasets.columns import COLUMNS
from evaluation.datasets.filters import ExportRefused

GROUP = 500
"""Rows of one group of a Parquet file, which are in memory together."""


class RowFile(Protocol):
    """A file that takes one row after another."""

    def write(self, row: dict[str, Any]) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class JsonLines:
    """One JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def write(self, row: dict[str, Any]) -> None:
        # Some readers end a line at U+2028 too; escaped, no text can.
        text = json.dumps(row, ensure_ascii=False)
        self._file.write(text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085"))
        self._file.write("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class Parquet:
    """Columns of messages, GROUP rows at a time."""

    def __init__(self, path: Path, kind: str, shape: str) -> None:
        """Raises ExportRefused where pyarrow is not installed."""
        require_parquet()
        import pyarrow as pa
        import pyarrow.parquet as pq

        said = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
        self._table = pa.Table
        self._schema = pa.schema([(name, pa.bool_() if name == "label" else said) for name in COLUMNS[kind, shape]])
        self._writer = pq.ParquetWriter(path, self._schema)
        self._rows: list[dict[str, Any]] = []

    def write(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) == GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._table.from_pylist(self._rows, schema=self._schema))
        self._rows = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()


def has_parquet() -> bool:
    """Whether this environment reads and writes Parquet."""
    return importlib.util.find_spec("pyarrow") is not None


def require_parquet() -> None:
    """Raises ExportRefused where pyarrow is not installed."""
    if not has_parquet():
        raise ExportRefused(_("Parquet needs pyarrow: python3 -m installation install datasets, or choose JSON lines."))
