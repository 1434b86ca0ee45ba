"""Find what the steps of a group's attempts are worth: as the run that learned them found, or as one would find now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.models import SHARED
from episodes.models import Episode, Group
from training import line_recipes
from training.config import RecipeInvalid
from training.models import Run, Sample
from training.objective.step_advantages import (
    Advantages,
    Attempt,
    Baseline,
    Ending,
    LeftOut,
    outcome_of,
    step_advantages,
)

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

BASELINES: Mapping[str, StrOrPromise] = {
    "index": gettext_lazy(
        "Each step is compared with the group’s other attempts at the same step: its score and its attempt’s outcome "
        "together, less their mean, by their spread."
    ),
    "outcome": gettext_lazy(
        "Each attempt’s outcome is compared with the group’s other outcomes, and holds for each of its steps."
    ),
    "pooled": gettext_lazy("Each step’s score and outcome together are compared with those of all steps of the group."),
    "episode_plus_step": gettext_lazy(
        "Half of it compares outcomes within the group, half the scores of all its steps."
    ),
}
"""What a baseline compares, in words."""


@dataclass(frozen=True)
class Worth:
    """What one step is worth; None: not known."""

    score: float | None = None
    value: float | None = None
    """Score and outcome together."""
    advantage: float | None = None
    left_out: str = ""
    """Why it teaches nothing."""


@dataclass(frozen=True)
class GroupWorth:
    """What a group's steps are worth, by (episode, step)."""

    steps: Mapping[tuple[UUID, int], Worth] = field(default_factory=dict)
    baseline: str = ""
    runs: Sequence[Run] = ()
    """Those that learned from it."""
    in_run: int | None = None
    """The run that has it now, by number."""
    unknown: str = ""
    """Why values and advantages are not known, as a sentence; empty where they are."""

    @property
    def is_learned(self) -> bool:
        return bool(self.runs)

    @property
    def compares(self) -> str:
        return str(BASELINES.get(self.baseline, ""))

    @property
    def teaching(self) -> int:
        """How many steps have an advantage."""
        return sum(one.advantage is not None for one in self.steps.values())


def of(group: Group, episodes: Sequence[Episode]) -> GroupWorth:
    """What the steps of a group are worth, given all its attempts. Three queries at most."""
    samples = _samples(group)
    scores = {key: sample.reward for key, sample in samples.items()}
    known = {key: Worth(score) for key, score in scores.items()}
    runs = list(Run.objects.filter(samples__in=_trained(samples)).distinct().order_by("pk").only("pk", "agents"))
    baseline = next((one.agents["baseline"] for one in reversed(runs) if one.agents.get("baseline")), _wanted(samples))
    if group.split == Group.Split.HELDOUT:
        return GroupWorth(known, unknown=_("It is held out: it examines, and its steps are not judged."))
    if group.standing_of(episodes).stays_short:
        return GroupWorth(known, baseline, unknown=_("None: of its attempts too few count to compare any."))
    if group.judged_at is None and not runs:
        return GroupWorth(known, baseline, unknown=_("Not known before every step of the group has its score."))
    found = _found(episodes, scores, baseline)
    worth: dict[tuple[UUID, int], Worth] = {}
    for episode, steps in zip(episodes, found.steps, strict=True):
        for n, step in enumerate(steps):
            key = (episode.pk, n)
            worth[key] = Worth(scores.get(key), step.value, step.advantage, _(step.left_out) if step.left_out else "")
    for key in _trained_keys(samples):  # what a run found is what it learned from, whatever one would find now
        sample, now = samples[key], worth.get(key, Worth())
        worth[key] = Worth(sample.reward, now.value, sample.advantage, _(sample.left_out))
    in_run = next((one.run_id for one in samples.values() if one.status == Sample.Status.CLAIMED), None)
    return GroupWorth(worth, baseline, runs, in_run)


def why_not(episode: Episode) -> str:
    """Why no step of this attempt is counted; empty where they are, or while it is played."""
    if not episode.ending:
        return ""
    outcome = outcome_of(Attempt(0, cast("Ending", episode.ending), episode.outcome, (), _cut_by(episode)))
    return _(str(outcome)) if isinstance(outcome, LeftOut) else ""


def _found(episodes: Sequence[Episode], scores: Mapping[tuple[UUID, int], float], baseline: str) -> Advantages:
    """As a run compares them. Of a step that is not there any more nothing was said."""
    longest: dict[UUID, int] = {}
    for pk, n in scores:
        longest[pk] = max(longest.get(pk, 0), n + 1)
    attempts = [
        Attempt(
            episode.group_id,
            cast("Ending", episode.ending or "cancelled"),
            episode.outcome,
            tuple(scores.get((episode.pk, n), 0.0) for n in range(longest.get(episode.pk, 0))),
            _cut_by(episode),
        )
        for episode in episodes
    ]
    return step_advantages(attempts, baseline=cast("Baseline", baseline))


def _cut_by(episode: Episode) -> Literal["horizon", "context"]:
    return "context" if episode.cut_by == Episode.Cut.CONTEXT else "horizon"


def _samples(group: Group) -> dict[tuple[UUID, int], Sample]:
    """The sample of each (episode, step) of a group: of several, in several lines, one that was learned."""
    rows = Sample.objects.filter(episode__group=group, step__isnull=False).order_by("pk")
    rows = rows.only("episode", "step", "reward", "advantage", "left_out", "status", "line", "run")
    found: dict[tuple[UUID, int], Sample] = {}
    for sample in rows:
        key = (cast(UUID, sample.episode_id), cast(int, sample.step))
        if key not in found or sample.status == Sample.Status.TRAINED:
            found[key] = sample
    return found


def _trained_keys(samples: Mapping[tuple[UUID, int], Sample]) -> list[tuple[UUID, int]]:
    return [key for key, sample in samples.items() if sample.status == Sample.Status.TRAINED]


def _trained(samples: Mapping[tuple[UUID, int], Sample]) -> list[int]:
    return [samples[key].pk for key in _trained_keys(samples)]


def _wanted(samples: Mapping[tuple[UUID, int], Sample]) -> str:
    """The baseline of the recipe by which the group's line would learn it now."""
    line = next((sample.line_id for sample in samples.values()), None)
    try:
        return line_recipes.recipe_of(line or SHARED).baseline
    except RecipeInvalid:
        return "index"
