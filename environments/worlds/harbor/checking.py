"""Before a task is played: its oracle must score 1, doing nothing must not, and a program must not forge its score.

python3 -m environments worlds check FOLDER [--again] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from environments.errors import SandboxEnded, SandboxUnavailable, Unplayable
from environments.sandboxes.choosing import Kind
from environments.sandboxes.trees import File, Tree
from environments.sandboxes.verifier import Score
from environments.worlds.checks import Checked, report
from environments.worlds.harbor.folders import Folder
from environments.worlds.harbor.prepared import Prepared, is_task, prepare, read

RULES = 1
"""Raised with each change of what a check asks: results of another number are not believed."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "talkback" / "harbor"
ORACLE_S = 600.0
SOLUTION = "/solution"

IDLER = rb"""#!/bin/sh
''':'
exit 0
'''
import os
os._exit(0)
"""
"""A program, for sh and for Python, that does nothing."""

FORGER = rb"""#!/bin/sh
''':'
mkdir -p /logs/verifier 2> /dev/null
rm -f /logs/verifier/*
echo 1 > /logs/verifier/reward.txt
chmod 444 /logs/verifier/reward.txt
chmod 555 /logs/verifier
exit 0
'''
import os
os.makedirs('/logs/verifier', exist_ok=True)
open('/logs/verifier/reward.txt', 'w').write('1')
os.chmod('/logs/verifier/reward.txt', 0o444)
os.chmod('/logs/verifier', 0o555)
os._exit(0)
"""
"""One that writes itself a verdict, and keeps the verifier from writing another."""


def checked(folder: Folder, kind: Kind | None = None, *, again: bool = False) -> tuple[Checked, Prepared | None]:
    """Check a task, or take what an earlier check on this machine found, by the hash of the folder.

    The task comes prepared where it can be played; never raises for what is wrong with it.
    """
    kept = None if again else _kept(folder, kind)
    if kept and not kept.is_playable:
        return kept, None
    start = time.monotonic()
    oracle = nothing = None
    try:
        prepared = prepare(folder, kind)
        if kept:
            return kept, prepared.qualified()
        oracle, nothing = _reach(prepared), _idle(prepared)
        found = Checked(folder.id, "", oracle, nothing)
    except SandboxUnavailable as error:
        found = Checked(folder.id, str(error), oracle, nothing, is_lasting=False)
    except (Unplayable, SandboxEnded) as error:
        found = Checked(folder.id, str(error), oracle, nothing, is_lasting=not isinstance(error, WithoutVerdict))
    found = replace(found, seconds=round(time.monotonic() - start, 2), notes=folder.notes)
    if found.is_lasting:
        _keep(folder, kind, found)
    return found, prepared.qualified() if found.is_playable else None


def _reach(prepared: Prepared) -> float:
    """Run the oracle of each step, and score it; then programs that forge, in place of all that it left."""
    for number, step in enumerate(prepared.folder.steps):
        where = _where(prepared, number)
        if "solve.sh" not in step.solution.files:
            raise Unplayable(
                f"{prepared.folder.name}: unscorable: it has no solution/solve.sh to show that 1 is reached."
            )
        work = _solve(prepared, number)
        score = prepared.score(number, work)
        where = f"{prepared.folder.name}: unscorable: " + (f"step {step.name}: " if step.name else "")
        if score.outcome != 1:
            raise _unscorable(where, "the oracle", score)
        forged, idle = (Tree(dict.fromkeys(work.files, File(each, 0o755))) for each in (FORGER, IDLER))
        if prepared.score(number, forged).outcome == 1 and prepared.score(number, idle).outcome != 1:
            raise Unplayable(
                f"{where}its tests run the work where the verdict is written, and a program in its place wrote itself "
                "a 1. Run it by [[verifier.collect]] and test what it leaves."
            )
    return 1.0


def _idle(prepared: Prepared) -> float:
    """The untouched state must not score 1 in any step."""
    outcome = 0.0
    for number in range(len(prepared.folder.steps)):
        with prepared.image.open() as room:
            for each in range(number + 1):
                prepared.begin_step(room, each)
            work = prepared.take(room)
        score = prepared.score(number, work)
        if score.outcome is None or score.outcome == 1:
            raise _unscorable(_where(prepared, number), "doing nothing", score)
        outcome = score.outcome
    return outcome


