"""Sandboxes by docker or podman, spoken to by their command line."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Literal

from environments.errors import SandboxEnded, SandboxRefused, SandboxUnavailable
from environments.sandboxes.commands import run_bounded
from environments.sandboxes.sandbox import MIB, PATH, WORK, Capabilities, Result, Sandbox
from environments.sandboxes.trees import MOST_BYTES, MOST_FILES, File, Tree

Program = Literal["docker", "podman"]
START_S = 600.0
"""An image may have to be pulled."""
ASK_S = 60.0

WRITE = 'mkdir -p "$(dirname "$1")" && rm -f "$1" && cat > "$1" && chmod "$2" "$1"'
READ = 'if [ -f "$1" ] && [ ! -L "$1" ]; then head -c "$2" "$1"; else echo "it is no regular file" >&2; exit 66; fi'
END_ALL = "kill -9 -1"
"""Spares the container's first process, which waits."""


@cache
def why_not(program: Program) -> str | None:
    """One sentence where the program does not work on this machine: not there, no daemon, no rights."""
    if not shutil.which(program):
        return f"{program} is not installed."
    try:
        said = subprocess.run([program, "info"], capture_output=True, timeout=20)
    except subprocess.TimeoutExpired:
        return f"{program} does not answer."
    if said.returncode:
        return f"{program} does not work here: {said.stderr.decode(errors='replace').strip()[-300:]}"
    return None


@dataclass(eq=False)
class Container(Sandbox):
    program: Program = "docker"

    def __post_init__(self) -> None:
        self.capabilities.refuse_unmet(self.wants, self.program)
        self.name = f"talkback-sandbox-{secrets.token_hex(6)}"
        self._lock = threading.RLock()
        self._ended = False
        if sentence := why_not(self.program):
            raise SandboxUnavailable(sentence)
        said = self._call("run", *self._options(), self.wants.image, "sleep", "infinity", timeout_s=START_S)
        if said.status or said.timed_out:
            self.kill()
            raise SandboxUnavailable(f"{self.program} started no sandbox: {words(said) or 'it took too long'}")

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            networks=frozenset({"no", "public"}),
            memory=True,
            processes=True,
            disk=True,
            mounts=True,
            for_strangers=True,
        )

    def _options(self) -> list[str]:
        wants = self.wants
        mounts = [
            f"--mount=type=bind,source={mount.source.resolve(strict=True)},target={mount.at},readonly"
            for mount in wants.mounts
        ]
        return [
            *("--detach", "--rm", "--init", f"--name={self.name}"),
            f"--network={'none' if wants.network == 'no' else 'bridge'}",
            *("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=1000:1000"),
            *(f"--memory={wants.memory + wants.disk}", f"--memory-swap={wants.memory + wants.disk}"),
            f"--pids-limit={wants.processes + 3}",
            *(f"--tmpfs={at}:rw,exec,size={wants.disk_each},mode=0777" for at in (WORK, *wants.folders)),
            f"--tmpfs=/tmp:rw,exec,size={wants.disk // 4},mode=1777",
            *(f"--tmpfs={at}:rw,size={MIB},mode=0777" for at in wants.scratch),
            *("--workdir", WORK, "--entrypoint=", *mounts),
        ]

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = WORK,
    ) -> Result:
        given = {"PATH": PATH, "HOME": WORK, "LANG": "C.UTF-8", **(env or {})}
        with self._lock, environment_file(given) as handle:
            self._refuse_ended()
            said = self._call(
                *("exec", "--interactive", "--workdir", cwd, f"--env-file=/dev/fd/{handle}", self.name, *argv),
                timeout_s=timeout_s,
                stdin=stdin,
                most=self.MOST_OUTPUT,
                pass_fds=(handle,),
            )
            if said.timed_out:
                self._end_all()
            elif said.status and not self._is_alive():
                self.kill()
                raise SandboxEnded(f"The sandbox ended: {words(said)}")
            return said

    def _end_all(self) -> None:
        self._call("exec", self.name, "sh", "-c", END_ALL)

    def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        said = self._shell(WRITE, os.path.join(WORK, path), f"{mode & 0o777:o}", stdin=content)
        if said.status:
            raise OSError(f"{path}: {words(said)}")

    def get(self, path: str) -> bytes:
        said = self._shell(READ, os.path.join(WORK, path), str(self.MOST_FILE + 1), most=self.MOST_FILE)
        if said.status or said.cut:
            raise FileNotFoundError(f"{path}: {f'longer than {self.MOST_FILE} bytes' if said.cut else words(said)}")
        return said.out

    def read_tree(self, path: str = WORK) -> Tree:
        with self._lock:
            self._refuse_ended()
            self._end_all()
            said = self._shell('cd "$1" && tar -cf - .', path, most=2 * MOST_BYTES)
        if said.status or said.cut:
            raise SandboxEnded(f"The sandbox's files cannot be read: {words(said) or 'they are too many'}")
        return unpack(said.out)

    def _shell(self, script: str, *arguments: str, stdin: bytes = b"", most: int = 4096) -> Result:
        with self._lock:
            self._refuse_ended()
            asked = ("exec", "--interactive", self.name, "sh", "-c", script, "sh", *arguments)
            said = self._call(*asked, stdin=stdin, most=most)
            if said.timed_out:
                self.kill()
                raise SandboxEnded("The sandbox ended: it does not answer.")
            return said

    def _is_alive(self) -> bool:
        return self._call("inspect", "--format={{.State.Running}}", self.name).out.strip() == b"true"

    def _refuse_ended(self) -> None:
        if self._ended:
            raise SandboxEnded("The sandbox has been killed.")

    def _call(
        self,
        *arguments: str,
        timeout_s: float = ASK_S,
        stdin: bytes = b"",
        most: int = 4096,
        pass_fds: Sequence[int] = (),
    ) -> Result:
        return run_bounded(
            [self.program, *arguments],
            timeout_s=timeout_s,
            most_output=most,
            env=os.environ,  # the client's login and plug-ins; nothing of it goes inside
            stdin=stdin,
            pass_fds=pass_fds,
        )

    def kill(self) -> None:
        self._ended = True
        said = self._call("rm", "--force", "--volumes", self.name)
        if said.status and b"no such container" not in said.err.lower():
            raise SandboxEnded(f"{self.program} does not remove {self.name}: {words(said)}")


