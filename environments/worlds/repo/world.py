"""The world `repo`: a bug report, a checkout without history, a shell, and hidden tests."""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from core.visible import escape_hidden
from environments.errors import SandboxEnded, SandboxUnavailable, Unplayable
from environments.sandboxes.choosing import Kind, open_sandbox
from environments.sandboxes.sandbox import WORK, Mount, Result, Wants
from environments.sandboxes.shell import Shell, shown
from environments.sandboxes.trees import Tree
from environments.worlds.base import Call, Outcome, Seen, Split, Task, WorldFailed
from environments.worlds.checks import Checked
from environments.worlds.harnesses.hosting import TASK_FILE, Guest, Hosting, HostingAttempt
from environments.worlds.repo.checking import Prepared, checked
from environments.worlds.repo.instances import Instance, read_lines, read_own
from environments.worlds.repo.mirrors import SETTING
from environments.worlds.repo.submissions import Submission
from environments.worlds.repo.verifying import Verdict, mounted_packages
from environments.worlds.tools import text_tool

OWN = Path(__file__).parent / "tasks"
"""Repositories that were made here."""
CHECKOUT = f"{WORK}/repo"
COMMAND_S = 30.0
LIMIT_S = 1800.0
"""Of a harness."""
MOST_SHOWN = 10_000
"""Bytes of output that an agent reads of one command."""
MOST_NAME, MOST_NOTED, MOST_CHECKS = 160, 8, 40
"""Characters of a check's name, changes that are said not to be taken, and tests that are named in an outcome."""
MOST_KEPT = 128
"""Tasks that are kept prepared."""
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What mini-swe-agent's agents print to hand in."""
BLOCK = re.compile(r"^```(?:bash|sh|mswea_bash_command)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
TOOLS = (
    text_tool("bash", "Run a command in the repository. Folder and variables last.", command="What bash is to run."),
    text_tool("submit", "Hand in the files as they are. Hidden tests run then."),
)
SYSTEM = f"""You mend a bug in a repository, which lies in {CHECKOUT}. Each reply has one command: a call of the tool \
bash, or one block

```bash
your command
```

When the bug is mended, call submit, or run: echo {SUBMIT}
Change the source alone: changes to tests, to git's files and to what Python or pytest runs unasked are not taken."""


class Repo(Hosting):
    name, horizon, parallel = "repo", 20, 64

    def __init__(
        self,
        file: Path | str | None = None,
        mirrors: Path | str | None = None,
        kind: Kind | None = None,
        command_s: float = COMMAND_S,
    ) -> None:
        """`file` has a task a line, or is a folder in the form of our own twelve; left out: these. `mirrors` is the
        folder of repositories; left out: what REPO_MIRRORS names, else `mirrors` beside the file. Raises OSError."""
        self.kind, self.command_s = kind, command_s
        self.source = Path(file or OWN)
        self._said: list[str] = []
        self._tasks: dict[str, Instance] = {}
        if self.source.is_dir():
            found: Iterator[Instance | str] = iter(read_own(self.source))
        else:
            folder = mirrors or os.environ.get(SETTING) or self.source.parent / "mirrors"
            found = read_lines(self.source, Path(folder))
        for each in found:
            if isinstance(each, str):
                self._said.append(each)
            else:
                self._tasks[each.id] = each
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._prepared: dict[str, Prepared] = {}

    def tasks(self, split: Split, count: int, seed: int) -> list[Task]:
        """Only tasks that can be played: each is checked first."""
        names = sorted(name for name, task in self._tasks.items() if task.split == split)
        random.Random(f"repo {seed}").shuffle(names)
        found: list[Task] = []
        reasons = list(self._said)
        with ThreadPoolExecutor(2) as threads:
            for start in range(0, len(names), max(2, count)):
                part = names[start : start + max(2, count)]
                for name, reason in zip(part, threads.map(self._why_not, part), strict=True):
                    if reason:
                        reasons.append(reason)
                    else:
                        found.append(Task(self.name, name, split))
                if len(found) >= count:
                    return found[:count]
        said = "".join(f"\n{reason}" for reason in reasons[:20])
        raise Unplayable(f"{self.source} has {len(found)} {split} tasks that can be played, not {count}.{said}")

    def check(self) -> Iterator[Checked]:
        """Check every task, in order; a line that is no task comes with its sentence."""
        yield from (Checked(self.source.name, reason) for reason in self._said)
        with ThreadPoolExecutor(2) as threads:
            yield from threads.map(lambda task: checked(task, self.kind)[0], self._tasks.values())

    def open(self, task: Task, seed: int) -> RepoAttempt:
        return self._begin(task)

    def host(self, task: Task, seed: int, guest: Guest) -> RepoAttempt:
        return self._begin(task, guest)

    def _begin(self, task: Task, guest: Guest | None = None) -> RepoAttempt:
        try:
            return RepoAttempt(self.prepare(task.id), self.kind, self.command_s, guest)
        except Unplayable as error:
            raise WorldFailed(str(error)) from error

    def prepare(self, name: str) -> Prepared:
        """Check a task once, however many attempts at it begin at the same time. Raises Unplayable."""
        if name not in self._tasks:
            raise Unplayable(f"{self.source} has no task {name!r}.")
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            if name not in self._prepared:
                found, prepared = checked(self._tasks[name], self.kind)
                if prepared is None:
                    raise Unplayable(found.reason)
                with self._lock:
                    while len(self._prepared) >= MOST_KEPT:
                        del self._prepared[next(iter(self._prepared))]
                    self._prepared[name] = prepared
                return prepared
            return self._prepared[name]

    def _why_not(self, name: str) -> str:
        try:
            self.prepare(name)
        except Unplayable as error:
            return str(error)
        return ""


class RepoAttempt(HostingAttempt):
    """A checkout in which commands run, until the agent hands it in."""

    tools: Sequence[Mapping[str, Any]] = TOOLS

    limit_s = LIMIT_S

    def __init__(
        self,
        prepared: Prepared,
        kind: Kind | None = None,
        command_s: float = COMMAND_S,
        guest: Guest | None = None,
    ) -> None:
        """Raises SandboxUnavailable, SandboxRefused, Unplayable."""
        self.prepared, self.command_s = prepared, command_s
        self.has_died = False
        self.submission: Submission | None = None
        self.verdict: Verdict | None = None
        packages = mounted_packages()
        wants = Wants(mounts=(*packages, Mount(prepared.checkout, "/base")))
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "/packages", "PAGER": "cat", "GIT_PAGER": "cat"}
        if any(mount.at == "/site" for mount in packages):
            env["PYTHONPATH"] += ":/site"
        self.room = open_sandbox(guest.widen(wants) if guest else wants, kind)
        try:
            said = self.room.run(["cp", "-R", "/base", CHECKOUT], timeout_s=60)
            if said.status:
                raise SandboxUnavailable(f"The checkout cannot be laid out: {said.err.decode(errors='replace')[:300]}")
        except SandboxEnded as error:
            self.room.kill()
            raise SandboxUnavailable(f"A task's room could not be made: {error}") from error
        except BaseException:
            self.room.kill()
            raise
        self.env = env
        self.shell = Shell(self.room, env, CHECKOUT)
        self.opening = (
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": prepared.task.statement},
        )

    def act(self, call: Call) -> Seen:
        given = call.read()
        if call.name == "submit":
            return Seen("Handed in.", is_over=True)
        if call.name != "bash":
            return Seen(f"Error: there is no tool {call.name!r:.50}: there are bash and submit.", -1.0)
        if given is None or set(given) != {"command"} or not isinstance(given["command"], str):
            return Seen("Error: bash takes a command, as text.", -1.0)
        return self._run(given["command"])

    def hear(self, text: str) -> Seen:
        """Run the one block of a reply that calls no tool."""
        blocks = BLOCK.findall(text.replace("\r\n", "\n"))
        if len(blocks) != 1:
            return Seen(f"Write one ```bash block, or call a tool: there are {len(blocks)} blocks.", -1.0)
        return self._run(blocks[0].strip("\n"))

    def _run(self, command: str) -> Seen:
        try:
            result = self.shell.run(command, self.command_s)
        except SandboxEnded:
            self.has_died = True
            return Seen("The shell has ended, and the task with it.", is_over=True)
        if not result.status and result.out.lstrip().split(b"\n", 1)[0].strip() == SUBMIT.encode():
            return Seen("Handed in.", is_over=True)
        return Seen(shown(result, MOST_SHOWN, self.command_s))

    @property
    def instruction(self) -> str:
        return self.prepared.task.statement

    def enter(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float) -> Result:
        self.room.put(TASK_FILE, self.instruction.encode())
        try:
            return self.room.run(argv, timeout_s=timeout_s, env={**self.env, **env}, cwd=CHECKOUT)
        except SandboxEnded as error:
            self.has_died = True
            return Result(137, b"", str(error).encode())

    def lend(self) -> Tree:
        return self.room.read_tree(CHECKOUT)

    def take_back(self, work: Tree) -> None:
        self.room.run(["find", CHECKOUT, "-mindepth", "1", "-delete"], timeout_s=60, cwd="/")
        self.room.write_tree(work, CHECKOUT)

    def go_on(self) -> bool:
        return False

    def outcome(self, *, is_truncated: bool) -> Outcome:
        after = self._take_out()
        if after is None:
            self.verdict = Verdict("failed", 0.0, reason="The agent's sandbox ended before its work was taken out.")
        else:
            self.submission = self.prepared.submit(after)
            self.verdict = self.prepared.examiner.examine(self.submission.files)
        return outcome_of(self.verdict, self.submission, is_truncated=is_truncated)

    def _take_out(self) -> Tree | None:
        """The files, from a room that is dead afterwards; None where the agent ended it itself. What lies in git's
        folder is not asked for: it would count among the files that travel."""
        try:
            if self.has_died:
                return None
            self.room.run(["rm", "-rf", f"{CHECKOUT}/.git"], timeout_s=30)
            return self.room.read_tree(CHECKOUT)
        except SandboxEnded:
            return None
        finally:
            self.room.kill()

    def close(self) -> None:
        self.room.kill()


def outcome_of(verdict: Verdict, submission: Submission | None, *, is_truncated: bool) -> Outcome:
    """2p - 1, with p the share of tests that pass; solved where all do, and the agent was not cut off."""
    if verdict.share is None:
        return Outcome("infra_error", None)
    checks: dict[str, bool | float] = {"share": verdict.share}
    notes = submission.notes if submission else ()
    checks |= {escape_hidden(f"refused: {note}")[:MOST_NAME]: False for note in notes[:MOST_NOTED]}
    if verdict.is_forged:
        checks["forged"] = True
    tests = [*verdict.passed.items()][:MOST_CHECKS]
    checks |= {escape_hidden(test)[:MOST_NAME]: passed for test, passed in tests}
    value = 2 * verdict.share - 1
    if is_truncated:
        return Outcome("truncated", value, checks)
    return Outcome("solved" if verdict.is_solved else "failed", value, checks)
