"""Examples for learners that are held to one contract."""

from __future__ import annotations

from gpu_workers.types import Example
from training.config import Recipe
from training.objective.updates import updates

PROMPT, HINTED, RESPONSE = [1, 5, 6, 40], [1, 5, 6, 40, 47, 48, 49], [7, 8, 9, 10, 2]
RECIPE = Recipe(lr=1e-2, updates=3)


def example(learner, prompt=PROMPT, response=RESPONSE, *, hint=None, reward=0.0, mask=(), rewards=()):
    old = learner.score(prompt, response)
    return Example(prompt, response, old, mask=mask, teacher_prompt_ids=hint, reward=reward, rewards=rewards)


def learned(learner, one, recipe=RECIPE):
    """Log-probs of a reply before and after a run that learns from it alone."""
    before = learner.score(one.prompt_ids, one.response_ids)
    list(updates(learner, [learner.score_example(one)], recipe))
    return before, learner.score(one.prompt_ids, one.response_ids)
