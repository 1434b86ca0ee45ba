"""Play attempts of each world side by side, with real processes and a scripted engine, and say what that costs.

    python -m benchmarks.worlds_parallel [--world NAME ...] [--json]

The player is the command that a user runs, before Redis, the web process and an engine that answers what a script
says: the actions are real ones, and no model decides them. Memory is that of the player and of all that it started.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.scripted_stack import wide
from benchmarks.tiny import write_tiny_model
from benchmarks.worlds import counted
from benchmarks.worlds.played_stack import PlayedStack
from benchmarks.worlds.process_trees import Memory, adopt_orphans, ended_s, used_s
from benchmarks.worlds.rows import ROWS, Row
from benchmarks.worlds.ways import way
from core import pipes
from core.errors import TalkbackError
from environments.worlds.base import Task, World
from environments.worlds.choosing import open_world
from environments.worlds.played import COUNT

SEED = 1
PLAY_S = 900
"""How long a row may take."""
MAX_TOKENS = 4096
"""Of a reply: a byte may be a token here, and an oracle's lines are long."""


@dataclass(frozen=True)
class Found:
    """What a row came to."""

    kind: str
    attempts: int
    solved: int
    lost: int
    """Attempts that came to nothing that counts."""
    endings: dict[str, int]
    why: str
    """Why the first that was lost is void; empty where none is."""
    claimed: int
    """Actions, by Talkback's rows."""
    done: int
    """Actions, by the world's own count."""
    once: bool
    """The same ones, and none of them twice."""
    took_s: float
    a_minute: float
    processor_s: dict[str, float]
    """The player's with all that it started, and the others'."""
    a_processor_minute: float
    memory_mb: float
    load: float
    """The host's (1 minute), right after."""


def measure(row: Row, folder: Path) -> Found:
    """Play one row on a stack of its own, with its data in `folder`. Raises Unplayable, AssertionError."""
    model = wide(write_tiny_model(folder / "tiny"), folder / "model")
    world = open_world(row.world)
    tasks = world.tasks("train", row.tasks, SEED)
    stack = PlayedStack(folder / "data", model, script(row, world, tasks))
    try:
        stack.open()
        return _play(stack, row, folder / "done")
    finally:
        stack.stop()


def script(row: Row, world: World, tasks: Iterable[Task]) -> list[dict[str, Any]]:
    """Lines that lead through each of the tasks, by what an attempt at it opens with."""
    ways: dict[str, Sequence[str]] = {}
    for task in tasks:
        with world.open(task, 0) as attempt:
            asks, replies = str(attempt.opening[-1]["content"]), row.solves(task, attempt.opening)
            assert ways.setdefault(asks, replies) == replies, f"two tasks open alike and want other replies: {task.id}"
    return [line for asks, replies in ways.items() for line in way(asks, replies)]


def _play(stack: PlayedStack, row: Row, done: Path) -> Found:
    plan = {"groups": row.tasks, "attempts": -(-row.attempts // row.tasks), "parallel": row.attempts, "seed": SEED}
    said = [word for name, value in plan.items() for word in (f"--{name}", str(value))]
    others = {name: used_s(process.pid) for name, process in stack.running.items()}
    began, before = time.perf_counter(), ended_s()
    player = stack.player(
        counted.NAME, *said, "--max-tokens", str(MAX_TOKENS), **{counted.WORLD: row.world, counted.DONE: str(done)}
    )
    with Memory(player.pid) as memory:
        out, err = player.communicate(timeout=PLAY_S)
    took_s = time.perf_counter() - began
    assert player.returncode == 0, err
    used = {"player": ended_s() - before}
    used |= {name: used_s(process.pid) - others[name] for name, process in stack.running.items()}
    played = [json.loads(line) for line in out.splitlines()]
    counts = [one for one in played if one["status"] in COUNT]
    claimed = [call for (call,) in stack.rows("SELECT call FROM episodes_action")]
    acted = done.read_text().split()
    return Found(
        row.kind,
        plan["groups"] * plan["attempts"],
        sum(one["status"] == "solved" for one in played),
        plan["groups"] * plan["attempts"] - len({(one["task"], one["attempt"]) for one in counts}),
        dict(Counter(one["status"] for one in played)),
        next((one["reason"] or one["status"] for one in played if one["status"] not in COUNT), ""),
        len(claimed),
        len(acted),
        sorted(claimed) == sorted(set(acted)) == sorted(acted),
        took_s,
        60 * len(counts) / took_s,
        {name: round(seconds, 1) for name, seconds in used.items()},
        60 * len(counts) / sum(used.values()),
        memory.most / 2**20,
        os.getloadavg()[0],
    )


HEADING = (
    "| world | attempts | lost | solved | actions claimed, done once | a minute | a processor minute | memory, MiB |"
)


def table_row(found: Found) -> str:
    """A row of docs/reference/benchmarks.md."""
    once = f"{found.claimed}, {found.done}" if found.once else f"{found.claimed}, {found.done}: NOT THE SAME"
    cells = (found.kind, found.attempts, found.lost, found.solved, once)
    figures = (found.a_minute, found.a_processor_minute, found.memory_mb)
    return f"| {' | '.join([*map(str, cells), *(f'{figure:.0f}' for figure in figures)])} |"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", nargs="+", choices=ROWS, default=list(ROWS), help="left out: all")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args(arguments)
    failed = 0
    adopt_orphans()
    if not said.json:
        print(f"{HEADING}\n|{'---|' * (HEADING.count('|') - 1)}", flush=True)
    for kind in said.world:
        try:
            with tempfile.TemporaryDirectory(prefix="talkback-worlds-") as folder:
                found = measure(ROWS[kind], Path(folder))
        except TalkbackError as error:
            print(f"{kind}: {error}", file=sys.stderr)
            failed += 1
            continue
        failed += found.lost > 0 or not found.once
        if said.json:
            print(json.dumps(asdict(found)), flush=True)
        else:
            used = ", ".join(f"{name} {seconds:.0f}" for name, seconds in found.processor_s.items() if seconds >= 0.5)
            print(table_row(found), flush=True)
            if found.why:
                print(f"{kind}: lost: {found.why}", file=sys.stderr)
            print(f"{kind}: {found.took_s:.0f} s; processor seconds: {used}; load {found.load:.1f}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    pipes.end_with_reader()
    sys.exit(main(sys.argv[1:]))
