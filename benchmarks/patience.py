"""Wait on a busy machine: a second counts for less while more processes want the cores than there are cores."""

from __future__ import annotations

import os
import time

MOST = 10.0
"""So that what hangs is said to hang, however busy the machine is."""


def crowd() -> float:
    """How many processes wanted each core in the last minute: 1 to MOST."""
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), MOST)


class Patience:
    """So many seconds of a machine on which a process finds a core when it wants one: longer by the clock on others.

    A wait that ends by the clock says how busy the machine was, not whether what is waited for would have come.
    """

    def __init__(self, seconds: float) -> None:
        self.left_s, self._seen = seconds, time.monotonic()

    @property
    def is_over(self) -> bool:
        now = time.monotonic()
        self.left_s -= (now - self._seen) / crowd()
        self._seen = now
        return self.left_s <= 0
