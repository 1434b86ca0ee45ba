"""Learn by playing a world, in one process, with the product's own learner and objective.

Arms differ in the estimator, or in what its step scores are worth, and in nothing else.

    python -m lab.worlds.rails --world repo [--updates 8]

The tiny model of that world; the last line is JSON: success on held-out tasks, with its interval, by update.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core import pipes
from core.statistics.means import wilson
from environments.worlds.base import World
from environments.worlds.till import Till
from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from lab.worlds import tiny_model
from lab.worlds.playing import Played, Player
from lab.worlds.rows import ROWS
from training.config import Recipe
from training.objective.merged_rows import Step, merged_rows
from training.objective.step_advantages import Attempt, Baseline, step_advantages
from training.objective.updates import updates

RECIPE = Recipe(w_opd=0, w_sft=0, updates=2, batch_size=32, **tiny_model.RECIPE)
AT_ONCE = 2048
"""Positions that the learner takes at once: the tiny model's are quick."""


@dataclass(frozen=True)
class Arm:
    """One way of saying what a step is worth."""

    baseline: Baseline
    right: float = 1.0
    """Share of the steps whose score is as the world says; of the others it is the opposite. At a half it says
    nothing."""


ARMS: Mapping[str, Arm] = {
    "outcome": Arm("outcome"),
    "index": Arm("index"),
    "right_85": Arm("index", right=0.85),
    "random": Arm("index", right=0.5),
}


@dataclass(frozen=True)
class Batch:
    """How much is played."""

    tasks: int = 4
    attempts: int = 8
    heldout: int = 200
    """Tasks that success is measured on, each tried once. They are the same for all arms and seeds."""


@dataclass
class Learned:
    """What became of one arm with one seed."""

    success: dict[int, float] = field(default_factory=dict)
    """Of the held-out tasks, by the number of updates; 0 is before the first."""
    sampled: int = 0
    """Tokens that were sampled to learn from."""
    lengths: list[float] = field(default_factory=list)
    """Mean steps of an attempt, one an update."""


def learn(
    model: Path,
    arm: Arm,
    *,
    seed: int,
    looks: Sequence[int] = (0, 10),
    batch: Batch = Batch(),
    recipe: Recipe = RECIPE,
    world: World | None = None,
    told: Callable[[str], None] = print,
) -> Learned:
    """Play and learn until the last of `looks`; at each the held-out tasks are tried. The seed decides all but
    rounding: tasks, samples, and which scores are wrong."""
    world = world or Till()
    learner = Learner(model, lora=None, seed=seed, micro_batch=recipe.micro_batch)
    learner.at_once, learner.branches = AT_ONCE, False
    found = Learned()
    with Player(model) as player:
        for update in range(max(looks) + 1):
            if update:
                tasks = world.tasks("train", batch.tasks, _seed("tasks", seed, update))
                each = [task for task in tasks for _ in range(batch.attempts)]
                played = player.play(world, each, _seed("play", seed, update))
                found.sampled += sum(len(reply.ids) for one in played for reply in one.replies)
                found.lengths.append(sum(len(one.scores) for one in played) / len(played))
                examples = examples_of(played, arm, random.Random(_seed("votes", seed, update)))
                for _ in _updates(learner, examples, recipe):
                    pass
                player.take({name: weight.detach().clone() for name, weight in learner.causal.state_dict().items()})
            if update in looks:
                heldout = player.play(world, world.tasks("heldout", batch.heldout, 0), _seed("look", seed, update))
                found.success[update] = sum(one.is_solved for one in heldout) / len(heldout)
                told(
                    f"{arm.baseline} {arm.right:g}  seed {seed}  update {update}  held-out {found.success[update]:.3f}"
                )
    return found


def curves(
    model: Path,
    arms: Sequence[str] = ("outcome", "index"),
    seeds: Sequence[int] = (0,),
    looks: Sequence[int] = (0, 10),
    *,
    batch: Batch = Batch(),
    told: Callable[[str], None] = print,
) -> dict[str, dict[str, float]]:
    """Held-out success of each arm by the number of updates, the mean over seeds: {"outcome": {"0": 0.15, "10": 0.22}}.
    Raises KeyError for an arm that is not in ARMS."""
    found = {}
    for name in arms:
        runs = [learn(model, ARMS[name], seed=seed, looks=looks, batch=batch, told=told) for seed in seeds]
        found[name] = {str(at): sum(run.success[at] for run in runs) / len(runs) for at in looks}
    return found


def examples_of(played: Sequence[Played], arm: Arm, draw: random.Random) -> list[Example]:
    """The rows that these attempts teach; none where all attempts at each task are equal."""
    attempts = [
        Attempt(
            one.task.id,
            one.outcome.ending,
            one.outcome.value,
            tuple(score if draw.random() < arm.right else -score for score in one.scores),
        )
        for one in played
    ]
    worth = step_advantages(attempts, baseline=arm.baseline)
    steps = [
        [
            Step(reply.prompt_ids, reply.ids, reply.logprobs, advantage=step.advantage)
            for reply, step in zip(one.replies, of_steps, strict=True)
        ]
        for one, of_steps in zip(played, worth.steps, strict=True)
    ]
    return [row for rows in merged_rows(steps).rows for row in rows]


def _updates(learner: Learner, examples: Sequence[Example], recipe: Recipe) -> Iterator[dict[str, float]]:
    if examples:
        views = learner.score_examples(examples, with_distribution=False)
        yield from updates(learner, views, recipe)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.worlds.rails", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--world", choices=ROWS, default="till", help="(%(default)s)")
    parser.add_argument("--arm", choices=ARMS, default="outcome", help="what a step is worth (%(default)s)")
    parser.add_argument("--updates", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--tasks", type=int, default=6, help="of an update (%(default)s)")
    parser.add_argument("--attempts", type=int, default=8, help="at each (%(default)s)")
    parser.add_argument("--heldout", type=int, default=60, help="tasks of the exam (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("var/worlds"), help="the world's tasks (%(default)s)")
    parser.add_argument("--cache", type=Path, default=Path("var/models"), help="of warm models (%(default)s)")
    options = parser.parse_args(arguments)
    row = ROWS[options.world]
    options.out.mkdir(parents=True, exist_ok=True)
    found = learn(
        row.tiny(options.cache),
        ARMS[options.arm],
        seed=options.seed,
        looks=sorted({0, options.updates // 2, options.updates}),
        batch=Batch(options.tasks, options.attempts, options.heldout),
        world=row.open(options.out),
    )
    success = {}
    for at, share in found.success.items():
        low, high = wilson(round(share * options.heldout), options.heldout)
        success[str(at)] = [round(share, 3), round(low, 3), round(high, 3)]
    print(json.dumps({"world": row.name, "arm": options.arm, "seed": options.seed, "success": success}))
    return 0


def _seed(*parts: object) -> int:
    return random.Random(repr(parts)).getrandbits(32)


if __name__ == "__main__":
    pipes.end_with_reader()
    raise SystemExit(main(sys.argv[1:]))
