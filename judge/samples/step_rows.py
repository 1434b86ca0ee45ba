"""The sample of one step of an episode: its tokens, their log-probs, and the step's score as its reward."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from chat.models import Turn
from chat.rendering.renderer import Renderer
from gpu_workers.engine.interface import Engine
from gpu_workers.types import Sampling
from judge.samples import redaction, sample_rows, teacher
from judge.samples.redaction import Clean
from judge.votes.step_scores import StepScore
from training.config import Recipe
from training.models import Sample

PLAIN = Sampling()


def compose(
    turn: Turn, score: StepScore, episode: UUID, step: int, *, engine: Engine, renderer: Renderer, recipe: Recipe
) -> Sample:
    """The sample of this step, not yet saved. A score of 0 makes one too: the attempt's outcome teaches.

    Raises Unreadable where the step cannot be scored as it was served, EngineUnavailable where it must be scored and no
    engine answers, and ValueError when lengths disagree."""
    clean = redaction.of(turn, renderer)
    sample = sample_rows.row_of(clean.turn, behaviour_logprobs(clean, engine, renderer, recipe), clean.mask)
    sample.reward, sample.voted = score.value, score.is_voted
    sample.episode_id, sample.step = episode, step
    sample.redactions = clean.told()
    return sample


def behaviour_logprobs(clean: Clean, engine: Engine, renderer: Renderer, recipe: Recipe) -> Sequence[float]:
    """At T = 1, one a response id: those that the engine recorded, where they are these (`is_plain`) and nothing was
    taken out of the turn; else those that it is asked for."""
    turn = clean.turn
    if not clean.is_changed and is_plain(turn.sampling) and is_whole(turn.logprobs, len(turn.response_ids)):
        return list(turn.logprobs)
    return teacher.read(turn, (), engine, renderer, by=recipe.teacher).behaviour_logprobs


def is_plain(sampling: Mapping[str, Any]) -> bool:
    """Whether tokens were drawn from the model's own distribution: at temperature 1, and nothing kept from it.

    >>> is_plain({"temperature": 1.0, "seed": 3}), is_plain({"temperature": 1, "top_p": 0.9}), is_plain({})
    (True, False, False)
    """
    bent = ("top_p", "top_k", "frequency_penalty", "presence_penalty", "repetition_penalty", "json_schema", "regex")
    is_bent = any(sampling.get(name, getattr(PLAIN, name)) != getattr(PLAIN, name) for name in (*bent, "ignore_eos"))
    return sampling.get("temperature") == 1 and not is_bent


def is_whole(logprobs: Sequence[float], tokens: int) -> bool:
    return len(logprobs) == tokens and all(math.isfinite(one) for one in logprobs)
