"""Run a command of the user's own on this machine, in a process group that is killed at the end of its time."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from environments.sandboxes.sandbox import Result

MOST_KEPT = 64 * 1024
"""Bytes of the end of its output."""
LINGER_S = 0.5
"""How long after its end its output is read: what it started may hold it open."""


async def run_here(command: str, *, cwd: Path, env: Mapping[str, str], timeout_s: float) -> Result:
    """Run `command` by bash with these variables alone; both streams come back in `out`. Its process group is dead
    when this returns or is cancelled; what left the group is not."""
    read_end, write_end = os.pipe()  # one of asyncio's own would make its end wait for all that hold it open
    kept = bytearray()
    reading = asyncio.ensure_future(_keep_end(read_end, kept))
    try:
        process = await _start(command, cwd, env, write_end)
    finally:
        os.close(write_end)
    timed_out = False
    try:
        await asyncio.wait_for(process.wait(), timeout_s)
    except TimeoutError:
        timed_out = True
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        status = await process.wait()
        await asyncio.wait([reading], timeout=LINGER_S)
        reading.cancel()
    return Result(status if status >= 0 else 128 - status, bytes(kept), b"", timed_out)


async def _start(command: str, cwd: Path, env: Mapping[str, str], out: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *("bash", "--noprofile", "--norc", "-c", command),
        stdin=DEVNULL,
        stdout=out,
        stderr=STDOUT,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
    )


async def _keep_end(read_end: int, kept: bytearray) -> None:
    stream = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(stream)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(read_end, "rb"))
    try:
        while chunk := await stream.read(65536):
            kept += chunk
            del kept[:-MOST_KEPT]
    finally:
        transport.close()
