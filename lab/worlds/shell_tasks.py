"""Shell tasks of one or two steps, made by rule: files are copied, renamed and deleted, folders are made.

They are Harbor task folders: the world harbor plays them in its sandboxes, with its verifier.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from environments.worlds.base import Split
from environments.worlds.harbor.world import Harbor
from lab.worlds.small_model import NAMES
from lab.worlds.task_folders import write_splits

OF_SPLIT: Mapping[Split, tuple[str, ...]] = {"train": NAMES[:24], "heldout": NAMES[24:36]}
"""No file's name is in both."""
SAYS = {"rm": "Delete {}.", "cp": "Copy {} to {}.", "mv": "Rename {} to {}.", "mkdir": "Make the folder {}."}
"""What is asked for, by the command that does it."""
MANY: Mapping[Split, int] = {"train": 160, "heldout": 200}
"""Tasks of a split."""
HORIZON = 5
TOML = """\
schema_version = "1.4"

[agent]
timeout_sec = 60.0

[environment]
network_mode = "no-network"
memory_mb = 64
storage_mb = 4

[verifier]
timeout_sec = 60.0
"""
TEST = """\
#!/bin/bash
# Each check is a line; the reward is the share that passed.
total=0 passed=0
check() {{ total=$((total + 1)); if eval "$1" > /dev/null 2>&1; then passed=$((passed + 1)); fi; }}
{checks}
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
"""


@dataclass(frozen=True)
class Chore:
    """One command, and what it is done to."""

    verb: str
    names: tuple[str, ...]

    @property
    def command(self) -> str:
        return " ".join((self.verb, *self.names))

    @property
    def said(self) -> str:
        return SAYS[self.verb].format(*self.names)

    @property
    def found(self) -> tuple[str, ...]:
        """Files that are there before."""
        return () if self.verb == "mkdir" else self.names[:1]

    @property
    def check(self) -> str:
        """Whether it was done, as a test of bash: each file holds its first name."""
        name, to = self.names[0], self.names[-1]
        gone, holds = f"[ ! -e {name} ]", f'[ "$(cat {to})" = {name} ]'
        return {"rm": gone, "mkdir": f"[ -d {name} ]", "cp": f"{holds} && [ -f {name} ]", "mv": f"{holds} && {gone}"}[
            self.verb
        ]


@dataclass(frozen=True)
class ShellTask:
    chores: tuple[Chore, ...]
    bystander: str
    """A file that is not spoken of."""

    @property
    def files(self) -> tuple[str, ...]:
        """Those that are there; each holds its own name."""
        return (*(name for chore in self.chores for name in chore.found), self.bystander)

    @property
    def instruction(self) -> str:
        return " ".join(chore.said for chore in self.chores)


def draw(names: Sequence[str], chance: random.Random) -> ShellTask:
    """One task of one or two chores that have no name in common."""
    free = iter(chance.sample(list(names), 5))
    verbs = chance.choices(tuple(SAYS), k=chance.choice((1, 2)))
    chores = tuple(Chore(verb, tuple(next(free) for _ in range(SAYS[verb].count("{}")))) for verb in verbs)
    return ShellTask(chores, next(free))


def files_of(id: str, task: ShellTask) -> dict[str, str]:
    """A task's folder, in Harbor's form: each text by its path."""
    checks = "\n".join(f"check '{chore.check}'" for chore in task.chores)
    return {
        "task.toml": TOML,
        "instruction.md": task.instruction,
        "solution/solve.sh": "#!/bin/bash\nset -e\n" + "\n".join(chore.command for chore in task.chores) + "\n",
        "tests/test.sh": TEST.format(checks=f"{checks}\ncheck '[ \"$(cat {task.bystander})\" = {task.bystander} ]'"),
        "environment/Dockerfile": "FROM debian:12\nWORKDIR /app\nCOPY files/ /app/\n",
        **{f"environment/files/{name}": f"{name}\n" for name in task.files},
    }


def write(folder: Path) -> Path:
    """Write all tasks of both splits, in `train` and `heldout`."""
    return write_splits(folder, MANY, OF_SPLIT, draw, seed="shell", said=lambda task: task.instruction, files=files_of)


def shell_world(cache: Path) -> Harbor:
    """The world harbor over these tasks, which are written to a folder in `cache`."""
    world = Harbor(write(cache / "shell-tasks"))
    world.horizon = HORIZON
    return world
