"""Run a command of the host's with bounded time and output."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from environments.sandboxes.sandbox import Result

LINGER_S = 0.5
"""How long after its end a command's streams are read: what it started may hold them open for ever."""


def run_bounded(
    argv: Sequence[str],
    *,
    timeout_s: float,
    most_output: int,
    env: Mapping[str, str],
    stdin: bytes = b"",
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
    limit: Callable[[], None] | None = None,
) -> Result:
    """Run `argv` in a session of its own, keep `most_output` bytes of each stream (of its beginning and of its end as
    many), kill its group at the end.

    `limit` is called in the child before it becomes `argv`. Raises OSError where it cannot be started.
    """
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
        preexec_fn=limit,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = bytearray(), bytearray()
    left_out = {"out": 0, "err": 0}

    def keep(stream: IO[bytes], kept: bytearray, name: str) -> None:
        with suppress(OSError, ValueError):
            while chunk := os.read(stream.fileno(), 65536):
                kept += chunk
                too_many = len(kept) - most_output
                if too_many > 0:
                    del kept[most_output // 2 : most_output // 2 + too_many]
                    left_out[name] += too_many

    def feed(stream: IO[bytes]) -> None:
        with suppress(OSError, ValueError), stream:
            stream.write(stdin)

    workers = [
        threading.Thread(target=keep, args=(process.stdout, out, "out"), daemon=True),
        threading.Thread(target=keep, args=(process.stderr, err, "err"), daemon=True),
        threading.Thread(target=feed, args=(process.stdin,), daemon=True),
    ]
    for worker in workers:
        worker.start()
    timed_out = False
    try:
        process.wait(timeout_s)
        workers[0].join(LINGER_S)
    except subprocess.TimeoutExpired:
        timed_out = True
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    status = process.wait()
    for worker in workers:
        worker.join(LINGER_S)
    if not any(worker.is_alive() for worker in workers):
        process.stdout.close()
        process.stderr.close()
    status = status if status >= 0 else 128 - status
    return Result(status, bytes(out), bytes(err), timed_out, any(left_out.values()), left_out["out"])
