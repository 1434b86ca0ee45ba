"""Several people or workers that act in the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from django.db import connection

from core.errors import IllegalMove


def at_once(*acts):
    """What each act returned or raised; all of them start together, each on its own connection."""
    start = Barrier(len(acts))

    def run(act):
        try:
            start.wait(10)
            return act()
        except IllegalMove as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))
