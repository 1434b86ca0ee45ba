"""One attempt by another's harness: start it where the work lies, end it in time, and have the world score what is
left."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from core.errors import TalkbackError
from environments.client import Client
from environments.sandboxes.sandbox import PATH, Mount, Result
from environments.sandboxes.trees import read_folder
from environments.worlds.base import Outcome, WorldFailed
from environments.worlds.harness import LONGEST_CALL_S, Course, Hand
from environments.worlds.harnesses.door import Door
from environments.worlds.harnesses.hosting import TASK_FILE, Guest, HostingAttempt
from environments.worlds.harnesses.processes import run_here
from environments.worlds.width import Room

FORWARDER = (Path(__file__).parent / "forwarder.py").read_text()
DOOR_AT = "/talkback/v1"
FILES_AT = "/harness"
PORT = 8317
"""On the loopback of a sandbox, which is its own."""
MOST_VARIABLE = 100_000
"""Characters of a task that a variable holds: Linux takes 128 KiB."""
MOST_SAID = 300
"""Characters of a harness's last words that are kept."""
BASE_URL, KEY, MODEL = "OPENAI_BASE_URL", "OPENAI_API_KEY", "TALKBACK_MODEL"
TASK, TASK_AT, LIMIT = "TALKBACK_TASK", "TALKBACK_TASK_FILE", "TALKBACK_LIMIT_S"


@dataclass(frozen=True)
class Harness:
    command: str
    """For bash."""
    files: Path | None = None
    """Of the host, seen read-only at FILES_AT where it runs in a sandbox."""
    limit_s: float | None = None
    """None: the task's own time."""
    is_outside: bool = False
    """It runs as this user, with a copy of the task's working folder: for one's own harnesses alone."""


@dataclass(frozen=True)
class Visit:
    harness: Harness
    agent: Client
    """With the episode's key."""
    key: str
    """That key. The player's is nowhere near."""
    model: str
    replies: Room

    async def play(self, begin: Callable[[Guest], HostingAttempt], hand: Hand, course: Course) -> tuple[Outcome, str]:
        """Play an attempt to its outcome, and what cut it off. `course` is kept as it goes. Raises what a world
        raises, and WorldFailed where the harness never called the model, or Talkback did not answer it."""
        door = Door(self.agent, self.replies)
        held: list[HostingAttempt] = []
        async with door.socket() as socket:
            try:
                await hand.do(lambda: held.append(begin(self._guest(socket))))
                (attempt,) = held
                left_s = self.harness.limit_s or attempt.limit_s
                while True:
                    start = monotonic()
                    ended = await self._run(attempt, hand, door, left_s)
                    left_s -= monotonic() - start
                    _note(course, door, ended)
                    cut = "context" if door.is_full else "horizon" if ended.timed_out or left_s <= 0 else ""
                    if cut or not await hand.do(attempt.go_on):
                        return await hand.do(attempt.outcome, is_truncated=bool(cut)), cut
            finally:
                for attempt in held:
                    await hand.do(attempt.close)

    def _guest(self, socket: Path) -> Guest:
        files = (Mount(self.harness.files, FILES_AT),) if self.harness.files else ()
        return Guest((Mount(socket, DOOR_AT), *files))

    def _told(self, attempt: HostingAttempt, base_url: str, task_file: str, left_s: float) -> dict[str, str]:
        """A harness's variables."""
        told = {BASE_URL: base_url, KEY: self.key, MODEL: self.model, TASK_AT: task_file, LIMIT: f"{left_s:.0f}"}
        task = attempt.instruction
        return told if len(task) > MOST_VARIABLE or "\0" in task else told | {TASK: task}

    async def _run(self, attempt: HostingAttempt, hand: Hand, door: Door, left_s: float) -> Result:
        if self.harness.is_outside:
            return await self._run_outside(attempt, hand, door, left_s)
        env = self._told(attempt, f"http://127.0.0.1:{PORT}/v1", TASK_FILE, left_s)
        forward = ["python3", "-I", "-S", "-c", FORWARDER, DOOR_AT, str(PORT)]
        argv = [*forward, "bash", "--noprofile", "--norc", "-c", self.harness.command]
        running = asyncio.ensure_future(
            hand.do_within(left_s + LONGEST_CALL_S, attempt.enter, argv, env=env, timeout_s=left_s)
        )
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:  # what is called off need not wait for the harness's time
            await asyncio.to_thread(attempt.close)
            with suppress(TalkbackError, OSError):
                await running
            raise

    async def _run_outside(self, attempt: HostingAttempt, hand: Hand, door: Door, left_s: float) -> Result:
        with tempfile.TemporaryDirectory(prefix="talkback-harness-", ignore_cleanup_errors=True) as folder:
            place, task = Path(folder) / "work", Path(folder) / "task.md"
            lent = await hand.do(attempt.lend)
            await asyncio.to_thread(lent.write, place)
            task.write_text(attempt.instruction)
            own = {"PATH": os.environ.get("PATH", PATH), "HOME": folder, "LANG": "C.UTF-8"}
            async with door.port() as port:
                env = self._told(attempt, f"http://127.0.0.1:{port}/v1", str(task), left_s)
                ended = await run_here(self.harness.command, cwd=place, env={**own, **env}, timeout_s=left_s)
            try:
                work = await asyncio.to_thread(read_folder, place)
            except (OSError, ValueError) as error:
                return Result(ended.status or 1, b"", f"Its work cannot be read: {error}".encode(), ended.timed_out)
            await hand.do(attempt.take_back, work)
            return ended


def _note(course: Course, door: Door, ended: Result) -> None:
    """Keep how a harness did. Raises WorldFailed where what is left says nothing of the model."""
    course.steps = door.steps
    course.prompt_tokens, course.completion_tokens = door.prompt_tokens, door.completion_tokens
    course.exit_status = ended.status
    words = (ended.err.strip() or ended.out.strip()).decode(errors="replace").replace("\0", "")[-MOST_SAID:]
    how = "ran out of its time" if ended.timed_out else f"ended with status {ended.status}"
    said = f" It said: {words}" if words and ended.status else ""
    if door.fault:
        raise WorldFailed(f"{door.fault} The harness {how}.")
    if not door.steps and not door.is_full:
        never = "got no reply from the model" if door.asked else "never called the model"
        raise WorldFailed(f"The harness {never}, and {how}.{said}")
    course.note = f"The harness {how}.{said}" if ended.status or ended.timed_out else ""
