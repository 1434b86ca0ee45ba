"""Write the launch line of the scripted engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def scripted_command(model: str, port: int, *, host: str = "127.0.0.1", more: Sequence[str] = ()) -> list[str]:
    """The launch line; it takes its keys from ENGINE_API_KEY and ENGINE_ADMIN_KEY, as the embedded engine does."""
    return [
        *(sys.executable, "-m", "benchmarks.scripted", "--model", model, "--host", host, "--port", str(port)),
        *more,
    ]
