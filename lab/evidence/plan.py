"""What a run of evidence will do: who, asked what, how often, in which order, and about how long that takes."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from environments import personas, tasks
from environments.errors import Unplayable
from environments.personas import Persona
from environments.tasks import Task
from lab.evidence.compared_arms import Arm, recipe

KINDS: Mapping[str, tasks.Kind] = {
    "talk": "open",
    "student": "arithmetic",
    "teacher": "homework",
    "assistant": "homework",
}
"""What each scene is about."""

TRAINING_TASKS = 200
"""Different ones, where a file does not say; sessions begin with the first again after the last."""


@dataclass(frozen=True)
class Sizes:
    """How much is done. The same for every arm."""

    rounds: int = 4
    updates: int = 4
    """A round."""
    samples: int = 16
    """A round: effective ones, each a reply that something could be learned from."""
    probes: int = 100
    """Held-out prompts asked after each round."""
    read: int = 16
    """Of these, so many whose reply is also read by the base, for the distance to it."""
    references: int = 2
    """Further replies of the base to each of them, from which the measure of content takes its scale."""
    pack: int = 243
    """Items of the general pack, asked of the base and of what each arm comes to."""
    reply_tokens: int = 256
    """Where a reply is cut, in sessions and in probes: who looks hears as much as who talks. One that was cut
    teaches what a person wrote in its place, or nothing, and the small model is often long."""
    rewrites: int = 1
    """How often a person asks for a change before they give up. What was said before is read again with every reply and
    every sample, so more of it costs far more than another question."""
    writes: float = 0.5
    """The share of complaints beside which they write what they would have had, where an editor's pen can."""
    temperature: float = 0.7
    sessions: int = 192
    """In a round, at most: an arm that has not filled its batch by then has failed to, and says why."""

    @property
    def marks(self) -> tuple[int, ...]:
        """Updates at which there is a probe.

        >>> Sizes().marks
        (0, 4, 8, 12, 16)
        """
        return tuple(self.updates * number for number in range(self.rounds + 1))


FULL = Sizes()
QUICK = Sizes(rounds=1, samples=6, probes=12, read=4, pack=8, sessions=48)
"""Whether everything works here, in five minutes on two cores. It is too little to know anything of a recipe."""

# Seconds of a core, SmolLM2-135M-Instruct, for a machine with two of them and no GPU.
START_S = 45.0
REPLY_S = {"frozen": 1.0, "prompt": 0.5, "shown": 1.0, "trained": 0.8}
"""A first answer of the plan's length, many at a time, each at its share."""
SHOTS_S = 20.0
"""What a person writes before the few-shot arm, one reply after another."""
READ_S = 0.2
"""The base reads one reply."""
ITEM_S = 0.15
SAMPLE_S = 8.2
"""A sample, with the replies that came to none and the judge's votes."""
UPDATE_S = 2.45
"""The learner, an update and sample, with what is rewritten, replayed and rehearsed beside it."""
REPLIES_ALONE_S = {"binary": 0.75, "opd": 0.75}
"""The same of presets that learn replies and nothing beside them."""
ROUND_S = 8.0
"""The learner, a run: it starts, saves, is proven."""
CORES = 2
BESIDE = 0.07
"""Of the time that engines and learner take, so much again all else takes, waiting too: an arm's next round waits for
its last run."""


@dataclass(frozen=True)
class Step:
    """One thing to do. `engine_s` and `learner_s` are estimates."""

    key: str
    engine_s: float
    learner_s: float = 0.0


