"""Demonstrations: conversations that end as a person wrote, put before the prompt that the teacher reads.

A small model does little of what it is told, and follows what it sees done (in-context learning; Brown et al. 2020,
arXiv:2005.14165). Shown a few of somebody's rewrites it keeps the content that a hint costs it (decision 8). They come
from the run's own batch, so that nothing teaches that the run does not name. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from gpu_workers.types import Example

MOST_TOKENS = 2048
"""Tokens of a teacher's prompt and the reply after it, at most, where conversations stand before them: every model's
window holds as many, and a run takes little longer for it. What is longer without them is shown none."""

Conversation = tuple[Sequence[int], Sequence[int]]
"""A prompt, and what was written after it, its end included."""


def shown(
    examples: Sequence[Example], written: Sequence[Conversation | None], count: int, *, seed: int
) -> list[Example]:
    """The examples, the prompt of each that has a teacher after `count` other conversations, or as many as there are.

    `written` has one an example: what its person wrote instead, None where nobody did. Those with the shortest prompts
    are shown, in an order that the seed draws: in a long one things went wrong before they were put right. An example
    that was itself rewritten loses its hint where others are shown: a teacher who has the very answer before him
    repeats it, and what it says is learned as it stands. Raises ValueError where lengths disagree.
    """
    if len(examples) != len(written):
        raise ValueError(f"{len(written)} rewrites, or places without one, for {len(examples)} examples")
    rng = random.Random(seed)
    found = []
    for at, example in enumerate(examples):
        others = [one for place, one in enumerate(written) if one is not None and place != at]
        is_shown = count and example.teacher_prompt_ids is not None
        found.append(_after(example, rng.sample(others, len(others)), count, rng) if is_shown else example)
    return found


def _after(example: Example, others: Sequence[Conversation], count: int, rng: random.Random) -> Example:
    asked = example.prompt_ids if example.rewrite is not None else example.teacher_prompt_ids or ()
    room = MOST_TOKENS - len(asked) - len(example.response_ids)
    chosen: list[Conversation] = []
    for prompt, reply in sorted(others, key=lambda one: len(one[0])):
        if len(chosen) < count and len(prompt) + len(reply) <= room:
            chosen.append((prompt, reply))
            room -= len(prompt) + len(reply)
    before = [token for prompt, reply in rng.sample(chosen, len(chosen)) for token in (*prompt, *reply)]
    return replace(example, teacher_prompt_ids=[*before, *asked]) if before else example
