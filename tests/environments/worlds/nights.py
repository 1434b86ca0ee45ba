"""A stack on which a night of till is played: real processes, and an engine that follows a script."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.stack import wait_for
from benchmarks.worlds.played_stack import PlayedStack
from environments.worlds.till import Till
from tests.environments.worlds.conftest import script_of

SEEDS = (1, 2, 3, 4)
GROUPS, ATTEMPTS = 16, 8


class Till128(PlayedStack):
    """A stack whose engine solves the tasks of SEEDS."""

    def __init__(self, data_dir: Path, model: Path) -> None:
        prices = {task.id: task.data["prices"] for seed in SEEDS for task in Till().tasks("train", GROUPS, seed)}
        super().__init__(data_dir, model, script_of(prices))

    def night(self, *more: str, seed: int, parallel: int = 16) -> subprocess.Popen[str]:
        """Start a player of one seed's tasks."""
        plan = {"groups": GROUPS, "attempts": ATTEMPTS, "parallel": parallel, "seed": seed, "max-tokens": 96}
        return self.player("till", *(word for name, value in plan.items() for word in (f"--{name}", str(value))), *more)

    def wait_for_actions(self, seed: int, number: int) -> None:
        wait_for(f"{number} actions", lambda: self.actions(seed) >= number)

    def actions(self, seed: int) -> int:
        sql = """SELECT count(*) FROM episodes_action a JOIN episodes_episode e ON e.id = a.episode_id
                 JOIN episodes_group g ON g.id = e.group_id WHERE g.name LIKE ?"""
        return int(self.rows(sql, f"seed-{seed}/%")[0][0])

    def endings(self, seed: int) -> dict[str, int]:
        sql = """SELECT e.ending, count(*) FROM episodes_episode e JOIN episodes_group g ON g.id = e.group_id
                 WHERE g.name LIKE ? GROUP BY e.ending"""
        return dict(self.rows(sql, f"seed-{seed}/%"))
