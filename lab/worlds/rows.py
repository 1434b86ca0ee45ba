"""The worlds that small models learn to play. One more is a row: its tasks, an expert's traces, and its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from environments.worlds import till
from environments.worlds.base import World
from environments.worlds.browser import world as browser
from environments.worlds.harbor import world as harbor
from environments.worlds.repo import world as repo
from lab.worlds import bug_tasks, click_pages, shell_tasks, tiny_model
from lab.worlds.shell_traces import shell_traces
from lab.worlds.tiny_model import Words
from lab.worlds.traces import Teacher, traces
from lab.worlds.warm_start import Plan

NAMES_OF_TASKS = tuple(name for names in shell_tasks.OF_SPLIT.values() for name in names)
"""Of files and buttons, of both splits."""
LARGEST = 199
"""The largest number that is a word of till."""


SHORT = replace(tiny_model.PLAN, traces=6000)
"""The warm start of worlds whose attempts are a step or two."""


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
            *NAMES_OF_TASKS,
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
    plan=SHORT,
)
"""What a command is worth no rule of this world says: the outcome alone teaches."""

REPO = Row(
    "repo",
    bug_tasks.bug_world,
    bug_tasks.bug_traces,
    Words(
        words=(
            *(tool["function"]["name"] for tool in repo.TOOLS),
            *["In", "the", "should", "be", "a", "sed", "-i"],
            *bug_tasks.COMES_TO,
            *(f"s/{found}/{wanted}/" for found, wanted in permutations(bug_tasks.COMES_TO, 2)),
            *(f"{name}.py" for name in NAMES_OF_TASKS),
        ),
        phrases={
            repo.SYSTEM: "mend",
            "Exit code: 0": "fine",
            "Exit code: 1": "failed",
            "Exit code: 2": "failed",
            "Handed in": "done",
        },
        unread=r"Output:[\s\S]*?(?=Exit code: )",
    ),
    arms=("outcome",),
    plan=SHORT,
)
"""Its bugs are of one line."""

BROWSER = Row(
    "browser",
    click_pages.click_world,
    click_pages.click_traces,
    Words(
        words=(
            *(tool["function"]["name"] for tool in browser.TOOLS),
            *click_pages.NUMBERS,
            *(f"{number}{name}" for number in click_pages.NUMBERS for name in ("textbox", *click_pages.BUTTONS)),
            *click_pages.BUTTONS,
            *NAMES_OF_TASKS,
            *["Write", "and", "it", "focused"],
        ),
        phrases={
            browser.SYSTEM: "web",
            "The page has ended": "ended",
            "The page did not change": "unchanged",
            "The page:": "page",
        },
        unread=r'value=|[\["]',
        joins=r'\] (?:button ")?',
    ),
    arms=("outcome",),
    plan=SHORT,
)
"""An element and its number are one word: to read a number beside a name from a list takes a larger model."""

ROWS = {row.name: row for row in (TILL, TERMINAL, REPO, BROWSER)}
