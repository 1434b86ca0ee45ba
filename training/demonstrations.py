"""Demonstrations: conversations that end as a person wrote, put before the prompt that the teacher reads.

A small model does little of what it is told, and follows what it sees done (in-context learning; Brown et al. 2020,
arXiv:2005.14165): what was seen of that, and of how few people, is in decision 8. They come
from the run's own batch and from what it learns again of earlier ones, so that nothing teaches that the run or the
weights it goes on from do not name, and from the same person, who alone knows what they want. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from gpu_workers.types import Example

MOST_TOKENS = 2048
"""Tokens of a teacher's prompt and the reply after it, at most, where conversations stand before them: the windows of
today's models hold as many, and a run takes little longer for it. What is longer without them is shown none."""


class Said(NamedTuple):
    """Where an example comes from, and what was written instead of its reply."""

    person: str
    """Empty: unknown, and nothing is shown."""
    conversation: UUID | None
    prompt: Sequence[int]
    rewrite: Sequence[int] | None
    """Its end included; None: no person wrote any."""
    is_voted: bool = False
    """Its hint is a judge's alone."""


def shown(
    examples: Sequence[Example], said: Sequence[Said], count: int, *, seed: int, earlier: Sequence[Said] = ()
) -> list[Example]:
    """The examples, the prompt of each that has a teacher after `count` other conversations, or as many as there are.

    `said` has one an example, `earlier` what was written in earlier runs. What their person wrote in other
    conversations is shown, those with the shortest prompts, since in a long one things went wrong before they were put
    right; the seed draws in which order. An example that was itself rewritten loses its hint where others are shown: a
    teacher who has the very answer before him repeats it, and what was written is learned as it stands. So does one
    whose hint judges alone found: what the person wrote says it better than a small judge's guess. Raises ValueError
    where lengths disagree.
    """
    if len(examples) != len(said):
        raise ValueError(f"{len(examples)} examples come from {len(said)} places")
    rng = random.Random(seed)
    return [
        _after(example, mine, _others(mine, [*said, *earlier]), count, rng)
        if count and example.has_teacher
        else example
        for example, mine in zip(examples, said, strict=True)
    ]


def fitting(lengths: Sequence[tuple[int, int]], count: int, room: int) -> list[int]:
    """Which conversations are shown, by place: those with the shortest prompts, `count` at most, as far as there is
    room. `lengths` are of prompt and rewrite.

    >>> fitting([(4, 2), (1, 9), (2, 2)], 2, 10)  # the shortest prompt takes all the room
    [1]
    >>> fitting([(4, 2), (1, 9), (2, 2)], 2, 9)
    [2]
    """
    chosen: list[int] = []
    for at in sorted(range(len(lengths)), key=lambda at: lengths[at][0]):
        if len(chosen) < count and sum(lengths[at]) <= room:
            chosen.append(at)
            room -= sum(lengths[at])
    return chosen


def _others(mine: Said, said: Sequence[Said]) -> list[tuple[Sequence[int], Sequence[int]]]:
    """What the same person wrote in other conversations, after its prompt."""
    return [
        (one.prompt, one.rewrite)
        for one in said
        if one.rewrite and one.person and one.person == mine.person and one.conversation != mine.conversation
    ]


def _after(
    example: Example, mine: Said, others: Sequence[tuple[Sequence[int], Sequence[int]]], count: int, rng: random.Random
) -> Example:
    is_hinted = example.rewrite is None and not mine.is_voted
    asked = example.teacher_prompt_ids or () if is_hinted else example.prompt_ids
    drawn = rng.sample(others, len(others))  # of prompts of one length the seed chooses
    room = MOST_TOKENS - len(asked) - len(example.response_ids)
    chosen = fitting([(len(prompt), len(reply)) for prompt, reply in drawn], count, room)
    if not chosen:
        return example
    before = [token for at in rng.sample(chosen, len(chosen)) for part in drawn[at] for token in part]
    return replace(example, teacher_prompt_ids=[*before, *asked], demonstrations=len(chosen), is_hinted=is_hinted)
