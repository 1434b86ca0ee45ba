"""The private Talkback of a demonstration: a line for each arm and seed, and what is played there."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from environments.client import Client
from environments.worlds.base import Task, World
from environments.worlds.harness import Sampling
from environments.worlds.played import Played
from environments.worlds.player import Way, play
from environments.worlds.width import Width
from lab.evidence.playing.private_stack import Stack
from lab.worlds.demonstration import arms
from lab.worlds.demonstration.plan import Plan
from lab.worlds.demonstration.rounds import Side

POLICY = {"auto_approve": True, "guard": "off"}
"""Of each line: held-out tasks examine here, and what was learned answers without a person."""

ENGINES_AS = 1
"""Talkbacks beside this one, as far as its engines go: half of the cores are the learner's."""


class LineDoor:
    """One line, as its player and as its operator."""

    def __init__(self, stack: Stack, client: Client, line: str, plan: Plan) -> None:
        self._stack, self._client, self._line, self._plan = stack, client, line, plan

    async def play(
        self, world: World, tasks: Sequence[Task], attempts: int, *, night: str, seed: int
    ) -> Sequence[Played]:
        self._stack.check()
        way = Way(seed=seed, night=night, sampling=Sampling(1.0, self._plan.max_tokens))
        return await play(self._client, world, tasks, attempts, way=way, width=Width(self._stack.at_once))

    async def live(self) -> str:
        self._stack.check()
        return await self._client.live()

    async def failures(self) -> Mapping[str, str]:
        return failures(await self._stack.standing(self._line))


async def carry_out(
    plan: Plan,
    world: World,
    folder: Path,
    write: Callable[[Mapping[str, Any]], None],
    *,
    laid_over: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Play the plan in `world`, in a private Talkback with its data in `folder`, which is begun anew; `write` has a row
    of each thing that was done, `laid_over` changes the recipe of all arms. Raises StackFailed."""
    shutil.rmtree(folder, ignore_errors=True)
    began = monotonic()
    async with Stack(folder, Path(plan.model), beside=ENGINES_AS) as stack:
        say(f"A private Talkback runs in {folder}, for as long as this does ({monotonic() - began:.0f} s to start).")
        keys = await stack.make_lines([_line(plan, arm, seed, laid_over) for seed in plan.seeds for arm in plan.arms])
        for seed in plan.seeds:
            sides = [
                Side(
                    plan,
                    arm,
                    seed,
                    world,
                    LineDoor(stack, stack.client(keys[_name(arm, seed)]["play"]), _name(arm, seed), plan),
                    tell=_teller(say, began, f"{arm.name:<8} seed {seed}"),
                    write=write,
                )
                for arm in plan.arms
            ]
            await play_sides(sides)


async def play_sides(sides: Sequence[Side]) -> None:
    """All arms of a seed: while one learns another plays. Then those that sampled less have what they are owed."""
    first, *others = sides
    row = await first.examine()
    for side in others:
        side.take(row)
    await _all(side.play() for side in sides)

    def of_others(side: Side) -> Callable[[], Mapping[str, int]]:
        return lambda: {one.arm.name: one.sampled for one in sides if one is not side and not one.stopped}

    await _all(side.level(of_others(side)) for side in sides)


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all of it at once; where one fails the others are ended, and what it raised is raised."""
    doing = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*doing)
    finally:
        for one in doing:
            one.cancel()
        await asyncio.gather(*doing, return_exceptions=True)


def failures(standing: Mapping[str, Any]) -> dict[str, str]:
    """Of a line as `manage.py lines list --json` tells it: what brought no weights that answer, and why.

    >>> run, away = {"id": 3, "status": "failed", "error": "Full."}, {"name": "x@1", "status": "rejected"}
    >>> failures({"runs": [run], "checkpoints": [{"name": "x@2", "status": "live"}, away | {"reason": "Worse."}]})
    {'Run 3 failed': 'Full.', 'x@1 was turned away': 'Worse.'}
    """
    runs = {f"Run {run['id']} failed": run["error"] for run in standing["runs"] if run["status"] == "failed"}
    away = [one for one in standing["checkpoints"] if one["status"] == "rejected"]
    return runs | {f"{one['name']} was turned away": one["reason"] for one in away}


def _line(plan: Plan, arm: arms.Arm, seed: int, laid_over: Mapping[str, Any] | None) -> dict[str, Any]:
    """A line of its own for each arm and seed; `manage.py lines make` reads it."""
    name = _name(arm, seed)
    return {
        "title": f"{arm.name}, seed {seed}",
        "name": name,
        "people": [name],
        "recipe": arms.recipe(arm, attempts=plan.batch, laid_over=laid_over),
        "policy": POLICY,
        "keys": {"play": {"scopes": ["chat", "episodes"]}},
    }


def _name(arm: arms.Arm, seed: int) -> str:
    return f"{arm.name}-{seed}"


def _teller(say: Callable[[str], None], began: float, who: str) -> Callable[[str], None]:
    return lambda what: say(f"{(monotonic() - began) / 60:5.1f} min  {who}  {what}")