def words(said: Result) -> str:
    """The end of what a command said of its failure."""
    return said.err.decode(errors="replace").strip()[-300:]


@contextmanager
def environment_file(given: Mapping[str, str]) -> Iterator[int]:
    """A pipe to be read as a file of NAME=value. Arguments are seen by every user of the host, and a file stays."""
    lines = [f"{name}={value}" for name, value in given.items()]
    text = "\n".join(lines).encode()
    if len(text) > 60_000 or any("\n" in line or "\0" in line for line in lines):
        raise SandboxRefused("Variables for a container are single lines, and 60,000 bytes in all.")
    read, write = os.pipe()
    os.write(write, text)
    os.close(write)
    try:
        yield read
    finally:
        os.close(read)


def unpack(archive: bytes) -> Tree:
    """The regular files and empty folders of a tar that came out of a sandbox. Links, devices and paths that lead out
    are left out."""
    files: dict[str, File] = {}
    left_out: list[str] = []
    folders: set[str] = set()
    budget = MOST_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            for member in opened:
                place = PurePosixPath(member.name)
                name = str(place)
                if member.isdir():
                    if name != "." and not place.is_absolute() and ".." not in place.parts:
                        folders.add(name)
                    continue
                content = opened.extractfile(member) if member.isreg() else None
                budget -= member.size if content else 0
                if (
                    content is None
                    or place.is_absolute()
                    or ".." in place.parts
                    or budget < 0
                    or len(files) >= MOST_FILES
                ):
                    left_out.append(name)
                else:
                    files[name] = File(content.read(), member.mode & 0o777)
        filled = {str(parent) for name in (*files, *left_out, *folders) for parent in PurePosixPath(name).parents}
        return Tree(files, tuple(left_out), tuple(sorted(folders - filled)))
    except (tarfile.TarError, ValueError, OSError, EOFError) as error:
        raise SandboxEnded(f"The sandbox's files cannot be read: {error}") from error
