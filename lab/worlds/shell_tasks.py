"""Shell tasks of one or two steps, made by rule: files are copied, renamed and deleted, folders are made.

They are Harbor task folders: the world harbor plays them in its sandboxes, with its verifier.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from environments.worlds.base import Split
from environments.worlds.harbor.world import Harbor
from lab.worlds.small_model import NAMES

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


def write(folder: Path) -> Path:
    """Write all tasks of both splits, in `train` and `heldout`, each once; an older folder is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    for split, names in OF_SPLIT.items():
        tasks: dict[str, ShellTask] = {}
        chance = random.Random(f"shell {split}")
        while len(tasks) < MANY[split]:
            task = draw(names, chance)
            tasks.setdefault(task.instruction, task)
        for number, task in enumerate(tasks.values()):
            _write_task(folder / split / f"{split}-{number}", task)
    return folder


def _write_task(place: Path, task: ShellTask) -> None:
    checks = "\n".join(f"check '{chore.check}'" for chore in task.chores)
    files = {
        "task.toml": TOML,
        "instruction.md": task.instruction,
        "solution/solve.sh": "#!/bin/bash\nset -e\n" + "\n".join(chore.command for chore in task.chores) + "\n",
        "tests/test.sh": TEST.format(checks=f"{checks}\ncheck '[ \"$(cat {task.bystander})\" = {task.bystander} ]'"),
        "environment/Dockerfile": "FROM debian:12\nWORKDIR /app\nCOPY files/ /app/\n",
        **{f"environment/files/{name}": f"{name}\n" for name in task.files},
    }
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def shell_world(cache: Path) -> Harbor:
    """The world harbor over these tasks, which are written to a folder in `cache`."""
    world = Harbor(write(cache / "shell-tasks"))
    world.horizon = HORIZON
    return world
