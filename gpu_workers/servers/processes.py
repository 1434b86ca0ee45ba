"""Processes start an engine's server, wait until it answers, and stop it: the real SGLang or the embedded one."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from gpu_workers.errors import EngineUnavailable

log = logging.getLogger(__name__)

LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True)
class Adapters:
    """The adapters that an SGLang takes."""

    rank: int = 64
    """The largest; room for it is set aside in every slot, whatever is loaded."""
    targets: Sequence[str] = LORA_TARGETS
    slots: int = 8
    """How many answer in one batch, the base among them."""
    loaded: int = 16
    """How many are kept in memory; past that SGLang drops one without a word."""

    def __post_init__(self) -> None:
        if self.loaded < self.slots - 1 or self.slots < 2 or self.rank < 1 or not self.targets:
            raise ValueError(
                f"{self.slots} slots, of which the base takes one, {self.loaded} adapters loaded and rank {self.rank} "
                f"do not go together: SGLANG_LORA_SLOTS is at least 2, SGLANG_LORA_HELD at least one less than that."
            )


def sglang_command(
    model: str,
    port: int,
    *,
    api_key: str,
    admin_key: str,
    host: str = "127.0.0.1",
    adapters: Adapters = Adapters(),
    more: Sequence[str] = (),
) -> list[str]:
    """Build the launch line for SGLang on a GPU. Keys stand in it, as SGLang takes them no other way."""
    return [
        *("sglang", "serve", "--model-path", model, "--host", host, "--port", str(port)),
        *("--enable-lora", "--max-lora-rank", str(adapters.rank), "--lora-target-modules", *adapters.targets),
        *("--max-loras-per-batch", str(adapters.slots), "--max-loaded-loras", str(adapters.loaded)),
        *("--enable-metrics", "--enable-cache-report", "--enable-priority-scheduling"),
        *("--default-priority-value", "0"),
        "--constrained-json-disable-any-whitespace",  # or a schema is answered with blanks without end
        *("--weight-version", "base", "--incremental-streaming-output"),
        *("--api-key", api_key, "--admin-api-key", admin_key),
        *more,
    ]


def embedded_command(model: str, port: int, *, host: str = "127.0.0.1", more: Sequence[str] = ()) -> list[str]:
    """Build the launch line for the CPU engine; it takes its keys from ENGINE_API_KEY and ENGINE_ADMIN_KEY."""
    return [
        *(sys.executable, "-m", "gpu_workers.embedded", "--model", model, "--host", host, "--port", str(port)),
        *("--weight-version", "base", "--incremental-streaming-output"),
        *more,
    ]


def router_command(workers: Sequence[str], port: int, metrics_port: int, *, host: str = "127.0.0.1") -> list[str]:
    """The launch line for SGLang's router before servers at these addresses. It has no keys: it passes on whichever it
    is given, and would otherwise open the servers to all who reach it."""
    return [
        *("python", "-m", "sglang_router.launch_router", "--host", host, "--port", str(port)),
        *("--worker-urls", *workers, "--policy", "cache_aware"),
        *("--prometheus-host", host, "--prometheus-port", str(metrics_port)),
        # /health would cost a token each time, and fails while a server is paused.
        *("--health-check-endpoint", "/ready", "--health-check-interval-secs", "5", "--health-failure-threshold", "1"),
        "--disable-retries",  # its client knows the servers too, and which of them can
    ]


class EngineProcess:
    """Run a server of ours for as long as the `with` lasts. Its output goes to `log`."""

    def __init__(
        self,
        command: Sequence[str],
        url: str,
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        ready_within_s: float = 300.0,
        ready_path: str = "/ready",
    ) -> None:
        self.command, self.url, self.log = list(command), url.rstrip("/"), log
        self._environment = {**os.environ, **(environment or {})}
        self._ready_within_s, self._ready_path = ready_within_s, ready_path
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and return when it takes requests. Raises EngineUnavailable, with its last words, if it does not."""
        with open(self.log, "ab") as log:
            # A session of its own: SGLang has children, and all of them must end with it.
            self._process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )
        try:
            self._wait_until_ready()
        except BaseException:  # an interrupt too: nothing of ours may go on running
            self.stop()
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._ready_within_s
        while not self.is_ready():
            if not self.is_alive() or time.monotonic() > deadline:
                raise EngineUnavailable(f"The engine at {self.url} did not start:\n{self._last_words()}")
            time.sleep(0.2)

    def is_ready(self) -> bool:
        """True when it takes requests. False while paused as well: a reason to wait, never to kill it."""
        url = f"{self.url}{self._ready_path}"
        try:
            return (
                httpx.get(url, timeout=2.0, trust_env=False, verify=not url.lower().startswith("http:")).status_code
                == 200
            )
        except httpx.HTTPError:
            return False

    @property
    def pid(self) -> int | None:
        """The server's own process; None when it does not run."""
        return None if self._process is None else self._process.pid

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it and its children at once, as a crash does."""
        if self._process is not None:
            process, self._process = self._process, None
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            end_with_children(process, 10.0)

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask it to end; after `grace_s` seconds make it. Returns when its children have ended too, or `grace_s`
        seconds after they were killed. Does nothing when it has ended."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if not end_with_children(process, grace_s):
            log.warning("Processes of the engine at %s were killed and have not ended: %d.", self.url, process.pid)

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-20:])


def end_with_children(process: subprocess.Popen[bytes], grace_s: float) -> bool:
    """Ask the group that this process leads to end, and after `grace_s` seconds make it. Whether all of them have
    ended, at the latest `grace_s` seconds after they were killed."""
    group = process.pid
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    deadline = time.monotonic() + grace_s
    while runs(group):  # killed, its children are there for a moment more: with the port, and with the GPU's memory
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def runs(group: int) -> bool:
    """Tell whether a process of this group has not ended. One that only waits to be reaped has: in a container
    the first process may never do so."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of those that only wait
        return False
    told = [_told(folder / "stat") for folder in Path("/proc").glob("[0-9]*")]
    if not any(told):  # no /proc here
        return True
    # man proc_pid_stat: state, parent and group follow the name, which stands in brackets and may hold any character.
    fields = [one.rpartition(")")[2].split() for one in told if one]
    return any(int(of) == group and state not in ("Z", "X") for state, _, of, *_ in fields)


def _told(file: Path) -> str:
    """What a file of /proc says; nothing of a process that has gone."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
