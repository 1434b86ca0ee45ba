"""What a world offers to another's harness: a room to work in, and an outcome that is made of what was left there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from environments.sandboxes.sandbox import MIB, Mount, Result, Wants
from environments.sandboxes.trees import Tree
from environments.worlds.base import Attempt, Task, World

TASK_FILE = "/dev/shm/task.md"  # noqa: S108 - a place inside a sandbox, not the host's
"""Where a harness finds its task in the sandbox. It is no part of the work."""
MEMORY = 1024 * MIB
PROCESSES = 64
DISK = 64 * MIB
"""What a harness may use on top of what the task gives, disk in each folder that is written: mini-swe-agent takes 300
MiB of memory, OpenClaw keeps 36 MiB below /tmp."""


@dataclass(frozen=True)
class Guest:
    """What a harness brings into a room."""

    mounts: tuple[Mount, ...]

    def widen(self, wants: Wants) -> Wants:
        """The task's wants with room for the harness beside it."""
        return replace(
            wants,
            mounts=(*wants.mounts, *self.mounts),
            memory=wants.memory + MEMORY,
            processes=wants.processes + PROCESSES,
            disk=wants.disk + DISK * (1 + len(wants.folders)),
        )


class HostingAttempt(Attempt):
    """An attempt in whose room a harness is run instead of our tool loop."""

    limit_s: float
    """The task's own time."""

    @property
    @abstractmethod
    def instruction(self) -> str:
        """What is to be done now."""

    @abstractmethod
    def enter(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float) -> Result:
        """Run a command where the task's work lies, with the instruction in TASK_FILE. All of it is killed after
        `timeout_s`. A room that the command ended itself is the agent's failure, and no error."""

    @abstractmethod
    def lend(self) -> Tree:
        """A copy of the task's working folder, for a harness that runs elsewhere. Raises SandboxEnded."""

    @abstractmethod
    def take_back(self, work: Tree) -> None:
        """Have the working folder be this. Raises SandboxEnded."""

    @abstractmethod
    def go_on(self) -> bool:
        """The harness has ended: whether the task has a further step, with an instruction of its own."""


class Hosting(World):
    """A world whose outcome needs no call of its own tools."""

    @abstractmethod
    def host(self, task: Task, seed: int, guest: Guest) -> HostingAttempt:
        """Begin an attempt for a harness. Raises what `open` raises."""
