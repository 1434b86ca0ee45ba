"""What a run learns from, as rows for the learner: people's replies, agents' attempts, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkpoints.models import Checkpoint
from gpu_workers.errors import NothingLearned
from gpu_workers.types import Example
from training import batches, collation, rehearsals, replay
from training.agents import comparison
from training.agents.comparison import Comparison
from training.config import Recipe
from training.models import Run, Sample


@dataclass(frozen=True)
class Lesson:
    """A run's samples, as its job takes them."""

    examples: Sequence[Example]
    is_own: Sequence[bool]
    """Which of them the weights that the run starts from served; nothing imported."""
    replayed: Sequence[Example]
    compared: Comparison


def compose(run: Run, samples: Sequence[Sample], recipe: Recipe, parent: Checkpoint) -> Lesson:
    """Make rows of a run's samples. Raises NothingLearned where attempts are all it has, and no step of any was better
    or worse than its peers; VotesAgainstOutcomes as `comparison.compare` does."""
    replies = [sample for sample in samples if sample.step is None]
    compared = comparison.compare(samples, recipe)
    if not replies and not compared.rows:
        whys = "; ".join(f"{count} × {reason}" for reason, count in compared.figures["left_out"].items())
        raise NothingLearned(
            f"No step of these attempts was better or worse than its peers, so nothing was learned: {whys}. Tasks that "
            "are sometimes solved teach."
        )
    again = replay.drawn(parent, recipe, run.seed)
    taught = collation.examples(
        replies, max_tokens=recipe.max_tokens, demonstrations=recipe.shows, seed=run.seed, earlier=again
    )
    replayed = collation.examples(again, max_tokens=recipe.max_tokens)
    written = sum(one.rewrite is not None for one in taught)
    size = len(replies) + compared.attempts
    rehearsed = rehearsals.drawn(recipe, size, run.seed, written, len(replayed), until=run.created_at)
    served_by = [
        *(None if sample.person.startswith(batches.IMPORT) else sample.checkpoint_id for sample in replies),
        *compared.served_by,
    ]
    return Lesson(
        examples=[*taught, *compared.rows, *rehearsed],
        is_own=[*(served == parent.pk for served in served_by), *[False] * len(rehearsed)],
        replayed=replayed,
        compared=compared,
    )
