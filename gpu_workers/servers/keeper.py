"""The keeper keeps another project's server running: start it, see when it is ready, start it again when it ends, and
keep what it said last for an operator who asks why.

The supervisor keeps us; this knows what the supervisor cannot: that a server which loads for minutes is not up before
/ready says so, and that one which ends again and again is to be given time.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import httpx

from gpu_workers.servers.processes import end_with_children

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
STEADY_S = 120.0
"""A server that was ready for so long had got over what ended it before: its next pause is the first again."""
LOOK_S = 0.5
LINES = 30
"""How many of its last lines are kept."""
GRACE_S = 6.0
"""How long it may take to end: less than the supervisor gives us."""
PARENT_DIED = 1
"""PR_SET_PDEATHSIG of <linux/prctl.h>."""


def record_of(data_dir: Path, port: int | str) -> Path:
    """Return the file where the keeper of the server on this port writes its state."""
    return data_dir / "engines" / f"{port}.json"


def read(data_dir: Path, port: int | str) -> dict[str, Any]:
    """Read what its keeper wrote last: state (starting, ready, ended), since, ends, status, last_words; empty for
    none."""
    try:
        told = json.loads(record_of(data_dir, port).read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


class Keeper:
    """Keep one server up for as long as `run` lasts."""

    def __init__(
        self,
        command: Sequence[str],
        url: str,
        record: Path,
        *,
        environment: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        keeps_open: Sequence[int] = (),
        output: IO[bytes] | None = None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """`secrets` are never written down. `keeps_open` are files that the server holds as well, as locks. `wait`
        takes seconds, and says whether we were asked to end."""
        self._command, self._url, self._record = list(command), url, record
        self._environment = {**os.environ, **(environment or {})}
        self._secrets = [secret for secret in secrets if secret]
        self._keeps_open = tuple(keeps_open)
        self._output = output or sys.stdout.buffer
        self._ending = threading.Event()
        self._wait = wait or self._ending.wait
        self._words: deque[str] = deque(maxlen=LINES)
        self._ends = 0

    def end(self) -> None:
        """Have `run` stop the server and return."""
        self._ending.set()

    def run(self) -> int:
        """Keep it until `end`. The status of a server that ended before it was ever ready: the process that started us
        is told at once, and starts us again."""
        pause_s, was_ever_ready = FIRST_PAUSE_S, False
        while True:
            status, ready_s = self._live()
            if self._ending.is_set():
                self._record.unlink(missing_ok=True)
                return 0
            self._ends += 1
            self._write("ended", status=status)
            was_ever_ready = was_ever_ready or ready_s is not None
            if not was_ever_ready:
                return status or 1
            if ready_s is not None and ready_s >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            self._say(f"The engine ended ({status}); it starts again in {pause_s:.0f} s.")
            if self._wait(pause_s):
                self._record.unlink(missing_ok=True)
                return 0
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)

    def _live(self) -> tuple[int, float | None]:
        """From its start to its end: its status, and how long it was ready; None: never."""
        process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=self._keeps_open,
            start_new_session=True,  # it has children, and all of them end with it
            preexec_fn=_end_with_parent,
        )
        assert process.stdout is not None
        reader = threading.Thread(target=self._pass_on, args=(process.stdout,), daemon=True)
        reader.start()
        self._write("starting", pid=process.pid)
        ready_since: float | None = None
        try:
            while process.poll() is None and not self._ending.is_set():
                if ready_since is None and is_ready(self._url):
                    ready_since = time.monotonic()
                    self._write("ready", pid=process.pid)
                self._ending.wait(LOOK_S)
        finally:
            end_with_children(process, GRACE_S)
        reader.join(1.0)
        return process.returncode, None if ready_since is None else time.monotonic() - ready_since

    def _pass_on(self, said: IO[bytes]) -> None:
        for line in said:
            text = self._cleaned(line.decode(errors="replace"))
            self._words.append(text.rstrip("\n")[:1000])
            with contextlib.suppress(OSError, ValueError):
                self._output.write(text.encode())
                self._output.flush()

    def _cleaned(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._output.write(f"{text}\n".encode())
            self._output.flush()

    def _write(self, state: str, **more: Any) -> None:
        told = {"state": state, "since": time.time(), "ends": self._ends, "last_words": list(self._words), **more}
        self._record.parent.mkdir(parents=True, exist_ok=True)
        draft = self._record.with_suffix(".draft")
        draft.write_text(json.dumps(told))
        os.replace(draft, self._record)


def is_ready(url: str) -> bool:
    """Ask /ready, which costs nothing; /health would cost a token, and fails while the server is paused."""
    try:
        return httpx.get(f"{url}/ready", timeout=2.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _end_with_parent() -> None:
    """Linux: have the server told to end when we are killed, so that its port and its cards are free again."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGTERM)
