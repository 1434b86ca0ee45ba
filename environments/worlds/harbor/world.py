"""The world `harbor`: an instruction, a shell that lasts, and tests that the agent never sees."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from environments.errors import SandboxEnded, Unplayable
from environments.sandboxes.choosing import Kind
from environments.sandboxes.sandbox import Result
from environments.sandboxes.shell import Shell, shown
from environments.sandboxes.trees import Tree
from environments.sandboxes.verifier import Score
from environments.worlds.base import Call, Outcome, Seen, Split, Task, WorldFailed, split_of
from environments.worlds.checks import Checked
from environments.worlds.harbor.checking import check_all, checked, find
from environments.worlds.harbor.prepared import Prepared, read
from environments.worlds.harbor.verdicts import outcome_of
from environments.worlds.harnesses.hosting import TASK_FILE, Guest, Hosting, HostingAttempt
from environments.worlds.tools import text_tool

OWN = Path(__file__).parent / "tasks"
"""Tasks that were made here."""
COMMAND_S = 30.0
MOST_SHOWN = 4000
"""Bytes of output that an agent reads of one command."""
MOST_KEPT = 256
"""Tasks that are kept prepared."""


TOOLS = (
    text_tool("bash", "Run a command. Folder and variables last until the next one.", command="What bash is to run."),
    text_tool("done", "Say that the task is done. It is tested then."),
)
SYSTEM = "You work in a Linux shell. Use the tools, one call at a time."


class Harbor(Hosting):
    name, horizon, parallel = "harbor", 10, 128

    def __init__(
        self, folder: Path | str | None = None, kind: Kind | None = None, command_s: float = COMMAND_S
    ) -> None:
        """`folder` holds task folders, or `train` and `heldout` with those; left out: our own."""
        self.folder, self.kind, self.command_s = Path(folder or OWN), kind, command_s
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._prepared: dict[str, Prepared] = {}

    def tasks(self, split: Split, count: int, seed: int) -> list[Task]:
        """Only tasks that can be played: each is checked first, or was before on this machine."""
        places = self._places(split)
        random.Random(f"harbor {seed}").shuffle(places)
        found: dict[str, Task] = {}
        reasons: list[str] = []
        for each in self._checked(split, places, count):
            if isinstance(each, Task):
                found.setdefault(each.id, each)
            else:
                reasons.append(each)
            if len(found) == count:
                return list(found.values())
        said = "".join(f"\n{reason}" for reason in reasons[:20])
        raise Unplayable(f"{self.folder} has {len(found)} {split} tasks that can be played, not {count}.{said}")

    def check(self) -> Iterator[Checked]:
        return check_all(find(self.folder), self.kind)

    def _places(self, split: Split) -> list[Path]:
        """Task folders of a split: of its own folder, else by the hash of their names, one in five held out."""
        if any((self.folder / each).is_dir() for each in ("train", "heldout")):
            own = self.folder / split
            return find(own) if own.is_dir() else []
        return [place for place in find(self.folder) if split_of(place.name) == split]

    def _checked(self, split: Split, places: list[Path], count: int) -> Iterator[Task | str]:
        def one(place: Path) -> Task | str:
            try:
                folder = read(place)
                found, prepared = checked(folder, self.kind)
            except Unplayable as error:
                return str(error)
            if prepared is None:
                return found.reason
            self._keep(folder.digest, prepared)
            return Task(self.name, folder.id, split, {"path": str(place), "digest": folder.digest})

        with ThreadPoolExecutor(4) as threads:
            for start in range(0, len(places), max(4, count)):
                yield from threads.map(one, places[start : start + max(4, count)])

    def open(self, task: Task, seed: int) -> HarborAttempt:
        return self._begin(task)

    def host(self, task: Task, seed: int, guest: Guest) -> HarborAttempt:
        return self._begin(task, guest)

    def _begin(self, task: Task, guest: Guest | None = None) -> HarborAttempt:
        try:
            prepared = self._prepare(task)
            return HarborAttempt(prepared, self.command_s, guest)
        except Unplayable as error:
            raise WorldFailed(str(error)) from error

    def _prepare(self, task: Task) -> Prepared:
        """Prepare a task once, however many attempts at it begin at the same time."""
        digest = str(task.data["digest"])
        with self._lock:
            making = self._making.setdefault(digest, threading.Lock())
        with making:
            if digest not in self._prepared:
                folder = read(Path(task.data["path"]))
                if folder.digest != digest:
                    raise Unplayable(f"{task.data['path']} has changed since the task was drawn.")
                found, prepared = checked(folder, self.kind)
                if prepared is None:
                    raise Unplayable(found.reason)
                self._keep(digest, prepared)
            return self._prepared[digest]

    def _keep(self, digest: str, prepared: Prepared) -> None:
        with self._lock:
            while len(self._prepared) >= MOST_KEPT:
                del self._prepared[next(iter(self._prepared))]
            self._prepared[digest] = prepared


class HarborAttempt(HostingAttempt):
    """A room in which commands run, until the agent says that it is done or its time is up."""

    tools: Sequence[Mapping[str, Any]] = TOOLS

    def __init__(self, prepared: Prepared, command_s: float = COMMAND_S, guest: Guest | None = None) -> None:
        """Raises SandboxUnavailable, Unplayable."""
        self.prepared, self.command_s = prepared, command_s
        self.left_s = self.limit_s = prepared.folder.agent_s
        self.step = 0
        self.scores: list[Score] = []
        self.has_died = False
        self.room = prepared.image.open(wants=guest.widen(prepared.image.wants) if guest else None)
        try:
            self.shell = Shell(self.room, prepared.image.env, prepared.image.workdir)
            prepared.begin_step(self.room, 0)
        except BaseException:
            self.room.kill()
            raise
        self.opening = (
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": prepared.folder.steps[0].instruction},
        )

    def act(self, call: Call) -> Seen:
        given = call.read()
        if call.name == "done":
            return self._finish_step()
        if call.name != "bash":
            return Seen(f"Error: there is no tool {call.name!r:.50}: there are bash and done.", -1.0)
        if given is None or set(given) != {"command"} or not isinstance(given["command"], str):
            return Seen("Error: bash takes a command, as text.", -1.0)
        timeout_s = min(self.command_s, self.left_s)
        start = time.monotonic()
        try:
            result = self.shell.run(given["command"], timeout_s)
        except SandboxEnded:
            self.has_died = True
            return Seen("The shell has ended, and the task with it.", is_over=True)
        self.left_s -= time.monotonic() - start
        text = shown(result, MOST_SHOWN, timeout_s)  # the judge's own rules read its last line
        if self.left_s <= 0:
            return Seen(f"The task's time is up.\n{text}", is_over=True)
        return Seen(text)

    def hear(self, text: str) -> Seen:
        return Seen("Call a tool: bash or done.", -1.0)

    def _finish_step(self) -> Seen:
        """The last step is scored when the agent's room is gone, those before it where the agent has no part."""
        steps = self.prepared.folder.steps
        if self.step + 1 == len(steps):
            return Seen("Done.", is_over=True)
        try:
            score = self.prepared.score(self.step, self.prepared.take(self.room))
        except SandboxEnded:
            self.has_died = True
            return Seen("The shell has ended, and the task with it.", is_over=True)
        self.scores.append(score)
        least = steps[self.step].least
        if score.outcome is None or (least is not None and score.outcome < least):
            return Seen("Done.", is_over=True)
        self.step += 1
        self.prepared.begin_step(self.room, self.step)
        return Seen(f"Done. The next step:\n{steps[self.step].instruction}")

    @property
    def instruction(self) -> str:
        return self.prepared.folder.steps[self.step].instruction

    def enter(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float) -> Result:
        image = self.prepared.image
        self.room.put(TASK_FILE, self.instruction.encode())
        try:
            return self.room.run(argv, timeout_s=timeout_s, env={**image.env, **env}, cwd=image.workdir)
        except SandboxEnded as error:
            self.has_died = True
            return Result(137, b"", str(error).encode())

    def lend(self) -> Tree:
        return self.room.read_tree(self.prepared.image.workdir)

    def take_back(self, work: Tree) -> None:
        place = self.prepared.image.workdir
        self.room.run(["find", place, "-mindepth", "1", "-delete"], timeout_s=60, cwd="/")
        self.room.write_tree(work, place)

    def go_on(self) -> bool:
        return not self.has_died and not self._finish_step().is_over

    def outcome(self, *, is_truncated: bool) -> Outcome:
        if len(self.scores) <= self.step and all(score.outcome is not None for score in self.scores):
            work = self._take_out()
            if work is None:
                self.scores.append(Score("failed", 0.0, "The agent's sandbox ended before its work was taken out."))
            else:
                self.scores.append(self.prepared.score(self.step, work))
        return outcome_of(self.scores, self.prepared.folder, is_truncated=is_truncated)

    def _take_out(self) -> Tree | None:
        """The work, from a room that is dead afterwards; None where the agent ended it itself."""
        try:
            return None if self.has_died else self.prepared.take(self.room)
        except SandboxEnded:
            return None
        finally:
            self.room.kill()

    def close(self) -> None:
        self.room.kill()
