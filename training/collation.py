"""Samples as the learner takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpu_workers.types import Example
from training.config import written
from training.demonstrations import Said, shown
from training.models import Sample
from training.objective import edits


def examples(
    samples: Iterable[Sample],
    *,
    max_tokens: int | None = None,
    demonstrations: int = 0,
    seed: int = 0,
    earlier: Iterable[Sample] = (),
) -> list[Example]:
    """Rows as the learner takes them, each reply's first `max_tokens`, and `WRITTEN` times as many of each rewrite; of
    a reply with marked words those tokens in a row that hold most of them, and what stands before is read as a part of
    the prompt. Teachers are shown so many `demonstrations` of what their person wrote in the other samples and in those
    of `earlier` runs. Raises ValueError where lengths disagree."""
    samples = list(samples)
    most = written(max_tokens)
    for sample in samples:
        if sample.sampled_logprobs and len(sample.sampled_logprobs) != len(sample.response_ids):
            raise ValueError(
                f"sampled_logprobs has {len(sample.sampled_logprobs)} entries for {len(sample.response_ids)} response "
                f"tokens of {sample}"
            )
    rows = [
        _cut(
            Example(
                prompt_ids=sample.prompt_ids,
                response_ids=sample.response_ids,
                behaviour_logprobs=sample.behaviour_logprobs,
                mask=sample.mask,
                teacher_prompt_ids=sample.teacher_prompt_ids,
                reward=sample.reward,
                rewards=sample.rewards,
                rewrite=(sample.prompt_ids, sample.rewrite_ids[:most]) if sample.rewrite_ids else None,
                # By the whole of both: what a cut leaves of the reply lacks what the rewrite may have kept of its rest.
                decided=edits.decided(sample.response_ids, sample.rewrite_ids or [])[:most],
            ),
            max_tokens,
        )
        for sample in samples
    ]
    return shown(rows, _said(samples), demonstrations, seed=seed, earlier=_said(earlier))


def _said(samples: Iterable[Sample]) -> list[Said]:
    return [
        Said(sample.person, sample.conversation, sample.prompt_ids, sample.rewrite_ids, sample.voted_hint)
        for sample in samples
    ]


def _cut(example: Example, tokens: int | None) -> Example:
    if tokens is None or len(example.response_ids) <= tokens:
        return example
    start = _densest(example.rewards, tokens)
    part, before = slice(start, start + tokens), example.response_ids[:start]
    taught = example.teacher_prompt_ids
    return replace(
        example,
        prompt_ids=[*example.prompt_ids, *before],
        teacher_prompt_ids=None if taught is None else [*taught, *before],
        response_ids=example.response_ids[part],
        behaviour_logprobs=example.behaviour_logprobs[part],
        mask=example.mask[part],
        rewards=example.rewards[part],
    )


def _densest(rewards: Sequence[float], tokens: int) -> int:
    """Where the `tokens` in a row begin that hold most rewarded ones; the first of those that hold as many.

    >>> _densest([0, 0, 0, 1, 0, -1], 3), _densest([], 3)
    (3, 0)
    """
    held = best = sum(map(bool, rewards[:tokens]))
    start = 0
    for at in range(tokens, len(rewards)):
        held += bool(rewards[at]) - bool(rewards[at - tokens])
        if held > best:
            start, best = at - tokens + 1, held
    return start
