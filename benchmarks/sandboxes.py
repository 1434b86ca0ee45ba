"""Sandboxes: what a start and a command cost beside a plain process, and many at once.

    python -m benchmarks.sandboxes [--json] [--count 128] [--rounds 10]

Each round times a plain process, a sandbox's start, a command in it, its end, and an attempt's scoring in another one;
the medians stand beside the plain process of the same rounds. Then `--count` sandboxes are open at the same time, each
with a command that sleeps a second, and all are timed together from the first start to the last end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from core import pipes
from core.errors import TalkbackError
from environments.sandboxes.bubblewrap import Bubblewrap
from environments.sandboxes.choosing import open_sandbox
from environments.sandboxes.sandbox import MIB, Wants
from environments.sandboxes.trees import File, Tree
from environments.sandboxes.verifier import Verifier

WANTS = Wants(memory=64 * MIB, disk=8 * MIB, processes=16)
SLEEP_S = 1.0
SCORES = Verifier(("sh", "/tests/test.sh"), Tree({"test.sh": File(b"echo 1 > /logs/verifier/reward.txt")}), wants=WANTS)


@dataclass(frozen=True)
class Seen:
    plain_ms: float
    start_ms: float
    command_ms: float
    end_ms: float
    score_ms: float
    count: int
    together_s: float
    load: float
    """The host's load (1 minute) right after."""


def measure(count: int, rounds: int) -> Seen:
    times: dict[str, list[float]] = {name: [] for name in ("plain", "start", "command", "end", "score")}
    for _ in range(rounds):
        lap = Lap(times)
        subprocess.run(["true"])
        lap.took("plain")
        sandbox = open_sandbox(WANTS, "bubblewrap")
        lap.took("start")
        sandbox.run(["true"], timeout_s=30)
        lap.took("command")
        sandbox.kill()
        lap.took("end")
        assert SCORES.score(Tree({})).outcome == 1
        lap.took("score")
    medians = {f"{name}_ms": 1000 * statistics.median(each) for name, each in times.items()}
    return Seen(**medians, count=count, together_s=together(count), load=os.getloadavg()[0])


class Lap:
    def __init__(self, times: dict[str, list[float]]) -> None:
        self._times, self._last = times, time.perf_counter()

    def took(self, name: str) -> None:
        now = time.perf_counter()
        self._times[name].append(now - self._last)
        self._last = now


def together(count: int) -> float:
    """Seconds until `count` sandboxes have started, slept at the same time, and ended."""

    def one(_: int) -> int:
        with Bubblewrap(WANTS) as sandbox:
            return sandbox.run(["sleep", str(SLEEP_S)], timeout_s=120).status

    start = time.perf_counter()
    with ThreadPoolExecutor(count) as threads:
        assert set(threads.map(one, range(count))) == {0}
    return time.perf_counter() - start


def table(seen: Seen) -> str:
    lines = [f"{'':<34} {'ms':>8} {'of a plain process':>20}"]
    for name, took in (
        ("a plain process", seen.plain_ms),
        ("a sandbox's start", seen.start_ms),
        ("a command in it", seen.command_ms),
        ("its end", seen.end_ms),
        ("an attempt scored in another", seen.score_ms),
    ):
        lines.append(f"{name:<34} {took:>8.1f} {took / seen.plain_ms:>19.1f}x")
    each = 1000 * (seen.together_s - SLEEP_S) / seen.count
    lines.append(
        f"{seen.count} at once, each asleep for {SLEEP_S:g} s: {seen.together_s:.1f} s, "
        f"{seen.together_s / SLEEP_S:.1f} times one sleep, {each:.1f} ms each; load {seen.load:.1f}"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--count", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=10)
    said, _ = parser.parse_known_args()
    try:
        seen = measure(said.count, said.rounds)
    except TalkbackError as error:
        print(error)
        return 0
    print(json.dumps(asdict(seen)) if said.json else table(seen))
    return 0


if __name__ == "__main__":
    pipes.end_with_reader()
    raise SystemExit(main())
