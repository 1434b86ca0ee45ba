"""Stream rows in parts, fewer in memory than there are.

A response that streams may fetch each of its parts in another of the kept threads (`core.threads`), which have a
connection each. So nothing is left open between two parts, as an iterator's cursor would be: each asks by keys.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)
Item = TypeVar("Item")


def by_key(rows: QuerySet[Row], at_once: int) -> Iterator[Row]:
    """The rows there are now, in their order, `at_once` in memory; those that go meanwhile are left out.

    Any thread may ask for the next one.
    """
    keys = list(rows.values_list("pk", flat=True))
    for first in range(0, len(keys), at_once):
        some = keys[first : first + at_once]
        found = rows.in_bulk(some)
        yield from (found[key] for key in some if key in found)


async def parts(items: Iterator[Item], at_once: int) -> AsyncIterator[list[Item]]:
    """The items, `at_once` in a list, each list made by one call in a thread for database work."""

    def part() -> list[Item]:
        return list(islice(items, at_once))

    while more := await sync_to_async(part)():
        yield more
