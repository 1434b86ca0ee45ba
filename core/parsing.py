"""Read Python from several threads."""

from __future__ import annotations

import ast
import threading

_one_at_a_time = threading.Lock()
"""Python 3.11 counts how deep it has parsed for all threads at once, so two that parse have one of them fail."""


def parse(source: str | bytes) -> ast.Module:
    """Raises SyntaxError, and ValueError, RecursionError or MemoryError for what no parser can hold."""
    with _one_at_a_time:
        return ast.parse(source)
