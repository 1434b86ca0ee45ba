"""Sandboxes by bubblewrap: namespaces, a read-only system, and a keeper inside that takes requests over a pipe.

Each sandbox is one `bwrap` and dies with the process that started it. The writable folder is memory of the sandbox's
own, so the host has no file of it: none to fill its disk, none to follow, none to remove.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from environments.errors import SandboxEnded, SandboxUnavailable
from environments.sandboxes.groups import Group, Hierarchies
from environments.sandboxes.sandbox import MIB, PATH, WORK, Capabilities, Result, Sandbox, Wants
from environments.sandboxes.trees import MOST_BYTES, MOST_DEPTH, MOST_FILES, File, Tree

KEEPER = (Path(__file__).parent / "keeper.py").read_text()
OURS = 3
"""Processes of a sandbox that are no task's: bubblewrap outside, bubblewrap inside, the keeper."""
TEMPORARY, SHARED_AT = "/tmp", "/dev/shm"  # noqa: S108 - places inside, not the host's
SHARED = 16 * MIB
"""Bytes of /dev/shm."""
KEEPER_MEMORY = 24 * MIB
USER = 64_211
"""Who strangers' code is on the host where root starts it: a number that no account has, and no file."""
START_S = 30.0
GRACE_S = 10.0
"""How long after a command's own time the keeper may take to answer."""

LAUNCH = 'for folder in $1; do echo 0 > "$folder/cgroup.procs" || exit 96; done; shift; exec "$@"'
"""Joins the groups, then becomes the rest of its arguments."""


class Starter:
    """Starts processes from one thread that lives as long as this process: `--die-with-parent` means the thread."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._thread = ThreadPoolExecutor(1, "sandbox-starter")

    def start(self, command: Sequence[str], info: int) -> subprocess.Popen[bytes]:
        return self._thread.submit(
            subprocess.Popen,
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(info,),
            env={},  # bubblewrap's own environment can be read inside, whatever it is told to clear
            cwd="/",
            start_new_session=True,
        ).result()


STARTER = Starter()


@cache
def hierarchies() -> Hierarchies:
    found = Hierarchies.find()
    found.sweep()
    return found


@cache
def python_inside() -> str:
    """The system's Python, which any user can run. Raises SandboxUnavailable."""
    for program in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(program, os.X_OK):
            return program
    raise SandboxUnavailable("bubblewrap needs a Python below /usr: run sudo apt-get install python3.")


def why_not() -> str | None:
    """One sentence where bubblewrap does not work on this machine. That it works is found by trying it, once."""
    try:
        prove()
    except SandboxUnavailable as error:
        return str(error)
    return None


@cache
def prove() -> None:
    """Raises SandboxUnavailable, and is asked again then: what failed on a machine that was full may work later."""
    if sys.platform != "linux" or not shutil.which("bwrap"):
        raise SandboxUnavailable("bubblewrap is not installed: run sudo apt-get install bubblewrap.")
    try:
        with Bubblewrap(Wants()) as sandbox:
            sandbox.run(["true"], timeout_s=10)
    except SandboxEnded as error:
        raise SandboxUnavailable(f"bubblewrap does not work here: {error}") from error