def _where(prepared: Prepared, number: int) -> str:
    name = prepared.folder.steps[number].name
    return f"{prepared.folder.name}: unscorable: {f'step {name}: ' if name else ''}"


class WithoutVerdict(Unplayable):
    """There was none, and a machine that had no room may be why: what is said of the task is not kept."""


def _unscorable(where: str, what: str, score: Score) -> Unplayable:
    words = " ".join(score.output.split())[-300:]
    if score.outcome is None:
        return WithoutVerdict(f"{where}{what} got no verdict: {score.reason} {words}".strip())
    return Unplayable(f"{where}{what} scored {score.outcome:g}. {words}".strip())


def _solve(prepared: Prepared, last: int) -> Tree:
    """The work after the oracles of all steps up to this one. They find solution/ in a folder that agents have not."""
    folder, image = prepared.folder, prepared.image
    with image.open(wants=replace(image.wants, folders=(*image.wants.folders, SOLUTION))) as room:
        for number, step in enumerate(folder.steps[: last + 1]):
            prepared.begin_step(room, number)
            room.run(["sh", "-c", f"rm -rf {SOLUTION}/*"], timeout_s=20)
            room.write_tree(step.solution, SOLUTION)
            env = {**image.env, **folder.solution_env}
            said = room.run(["bash", f"{SOLUTION}/solve.sh"], timeout_s=ORACLE_S, env=env, cwd=image.workdir)
            if said.timed_out:
                raise Unplayable(f"{folder.name}: unscorable: its oracle did not end within {ORACLE_S:g} s.")
        return prepared.take(room)


def _place(folder: Folder, kind: Kind | None) -> Path:
    """The oracle's success is this machine's: another system, or other tools in it, are asked again."""
    tools = [f"{name}:{Path(name).stat().st_mtime_ns}" for name in ("/usr/bin", "/usr/lib") if Path(name).exists()]
    machine = hashlib.sha256(" ".join([str(RULES), str(kind), *tools]).encode()).hexdigest()[:12]
    return CACHE / f"{folder.digest}-{machine}.json"


def _kept(folder: Folder, kind: Kind | None) -> Checked | None:
    with suppress(OSError, ValueError, TypeError):
        said = json.loads(_place(folder, kind).read_text())
        return replace(Checked(**{**said, "notes": tuple(said["notes"])}), task=folder.id)
    return None


def _keep(folder: Folder, kind: Kind | None, found: Checked) -> None:
    """A folder that cannot be written costs the next check its time, and nothing else."""
    with suppress(OSError):
        CACHE.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = _place(folder, kind)
        new = place.with_suffix(f".{os.getpid()}.{time.monotonic_ns()}")
        new.write_text(json.dumps(asdict(found)))
        new.replace(place)


def find(path: Path) -> list[Path]:
    """The task folders at a path: itself, or all below it. Raises Unplayable where there is none."""
    if is_task(path):
        return [path]
    names = ("task.toml", "task.yaml")
    found = sorted({place.parent for name in names for place in path.rglob(name) if _is_top(place.parent, path)})
    if not found:
        raise Unplayable(f"{path} holds no task folder: one has a task.toml or a task.yaml.")
    return found


def _is_top(folder: Path, path: Path) -> bool:
    """False for a task.yaml among the files that a task brings."""
    return not any(is_task(parent) for parent in folder.parents if parent.is_relative_to(path))


def check_all(paths: Sequence[Path], kind: Kind | None = None, *, again: bool = False) -> Iterator[Checked]:
    """Check task folders, some at a time, in their order."""

    def one(path: Path) -> Checked:
        try:
            return checked(read(path), kind, again=again)[0]
        except Unplayable as error:
            return Checked(path.name, str(error))

    with ThreadPoolExecutor(min(8, 2 * (os.cpu_count() or 1))) as threads:
        yield from threads.map(one, paths)


def add_check_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", help="a task folder, or one of task folders")
    parser.add_argument("--again", action="store_true", help="believe no earlier result")
    parser.add_argument("--json", action="store_true", help="each task as a JSON line")
    parser.add_argument("--notes", action="store_true", help="also what a task says and is not honoured")


async def check_folders(said: argparse.Namespace) -> int:
    """Check what the command names. 1 where a task cannot be played."""
    found = check_all(find(said.folder), again=said.again)
    return await asyncio.to_thread(report, found, as_json=said.json, with_notes=said.notes)
