"""The world harbor: attempts side by side with scripted actions, and what they cost.

    python -m benchmarks.terminal_world [--json] [--parallel 128] [--attempts 128]

No model is asked. Each attempt opens one of our own tasks, runs the lines of its oracle and two commands more, says
that it is done, and is scored; all share a queue of `--parallel` threads. Memory is that of this process and of all
that it started, at its most: proportional (PSS), so what sandboxes share is counted once.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from core import pipes
from core.errors import TalkbackError
from environments.worlds.base import Call, Task
from environments.worlds.harbor.prepared import read
from environments.worlds.harbor.world import Harbor

TASKS = 16
"""Different tasks that are played."""


@dataclass(frozen=True)
class Seen:
    attempts: int
    parallel: int
    endings: dict[str, int]
    took_s: float
    a_minute: float
    most_memory_mb: float
    load: float
    """The host's load (1 minute) right after."""


def measure(parallel: int, attempts: int) -> Seen:
    world = Harbor(kind="bubblewrap")
    tasks = world.tasks("train", TASKS, 1)
    queue = [tasks[number % len(tasks)] for number in range(attempts)]
    with Memory() as memory:
        start = time.perf_counter()
        with ThreadPoolExecutor(parallel) as threads:
            endings = Counter(threads.map(lambda task: play(world, task), queue))
        took_s = time.perf_counter() - start
    assert sum(endings.values()) == attempts
    load = os.getloadavg()[0]
    return Seen(attempts, parallel, dict(endings), took_s, 60 * attempts / took_s, memory.most / 2**20, load)


def play(world: Harbor, task: Task) -> str:
    solve = read(Path(task.data["path"])).steps[0].solution.files["solve.sh"].content.decode()
    commands = ["ls -la", solve.partition("set -e\n")[2], "ls"]
    with world.open(task, 0) as attempt:
        for number, command in enumerate(commands):
            attempt.act(Call(str(number), "bash", json.dumps({"command": command})))
        attempt.act(Call("done", "done", "{}"))
        return attempt.outcome(is_truncated=False).ending


class Memory:
    """Reads every half second what this process and its descendants hold."""

    def __init__(self) -> None:
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.most = max(self.most, sum(map(held, descendants(os.getpid()))))


def descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError):
                stat = Path("/proc", entry, "stat").read_text()
                parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def held(pid: int) -> int:
    """Bytes, proportional where the kernel says so."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--parallel", type=int, default=128)
    parser.add_argument("--attempts", type=int, default=128)
    said, _ = parser.parse_known_args()
    try:
        seen = measure(said.parallel, said.attempts)
    except TalkbackError as error:
        print(error)
        return 0
    if said.json:
        print(json.dumps(asdict(seen)))
        return 0
    ends = ", ".join(f"{count} {ending}" for ending, count in sorted(seen.endings.items()))
    print(
        f"{seen.attempts} attempts, {seen.parallel} at once: {seen.took_s:.1f} s, {seen.a_minute:.0f} a minute; "
        f"{ends}; {seen.most_memory_mb:.0f} MB at most; load {seen.load:.1f}"
    )
    return 0


if __name__ == "__main__":
    pipes.end_with_reader()
    raise SystemExit(main())