@dataclass(eq=False)
class Bubblewrap(Sandbox):
    found: Hierarchies = field(default_factory=hierarchies)
    """The control groups to use; tests name others."""

    def __post_init__(self) -> None:
        self.capabilities.refuse_unmet(self.wants, "bubblewrap")
        self._asking, self._killing = threading.Lock(), threading.Lock()
        self._ended = self._gone = False
        self._group = Group(())
        self._first: int | None = None
        """A pidfd of the sandbox's first process: readable when it and every other one in there is gone."""
        self._start()

    @property
    def capabilities(self) -> Capabilities:
        missing = self.found.missing
        return Capabilities(
            networks=frozenset({"no"}),
            memory="memory" in self.found.parents,
            processes=True,
            disk=True,
            mounts=True,
            for_strangers=True,
            missing=missing,
        )

    def _start(self) -> None:
        info, info_inside = os.pipe()
        try:
            self._group = self.found.make(
                processes=self.wants.processes + OURS,
                memory=self.wants.memory + self.wants.disk + SHARED + KEEPER_MEMORY,
            )
            groups = " ".join(map(str, self._group.folders))
            self._process = STARTER.start(
                ["/bin/sh", "-c", LAUNCH, "sh", groups, *self._command(info_inside)], info_inside
            )
            os.close(info_inside)
            info_inside = -1
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._into, self._out_of = self._process.stdin.fileno(), self._process.stdout.fileno()
            os.set_blocking(self._into, False)
            os.set_blocking(self._out_of, False)
            self._watch(info)
            self._greet()
        except (OSError, SandboxEnded) as error:
            said = self._last_words()
            self.kill()
            raise SandboxUnavailable(f"bubblewrap started no sandbox: {said or error}") from error
        finally:
            os.close(info)
            if info_inside >= 0:
                os.close(info_inside)

    def _greet(self) -> None:
        head, _ = self._receive(time.monotonic() + START_S, 1024)
        if head != {"ready": True}:
            raise SandboxEnded("the keeper did not start")

    def _program(self) -> list[str]:
        """What runs inside."""
        return [python_inside(), "-I", "-S", "-c", KEEPER, json.dumps({"rlimits": self._rlimits()})]

    def _command(self, info: int) -> list[str]:
        if os.geteuid() == 0:
            becoming = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--bounding-set=-all", "--"]
        else:
            becoming = []
        links = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"]
        system = [
            word
            for name in links
            if Path("/", name).exists()
            for word in (
                ("--symlink", f"usr/{name}", f"/{name}")
                if Path("/", name).is_symlink()
                else ("--ro-bind", f"/{name}", f"/{name}")
            )
        ]
        mounts = [
            word
            for mount in self.wants.mounts
            for word in ("--ro-bind", str(mount.source.resolve(strict=True)), mount.at)
        ]
        folders = [word for at in self.wants.folders for word in ("--size", str(self.wants.disk_each), "--tmpfs", at)]
        scratch = [word for at in self.wants.scratch for word in ("--size", str(MIB), "--tmpfs", at)]
        return [
            *becoming,
            shutil.which("bwrap") or "bwrap",
            *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"),
            *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--info-fd", str(info)),
            *("--ro-bind", "/usr", "/usr", *system),
            *("--ro-bind-try", "/etc/alternatives", "/etc/alternatives"),
            *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
            *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
            *("--dev", "/dev", "--size", str(SHARED), "--tmpfs", SHARED_AT, "--remount-ro", "/dev"),
            *("--size", str(self.wants.disk_each), "--tmpfs", WORK, "--dir", f"{WORK}/.tmp"),
            *("--symlink", f"{WORK}/.tmp", TEMPORARY),
            *folders,
            *mounts,
            *scratch,
            *("--remount-ro", "/", "--chdir", WORK, "--"),
            *self._program(),
        ]

    def _rlimits(self) -> dict[str, int]:
        """Of each process. Where no group bounds them together, memory is a quarter and processes are half of it."""
        limits = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 1024, "RLIMIT_MEMLOCK": 65536, "RLIMIT_FSIZE": self.wants.disk}
        if "pids" in self.found.parents:
            limits["RLIMIT_NPROC"] = self.wants.processes + OURS
        else:
            limits["RLIMIT_NPROC"] = self.wants.processes // 2 + OURS
        if "memory" not in self.found.parents:
            limits["RLIMIT_AS"] = max(self.wants.memory // 4, 64 * MIB)
        return limits

    def _watch(self, info: int) -> None:
        """Hold on to the sandbox's first process, whose number bubblewrap says as soon as there is one."""
        said = b""
        deadline = time.monotonic() + START_S
        while not said.endswith(b"}\n"):
            ready, _, _ = select.select([info], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(info, 4096) if ready else b""
            if not chunk:
                raise SandboxEnded("it said nothing")
            said += chunk
        self._first = os.pidfd_open(json.loads(said)["child-pid"])

    def _last_words(self) -> str:
        process = getattr(self, "_process", None)
        if process is None or process.stderr is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        os.set_blocking(process.stderr.fileno(), False)
        return (process.stderr.read() or b"").decode(errors="replace").strip()[-500:]

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = WORK,
    ) -> Result:
        head, body = self._ask(
            {
                "verb": "run",
                "argv": list(argv),
                "env": {"PATH": PATH, "HOME": WORK, "LANG": "C.UTF-8", "TMPDIR": TEMPORARY, **(env or {})},
                "cwd": cwd,
                "timeout_s": timeout_s,
                "most_output": self.MOST_OUTPUT,
            },
            stdin,
            timeout_s=timeout_s,
            most=2 * self.MOST_OUTPUT,
        )
        cut_at = int(head["out"])
        out, err = body[:cut_at], body[cut_at:]
        return Result(
            int(head["status"]), out, err, bool(head["timed_out"]), bool(head["cut"]), int(head.get("left_out", 0))
        )

    def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        asked = {"verb": "put", "path": os.path.join(WORK, path), "mode": mode & 0o777}
        head, _ = self._ask(asked, content, timeout_s=30, most=0)
        if "error" in head:
            raise OSError(f"{path}: {head['error']}")

    def get(self, path: str) -> bytes:
        asked = {"verb": "get", "path": os.path.join(WORK, path), "most": self.MOST_FILE}
        head, body = self._ask(asked, b"", timeout_s=30, most=self.MOST_FILE)
        if "error" in head:
            raise FileNotFoundError(f"{path}: {head['error']}")
        return body

    def read_tree(self, path: str = WORK) -> Tree:
        most = {"most_files": MOST_FILES, "most_bytes": MOST_BYTES, "most_depth": MOST_DEPTH}
        head, body = self._ask({"verb": "tree", "path": path, **most}, b"", timeout_s=60, most=MOST_BYTES)
        files, start = {}, 0
        try:
            for name, mode, size in head["files"]:
                files[str(name)] = File(body[start : start + int(size)], int(mode) & 0o777)
                start += int(size)
            folders = tuple(map(str, head["folders"]))
            if path == WORK:
                files = {name: file for name, file in files.items() if not name.startswith(".tmp/")}
                folders = tuple(name for name in folders if not f"{name}/".startswith(".tmp/"))
            return Tree(files, tuple(map(str, head["left_out"])), folders)
        except (KeyError, TypeError, ValueError) as error:
            raise SandboxEnded(f"The sandbox's files cannot be read: {error}") from error

    def _ask(self, asked: dict[str, Any], content: bytes, *, timeout_s: float, most: int) -> tuple[dict, bytes]:
        try:
            with self._asking:
                if self._ended:
                    raise SandboxEnded("it has been killed")
                deadline = time.monotonic() + timeout_s + GRACE_S
                self._send(asked, content, deadline)
                head, body = self._receive(deadline, most)
                if asked["verb"] == "run":
                    int(head["out"]), int(head["status"])
                return head, body
        except (SandboxEnded, OSError, ValueError, KeyError, TypeError) as error:
            self.kill()
            raise SandboxEnded(f"The sandbox ended: {error}.") from error

    def _send(self, asked: dict[str, Any], content: bytes, deadline: float) -> None:
        head = json.dumps(asked).encode()
        left = memoryview(struct.pack("!II", len(head), len(content)) + head + content)
        while left:
            _, ready, _ = select.select([], [self._into], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SandboxEnded("its keeper takes no requests")
            left = left[os.write(self._into, left[:65536]) :]

    def _receive(self, deadline: float, most: int) -> tuple[dict, bytes]:
        head_size, body_size = struct.unpack("!II", self._read(8, deadline))
        if head_size > 4 * MIB or body_size > most:
            raise SandboxEnded("its keeper's answer is too long")
        head = json.loads(self._read(head_size, deadline))
        if not isinstance(head, dict):
            raise SandboxEnded("its keeper's answer is none")
        return head, self._read(body_size, deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        got = bytearray()
        while len(got) < size:
            poll = select.poll()
            poll.register(self._out_of, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise SandboxEnded("its keeper does not answer")
            chunk = os.read(self._out_of, min(size - len(got), 2**20))
            if not chunk:
                raise SandboxEnded("its keeper is gone")
            got += chunk
        return bytes(got)

    def kill(self) -> None:
        self._ended = True
        with self._killing:
            if self._gone:
                return
            process = getattr(self, "_process", None)
            if process is not None:
                self._end(process)
                with self._asking:  # a caller that waits for an answer has just seen the pipe end
                    for stream in (process.stdin, process.stdout, process.stderr):
                        with suppress(OSError):
                            stream.close()
            self._group.remove()
            self._gone = True

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End the first process, and with it all of its namespace; the one outside reaps it, and ends."""
        if self._first is not None:
            poll = select.poll()
            poll.register(self._first, select.POLLIN)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            if not poll.poll(GRACE_S * 1000):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # a first process that was attached to hears this alone
                if not poll.poll(GRACE_S * 1000):
                    raise SandboxEnded("A process of the sandbox does not die: the kernel holds it.")
            os.close(self._first)
            self._first = None
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(GRACE_S)
