"""The worlds that are played side by side. One more is a function that solves its tasks, and a row."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from benchmarks.worlds.ways import called
from environments.worlds.base import Message, Task
from environments.worlds.harbor.prepared import read
from environments.worlds.repo.world import OWN

Solves = Callable[[Task, Sequence[Message]], Sequence[str]]
"""(task, what opens an attempt at it) → replies that do it, one call each."""


@dataclass(frozen=True)
class Row:
    kind: str
    world: str
    """As `--world` names it."""
    attempts: int
    """Played at once."""
    solves: Solves
    tasks: int = 16
    """Different ones."""


def keep_till(task: Task, opening: Sequence[Message]) -> list[str]:
    """Ask for each price, add them up, answer."""
    prices = task.data["prices"]
    sums = list(accumulate(prices.values()))
    adds = [called("add", a=one, b=other - one) for one, other in pairwise(sums)]
    return [*(called("price", item=item) for item in prices), *adds, called("answer", value=sums[-1])]


def compute(task: Task, opening: Sequence[Message]) -> list[str]:
    """Run a program that computes the greatest common divisor, and answer."""
    numbers = ", ".join(re.findall(r"\d+", task.data["question"]))
    program = f"import math\nprint(math.gcd({numbers}))"
    return [called("python", code=program), called("answer", value=task.data["answer"])]


def run_oracle(task: Task, opening: Sequence[Message]) -> list[str]:
    """Look around, run what the task's oracle runs, look again, and say that it is done."""
    solve = read(Path(task.data["path"])).steps[0].solution.files["solve.sh"].content.decode()
    commands = ["ls -la", solve.partition("set -e\n")[2], "ls"]
    return [*(called("bash", command=command) for command in commands), called("done")]


def fill_in(task: Task, opening: Sequence[Message]) -> list[str]:
    """Type what the page's goal has in quotes into its field, and press its button."""
    goal, _, page = str(opening[-1]["content"]).partition("\n\nThe page:\n")
    numbers = {kind: int(number) for number, kind in re.findall(r"^\[(\d+)\] (textbox|button)", page, re.M)}
    text = re.search(r'"(.*)"', goal)
    assert text, goal
    return [called("type", element=numbers["textbox"], text=text[1]), called("click", element=numbers["button"])]


def mend(task: Task, opening: Sequence[Message]) -> list[str]:
    """Look at the files, write them as the bug's own remedy has them, and hand them in."""
    gold = OWN / task.split / task.id / "gold"
    files = [(file.relative_to(gold), file.read_text()) for file in sorted(gold.rglob("*.py"))]
    writes = [f"cat > {shlex.quote(str(name))} <<'END'\n{text}END" for name, text in files]
    return [*(called("bash", command=command) for command in ("ls -R", *writes)), called("submit")]


ROWS = {
    row.kind: row
    for row in (
        Row("terminal", "harbor", 128, run_oracle),
        Row("till", "till", 32, keep_till),
        Row("repo", "repo", 64, mend, tasks=8),
        Row("browser", "browser:enter-text", 64, fill_in),
        Row("interpreter", "interpreter:reasoning-gym/gcd", 32, compute),
    )
}
