"""Hold a run's lock file, by which this machine knows whether its worker lives."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from django.conf import settings

from training.models import Run


def lock_of(run: Run) -> Path:
    return Path(settings.DATA_DIR) / "runs" / f"{run.pk}.lock"


@contextmanager
def hold(run: Run, *, only_try: bool = False) -> Iterator[bool]:
    """Hold the run's lock file for as long as this process lives; False when another process does.

    The kernel lets go of it the moment a process dies, kill -9 included, so the next sweep knows at once.
    """
    path = lock_of(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        while True:
            file = opened.enter_context(path.open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            with suppress(FileNotFoundError):  # a holder that ended may have removed it between our two calls
                if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                    break
        yield True
        if not only_try:
            path.unlink(missing_ok=True)
