"""A finding: characters of a text that are of one kind, and the patterns that bring findings up. Pure.

Patterns run on RE2, so a text of any shape takes time in proportion to its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

OPTIONS = re2.Options()
OPTIONS.log_errors = False


@dataclass(frozen=True, order=True)
class Finding:
    """Characters `start` to `end` (half open) of a text are of this kind."""

    start: int
    end: int
    kind: str


def merge_overlapping(found: Iterable[Finding], order: Sequence[str]) -> list[Finding]:
    """Findings that overlap as one, which covers both and is called by whichever kind comes first in `order`.

    >>> merge_overlapping([Finding(0, 5, "email"), Finding(3, 8, "key"), Finding(8, 9, "email")], ("key", "email"))
    [Finding(start=0, end=8, kind='key'), Finding(start=8, end=9, kind='email')]
    """
    merged: list[Finding] = []
    for one in sorted(found):
        if merged and one.start < merged[-1].end:
            last = merged.pop()
            kind = min(last.kind, one.kind, key=order.index)
            merged.append(Finding(last.start, max(last.end, one.end), kind))
        elif one.end > one.start:
            merged.append(one)
    return merged


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    return re2.compile(pattern, OPTIONS)


def match_findings(pattern: Any, text: str, kind: str, holds: Callable[[str], bool] | None = None) -> Iterator[Finding]:
    """Each match, or its first group where the pattern has one, as far as it holds."""
    group = 1 if pattern.groups else 0
    for match in pattern.finditer(text):
        start, end = match.span(group)
        if start >= 0 and (holds is None or holds(match[group])):
            yield Finding(start, end, kind)
