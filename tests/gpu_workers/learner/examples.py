"""Examples for the tiny model, and the gradient of them by hand."""

from __future__ import annotations

from gpu_workers.types import Example

PROMPT, HINTED, RESPONSE = [1, 5, 6, 40], [1, 5, 6, 40, 77, 78, 79], [7, 8, 9, 10, 2]


def example(learner, prompt=PROMPT, response=RESPONSE, *, hint=None, reward=0.0, mask=(), kind="turn"):
    old = learner.score(prompt, response)
    return Example(prompt, response, old, mask=mask, teacher_prompt_ids=hint, reward=reward, kind=kind)


def batch(learner):
    """A corrected turn with a bad thumb, a praised one, and one that was only corrected; all of other lengths."""
    return [
        learner.score_example(example(learner, hint=HINTED, reward=-1.0)),
        learner.score_example(example(learner, [1, 9], [11, 12, 2], reward=1.0)),
        learner.score_example(
            example(learner, [1, 3, 3], [30, 31, 32, 33, 34, 35, 2], hint=[1, 3, 3, 8], mask=[0, 0, 1, 1, 1, 1, 1])
        ),
    ]


def gradients(learner):
    return {name: p.grad.clone() for name, p in learner.trainable() if p.grad is not None}
