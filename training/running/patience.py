"""Ask a database again that does not answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

log = logging.getLogger(__name__)

Result = TypeVar("Result")

DATABASE_PATIENCE_S = 90
"""How long a worker asks a database again that does not answer: shorter than the silence that loses it the run."""

RETRY_S = 2.0
"""How long it waits in between."""


def patiently(write: Callable[[], Result]) -> Result:
    """`write`, and again while the database is away. It must be safe to do twice: what was committed may not have been
    heard of. Raises what the database said last once patience ends."""
    until = time.monotonic() + DATABASE_PATIENCE_S
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError) as failure:
            if time.monotonic() >= until:
                raise
            log.warning("the database does not answer, and is asked again: %s", failure)
            if not connection.in_atomic_block:
                connection.close()  # a connection that broke is not asked again
            time.sleep(RETRY_S)