@dataclass(frozen=True)
class Plan:
    """A whole run. The same plan asks the same things each time it is run."""

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    sizes: Sizes
    model: str
    people: tuple[Persona, ...] = ()
    """Whose wishes are taught, in turn, seed by seed; none: held-out compositions, drawn for each seed."""
    prompts: tuple[Task, ...] = ()
    """A person's own, for training and for probes; none: those that come with Talkback."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the private Talkback, beside the usual ones."""
    actor: str = ""
    """The model that words what people answer in sessions; empty: they are scripted."""

    def own(self, seed: int) -> Persona:
        """Who talks, and whose wishes the probes look for."""
        return self._pair(seed)[0]

    def other(self, seed: int) -> Persona:
        """Another person, who taught nothing: the same replies are held against their wishes."""
        return self._pair(seed)[1]

    def training(self, seed: int) -> list[Task]:
        """What is asked in sessions, in order."""
        if self.prompts:
            return self._parted(seed)[0]
        kind = KINDS[self.own(seed).scene]
        return tasks.tasks(kind, "train", TRAINING_TASKS, seed)

    def heldout(self, seed: int) -> list[Task]:
        """What probes ask: none of it is ever trained on."""
        if self.prompts:
            return self._parted(seed)[1]
        kind = KINDS[self.own(seed).scene]
        return tasks.tasks(kind, "heldout", self.sizes.probes, 0)  # the same for all seeds: what differs is who talks

    def recipe(self, arm: Arm) -> dict[str, Any]:
        return recipe(arm, updates=self.sizes.updates, samples=self.sizes.samples)

    def steps(self) -> Iterator[Step]:
        """Everything, in the order in which it may begin."""
        sizes = self.sizes
        for seed in self.seeds:
            if new := self._new_questions(seed):
                yield Step(f"references/{seed}", new * sizes.references * (REPLY_S["frozen"] + READ_S))
            for arm in self.arms:
                marks = sizes.marks[1:] if arm.learns else (0,)
                if arm.kind == "shown":
                    yield Step(f"shots/{seed}", SHOTS_S)
                for number, mark in enumerate(marks, 1):
                    if arm.learns:
                        update_s = REPLIES_ALONE_S.get(arm.recipe.get("preset", ""), UPDATE_S)
                        learner_s = ROUND_S + update_s * sizes.updates * sizes.samples
                        yield Step(f"round/{arm.name}/{seed}/{number}", SAMPLE_S * sizes.samples, learner_s)
                    distant_s = READ_S / 2 * min(sizes.read, sizes.probes) * (arm.kind != "frozen")
                    probes_s = (REPLY_S[arm.kind] + READ_S) * sizes.probes + distant_s
                    yield Step(f"probed/{arm.name}/{seed}/{mark}", probes_s)
                if arm.learns or (arm.kind == "frozen" and seed == self.seeds[0]):
                    yield Step(f"pack/{arm.name}/{seed}/{marks[-1]}", ITEM_S * sizes.pack)

    def seconds(self, done: Sequence[str] = ()) -> float:
        """About how long what is not done takes: engines and learner share the cores."""
        left = [step for step in self.steps() if step.key not in set(done)]
        work_s = sum(step.engine_s + step.learner_s for step in left)
        return work_s * (1 + BESIDE) / CORES + START_S * bool(left)

    def as_json(self) -> dict[str, Any]:
        """Everything that makes it this plan and no other."""
        told = {
            "arms": [
                {"name": arm.name, "kind": arm.kind, "recipe": self.recipe(arm) if arm.learns else {}}
                for arm in self.arms
            ],
            "seeds": self.seeds,
            "sizes": asdict(self.sizes) | {"marks": self.sizes.marks},
            "model": self.model,
            "personas": {
                seed: {"own": asdict(self.own(seed)), "other": asdict(self.other(seed))} for seed in self.seeds
            },
            "prompts": _digest(self.prompts) if self.prompts else "",
            "settings": {name: _shown(name, value) for name, value in self.settings.items()},
            **({"actor": self.actor} if self.actor else {}),
        }
        return dict(json.loads(json.dumps(told)))

    def _new_questions(self, seed: int) -> int:
        """How many of a seed's questions no seed before it asks."""
        before = {task.id for other in self.seeds[: self.seeds.index(seed)] for task in self.heldout(other)}
        return sum(task.id not in before for task in self.heldout(seed))

    def _pair(self, seed: int) -> tuple[Persona, Persona]:
        if self.people:
            at = (seed - 1) % len(self.people)
            own = self.people[at]
            others = [
                one for one in (*self.people[at + 1 :], *self.people[:at]) if not set(one.wishes) & set(own.wishes)
            ]
            return own, (others or _unlike(own, seed))[0]
        own = personas.composed("heldout", 1, seed)[0]
        return own, _unlike(own, seed)[0]

    def _parted(self, seed: int) -> tuple[list[Task], list[Task]]:
        """A person's prompts, for training and for probes: no prompt is in both, whatever the seed."""
        shuffled = sorted(self.prompts, key=lambda task: hashlib.sha256(task.prompt.encode()).digest())
        held = min(self.sizes.probes, len(shuffled) // 2)
        training = shuffled[held:]
        random.Random(seed).shuffle(training)
        return training, shuffled[:held]


def _unlike(own: Persona, seed: int) -> list[Persona]:
    """Held-out people who want nothing that this one wants."""
    found = personas.composed("heldout", len(personas.compositions("heldout")), seed)
    return [one for one in found if not set(one.wishes) & set(own.wishes)]


def made(
    arms: tuple[Arm, ...],
    seeds: Sequence[int],
    model: Path,
    *,
    quick: bool = False,
    people: Path | None = None,
    prompts: Path | None = None,
    settings: Mapping[str, str] | None = None,
    sizes: Mapping[str, Any] | None = None,
    actor: str = "",
) -> Plan:
    """The plan for these wishes. Raises Unplayable with what is wrong, and where."""
    if not seeds:
        raise Unplayable("No seed is named: SEEDS=1,2,3.")
    if len(set(seeds)) < len(seeds) or min(seeds) < 1:
        raise Unplayable("Seeds are different whole numbers from 1 on.")
    if not (model / "config.json").is_file():
        raise Unplayable(f"MODEL={model} holds no config.json: name a model's folder, or run make model.")
    size = replace(QUICK if quick else FULL, **(sizes or {}))
    for name, least in (
        ("rounds", 0),
        ("updates", 1),
        ("samples", 1),
        ("probes", 1),
        ("references", 2),
        ("sessions", 1),
        ("rewrites", 0),
    ):
        if getattr(size, name) < least:
            raise Unplayable(f"{name} is at least {least}.")
    if size.samples <= size.rewrites:
        raise Unplayable(f"samples is more than {size.rewrites}: one session may bring {size.rewrites + 1}.")
    plan = Plan(
        arms=arms,
        seeds=tuple(seeds),
        sizes=size,
        model=str(model.resolve()),
        people=tuple(_loaded(personas.load, people)),
        prompts=tuple(_loaded(tasks.load, prompts)),
        settings=dict(settings or {}),
        actor=actor,
    )
    if plan.prompts and len(plan.prompts) < 4:
        raise Unplayable(f"{prompts} holds {len(plan.prompts)} prompts: half are held out, so there must be 4 or more.")
    for seed in plan.seeds:  # what cannot be drawn is told now, and not an hour into a run
        plan.training(seed), plan.heldout(seed), plan.other(seed)
    return plan


def _loaded(load: Any, path: Path | None) -> Sequence[Any]:
    if path is None:
        return ()
    try:
        return list(load(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Unplayable(f"{path} cannot be read: {error}.") from error


def _shown(name: str, value: str) -> str:
    """A setting as a report may show it.

    >>> _shown("JUDGE_VOTES", "5"), _shown("JUDGE_API_KEY", "abc")
    ('5', '(secret)')
    """
    return "(secret)" if any(word in name for word in ("KEY", "SECRET", "TOKEN", "PASSWORD")) else value


def _digest(prompts: Sequence[Task]) -> str:
    return hashlib.sha256("\n".join(task.prompt for task in prompts).encode()).hexdigest()[:16]


def seed_of(*parts: object) -> int:
    """A number for these words, the same everywhere and always: 31 bits, as samplers take them."""
    return int.from_bytes(hashlib.sha256(":".join(map(str, parts)).encode()).digest()[:4], "big") >> 1


Session = tuple[int, Task, int]


def sessions(plan: Plan, seed: int) -> Iterator[Session]:
    """Number, task and seed of every session of this seed, for ever: the same for all arms."""
    training = plan.training(seed)
    for number in count():
        yield number, training[number % len(training)], seed_of("session", seed, number)
