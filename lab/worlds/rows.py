"""The worlds that small models learn to play. One more is a row: its tasks, an expert's traces, and its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from environments.worlds import till
from environments.worlds.base import World
from environments.worlds.harbor import world as harbor
from lab.worlds import shell_tasks, tiny_model
from lab.worlds.shell_traces import shell_traces
from lab.worlds.tiny_model import Words
from lab.worlds.traces import Teacher, traces
from lab.worlds.warm_start import Plan

LARGEST = 199
"""The largest number that is a word of till."""


@dataclass(frozen=True)
class Row:
    name: str
    """As `--world` says it."""
    open: Callable[[Path], World]
    """Make the world; it may write its tasks to the folder that is given."""
    teacher: Teacher
    """Of the tiny model."""
    words: Words
    arms: tuple[str, ...]
    """That are compared where none are named."""
    plan: Plan = tiny_model.PLAN
    """The tiny model's warm start."""

    def tiny(self, cache: Path, *, told: Callable[[str], None] = print) -> Path:
        """Return the folder of the tiny model that has had its warm start here."""
        return tiny_model.tiny_model(cache, self.name, self.words, self.teacher, plan=self.plan, told=told)


TILL = Row(
    "till",
    lambda folder: till.Till(),
    traces,
    Words(
        words=(
            *map(str, range(LARGEST + 1)),
            *(tool["function"]["name"] for tool in till.TOOLS),
            *(item for items in till.ITEMS.values() for item in items),
        ),
        phrases={
            till.SYSTEM: "till",
            "What do these cost together": "together",
            "Error: that is not on the list": "unlisted",
            "Call a tool: price, add or answer": "uncalled",
            "Done": "done",
        },
    ),
    arms=("outcome", "index"),
)
"""Its tiny model solves 0.07 of held-out tasks, and 0.53 of its traces solve. Of traces without a mistake it takes a
third of the time to 0.98."""

TERMINAL = Row(
    "terminal",
    shell_tasks.shell_world,
    shell_traces,
    Words(
        words=(
            *(tool["function"]["name"] for tool in harbor.TOOLS),
            *shell_tasks.SAYS,
            *sorted({word for said in shell_tasks.SAYS.values() for word in said.replace("{}", "").strip(".").split()}),
            *(name for names in shell_tasks.OF_SPLIT.values() for name in names),
        ),
        phrases={
            harbor.SYSTEM: "shell",
            "Exit code: 0": "fine",
            "Exit code: 1": "failed",
            "Call a tool: bash or done": "uncalled",
            "Done": "done",
        },
        unread=r"Output:[\s\S]*?(?=Exit code: )",
    ),
    arms=("outcome",),
    plan=Plan(traces=6000, traces_a_step=12, rank=None, lr=3e-3, warm_up=30, micro_batch=12, at_once=2048),
)
"""What a command is worth no rule of this world says: the outcome alone teaches."""

ROWS = {row.name: row for row in (TILL, TERMINAL)}
