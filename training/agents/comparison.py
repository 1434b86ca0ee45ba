"""What a run learns from the attempts that it claimed: each step compared with its peers, and rows for the learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from uuid import UUID

from episodes.models import Episode
from gpu_workers.types import Example
from training.agents import canary
from training.agents.canary import Played
from training.config import Recipe
from training.models import Run, Sample
from training.objective import merged_rows as merging
from training.objective.step_advantages import (
    Advantages,
    Attempt,
    Ending,
    LeftOut,
    Step,
    outcome_of,
    step_advantages,
)


@dataclass(frozen=True)
class Comparison:
    """The attempts of a run, compared within their groups."""

    rows: Sequence[Example] = ()
    served_by: Sequence[int] = ()
    """One a row: the key of the checkpoint that served it."""
    worth: Mapping[int, tuple[float | None, str]] = field(default_factory=dict)
    """By a sample's key: its advantage, and why it has none."""
    figures: dict[str, Any] = field(default_factory=dict)
    """As `Run.agents` keeps them, but for alarms; empty without attempts."""

    @property
    def attempts(self) -> int:
        """How many count: each is as large a part of a batch as a reply."""
        return int(self.figures.get("attempts", 0))

    def told_of(self, sample: int) -> dict[str, Any]:
        """What a sample keeps of it; empty of a person's reply."""
        return dict(zip(("advantage", "left_out"), self.worth[sample], strict=True)) if sample in self.worth else {}


def compare(samples: Sequence[Sample], recipe: Recipe) -> Comparison:
    """Compare the steps among these samples in the recipe's way. Raises VotesAgainstOutcomes, and ValueError where a
    row holds what cannot be."""
    steps = by_attempt(samples)
    if not steps:
        return Comparison()
    episodes = Episode.objects.in_bulk(list(steps))
    played = [_played(episodes[pk], taken) for pk, taken in steps.items()]
    canary.check(played, recipe.baseline)
    attempts = [one.attempt for one in played]
    found = step_advantages(attempts, baseline=recipe.baseline)
    told: dict[int, Step] = {
        sample.pk: said[at]
        for taken, said in zip(steps.values(), found.steps, strict=True)
        for at, sample in taken.items()
    }
    merged = merging.merged_rows(
        [[step_of(sample, told[sample.pk].advantage) for sample in taken.values()] for taken in steps.values()],
        max_tokens=recipe.max_tokens,
    )
    served_by = [next(iter(taken.values())).checkpoint_id for taken in steps.values()]
    counted = [row for rows in merged.rows for row in rows]
    return Comparison(
        rows=counted,
        served_by=[by for by, rows in zip(served_by, merged.rows, strict=True) for _ in rows],
        worth={pk: (step.advantage, str(step.left_out or "")) for pk, step in told.items()},
        figures=_figures(attempts, found) | {
            "baseline": recipe.baseline, "rows": len(counted), "apart": dict(merged.apart), "alarms": [],
        },
    )  # fmt: skip


def settle(run: Run) -> None:
    """The attempts of a run that has just learned them are LEARNED; call it in the transaction that finishes it. They
    may be already, by another line."""
    steps = run.samples.filter(status=Sample.Status.TRAINED, episode__isnull=False)
    for episode in Episode.objects.filter(pk__in=steps.values("episode"), status=Episode.Status.SCORED):
        episode.move(Episode.Status.LEARNED)


def episodes(samples: Sequence[Sample]) -> list[Episode]:
    """The attempts of which these samples are steps, in their order."""
    pks = {one.episode_id for one in samples if one.episode_id is not None}
    return list(Episode.objects.filter(pk__in=pks).order_by("group", "attempt"))


def by_attempt(samples: Sequence[Sample]) -> dict[UUID, dict[int, Sample]]:
    """The steps among these samples by episode and number, each attempt's in their order."""
    found: dict[UUID, dict[int, Sample]] = {}
    for sample in sorted((one for one in samples if one.step is not None), key=lambda one: (one.step, one.pk)):
        if sample.episode_id is not None:
            found.setdefault(sample.episode_id, {})[cast("int", sample.step)] = sample
    return dict(sorted(found.items(), key=lambda one: min(sample.pk for sample in one[1].values())))


def step_of(sample: Sample, advantage: float | None) -> merging.Step:
    """A sample as a step of a row."""
    return merging.Step(sample.prompt_ids, sample.response_ids, sample.behaviour_logprobs, sample.mask, advantage)


def _played(episode: Episode, steps: Mapping[int, Sample]) -> Played:
    """An attempt from its rows. Of a step that is not there, as one that was taken back, nothing was said."""
    places = range(max(steps) + 1)
    attempt = Attempt(
        group=episode.group_id,
        ending=cast("Ending", episode.ending),
        outcome=episode.outcome,
        scores=tuple(steps[at].reward if at in steps else 0.0 for at in places),
        cut_by=cast("Literal['horizon', 'context']", episode.cut_by or "horizon"),
    )
    return Played(attempt, tuple(at in steps and steps[at].voted for at in places))


def _figures(attempts: Sequence[Attempt], found: Advantages) -> dict[str, Any]:
    counted = [one for one in attempts if not isinstance(outcome_of(one), LeftOut)]
    solved = sum(one.ending == "solved" for one in counted)
    told = found.figures
    return {
        "groups": len({one.group for one in attempts}),
        "attempts": len(counted),
        "mean_length": round(told.mean_length, 4),
        "truncated_share": round(told.truncated_share, 4),
        "success": round(solved / len(counted), 4) if counted else 0.0,
        "attempts_at": {str(at): count for at, count in told.attempts_at.items()},
        "left_out": {str(reason): count for reason, count in told.left_out.items()},
    }
